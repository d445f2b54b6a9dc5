"""What every host of a live machine does: keep its time, carry out its effects, end.

Each input is handled to its end: record, then send, then hand over, as `Effects` says.  What was
multicast is recorded before its datagram leaves.  After a quiet moment messages leave at once; what
the application sends soon after leaves when the event loop turns, or when it fills a datagram.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import groupby
from math import ceil
from operator import itemgetter
from time import monotonic, monotonic_ns, time_ns
from typing import Any, Final, Protocol, TypeAlias, TypeVar

import msgspec

from semcast.kernel import letters
from semcast.runtime.addresses import Address
from semcast.runtime.bulk import Bulk
from semcast.runtime.happenings import Confirmed, View, ViewChange
from semcast.runtime.mailbox import Mailbox, Message
from semcast.runtime.transport import Transport
from semcast.terms.effects import Effects
from semcast.terms.errors import LocalProtocolError, RemoteProtocolError, SemcastError
from semcast.terms.events import Event
from semcast.terms.ids import EVERYONE
from semcast.terms.machine import Command, Machine, Status
from semcast.terms.messages import Submission
from semcast.terms.outputs import Delivery, Ended, Output, Room
from semcast.wire import encode
from semcast.wire.frames import TCP, WHOLE

log = logging.getLogger("semcast")

TURN_MAX: Final = 512  # messages after which a sender lets the event loop turn
QUIET_S: Final = 0.0005  # since the last messages were sent: more are not expected at once
BULK_BYTES: Final = 128 << 10  # repair of more than this goes over TCP
CLOCK_READINGS: Final = 8

T = TypeVar("T")
Entry: TypeAlias = tuple[Sequence[int], Any]  # of `Effects.send`


class Journal(Protocol):
    """Where a member's events are recorded."""

    def record(self, events: list[Event], ts_ns: int) -> None: ...

    def close(self) -> object: ...


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
        raise RemoteProtocolError(f"cannot decode the frame: {error}") from error


class Driver(ABC):
    """Lives from the moment there is a machine until the group is closed.

    `addresses` says where the processes are that the machine names by number.
    """

    member: Machine
    relation: str  # what makes a message obsolete
    _names: Sequence[str]  # of the senders, by rank, of what is delivered next

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
        self.skipped = 0  # messages that the application was told are superseded
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
    def last(self) -> int:
        """The number of the message that was multicast last."""
        return self.member.sent

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
    def _divider(self, output: Output) -> object:
        """What stands for an output, other than messages, between those of the application; None
        if it is not for the application."""

    @abstractmethod
    def _on_ended(self, ended: Ended) -> None:
        """The member has left, or the group went on without it."""

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
            accepted = self.member.submit(submissions, now, self._out)
            if at_once:
                self.member.on_idle(now, self._out)
            return accepted
        finally:
            self._carry_out(now)

    def command(self, command: Command) -> None:
        """Somebody outside has decided something."""
        now = monotonic()
        self.member.on_command(command, now, self._out)
        self._carry_out(now)

    def _turn(self) -> None:
        """The event loop has come round: nobody else will fill up what waits for company.

        A sender that was made to let it turn goes on, and does; else the time to coalesce ends it.
        """
        goes_on, self.since_turn = self.since_turn >= TURN_MAX, 0
        if self.ended is not None:
            return
        now = monotonic()
        if not goes_on and self._flushes_on_turn:
            self.member.on_idle(now, self._out)
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
        if out.outputs:
            self._hand_over()
        if not self.changed.is_set():
            self.changed.set()
        if self.member.deadline < self._armed and self.ended is None and not self.since_turn:
            self._arm(now)  # else when the loop has turned, and much of it was done

    def _hand_over(self) -> None:
        """Give the application what the machine has for it, in order."""
        outputs, self._out.outputs = self._out.outputs, []  # The mailbox may ask for more at once.
        messages: list[Message] = []
        dividers: list[tuple[int, object]] = []
        ended: Ended | None = None
        for output in outputs:
            if isinstance(output, Delivery):
                messages += self._letters(output)
            elif isinstance(output, Room):
                self.room.set()
            elif isinstance(output, Ended):
                ended = output
            elif (divider := self._divider(output)) is not None:
                dividers.append((len(messages), divider))
        self.delivered += len(messages)
        if messages or dividers:
            self.mailbox.put(messages, dividers)
        if ended is not None:
            self._on_ended(ended)

    def _letters(self, delivery: Delivery) -> list[Message]:
        """What the application gets of a delivery."""
        messages, position, skipped = delivery.messages, delivery.position, delivery.skipped
        made = letters(Message, self._names, messages, position)
        if skipped:
            self.skipped += skipped
            made[0] = msgspec.structs.replace(made[0], skipped=skipped)
        return made

    def _record(self, events: list[Event]) -> None:
        """Before anything leaves; a disk that is full ends the recording, not the member."""
        assert self._journal is not None
        try:
            # Not `now`, which is when handling began: others may have acted since.
            self._journal.record(events, monotonic_ns() + self._epoch_ns)
            events.clear()
        except (OSError, SemcastError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            log.warning("trace: stopped recording: %s", reason)
            self._out.events = None

    def _send(self, sends: Sequence[Entry], *, repairs: bool) -> None:
        if repairs:
            sends = self._send_bulk(sends)
        if len(sends) == 1 and sends[0][0] is EVERYONE:
            self._transport.send(WHOLE, encode(sends[0][1]), self.everyone)
            return
        for audience, group in groupby(sends, itemgetter(0)):
            to = self.everyone if audience is EVERYONE else self._known(audience)
            self._transport.send_all(WHOLE, [encode(datagram) for _, datagram in group], to)

    def _known(self, audience: Sequence[int]) -> list[Address | None]:
        return [self._addresses[number] for number in audience if number in self._addresses]

    def _send_bulk(self, sends: Sequence[Entry]) -> list[Entry]:
        """Send over TCP what is much; what is left goes the usual way."""
        sizes = [self._bulk_bytes(datagram) for _, datagram in sends]
        much: Counter[int] = Counter()
        for (audience, _), size in zip(sends, sizes, strict=True):
            much.update(dict.fromkeys(audience, size))
        left: list[Entry] = []
        for (audience, datagram), size in zip(sends, sizes, strict=True):
            taken = [number for number in audience if size and much[number] > BULK_BYTES]
            taken = [number for number in taken if self._send_tcp(number, datagram)]
            if taken:
                audience = [number for number in audience if number not in taken]
            if audience:
                left.append((audience, datagram))
        return left

    def _send_tcp(self, number: int, datagram: Any) -> bool:
        address = self._addresses.get(number)
        if address is None or not self._bulk.is_ready(address):
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

    def status(self) -> Status:
        """How the machine is doing."""
        return self.member.status(monotonic())

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
