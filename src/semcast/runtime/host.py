"""The live twin of the simulator's process: drives one member on a real clock and real sockets.

Each input is handled to its end: record, then send, then hand over, as `Effects` says.  What was
multicast is recorded before its datagram leaves.  Messages that the application sends one by one
leave together when the event loop turns, or sooner when they fill a datagram.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from time import monotonic, monotonic_ns, time_ns
from typing import Final, Protocol, TypeVar

import msgspec

from semcast.core.member import Member
from semcast.runtime.addresses import Address
from semcast.runtime.bulk import Bulk
from semcast.runtime.mailbox import Mailbox, Message
from semcast.runtime.transport import Transport
from semcast.terms.effects import Effects
from semcast.terms.errors import LocalProtocolError, RemoteProtocolError, SemcastError
from semcast.terms.events import Event
from semcast.terms.messages import EVERYONE, Data, Datagram, Excluded, Rank, Submission
from semcast.wire import decode, encode
from semcast.wire.frames import GOODBYE, REPORT, TCP, WHOLE
from semcast.wire.sealing import Opened

log = logging.getLogger("semcast")

BULK_BYTES: Final = 128 << 10  # repair of more than this goes over TCP
REPORT_PERIOD_S: Final = 1.0
CLOCK_READINGS: Final = 8


class ExcludedFromGroup(SemcastError):
    """The group went on without this member, and a fixed membership takes nobody back."""


class Journal(Protocol):
    """Where a member's events are recorded."""

    def record(self, events: list[Event], ts_ns: int) -> None: ...

    def close(self) -> object: ...


class Report(msgspec.Struct, frozen=True, array_like=True):
    """What a member tells its peers about itself."""

    delivered: int
    skipped: int
    queued: int
    held: int


class Goodbye(msgspec.Struct, frozen=True, array_like=True):
    """A member leaves; `drained`: everything it knew of had reached everyone."""

    drained: bool


T = TypeVar("T", Report, Goodbye)

_report = msgspec.msgpack.Decoder(Report)
_goodbye = msgspec.msgpack.Decoder(Goodbye)


def epoch_ns() -> int:
    """What the wall clock is ahead of the monotonic one, as if both were read at once."""
    readings = [(monotonic_ns(), time_ns(), monotonic_ns()) for _ in range(CLOCK_READINGS)]
    before, wall, after = min(readings, key=lambda each: each[2] - each[0])
    return wall - (before + after) // 2


class Host:
    """Lives from the moment the roster is known until the group is closed."""

    def __init__(
        self,
        member: Member,
        names: Sequence[str],
        ids: Mapping[int, Rank],
        addresses: Mapping[Rank, Address],
        transport: Transport,
        bulk: Bulk,
        journal: Journal | None,
        flushes_on_turn: bool,
    ) -> None:
        """`names` are the members' by rank, `ids` the ranks by the number on frames."""
        self.member = member
        self.names = names
        self.mailbox = Mailbox(self._on_ready)
        self.delivered = 0
        self.reports: dict[Rank, tuple[Report, Report]] = {}  # the last two, also the own ones
        self.heard_at: dict[Rank, float] = {}
        self.room = asyncio.Event()  # set whenever a refused sender may try again
        self.changed = asyncio.Event()  # set after every input, for those who wait for quiet
        self.ended: SemcastError | None = None
        self.since_turn = 0  # messages sent since the event loop last came round
        self._is_leaving = False  # and takes nothing more in
        self._ids = ids
        self._addresses = dict(addresses)
        self._transport = transport
        self._bulk = bulk
        self._journal = journal
        self._flushes_on_turn = flushes_on_turn
        self._out = Effects(recording=journal is not None)
        self._epoch_ns = epoch_ns()
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._armed = float("inf")
        self._reporting = self._loop.call_later(REPORT_PERIOD_S, self._report)

    @property
    def everyone(self) -> Sequence[Address | None]:
        """Where to send what is for all: the multicast group, or each peer."""
        if not self.member.recipe.unicast:
            return (None,)
        return list(self._addresses.values())

    def multicast(self, submissions: Sequence[Submission]) -> int:
        """How many of them, from the front, there was room for."""
        now = monotonic()
        try:
            return self.member.multicast(submissions, now, self._out)
        finally:
            self._carry_out(now)
            if not self.since_turn:
                self._loop.call_soon(self._turn)
            self.since_turn += len(submissions)

    def _turn(self) -> None:
        """The event loop has come round: nobody else will fill up what waits for company."""
        self.since_turn = 0
        if self._flushes_on_turn and self.ended is None and not self.member.outbox.is_empty:
            now = monotonic()
            self.member.flush(now, self._out)
            self._carry_out(now)

    def forget(self, rank: Rank, *, drained: bool = False) -> None:
        """Go on without a member."""
        now = monotonic()
        self.member.forget(rank, now, self._out, drained=drained)
        self._carry_out(now)

    def _on_ready(self, count: int) -> None:
        now = monotonic()
        self.member.on_ready(count, now, self._out)
        self._carry_out(now)

    def on_frame(self, opened: Opened, now: float) -> None:
        """A frame of another member; raises RemoteProtocolError if it makes no sense."""
        if self.ended is not None:
            return
        rank = self._ids[opened.sender]
        self.heard_at[rank] = now
        if opened.kind == WHOLE:
            datagram = decode(opened.body)
            if not (self._is_leaving and isinstance(datagram, Data)):
                self.member.on_datagram(rank, datagram, now, self._out)
        elif opened.kind == REPORT:
            self._on_report(rank, _decoded(_report, opened.body))
        elif opened.kind == GOODBYE:
            self._on_goodbye(rank, _decoded(_goodbye, opened.body))
        else:
            raise RemoteProtocolError(f"a frame of kind {opened.kind} from a member")

    def _on_report(self, rank: Rank, report: Report) -> None:
        self._keep_report(rank, report)
        if rank in self.member.forgotten:  # It may say nothing else, and has to be told.
            self._out.send.append((rank, Excluded(rank)))

    def _on_goodbye(self, rank: Rank, goodbye: Goodbye) -> None:
        # One too many to go on without it: then what it has not seen stays pinned.
        with suppress(LocalProtocolError):
            self.forget(rank, drained=goodbye.drained)

    def on_drained(self, now: float) -> None:
        """Every frame that had come was handled."""
        self._carry_out(now, repairs=True)

    def _carry_out(self, now: float, *, repairs: bool = False) -> None:
        out = self._out
        if out.events:
            self._record(out.events)
        if out.send:
            self._send(out.send, repairs=repairs)
            out.send.clear()
        if out.deliver:
            self._deliver(out)
        if out.room:
            out.room = False
            self.room.set()
        if out.excluded:
            self.end(
                ExcludedFromGroup("the group went on without this member; it cannot come back")
            )
        if not self.changed.is_set():
            self.changed.set()
        if self.member.deadline < self._armed and self.ended is None:
            self._arm(now)

    def _record(self, events: list[Event]) -> None:
        """Before anything leaves; a disk that is full ends the recording, not the member."""
        assert self._journal is not None
        try:
            # Not `now`, which is when handling began: others may have acted since.
            self._journal.record(events, monotonic_ns() + self._epoch_ns)
            events.clear()
        except OSError as error:
            log.warning("trace: recording ended: %s", error.strerror)
            self._out.events = None

    def _deliver(self, out: Effects) -> None:
        skipped = dict(out.skipped)
        names = self.names
        self.delivered += len(out.deliver)
        messages = [
            Message(
                names[message.sender],
                message.name or None,
                message.payload,
                message.seq,
                skipped.get(place, 0) if skipped else 0,
                message.keep,
            )
            for place, message in enumerate(out.deliver)
        ]
        out.deliver.clear()
        out.skipped.clear()
        self.mailbox.put(messages)  # last, since it may ask for more or fewer at once

    def _send(self, sends: Sequence[tuple[Rank, Datagram]], *, repairs: bool) -> None:
        if repairs:
            sends = self._send_bulk(sends)
        send, addresses = self._transport.send, self._addresses
        place = 0
        while place < len(sends):
            rank, datagram = sends[place]
            to: list[Address | None] = []
            # One copy for each member, as with unicast, is encoded and sealed once.
            while place < len(sends) and sends[place][1] is datagram:
                rank = sends[place][0]
                if rank == EVERYONE:
                    to += self.everyone
                elif rank in addresses:
                    to.append(addresses[rank])
                place += 1
            send(WHOLE, encode(datagram), to)

    def _send_bulk(self, sends: Sequence[tuple[Rank, Datagram]]) -> list[tuple[Rank, Datagram]]:
        """Send over TCP what is much; what is left goes the usual way."""
        much: dict[Rank, int] = {}
        for rank, datagram in sends:
            if isinstance(datagram, Data):
                size = sum(len(message.payload) for message in datagram.messages)
                much[rank] = much.get(rank, 0) + size
        left = []
        for rank, datagram in sends:
            address = self._addresses.get(rank)
            is_bulk = isinstance(datagram, Data) and much[rank] > BULK_BYTES
            if not (is_bulk and address and self._send_tcp(address, datagram)):
                left.append((rank, datagram))
        return left

    def _send_tcp(self, address: Address, datagram: Datagram) -> bool:
        if not self._bulk.is_ready(address):
            return False
        return self._bulk.send(address, self._transport.sealer.seal(WHOLE, encode(datagram), TCP))

    def introduction(self) -> bytes:
        """The first frame on a TCP connection: small, so that strangers need not be let more."""
        return self._transport.sealer.seal(REPORT, msgspec.msgpack.encode(self._state()), TCP)

    def _state(self) -> Report:
        holdings = self.member.holdings
        return Report(self.delivered, holdings.skipped, len(holdings.queue), holdings.messages)

    def _report(self) -> None:
        state = self._state()
        self._keep_report(self.member.rank, state)
        self._transport.send(REPORT, msgspec.msgpack.encode(state), self.everyone)
        self._reporting = self._loop.call_later(REPORT_PERIOD_S, self._report)

    def _keep_report(self, rank: Rank, report: Report) -> None:
        self.reports[rank] = (self.reports.get(rank, (report, report))[1], report)

    def _arm(self, now: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._armed = self.member.deadline
        self._timer = self._loop.call_later(max(0.0, self._armed - now), self._ring)

    def _ring(self) -> None:
        self._timer, self._armed = None, float("inf")
        if self.ended is not None:
            return  # Who has left gives no more votes.
        now = monotonic()
        if self.member.deadline <= now:
            self.member.on_time(now, self._out)
            self._carry_out(now)
        if self._timer is None and self.member.deadline < self._armed:
            self._arm(now)

    async def drain(self, timeout_s: float) -> bool:
        """Wait until everyone has what this member has; False if that took too long.

        The others may never fall quiet, or may be held up by what is not taken from here; so in
        the second half of the time nothing more is let in.
        """
        if not await self._until(lambda: self.member.is_drained, timeout_s / 2):
            self._is_leaving = True
            return await self._until(self._owes_nothing, timeout_s / 2)
        return True

    def _owes_nothing(self) -> bool:
        stability = self.member.stability
        return self.member.outbox.is_empty and all(
            reached <= stability.agreed[sender] or sender in stability.closed
            for sender, reached in enumerate(self.member.reception.frontier)
        )

    async def _until(self, is_so: Callable[[], bool], timeout_s: float) -> bool:
        try:
            async with asyncio.timeout(timeout_s):
                while not is_so() and self.ended is None:
                    self.changed.clear()
                    await self.changed.wait()
        except TimeoutError:
            pass
        return is_so()

    def say_goodbye(self, *, drained: bool) -> None:
        """Tell the others, who then need not wait for this member."""
        self._transport.send(GOODBYE, msgspec.msgpack.encode(Goodbye(drained)), self.everyone)

    def end(self, reason: SemcastError | None) -> None:
        """No more inputs; whoever waits is told why."""
        self.ended = self.ended or reason or LocalProtocolError("the group is closed")
        self.mailbox.end(reason)
        self.room.set()
        self.changed.set()

    def stop(self) -> None:
        """No more timers."""
        self._reporting.cancel()
        if self._timer is not None:
            self._timer.cancel()


def _decoded(decoder: msgspec.msgpack.Decoder[T], body: bytes) -> T:
    try:
        return decoder.decode(body)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise RemoteProtocolError(f"not what its kind says: {error}") from error
