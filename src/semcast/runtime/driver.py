"""What every host of a live machine does: keep its time, carry out its effects, end.

Each input is handled to its end: record, then send, then hand over, as `Effects` says.  What was
multicast is recorded before its datagram leaves.  After a quiet moment messages leave at once; what
the application sends soon after leaves when the event loop turns, or when it fills a datagram.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from math import ceil
from operator import itemgetter
from time import monotonic, monotonic_ns, time_ns
from typing import Any, Final, Protocol, TypeVar

import msgspec

from semcast.runtime.addresses import Address
from semcast.runtime.bulk import Bulk
from semcast.runtime.happenings import Confirmed, View, ViewChange
from semcast.runtime.mailbox import Mailbox
from semcast.runtime.transport import Transport
from semcast.terms.effects import Effects
from semcast.terms.errors import LocalProtocolError, RemoteProtocolError, SemcastError
from semcast.terms.events import Event
from semcast.terms.messages import EVERYONE, Submission
from semcast.wire import encode
from semcast.wire.frames import TCP, WHOLE

log = logging.getLogger("semcast")

TURN_MAX: Final = 512  # messages after which a sender lets the event loop turn
QUIET_S: Final = 0.0005  # since the last messages were sent: more are not expected at once
BULK_BYTES: Final = 128 << 10  # repair of more than this goes over TCP
CLOCK_READINGS: Final = 8

T = TypeVar("T")


class Journal(Protocol):
    """Where a member's events are recorded."""

    def record(self, events: list[Event], ts_ns: int) -> None: ...

    def close(self) -> object: ...


class Machine(Protocol):
    """What a driver drives."""

    deadline: float

    def multicast(
        self, submissions: Sequence[Submission], now: float, out: Effects, *, at_once: bool
    ) -> int: ...

    def on_ready(self, count: int, now: float, out: Effects) -> None: ...

    def on_time(self, now: float, out: Effects) -> None: ...

    def flush(self, now: float, out: Effects) -> None: ...


def epoch_ns() -> int:
    """What the wall clock is ahead of the monotonic one, as if both were read at once."""
    readings = [(monotonic_ns(), time_ns(), monotonic_ns()) for _ in range(CLOCK_READINGS)]
    before, wall, after = min(readings, key=lambda each: each[2] - each[0])
    return wall - (before + after) // 2


def decoded(decoder: msgspec.msgpack.Decoder[T], body: bytes) -> T:
    """What a frame of the runtime's own says, or `RemoteProtocolError`."""
    try:
        return decoder.decode(body)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise RemoteProtocolError(f"not what its kind says: {error}") from error


class Driver(ABC):
    """Lives from the moment there is a machine until the group is closed.

    `addresses` says where the processes are that the machine names by number.
    """

    member: Machine
    relation: str  # what makes a message obsolete

    def __init__(
        self,
        transport: Transport,
        bulk: Bulk,
        journal: Journal | None,
        addresses: dict[int, Address],
        *,
        flushes_on_turn: bool,
    ) -> None:
        self.mailbox = Mailbox(self._on_ready)
        self.delivered = 0
        self.room = asyncio.Event()  # set whenever a refused sender may try again
        self.changed = asyncio.Event()  # set after every input, for those who wait for quiet
        self.ended: SemcastError | None = None
        self.since_turn = 0  # messages sent since the event loop last came round
        self._addresses = addresses
        self._transport = transport
        self._bulk = bulk
        self._journal = journal
        self._flushes_on_turn = flushes_on_turn
        self._sent_at = 0.0
        self._out = Effects(recording=journal is not None)
        self._epoch_ns = epoch_ns()
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._armed = float("inf")

    @property
    @abstractmethod
    def everyone(self) -> Sequence[Address | None]:
        """Where to send what is for all: the multicast group, or each peer."""

    @property
    @abstractmethod
    def last(self) -> int:
        """The number of the message that was multicast last."""

    @property
    @abstractmethod
    def view(self) -> View:
        """Who is in the group."""

    @abstractmethod
    def on_divider(self, divider: object) -> ViewChange | Confirmed:
        """The application has got as far as a divider in its mailbox; what to tell it."""

    @abstractmethod
    def forget_member(self, name: str) -> None:
        """Go on without a member."""

    @abstractmethod
    def _hand_over(self, out: Effects) -> None:
        """Give the application what `out` has for it."""

    @abstractmethod
    def _conclude(self, out: Effects) -> None:
        """Draw the consequences of an input for this process."""

    @abstractmethod
    def _has_unsent(self) -> bool:
        """Whether anything may wait for company."""

    @abstractmethod
    def _bulk_bytes(self, datagram: Any) -> int:
        """How much of a datagram is what TCP is for."""

    def multicast(self, submissions: Sequence[Submission]) -> int:
        """How many of them, from the front, there was room for."""
        now = monotonic()
        if not self.since_turn:  # before what is handed over wakes the application: others wait
            self._loop.call_soon(self._turn)
        self.since_turn += len(submissions)
        at_once = self._flushes_on_turn and now - self._sent_at > QUIET_S
        self._sent_at = now
        try:
            return self.member.multicast(submissions, now, self._out, at_once=at_once)
        finally:
            self._carry_out(now)

    def _turn(self) -> None:
        """The event loop has come round: nobody else will fill up what waits for company.

        A sender that was made to let it turn goes on, and does; else the time to coalesce ends it.
        """
        goes_on, self.since_turn = self.since_turn >= TURN_MAX, 0
        if self.ended is not None:
            return
        now = monotonic()
        if not goes_on and self._flushes_on_turn and self._has_unsent():
            self.member.flush(now, self._out)
            self._carry_out(now)
        elif self.member.deadline < self._armed:
            self._arm(now)

    def _on_ready(self, count: int) -> None:
        now = monotonic()
        self.member.on_ready(count, now, self._out)
        self._carry_out(now)

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
        if out.deliver or out.installs or out.confirmed:
            self._hand_over(out)
        if out.room:
            out.room = False
            self.room.set()
        self._conclude(out)
        if not self.changed.is_set():
            self.changed.set()
        if self.member.deadline < self._armed and self.ended is None and not self.since_turn:
            self._arm(now)  # else when the loop has turned, and much of it was done

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

    def _send(self, sends: Sequence[tuple[int, Any]], *, repairs: bool) -> None:
        if repairs:
            sends = self._send_bulk(sends)
        if len(sends) == 1 and sends[0][0] == EVERYONE:
            self._transport.send(WHOLE, encode(sends[0][1]), self.everyone)
            return
        for to, group in groupby(self._addressed(sends), itemgetter(1)):
            self._transport.send_all(WHOLE, [encode(datagram) for datagram, _ in group], to)

    def _addressed(
        self, sends: Sequence[tuple[int, Any]]
    ) -> Iterator[tuple[Any, list[Address | None]]]:
        """One copy for each member, as with unicast, is to be encoded and sealed once."""
        place = 0
        while place < len(sends):
            datagram = sends[place][1]
            to: list[Address | None] = []
            while place < len(sends) and sends[place][1] is datagram:
                number = sends[place][0]
                if number == EVERYONE:
                    to += self.everyone
                elif number in self._addresses:
                    to.append(self._addresses[number])
                place += 1
            yield datagram, to

    def _send_bulk(self, sends: Sequence[tuple[int, Any]]) -> list[tuple[int, Any]]:
        """Send over TCP what is much; what is left goes the usual way."""
        sizes = [self._bulk_bytes(datagram) for _, datagram in sends]
        much: dict[int, int] = {}
        for (number, _), size in zip(sends, sizes, strict=True):
            much[number] = much.get(number, 0) + size
        left = []
        for (number, datagram), size in zip(sends, sizes, strict=True):
            address = self._addresses.get(number)
            is_bulk = size and much[number] > BULK_BYTES
            if not (is_bulk and address and self._send_tcp(address, datagram)):
                left.append((number, datagram))
        return left

    def _send_tcp(self, address: Address, datagram: Any) -> bool:
        if not self._bulk.is_ready(address):
            return False
        return self._bulk.send(address, self._transport.sealer.seal(WHOLE, encode(datagram), TCP))

    def _arm(self, now: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._armed = self.member.deadline
        # Loops may count milliseconds, and would ring several times too early.
        delay_s = ceil((self._armed - now) * 1000) / 1000
        self._timer = self._loop.call_later(max(0.0, delay_s), self._ring)

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

    async def until(self, is_so: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until it is so, or this is the end; False if that took too long."""
        try:
            async with asyncio.timeout(timeout_s):
                while not is_so() and self.ended is None:
                    self.changed.clear()
                    await self.changed.wait()
        except TimeoutError:
            pass
        return is_so()

    def end(self, reason: SemcastError | None) -> None:
        """No more inputs; whoever waits is told why."""
        self.ended = self.ended or reason or LocalProtocolError("the group is closed")
        self.mailbox.end(reason)
        self.room.set()
        self.changed.set()

    def stop(self) -> None:
        """No more timers."""
        if self._timer is not None:
            self._timer.cancel()
