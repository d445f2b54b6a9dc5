"""Opens and closes a live member; subclasses know how the group forms.

If opening fails, everything is closed.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from random import Random
from time import monotonic
from typing import Any, Final, TypeVar

import msgspec

from semcast.families import find
from semcast.runtime.application.port import GroupPort
from semcast.runtime.channel import MemberChannel
from semcast.runtime.clock import LoopClock
from semcast.runtime.driver import Driver, EventSink
from semcast.runtime.membership.directory import Directory
from semcast.runtime.membership.gathering import Envelope
from semcast.runtime.operations.group_log import GroupLog
from semcast.runtime.operations.snapshot import Snapshot, ViewSnapshot
from semcast.runtime.operations.snapshot_builder import SnapshotBuilder
from semcast.runtime.options.options import Options
from semcast.runtime.resources import MemberResources
from semcast.runtime.transport.addresses import Address
from semcast.runtime.transport.udp import UdpTransport
from semcast.terms.errors import JoinTimeout, RemoteProtocolError
from semcast.terms.ids import Incarnation, Lineage, Pid
from semcast.terms.machine import Machine, Status
from semcast.terms.outputs import Ended
from semcast.terms.views import GroupView
from semcast.wire.frames import DATAGRAM, REPORT, TCP
from semcast.wire.sealing import OpenedFrame

REPORT_PERIOD_S: Final = 1.0
WAIT_LOGGED_S: Final = 2.0  # A longer wait for the other members is logged.

log = logging.getLogger("semcast")

T = TypeVar("T")


def decode_body(decoder: msgspec.msgpack.Decoder[T], body: bytes) -> T:
    """The content of a frame of the runtime's own, or `RemoteProtocolError`."""
    try:
        return decoder.decode(body)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise RemoteProtocolError(f"cannot decode the frame: {error}") from error


class Session(ABC):
    """Everything that one live member has open, from `open` to `close`.

    How its group comes together, goes on and is left is for the two kinds of sessions to say.
    """

    transport: UdpTransport
    directory: Directory
    channel: MemberChannel
    port: GroupPort

    def __init__(self, options: Options) -> None:
        self.options = options
        self.resources = MemberResources(options)
        self.family = find(options.protocol)
        self.recipe: Any = options.recipe()
        self.driver: Driver | None = None
        self._arrived = asyncio.Event()  # something decisive came
        self._reporting: asyncio.TimerHandle | None = None
        self._builder: SnapshotBuilder | None = None
        self._log = GroupLog()

    async def open(self) -> None:
        """Get into the group; raises SemcastError, and then nothing is left open."""
        try:
            await self.resources.open_log(self._record)
            await self._open()
        except BaseException:
            if self.driver is not None:
                self._give_up(self.driver)
                self.driver.end(None)
            await self.resources.close()
            raise

    @asynccontextmanager
    async def _join_wait(self, who_is_here: Callable[[], str]) -> AsyncIterator[None]:
        """Limit the block to the time for joining; log whom it waits for if it takes long."""

        def log_wait() -> None:
            log.warning(
                "group %s: waiting for the other members, at most %g s; %s%s",
                *(self.options.group, self.options.join_timeout, who_is_here()),
                self.resources.explain_discards(),
            )

        timer = asyncio.get_running_loop().call_later(WAIT_LOGGED_S, log_wait)
        try:
            async with asyncio.timeout(self.options.join_timeout):
                yield
        except TimeoutError:
            raise JoinTimeout(self._timeout_reason()) from None
        finally:
            timer.cancel()

    @abstractmethod
    def _timeout_reason(self) -> str:
        """Why the group did not come together in time."""

    @property
    def _record(self) -> Any:
        """The type of what the machine persists, None if it persists nothing."""
        return self.family.record

    @abstractmethod
    def _give_up(self, driver: Driver) -> None:
        """The others may count on this member by now, and need not."""

    @abstractmethod
    async def _open(self) -> None: ...

    @abstractmethod
    def _on_control(self, opened: OpenedFrame, address: Address, now: float) -> None:
        """A frame that is not for the machine, or comes before there is one."""

    @abstractmethod
    def _report(self) -> None:
        """Tell the peers how this member is doing."""

    @abstractmethod
    def _first_report(self) -> bytes:
        """The first frame on a TCP connection says this: it is small, since a peer takes little
        from a connection that has not been authenticated."""

    def _on_frame(self, opened: OpenedFrame, address: Address, now: float) -> None:
        if opened.kind == DATAGRAM and self.driver is not None:
            pid = self.directory.numbers.get(opened.sender)
            if pid is not None:
                self.directory.heard_at[pid] = now
                self.driver.on_datagram(pid, opened.body)
                return
        self._on_control(opened, address, now)

    def _send_all(self, envelopes: Iterable[Envelope]) -> None:
        for to, kind, body in envelopes:
            self.transport.send(kind, body, (to,))

    async def _wait(self, deadline: float) -> None:
        """Until something decisive came, or it is time."""
        self._arrived.clear()
        try:
            async with asyncio.timeout(deadline - monotonic()):
                await self._arrived.wait()
        except TimeoutError:
            pass

    def _machine(self, life: Incarnation, seed: int) -> Machine:
        return self.family.machine(
            self.recipe, life, Random(seed), monotonic(), self.resources.records
        )

    def _drive(self, machine: Machine, sink: EventSink | None) -> Driver:
        """The machine begins to run."""
        resources = self.resources
        self.channel = MemberChannel(
            self.transport, resources.bulk, self.directory, self.family.codec
        )
        driver = self.driver = Driver(
            machine,
            self.channel,
            self.port,
            LoopClock(),
            sink=sink,
            disk=resources.log,
            sends_when_idle=self.options.coalesce is None,
        )
        resources.stack.callback(self._stop)
        self.transport.on_drained = driver.on_drained
        resources.bulk.first_frame = self._first_frame
        self._reporting = asyncio.get_running_loop().call_later(
            REPORT_PERIOD_S, self._report_regularly
        )
        return driver

    def _stop(self) -> None:
        assert self.driver is not None
        self.driver.stop()
        if self._reporting is not None:
            self._reporting.cancel()

    def _report_regularly(self) -> None:
        self._report()
        if self._builder is not None:
            self._builder.observe()
            self._log.note(self._builder.snapshot())
        self._reporting = asyncio.get_running_loop().call_later(
            REPORT_PERIOD_S, self._report_regularly
        )

    def _first_frame(self) -> bytes:
        return self.transport.sealer.seal(REPORT, self._first_report(), TCP)

    async def _show(self, driver: Driver) -> None:
        """Let people look at the member."""
        builder = SnapshotBuilder(
            self.options,
            driver,
            self.port,
            self.directory,
            self.transport,
            self.channel,
            self,
            is_sealed=self.resources.is_sealed,
        )
        self._builder = builder
        await self.resources.expose(builder)

    def snapshot(self) -> Snapshot:
        """How this member and its peers are doing."""
        assert self._builder is not None
        return self._builder.snapshot()

    @abstractmethod
    def forget(self, name: str) -> None:
        """The application wants to go on without a member."""

    @abstractmethod
    def on_view(self, view: GroupView) -> None: ...

    @abstractmethod
    def on_rival(self, lineage: Lineage) -> None: ...

    @abstractmethod
    def on_excluded(self, ended: Ended) -> str: ...

    @abstractmethod
    def minority_reason(self) -> str: ...

    @abstractmethod
    def pids(self, status: Status) -> Sequence[Pid]: ...

    @abstractmethod
    def tolerated(self, members: int) -> int: ...

    @abstractmethod
    def view_seen(self, status: Status) -> ViewSnapshot | None: ...

    async def close(self) -> None:
        """Leave the group, and give everything back."""
        assert self.driver is not None
        is_member = self.driver.ended is None
        try:
            await self._leave(self.driver, is_member=is_member)
        finally:  # also if whoever closes is cancelled meanwhile
            self.driver.end(None)
            await self.resources.close()

    @abstractmethod
    async def _leave(self, driver: Driver, *, is_member: bool) -> None:
        """Say goodbye, and wait as long as the options say that the others have everything."""
