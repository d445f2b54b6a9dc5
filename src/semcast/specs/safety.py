"""Integrity and order, judged at each delivery.

Rule: Integrity, FIFO Order [SRB §2.1], [SRM §4.2].
Departs: `at_most_once` is also reported apart from integrity, of which it is a part; `item_order`
is what FIFO Order leaves of itself for members that let a newer value take an older one's place.
"""

from collections.abc import Mapping

from semcast.specs.history import History, Watch
from semcast.specs.violations import Ledger
from semcast.terms.events import DELIVER, MULTICAST, Event
from semcast.terms.messages import Rank


class Integrity:
    """Each process delivers m at most once, only after m was multicast, and unchanged."""

    __slots__ = ("_history", "_ledger")

    def __init__(self, history: History, ledger: Ledger) -> None:
        self._history = history
        self._ledger = ledger

    def watches(self) -> Mapping[str, Watch]:
        """The events it judges."""
        return {MULTICAST: self.on_multicast, DELIVER: self.on_deliver}

    def on_multicast(self, event: Event) -> None:
        """A number names one message of the process that multicasts it."""
        m = event.message
        if m is None or m.seq != event.seq or not (m.sender == event.sender == event.pid):
            self._report(f"multicast {event.sender}:{event.seq}, which is not its own", event)
        first = self._history.multicast[event.sender].get(event.seq)
        if first is not None:
            self._report(f"multicast {event.sender}:{event.seq} twice", event, first)

    def on_deliver(self, event: Event) -> None:
        """Only if m was previously multicast by some process [SRB §2.1]."""
        seq = event.seq
        source = self._history.multicast[event.sender].get(seq)
        if source is None:
            self._report(f"delivered {event.sender}:{seq}, which nobody had multicast", event)
        elif event.message is not source.message and event.message != source.message:
            self._report(
                f"delivered {event.sender}:{seq} other than it was multicast", event, source
            )
        first = self._history.delivered[event.pid][event.sender].get(seq)
        if first is not None:
            self._report(f"delivered {event.sender}:{seq} twice", event, first)

    def _report(self, what: str, event: Event, before: Event | None = None) -> None:
        self._ledger.add("integrity", f"process {event.pid} {what}", before, event)


class AtMostOnce:
    """Each process delivers m at most once."""

    __slots__ = ("_history", "_ledger")

    def __init__(self, history: History, ledger: Ledger) -> None:
        self._history = history
        self._ledger = ledger

    def watches(self) -> Mapping[str, Watch]:
        """The events it judges."""
        return {DELIVER: self.on_deliver}

    def on_deliver(self, event: Event) -> None:
        """A second delivery of the same message is one too many."""
        first = self._history.delivered[event.pid][event.sender].get(event.seq)
        if first is not None:
            what = f"process {event.pid} delivered {event.sender}:{event.seq} twice"
            self._ledger.add("at_most_once", what, first, event)


class FifoOrder:
    """No process delivers m after m' if their sender multicast m before m'."""

    __slots__ = ("_last", "_ledger")

    def __init__(self, history: History, ledger: Ledger) -> None:
        self._ledger = ledger
        self._last: list[list[Event | None]] = [[None] * history.n for _ in range(history.n)]

    def watches(self) -> Mapping[str, Watch]:
        """The events it judges."""
        return {DELIVER: self.on_deliver}

    def on_deliver(self, event: Event) -> None:
        """The numbers that a process delivers of one sender strictly increase."""
        row = self._last[event.pid]
        last = row[event.sender]
        if last is not None and event.seq <= last.seq:
            self._ledger.add("fifo_order", _after(event, last), last, event)
        else:
            row[event.sender] = event

    def begin_life(self, event: Event) -> None:
        """The order starts anew."""
        self._last[event.pid] = [None] * len(self._last)


class ItemOrder:
    """FIFO Order between messages of one sender that share an item, or of which one may not be
    purged: what is never obsolete may be what gives later values their meaning."""

    __slots__ = ("_fixed", "_last", "_ledger", "_newest")

    def __init__(self, history: History, ledger: Ledger) -> None:
        self._ledger = ledger
        n = history.n
        self._last: list[dict[tuple[Rank, int], Event]] = [{} for _ in range(n)]
        self._newest: list[list[Event | None]] = [[None] * n for _ in range(n)]
        self._fixed: list[list[Event | None]] = [[None] * n for _ in range(n)]

    def watches(self) -> Mapping[str, Watch]:
        """The events it judges."""
        return {DELIVER: self.on_deliver}

    def on_deliver(self, event: Event) -> None:
        """Compare with the newest delivered of its item, and with what may not be crossed."""
        message, sender = event.message, event.sender
        if message is None:
            return
        newest, fixed = self._newest[event.pid], self._fixed[event.pid]
        is_fixed = message.item is None or message.keep
        barrier = newest[sender] if is_fixed else fixed[sender]
        if barrier is not None and event.seq < barrier.seq:
            which = "the first" if is_fixed else "the second"
            self._report(event, barrier, f"{which} of which may not be purged")
        elif message.item is not None:
            last = self._last[event.pid].get((sender, message.item))
            if last is not None and event.seq <= last.seq:
                self._report(event, last, f"both of item {message.item}")
        if is_fixed:
            fixed[sender] = event
        if message.item is not None:
            self._last[event.pid][sender, message.item] = event
        top = newest[sender]
        if top is None or top.seq < event.seq:
            newest[sender] = event

    def begin_life(self, event: Event) -> None:
        """The order starts anew."""
        self._last[event.pid] = {}
        self._newest[event.pid] = [None] * len(self._newest)
        self._fixed[event.pid] = [None] * len(self._fixed)

    def _report(self, event: Event, last: Event, why: str) -> None:
        self._ledger.add("item_order", f"{_after(event, last)}, {why}", last, event)


def _after(event: Event, last: Event) -> str:
    return (
        f"process {event.pid} delivered {event.sender}:{event.seq} after {last.sender}:{last.seq}"
    )
