"""Reliable channels from one server to each of the others [VSD §5].

A parcel is numbered, acknowledged and repeated until its receipt comes, ever more slowly, while the
receiver is in the sender's view.  A channel is between two incarnations: a parcel for an earlier
incarnation of the receiver, or from an earlier one of the sender, is not delivered.
Guarantees: every parcel is delivered at most once, in order, and at least once if neither ends and
they stay in one view.
Departs: the paper's channels reorder; these do not, because large states travel on them, too.
"""

from collections import deque
from collections.abc import Sequence
from typing import Any, Final

from semcast.terms.effects import Effects
from semcast.terms.events import COLLECT, POST, Event
from semcast.terms.ids import NEVER, Incarnation, Pid
from semcast.terms.store import Parcel, ParcelReceipt

WINDOW: Final = 32  # parcels on their way to one server
SLOWER_MAX: Final = 16  # times `retry_s`, between two repetitions

Sends = list[tuple[Sequence[Pid], Any]]


class _Channel:
    """To one life.  Invariant: `unconfirmed` has numbers next to each other, up to `last`."""

    __slots__ = ("is_away", "last", "repeat_at", "sent", "unconfirmed", "wait_s")

    def __init__(self, wait_s: float) -> None:
        self.unconfirmed: deque[Parcel] = deque()
        self.last = 0
        self.sent = 0  # the last number that left at least once
        self.repeat_at = NEVER
        self.wait_s = wait_s
        self.is_away = False  # not in the view: nothing is sent


class PointToPoint:
    """Lives as long as one incarnation of the server."""

    def __init__(self, life: Incarnation, retry_s: float) -> None:
        self.life = life
        self.retry_s = retry_s
        self._to: dict[Incarnation, _Channel] = {}
        self._from: dict[Pid, tuple[int, int]] = {}  # by sender: its life, and its last number
        self._receipts: dict[Pid, ParcelReceipt] = {}
        self.deadline = NEVER

    def __repr__(self) -> str:
        waiting = {life: len(channel.unconfirmed) for life, channel in self._to.items()}
        return f"PointToPoint({self.life}, unconfirmed={waiting})"

    @property
    def is_empty(self) -> bool:
        """Whether every parcel was acknowledged."""
        return not any(channel.unconfirmed for channel in self._to.values())

    def meet(self, lives: Sequence[Incarnation]) -> None:
        """These are in the view: send to them alone, and give up channels to earlier lives."""
        now = dict(lives)
        for life in [life for life in self._to if now.get(life.pid, life.inc) > life.inc]:
            del self._to[life]
        present = set(lives)
        for life, channel in self._to.items():
            channel.is_away = life not in present
            channel.wait_s = self.retry_s

    def has_room(self, to: Incarnation) -> bool:
        """Whether few enough parcels are on their way there."""
        channel = self._to.get(to)
        return channel is None or len(channel.unconfirmed) < WINDOW

    def send(self, to: Incarnation, body: bytes, out: Effects) -> None:
        """Hand over a parcel; `poll` sends it."""
        channel = self._to.setdefault(to, _Channel(self.retry_s))
        channel.last += 1
        self._record(POST, to, channel.last, out)
        channel.unconfirmed.append(Parcel(self.life.inc, to.inc, channel.last, body))

    def on_parcel(self, source: Pid, parcel: Parcel, out: Effects) -> bytes | None:
        """A parcel came; returns its body if it is the next of its channel."""
        if parcel.to_inc != self.life.inc:
            return None
        inc, last = self._from.get(source, (parcel.inc, 0))
        if parcel.inc < inc:
            return None
        if parcel.inc > inc:
            last = 0
        is_next = parcel.number == last + 1
        last += is_next
        self._from[source] = parcel.inc, last
        self._receipts[source] = ParcelReceipt(self.life.inc, parcel.inc, last)
        if not is_next:
            return None
        self._record(COLLECT, Incarnation(source, parcel.inc), parcel.number, out)
        return parcel.body

    def _record(self, kind: str, peer: Incarnation, number: int, out: Effects) -> None:
        if out.events is not None:
            event = Event(kind, self.life.pid, seq=number, note=str(peer.inc), peer=peer.pid)
            event.inc = self.life.inc
            out.events.append(event)

    def on_receipt(self, source: Pid, receipt: ParcelReceipt) -> None:
        """A server has every parcel up to a number."""
        channel = self._to.get(Incarnation(source, receipt.inc))
        if channel is None or receipt.to_inc != self.life.inc:
            return
        unconfirmed = channel.unconfirmed
        while unconfirmed and unconfirmed[0].number <= receipt.number:
            unconfirmed.popleft()
            channel.repeat_at, channel.wait_s = NEVER, self.retry_s

    def poll(self, now: float, sends: Sends) -> None:
        """Send receipts, what is new, and what was not acknowledged for too long."""
        for source, receipt in self._receipts.items():
            sends.append(((source,), receipt))
        self._receipts.clear()
        self.deadline = NEVER
        for life, channel in self._to.items():
            if not channel.unconfirmed or channel.is_away:
                continue
            if now >= channel.repeat_at:
                channel.sent, channel.repeat_at = channel.unconfirmed[0].number - 1, NEVER
                channel.wait_s = min(2 * channel.wait_s, SLOWER_MAX * self.retry_s)
            if channel.sent < channel.last:
                end = channel.unconfirmed[0].number + WINDOW
                for parcel in channel.unconfirmed:
                    if channel.sent < parcel.number < end:
                        sends.append(((life.pid,), parcel))
                        channel.sent = parcel.number
            channel.repeat_at = min(channel.repeat_at, now + channel.wait_s)
            self.deadline = min(self.deadline, channel.repeat_at)
