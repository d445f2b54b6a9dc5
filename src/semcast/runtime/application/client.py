"""`semcast.Client`: asks a replicated service.

A client is a process beside the group of the servers: it has the group's key, sends its requests to
the servers and hears their replies, and is no member.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from random import SystemRandom
from time import monotonic
from typing import Any, Final, Self

from semcast.families import find, joinable
from semcast.runtime.application.loop_bound import LoopBound
from semcast.runtime.channel import MemberChannel
from semcast.runtime.clock import LoopClock
from semcast.runtime.driver import Driver
from semcast.runtime.membership.directory import Directory
from semcast.runtime.membership.incarnations import frame_incarnation, pid_of, pid_of_name
from semcast.runtime.options.options import SERVERS, Options
from semcast.runtime.options.units import parse_seconds
from semcast.runtime.resources import MemberResources
from semcast.runtime.transport.addresses import Address
from semcast.runtime.transport.endpoints import find_peers
from semcast.service.replica_state import decode_value, encode_value
from semcast.terms.errors import (
    ConfigError,
    LocalProtocolError,
    RequestFailed,
    RequestUnknown,
    SemcastError,
)
from semcast.terms.ids import Incarnation
from semcast.terms.messages import Update
from semcast.terms.outputs import Answered, Output
from semcast.terms.records import Records
from semcast.terms.service import FAILED, FORGOTTEN, UNANSWERED
from semcast.wire.frames import DATAGRAM
from semcast.wire.sealing import OpenedFrame

GIVE_UP: Final = "30 s"


class ClientPort:
    """The application's side: one request at a time, whose answer somebody waits for or not."""

    awaits_view = False
    readiness = 0

    def __init__(self) -> None:
        self.room = asyncio.Event()
        self.answer: asyncio.Future[Answered] | None = None
        self._reason: SemcastError | None = None

    def connect(self, driver: Driver) -> None:
        """Nothing is asked of the driver."""

    def expect(self) -> "asyncio.Future[Answered]":
        """The answer to the request that is submitted next."""
        self.answer = asyncio.get_running_loop().create_future()
        return self.answer

    def put(self, outputs: Sequence[Output]) -> int:
        """The machine has the answer, or takes another request."""
        for output in outputs:
            if isinstance(output, Answered) and self.answer is not None:
                if not self.answer.done():  # Whoever asked may have been cancelled.
                    self.answer.set_result(output)
                self.answer = None
        self.room.set()
        return 0

    def prefetch(self, count: int) -> int:
        """There are no messages."""
        return 0

    def on_submitted(self, offered: int, accepted: int) -> None:
        """A request that was not accepted is offered again when there is room."""

    def end(self, reason: SemcastError | None) -> None:
        """No answer will come any more."""
        if self.answer is not None and not self.answer.done():
            self.answer.set_exception(reason or LocalProtocolError("the client is closed"))
        self.answer = None
        self.room.set()


class Client(LoopBound):
    """A client of a replicated service.

        async with semcast.Client("bank") as client:
            balance = await client.request(["ada", 100])

    It finds the servers of `group` by multicast, or at the addresses `peers`; which of them is the
    primary it finds out by itself.  It repeats a request until it is answered; the servers
    execute it once.  A client asks one request at a time: to ask several at once, open several
    clients.

    `give_up` is how long a request waits for its answer.  Options are those of `semcast.join` that
    say how to reach the group: peers, multicast, interface, ip, bind, key, datagram, message_max,
    socket_buffer, config.
    """

    def __init__(self, group: str, *, give_up: float | str = GIVE_UP, **options: Any) -> None:
        for name in options:
            if name not in _OPTIONS:
                raise ConfigError(f"{name}: not for a client, which takes {', '.join(_OPTIONS)}")
        (protocol,) = joinable(SERVERS)
        settings = {**options, "relation": "update-fin", "protocol": protocol}
        super().__init__(f"client of {group!r}", self._end)
        self.options = Options.resolve(group, settings, role="client")
        self._give_up_s = parse_seconds(give_up, "give_up")
        if not self._give_up_s > 0:
            raise ConfigError(f"give_up: {give_up} is not above 0")
        self._driver: Driver | None = None

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
        family, own = find(options.protocol), pid_of_name(options.name)
        await equipment.open(frame_incarnation(1))  # Its name is new, so is its only life.
        peers = await find_peers(options, sealed=equipment.is_sealed)
        self._directory = Directory(options.name, own, peers)
        recipe = options.recipe(equipment.transport.body_bytes, equipment.window_bytes)
        recipe = replace(recipe, give_up_s=self._give_up_s)
        machine = family.machine(
            recipe, Incarnation(own, 1), SystemRandom(), monotonic(), Records()
        )
        transport = equipment.transport
        channel = MemberChannel(transport, equipment.bulk, self._directory, family.codec)
        self._port = ClientPort()
        self._turn = asyncio.Lock()
        self._driver = Driver(machine, channel, self._port, LoopClock())
        transport.on_frame = self._on_frame
        transport.on_drained = self._driver.on_drained

    def _on_frame(self, opened: OpenedFrame, address: Address, now: float) -> None:
        assert self._driver is not None
        if opened.kind == DATAGRAM and self._directory.welcome(pid_of(opened.sender), address):
            self._driver.on_datagram(pid_of(opened.sender), opened.body)

    async def request(self, request: Any) -> Any:
        """Ask the service, and return its reply.

        Raises `RequestFailed` if the service refused the request: nothing was changed.  Raises
        `RequestUnknown` if no answer came within `give_up`, or if the servers have forgotten this
        client.  Nobody knows then whether the request was executed; if it was not, it still may be,
        but not after the next request of this client was answered.
        """
        if self._driver is None:
            raise LocalProtocolError("request: open the client first: async with semcast.Client(…)")
        self._check("request")
        body = encode_value(request)
        if len(body) > self.options.message_max:
            raise LocalProtocolError(
                f"request: {len(body)} bytes are more than message_max, {self.options.message_max}"
            )
        async with self._turn:
            answered = await self._ask(body)
        if answered.status == FAILED:
            raise RequestFailed(decode_value(answered.body))
        if answered.status in (FORGOTTEN, UNANSWERED):
            raise RequestUnknown(self._reason(answered.status))
        return decode_value(answered.body)

    async def _ask(self, body: bytes) -> Answered:
        driver, port = self._driver, self._port
        assert driver is not None
        while True:
            if port.answer is None:  # else a request whose caller was cancelled still waits
                answer = port.expect()
                driver.submit([Update(body)])
                return await answer
            port.room.clear()
            await port.room.wait()
            if driver.ended is not None:
                raise driver.ended

    def _reason(self, status: str) -> str:
        group = self.options.group
        if status == FORGOTTEN:
            return f"the servers of {group} have forgotten this client, which was silent for long"
        heard = self._equipment.explain_discards()
        return (
            f"no server of {group} answered within {self._give_up_s:g} s; check with semcast "
            f"members that a majority of them runs{heard}"
        )

    async def _end(self) -> None:
        if self._driver is not None:
            self._driver.end(None)
        await self._equipment.close()

    async def __aenter__(self) -> Self:
        return await self.open()


_OPTIONS: Final = (
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
