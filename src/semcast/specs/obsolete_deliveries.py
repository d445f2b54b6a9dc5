"""With views: nothing obsolete is delivered late, and only what is obsolete is purged.

Rule: Semantic Integrity [SVS §3.2]; TP4 [SRB §2.3].  The relation is what applications declared;
under total order an item also has a newest message by its place, whoever sent it [SRM §4.4].
"""

from collections.abc import Mapping

from semcast.specs.history import EventHandler, History, ProcessKey
from semcast.specs.violations import ViolationLog
from semcast.terms.declared import declared_by
from semcast.terms.events import DELIVER, PURGE, Event
from semcast.terms.ids import Seq


class SemanticIntegrity:
    """No process delivers m after it delivered some m' ⊐ m."""

    __slots__ = ("_by_place", "_history", "_last", "_ledger", "_newest", "checked")

    def __init__(self, history: History, ledger: ViolationLog, *, by_place: bool) -> None:
        self._history = history
        self._ledger = ledger
        self._by_place = by_place
        self.checked = 0  # deliveries after another one of their stream, or item by place
        self._newest: dict[tuple[ProcessKey, ProcessKey], Event] = {}
        self._last: dict[tuple[ProcessKey, int, int], Event] = {}  # of each view and item, by place

    def handlers(self) -> Mapping[str, EventHandler]:
        """The events it judges."""
        return {DELIVER: self.on_deliver}

    def on_deliver(self, event: Event) -> None:
        """Compare with the later messages of the stream that were delivered before."""
        history = self._history
        process, stream = history.place
        newest = self._newest.get(history.place)
        self.checked += newest is not None
        if newest is None or newest.seq <= event.seq:
            self._newest[history.place] = event
        else:
            for seq, later in sorted(history.delivered[process][stream].items()):
                if seq > event.seq and history.relation.obsoletes(stream, event.seq, seq):
                    self._report(event, later)
                    return
        if self._by_place and event.position:
            self._compare_places(process, event)

    def _compare_places(self, process: ProcessKey, event: Event) -> None:
        source = self._history.original
        declared = None if source is None else declared_by(source)
        if declared is None or declared.item is None:
            return
        last = self._last.setdefault((process, event.view, declared.item), event)
        self.checked += last is not event
        if last.position < event.position:
            self._last[process, event.view, declared.item] = event
        elif last.position > event.position and not declared.keep:
            self._report(event, last)

    def _report(self, event: Event, later: Event) -> None:
        what = (
            f"process {event.pid} delivered {event.sender}:{event.seq} after "
            f"{later.sender}:{later.seq}, which makes it obsolete"
        )
        self._ledger.add("semantic_integrity", what, later, event)


class PurgesInViews:
    """A process purges a message only for one that makes it obsolete."""

    __slots__ = ("_by_place", "_claims", "_history", "_ledger", "_places", "checked")

    def __init__(self, history: History, ledger: ViolationLog, *, by_place: bool) -> None:
        self._history = history
        self._ledger = ledger
        self._by_place = by_place
        self.checked = 0  # purges
        self._places: dict[tuple[ProcessKey, Seq], tuple[int, int]] = {}
        self._claims: list[tuple[Event, ProcessKey]] = []  # that need the places of messages

    def handlers(self) -> Mapping[str, EventHandler]:
        """The events it judges or learns from."""
        return {PURGE: self.on_purge, DELIVER: self.on_place}

    def on_place(self, event: Event) -> None:
        """Learn where a message stands in the total order of its view."""
        if event.position:
            name = self._history.sender(event), event.seq
            self._places.setdefault(name, (event.view, event.position))

    def on_purge(self, event: Event) -> None:
        """Judge by the stream at once, by places at the end."""
        self.checked += 1
        self.on_place(event)
        stream = self._history.sender(event)
        by = stream if event.by_sender < 0 else (event.by_sender, event.by_inc)
        if by == stream and self._history.relation.obsoletes(stream, event.seq, event.by_seq):
            return
        if self._by_place:
            self._claims.append((event, by))
        else:
            self._report(event)

    def on_end(self) -> None:
        """A message of the same item at a later place makes another one obsolete."""
        for event, by in self._claims:
            older = self._history.source(event)
            newer = self._history.multicast[by].get(event.by_seq)
            if older is None or newer is None:
                self._report(event)
                continue
            one, other = declared_by(older), declared_by(newer)
            place = self._places.get((self._history.sender(event), event.seq))
            later = self._places.get((by, event.by_seq))
            is_before = place is None or later is None or place < later
            if one.item is None or one.item != other.item or one.keep or not is_before:
                self._report(event)

    def _report(self, event: Event) -> None:
        by = event.sender if event.by_sender < 0 else event.by_sender
        what = (
            f"process {event.pid}: purge of {event.sender}:{event.seq} ({event.note}) for "
            f"{by}:{event.by_seq}, which does not make it obsolete"
        )
        self._ledger.add("purge_safety", what, self._history.source(event), event)
