"""What clients of replicated services have in common: a socket, a machine, answers in their order.

A client is beside the group of the servers: it has the group's key, sends its requests to the
servers and hears their replies, and is no member.  Clients of one event loop that have the same
options share a socket (`client_link.py`).  Requests that are made in one turn of the event loop are
submitted together; whoever asks one at a time need not wait for the turn.
"""

import asyncio
from abc import abstractmethod
from collections import deque
from collections.abc import Sequence
from math import inf
from random import SystemRandom
from time import monotonic
from typing import Any, Final, Self, TypeAlias

from semcast.runtime.application.client_link import ClientChannel, ClientLink
from semcast.runtime.application.loop_bound import LoopBound
from semcast.runtime.clock import LoopClock
from semcast.runtime.driver import Driver
from semcast.runtime.options.options import Options
from semcast.runtime.options.units import parse_seconds
from semcast.terms.errors import ConfigError, LocalProtocolError, RequestUnknown, SemcastError
from semcast.terms.ids import Incarnation
from semcast.terms.machine import Machine, Withdraw
from semcast.terms.messages import Update
from semcast.terms.outputs import Answered, Output, Withdrawn
from semcast.terms.store import WITHDRAWN

GIVE_UP: Final = "30 s"
CLIENT_OPTIONS: Final = (
    "peers",
    "multicast",
    "interface",
    "ip",
    "bind",
    "key",
    "datagram",
    "message_max",
    "socket_buffer",
    "config",
)
NOT_MADE: Final = Answered(WITHDRAWN, b"")

Answer: TypeAlias = "asyncio.Future[Answered]"


class ClientPort:
    """The application's side.  The machine answers requests in the order in which it took them.

    Each request has a future answer and the time when whoever asked gives up; one timer is for all.
    Invariant: `waiting` has the requests that the machine took and did not answer, by their count.
    """

    awaits_view = False
    readiness = 0

    def __init__(self) -> None:
        self.waiting: dict[int, tuple[Answer, float]] = {}
        self._accepted = 0
        self._offered: deque[tuple[bytes, Answer, float]] = deque()  # not taken yet
        self._driver: Driver | None = None
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = inf
        self._is_scheduled = False
        self._has_company = False  # whether requests were on their way together, the last time

    def connect(self, driver: Driver) -> None:
        """The driver that takes requests."""
        self._driver = driver

    def ask(self, body: bytes, give_up_at: float) -> Answer:
        """Ask, and return the future answer, which is a TimeoutError after `give_up_at`."""
        answer: Answer = self._loop.create_future()
        self._offered.append((body, answer, give_up_at))
        if give_up_at < self._timer_at:
            self._set_timer(give_up_at)
        if self._has_company or self._is_scheduled or self.waiting:
            self._schedule()
        else:
            self._submit()
        return answer

    def _schedule(self) -> None:
        if self._offered and not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._submit)

    def _submit(self) -> None:
        self._is_scheduled = False
        driver, offered = self._driver, self._offered
        if driver is None or driver.ended is not None:
            return
        while offered and offered[0][1].done():  # Whoever asked was cancelled.
            offered.popleft()
        if offered:
            self._has_company = len(offered) > 1 or bool(self.waiting)
            driver.request([Update(body) for body, _, _ in offered])

    def on_submitted(self, offered: int, accepted: int) -> None:
        """What was not accepted is offered again when an answer has made room."""
        for _ in range(accepted):
            _, answer, give_up_at = self._offered.popleft()
            self._accepted += 1
            self.waiting[self._accepted] = answer, give_up_at

    def put(self, outputs: Sequence[Output]) -> int:
        """The machine has answers, or takes more requests."""
        waiting = self.waiting
        for output in outputs:
            if type(output) is Answered and waiting:
                answer, _ = waiting.pop(next(iter(waiting)))
                if not answer.done():  # else whoever asked was cancelled
                    answer.set_result(output)
            elif type(output) is Withdrawn:
                answer, _ = waiting.pop(output.request)
                if not answer.done():
                    answer.set_result(NOT_MADE)
        if self._offered:
            self._schedule()
        return 0

    def _give_up(self) -> None:
        """Whoever has waited too long is told so; the timer is set for who is next."""
        now, next_at = monotonic(), inf
        for _, answer, give_up_at in self._offered:
            if give_up_at > now:
                next_at = min(next_at, give_up_at)
            elif not answer.done():
                answer.set_result(NOT_MADE)
        for number, (answer, give_up_at) in list(self.waiting.items()):
            if give_up_at > now:
                next_at = min(next_at, give_up_at)
            elif not answer.done():
                self._withdraw(number)
                if not answer.done():
                    answer.set_exception(TimeoutError())
        self._drop_offered()
        self._timer, self._timer_at = None, inf
        if next_at < inf:
            self._set_timer(next_at)

    def withdraw_abandoned(self) -> None:
        """Whoever asked was cancelled: the machine need not wait for what it can drop."""
        for number, (answer, _) in list(self.waiting.items()):
            if answer.cancelled():
                self._withdraw(number)
        self._drop_offered()

    def _drop_offered(self) -> None:
        """The machine is not offered what nobody waits for."""
        self._offered = deque(each for each in self._offered if not each[1].done())

    def _withdraw(self, number: int) -> None:
        if self._driver is not None and self._driver.ended is None:
            self._driver.command(Withdraw(number))

    def _set_timer(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = when
        self._timer = self._loop.call_later(max(0.0, when - monotonic()), self._give_up)

    def prefetch(self, count: int) -> int:
        """There are no messages."""
        return 0

    def end(self, reason: SemcastError | None) -> None:
        """No answer will come any more."""
        if self._timer is not None:
            self._timer.cancel()
        waiting = (answer for answer, _ in self.waiting.values())
        answers = *waiting, *(each[1] for each in self._offered)
        for answer in answers:
            if not answer.done():
                answer.set_exception(reason or LocalProtocolError("the client is closed"))
        self.waiting.clear()
        self._offered.clear()


class ServiceConnection(LoopBound):
    """A client of one service, from `open` to `close`."""

    def __init__(
        self, group: str, settings: dict[str, Any], give_up: float | str, options: dict[str, Any]
    ) -> None:
        """`settings` are those of the service, `options` what the application asks for."""
        for name in options:
            if name not in CLIENT_OPTIONS:
                known = ", ".join(CLIENT_OPTIONS)
                raise ConfigError(f"{name}: not for a client, which takes {known}")
        super().__init__(f"client of {group!r}", self._end)
        self.options = Options.resolve(group, {**options, **settings}, role="client")
        self._give_up_s = parse_seconds(give_up, "give_up")
        if not self._give_up_s > 0:
            raise ConfigError(f"give_up: {give_up} is not above 0")
        self._driver: Driver | None = None

    @abstractmethod
    def _machine(self, recipe: Any, life: Incarnation, rng: SystemRandom) -> Machine:
        """The machine of the client."""

    async def open(self) -> Self:
        """Open the client's socket; `async with` does it, too.  No server needs to run yet."""
        if self._driver is not None:
            return self
        link = await ClientLink.join(self.options)
        if self._driver is not None:  # Another task has opened it meanwhile.
            await link.leave()
            return self
        self._link = link
        try:
            machine = self._machine(link.recipe, link.life, SystemRandom())
        except BaseException:
            await link.leave()
            raise
        self._port, self._channel = ClientPort(), ClientChannel(link)
        self._driver = Driver(machine, self._channel, self._port, LoopClock())
        self._channel.driver = self._driver
        self._bind()
        return self

    def _ask(self, body: bytes, give_up_at: float = inf) -> Answer:
        """The future answer to one request, as the machine will have it."""
        driver = self._driver
        if driver is None:
            raise LocalProtocolError("open the client first, with async with")
        self._check("request")
        if len(body) > self.options.message_max:
            raise LocalProtocolError(
                f"request: {len(body)} bytes are more than message_max, {self.options.message_max}"
            )
        if driver.ended is not None:
            raise driver.ended
        return self._port.ask(body, give_up_at)

    async def _answer(self, body: bytes, give_up_at: float) -> Answered:
        """The answer to one request.  A request that is cancelled does not hold up the next ones.

        Raises `RequestUnknown` if none came in time and a server may have the request.
        """
        try:
            return await self._ask(body, give_up_at)
        except TimeoutError:
            raise RequestUnknown(self._silence()) from None
        except asyncio.CancelledError:
            self._port.withdraw_abandoned()
            raise

    def _silence(self) -> str:
        """Say that no server answered, and what to check."""
        return (
            f"no server of {self.options.group} answered within {self._give_up_s:g} s; check with "
            f"semcast members that a majority of them runs{self._link.resources.explain_discards()}"
        )

    async def _end(self) -> None:
        if self._driver is not None:
            self._driver.end(None)
            await self._channel.close()

    async def __aenter__(self) -> Self:
        return await self.open()
