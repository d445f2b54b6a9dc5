"""Integrity and order, judged at each delivery.

Rule: Integrity, FIFO Order [SRB §2.1], [SRM §4.2].
Departs: `at_most_once` is also reported apart from integrity, of which it is a part; `item_order`
is the part of FIFO Order that still holds where a newer value takes an older one's place.
"""

from collections.abc import Mapping

from semcast.specs.history import EventHandler, History, ProcessKey
from semcast.specs.violations import ViolationLog
from semcast.terms.events import DELIVER, MULTICAST, Event


class Integrity:
    """Each process delivers m at most once, only after m was multicast, and unchanged."""

    __slots__ = ("_history", "_ledger")

    def __init__(self, history: History, ledger: ViolationLog) -> None:
        self._history = history
        self._ledger = ledger

    def handlers(self) -> Mapping[str, EventHandler]:
        """The events it judges."""
        return {MULTICAST: self.on_multicast, DELIVER: self.on_deliver}

    @property
    def checked(self) -> int:
        """Multicasts and deliveries."""
        return self._history.multicasts + self._history.deliveries

    def on_multicast(self, event: Event) -> None:
        """A number names one message of the process that multicasts it."""
        m = event.message
        if m is None or m.seq != event.seq or not (m.sender == event.sender == event.pid):
            self._report(f"multicast {event.sender}:{event.seq}, which is not its own", event)
        first = self._history.original
        if first is not None:
            self._report(f"multicast {event.sender}:{event.seq} twice", event, first)

    def on_deliver(self, event: Event) -> None:
        """Only if m was previously multicast by some process [SRB §2.1]."""
        seq, source, first = event.seq, self._history.original, self._history.before
        if source is None:
            self._report(f"delivered {event.sender}:{seq}, which no process had multicast", event)
        elif event.message is not source.message and event.message != source.message:
            self._report(
                f"delivered {event.sender}:{seq} with different content than was multicast",
                event,
                source,
            )
        if first is not None:
            self._report(f"delivered {event.sender}:{seq} twice", event, first)

    def _report(self, what: str, event: Event, before: Event | None = None) -> None:
        self._ledger.add("integrity", f"process {event.pid} {what}", before, event)


class AtMostOnce:
    """Each process delivers m at most once."""

    __slots__ = ("_history", "_ledger")

    def __init__(self, history: History, ledger: ViolationLog) -> None:
        self._history = history
        self._ledger = ledger

    def handlers(self) -> Mapping[str, EventHandler]:
        """The events it judges."""
        return {DELIVER: self.on_deliver}

    @property
    def checked(self) -> int:
        """Deliveries."""
        return self._history.deliveries

    def on_deliver(self, event: Event) -> None:
        """A second delivery of the same message is one too many."""
        first = self._history.before
        if first is not None:
            what = f"process {event.pid} delivered {event.sender}:{event.seq} twice"
            self._ledger.add("at_most_once", what, first, event)


class FifoOrder:
    """No process delivers m after m' if their sender multicast m before m'."""

    __slots__ = ("_ended", "_history", "_last", "_ledger")

    def __init__(self, history: History, ledger: ViolationLog) -> None:
        self._history = history
        self._ledger = ledger
        self._last: dict[tuple[ProcessKey, ProcessKey], Event] = {}
        self._ended = 0  # streams of lives that are over

    def handlers(self) -> Mapping[str, EventHandler]:
        """The events it judges."""
        return {DELIVER: self.on_deliver}

    @property
    def checked(self) -> int:
        """Deliveries after the first of a stream at a process."""
        return self._history.deliveries - self._ended - len(self._last)

    def on_deliver(self, event: Event) -> None:
        """The numbers that a process delivers of one sender strictly increase."""
        place = self._history.place
        last = self._last.get(place)
        if last is not None and event.seq <= last.seq:
            self._ledger.add("fifo_order", _after(event, last), last, event)
        else:
            self._last[place] = event

    def on_restart(self, event: Event) -> None:
        """The order starts anew."""
        for place in [place for place in self._last if place[0] == event.pid]:
            del self._last[place]
            self._ended += 1


class ItemOrder:
    """FIFO Order between messages of one sender that share an item, or of which one may not be
    purged: what is never obsolete may be what gives later values their meaning.  Both are as the
    application declared them; of what nobody multicast, as the message has them."""

    __slots__ = ("_history", "_ledger", "_seen", "checked")

    def __init__(self, history: History, ledger: ViolationLog) -> None:
        self._history = history
        self._ledger = ledger
        self.checked = 0  # deliveries after one that they must follow
        self._seen: dict[tuple[ProcessKey, ProcessKey], _Seen] = {}

    def handlers(self) -> Mapping[str, EventHandler]:
        """The events it judges."""
        return {DELIVER: self.on_deliver}

    def on_deliver(self, event: Event) -> None:
        """Compare with the newest delivered of its item, and with what may not be crossed."""
        message = event.message
        if message is None:
            return
        place, relation = self._history.place, self._history.relation
        known = relation.known(place[1], event.seq)
        item, keep = message.item, message.never_purge
        if known is not None:
            item, keep = known.item, known.keep
        seen = self._seen.get(place)
        if seen is None:
            seen = self._seen[place] = _Seen()
        is_fixed = item is None or keep
        barrier = seen.newest if is_fixed else seen.fixed
        last = None if item is None else seen.last.get(item)
        self.checked += barrier is not None or last is not None
        if barrier is not None and event.seq < barrier.seq:
            which = "the first" if is_fixed else "the second"
            self._report(event, barrier, f"{which} of which may not be purged")
        elif last is not None and event.seq <= last.seq:
            self._report(event, last, f"both of item {item}")
        if is_fixed:
            seen.fixed = event
        if item is not None:
            seen.last[item] = event
        if seen.newest is None or seen.newest.seq < event.seq:
            seen.newest = event

    def on_restart(self, event: Event) -> None:
        """The order starts anew."""
        for place in [place for place in self._seen if place[0] == event.pid]:
            del self._seen[place]

    def _report(self, event: Event, last: Event, why: str) -> None:
        self._ledger.add("item_order", f"{_after(event, last)}, {why}", last, event)


class _Seen:
    """What one process delivered of one sender: the newest, the last of each item, and the last
    that may not be purged."""

    __slots__ = ("fixed", "last", "newest")

    def __init__(self) -> None:
        self.newest: Event | None = None
        self.fixed: Event | None = None
        self.last: dict[int, Event] = {}


def _after(event: Event, last: Event) -> str:
    return (
        f"process {event.pid} delivered {event.sender}:{event.seq} after {last.sender}:{last.seq}"
    )
