"""The application's side of clients that share a socket: requests, and the answers in their order.

Requests that are made in one turn of the event loop are submitted together; whoever asks one at a
time, and has the socket alone, need not wait for the turn.
"""

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from functools import partial
from math import inf
from time import monotonic
from typing import Final, TypeAlias

from semcast.runtime.driver import Driver
from semcast.service.client_set import ClientSet
from semcast.terms.effects import Effects
from semcast.terms.errors import LocalProtocolError, SemcastError
from semcast.terms.machine import Machine, Withdraw
from semcast.terms.messages import Update
from semcast.terms.outputs import Answered, ClientOutputs, Output, Withdrawn
from semcast.terms.store import WITHDRAWN

NOT_MADE: Final = Answered(WITHDRAWN, b"")

Answer: TypeAlias = "asyncio.Future[Answered]"


class LinkPort:
    """Of all clients of a socket.  Lives as long as their driver."""

    awaits_view = False
    readiness = 0

    def __init__(self) -> None:
        self.clients = ClientSet()
        self.ports: dict[int, ClientPort] = {}
        self._asking: dict[int, None] = {}  # clients that have something to offer
        self._is_scheduled = False
        self._driver: Driver | None = None
        self._loop = asyncio.get_running_loop()

    def connect(self, driver: Driver) -> None:
        """The driver that takes requests."""
        self._driver = driver

    def add(self, client: Machine) -> "ClientPort":
        """A client begins."""
        key = self.clients.add(client)
        port = self.ports[key] = ClientPort(self, key)
        return port

    def remove(self, port: "ClientPort") -> None:
        """A client ends."""
        del self.ports[port.key]
        self.clients.remove(port.key)
        port.end(None)

    def submit_soon(self, key: int) -> None:
        """A client has something to offer, and others may have, too."""
        self._asking[key] = None
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._on_turn)

    def submit(self, key: int) -> None:
        """A client has something to offer; nobody else can have anything if it is the only one."""
        if len(self.ports) > 1:
            self.submit_soon(key)
        else:
            self._submit_of((key,))

    def _on_turn(self) -> None:
        self._is_scheduled = False
        asking, self._asking = self._asking, {}
        self._submit_of(asking)

    def _submit_of(self, keys: Iterable[int]) -> None:
        if self._driver is None or self._driver.ended is not None:
            return
        ports = self.ports
        offers = [(key, ports[key].offer()) for key in keys if key in ports]
        requests = [offer for offer in offers if offer[1]]
        if requests:
            self._driver.perform(partial(self._ask, requests))

    def _ask(
        self, requests: Sequence[tuple[int, Sequence[Update]]], now: float, out: Effects
    ) -> None:
        accepted = self.clients.ask(requests, now, out)
        for (key, _), count in zip(requests, accepted, strict=True):
            self.ports[key].on_accepted(count)

    def withdraw(self, key: int, request: int) -> None:
        """Nobody waits for the answer to a request."""
        if self._driver is not None and self._driver.ended is None:
            self._driver.perform(partial(self.clients.command, key, Withdraw(request)))

    def put(self, outputs: Sequence[Output]) -> int:
        """The machines have answers, or take more requests."""
        for of_client in outputs:
            assert isinstance(of_client, ClientOutputs)
            self.ports[of_client.client].put(of_client.outputs)
        return 0

    def on_submitted(self, offered: int, accepted: int) -> None:
        """Clients are asked one by one."""

    def prefetch(self, count: int) -> int:
        """There are no messages."""
        return 0

    def end(self, reason: SemcastError | None) -> None:
        """No answer will come any more."""
        for port in self.ports.values():
            port.end(reason)


class ClientPort:
    """Of one client.  Its machine answers requests in the order in which it took them.

    Each request has a future answer and the time when whoever asked gives up; one timer is for all.
    Invariant: `waiting` has the requests that the machine took and did not answer, by their count.
    """

    def __init__(self, link: LinkPort, key: int) -> None:
        self.key = key
        self.ended: SemcastError | None = None
        self.waiting: dict[int, tuple[Answer, float]] = {}
        self._accepted = 0
        self._offered: deque[tuple[bytes, Answer, float]] = deque()  # not taken yet
        self._link = link
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = inf
        self._has_company = False  # whether requests were on their way together, the last time

    def ask(self, body: bytes, give_up_at: float) -> Answer:
        """Ask, and return the future answer, which is a TimeoutError after `give_up_at`."""
        answer: Answer = self._loop.create_future()
        self._offered.append((body, answer, give_up_at))
        if give_up_at < self._timer_at:
            self._set_timer(give_up_at)
        if self._has_company or len(self._offered) > 1 or self.waiting:
            self._link.submit_soon(self.key)
        else:
            self._link.submit(self.key)
        return answer

    def offer(self) -> list[Update]:
        """The requests that the machine has not taken yet."""
        offered = self._offered
        while offered and offered[0][1].done():  # Whoever asked was cancelled.
            offered.popleft()
        self._has_company = len(offered) > 1 or bool(self.waiting)
        return [Update(body) for body, _, _ in offered]

    def on_accepted(self, accepted: int) -> None:
        """What was not accepted is offered again when an answer has made room."""
        for _ in range(accepted):
            _, answer, give_up_at = self._offered.popleft()
            self._accepted += 1
            self.waiting[self._accepted] = answer, give_up_at

    def put(self, outputs: Sequence[Output]) -> None:
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
            self._link.submit_soon(self.key)

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
                self._link.withdraw(self.key, number)
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
                self._link.withdraw(self.key, number)
        self._drop_offered()

    def _drop_offered(self) -> None:
        """The machine is not offered what nobody waits for."""
        self._offered = deque(each for each in self._offered if not each[1].done())

    def _set_timer(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = when
        self._timer = self._loop.call_later(max(0.0, when - monotonic()), self._give_up)

    def end(self, reason: SemcastError | None) -> None:
        """No answer will come any more."""
        self.ended = reason or LocalProtocolError("the client is closed")
        if self._timer is not None:
            self._timer.cancel()
        waiting = (answer for answer, _ in self.waiting.values())
        answers = *waiting, *(each[1] for each in self._offered)
        for answer in answers:
            if not answer.done():
                answer.set_exception(self.ended)
        self.waiting.clear()
        self._offered.clear()
