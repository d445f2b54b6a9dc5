"""What clients of replicated services have in common: a socket, a machine, answers in their order.

A client is a process beside the group of the servers: it has the group's key, sends its requests to
the servers and hears their replies, and is no member.  Requests that are made in one turn of the
event loop are submitted together.
"""

import asyncio
from abc import abstractmethod
from collections import deque
from collections.abc import Sequence
from random import SystemRandom
from typing import Any, Final, Self, TypeAlias

from semcast.families import find
from semcast.runtime.application.loop_bound import LoopBound
from semcast.runtime.channel import MemberChannel
from semcast.runtime.clock import LoopClock
from semcast.runtime.driver import Driver
from semcast.runtime.membership.directory import Directory
from semcast.runtime.membership.incarnations import frame_incarnation, pid_of, pid_of_name
from semcast.runtime.options.options import Options
from semcast.runtime.options.units import parse_seconds
from semcast.runtime.resources import MemberResources
from semcast.runtime.transport.addresses import Address
from semcast.runtime.transport.endpoints import find_peers
from semcast.terms.errors import ConfigError, LocalProtocolError, SemcastError
from semcast.terms.ids import Incarnation
from semcast.terms.machine import Machine
from semcast.terms.messages import Update
from semcast.terms.outputs import Answered, Output
from semcast.wire.frames import DATAGRAM
from semcast.wire.sealing import OpenedFrame

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

Waiting: TypeAlias = "asyncio.Future[Answered]"


class ClientPort:
    """The application's side.  The machine answers requests in the order in which it took them.

    Invariant: `waiting` has a future for each request that the machine took and did not answer.
    """

    awaits_view = False
    readiness = 0

    def __init__(self) -> None:
        self.waiting: deque[Waiting] = deque()
        self._offered: deque[tuple[bytes, Waiting]] = deque()  # not taken yet
        self._driver: Driver | None = None
        self._is_scheduled = False

    def connect(self, driver: Driver) -> None:
        """The driver that takes requests."""
        self._driver = driver

    def ask(self, body: bytes) -> Waiting:
        """Ask, and return the future answer; the request is sent when the event loop has turned."""
        loop = asyncio.get_running_loop()
        answer: Waiting = loop.create_future()
        self._offered.append((body, answer))
        self._schedule()
        return answer

    def _schedule(self) -> None:
        if self._offered and not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._submit)

    def _submit(self) -> None:
        self._is_scheduled = False
        driver = self._driver
        if driver is None or driver.ended is not None:
            return
        while self._offered and self._offered[0][1].done():  # Whoever asked was cancelled.
            self._offered.popleft()
        if self._offered:
            driver.submit([Update(body) for body, _ in self._offered])

    def on_submitted(self, offered: int, accepted: int) -> None:
        """What was not accepted is offered again when an answer has made room."""
        for _ in range(accepted):
            self.waiting.append(self._offered.popleft()[1])

    def put(self, outputs: Sequence[Output]) -> int:
        """The machine has answers, or takes more requests."""
        for output in outputs:
            if isinstance(output, Answered) and self.waiting:
                answer = self.waiting.popleft()
                if not answer.done():  # else whoever asked was cancelled
                    answer.set_result(output)
        self._schedule()
        return 0

    def prefetch(self, count: int) -> int:
        """There are no messages."""
        return 0

    def end(self, reason: SemcastError | None) -> None:
        """No answer will come any more."""
        for answer in (*self.waiting, *(answer for _, answer in self._offered)):
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
        self._equipment = MemberResources(self.options)
        try:
            await self._open()
        except BaseException:
            await self._equipment.close()
            raise
        self._bind()
        return self

    async def _open(self) -> None:
        options, equipment = self.options, self._equipment
        await equipment.open(frame_incarnation(1))  # Its name is new, so is its only life.
        transport, own = equipment.transport, pid_of_name(options.name)
        peers = await find_peers(options, sealed=equipment.is_sealed)
        self._directory = Directory(options.name, own, peers)
        for name, address in (peers or {}).items():
            self._directory.welcome(pid_of_name(name), address)
        recipe = options.recipe(transport.body_bytes, equipment.window_bytes)
        machine = self._machine(recipe, Incarnation(own, 1), SystemRandom())
        codec = find(options.protocol).codec
        channel = MemberChannel(transport, equipment.bulk, self._directory, codec)
        self._port = ClientPort()
        self._driver = Driver(machine, channel, self._port, LoopClock())
        transport.on_frame = self._on_frame
        transport.on_drained = self._driver.on_drained

    def _on_frame(self, opened: OpenedFrame, address: Address, now: float) -> None:
        assert self._driver is not None
        if opened.kind == DATAGRAM and self._directory.welcome(pid_of(opened.sender), address):
            self._driver.on_datagram(pid_of(opened.sender), opened.body)

    async def _ask(self, body: bytes) -> Answered:
        """The answer to one request, as the machine has it."""
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
        return await self._port.ask(body)

    def _silence(self) -> str:
        """Say that no server answered, and what to check."""
        return (
            f"no server of {self.options.group} answered within {self._give_up_s:g} s; check with "
            f"semcast members that a majority of them runs{self._equipment.explain_discards()}"
        )

    async def _end(self) -> None:
        if self._driver is not None:
            self._driver.end(None)
        await self._equipment.close()

    async def __aenter__(self) -> Self:
        return await self.open()
