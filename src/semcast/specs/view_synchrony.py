"""Semantic View Synchrony: members that leave a view together have delivered the same in it.

Two processes that go from a view to the same next one delivered the same messages in it, apart from
obsolete ones.  In the last view of a run, once the run is quiet, the same must hold for all members
that are still in it, and they must have delivered what they multicast.

Rule: [SVS §4.1].  Sending View Delivery is assumed: the messages that link two messages of a view
were multicast in it.
Departs: of the last view SVS says nothing; we ask what Validity and Agreement ask [SRM fig. 3], of
a view in which a majority remained: a minority may wait without end.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from semcast.specs.history import EventHandler, Incarnation
from semcast.specs.relation import MessageId, ViewRelation, make_view_relation
from semcast.specs.violations import ViolationLog
from semcast.terms.declared import declared_by
from semcast.terms.events import CRASH, DELIVER, INSTALL, LEAVE, MULTICAST, ORDER, PURGE, Event
from semcast.terms.ids import Rank


class SemanticViewSynchrony:
    """If two processes install a view and the same view after it, and one of them delivered m in
    the first, the other delivered some m' ⊒ m in it.  Under total order, m' may be of any sender.
    """

    __slots__ = (
        *("_current", "_gone", "_ledger", "_order", "_relation", "_through", "_views"),
        "checked",
    )

    def __init__(self, ledger: ViolationLog, relation: str, order: str) -> None:
        self._ledger = ledger
        self.checked = 0  # pairs of a message and a process that others are compared with
        self._relation = relation
        self._order = order
        self._current: dict[Rank, Event] = {}  # by process, what it installed last
        self._gone: set[Incarnation] = set()
        self._views: dict[int, _ViewDeliveries] = {}
        self._through: defaultdict[tuple[int, int], list[Incarnation]]
        self._through = defaultdict(list)  # who went from one view to the other

    def handlers(self) -> Mapping[str, EventHandler]:
        """The events it learns from."""
        return {
            MULTICAST: self.on_multicast,
            DELIVER: self.on_deliver,
            PURGE: self.on_position,
            INSTALL: self.on_install,
            CRASH: self.on_departure,
            LEAVE: self.on_departure,
        }

    def on_multicast(self, event: Event) -> None:
        """Learn a message; what only says the order is nobody's to deliver."""
        if event.message is not None and event.note != ORDER:
            view = self._in(event)
            view.sent.setdefault(_name(event), event)
            view.relation.on_multicast(_name(event), declared_by(event))

    def on_deliver(self, event: Event) -> None:
        """Learn who delivered what, and where."""
        view = self._in(event)
        view.delivered[event.pid, event.inc].setdefault(_name(event), event)
        self.on_position(event)

    def on_position(self, event: Event) -> None:
        """Learn where a message stands in the order, also if it was purged there."""
        if event.position:
            self._in(event).relation.on_position(_name(event), event.position)

    def on_install(self, event: Event) -> None:
        """Learn who goes from which view to which."""
        before = self._current.get(event.pid)
        if before is not None and before.inc == event.inc:
            self._through[before.view, event.view].append((event.pid, event.inc))
        self._current[event.pid] = event

    def on_departure(self, event: Event) -> None:
        """Who crashed or asked to leave is in no view at the end."""
        if event.peer < 0:
            self._gone.add((event.pid, event.inc))

    def on_end(self) -> None:
        """Compare those who went through the same views."""
        for (view, after), lives in sorted(self._through.items()):
            how = f"went from view {view} to view {after}"
            if view in self._views:
                self._compare(self._views[view], lives, how, is_last=False)

    def on_quiet(self, correct: frozenset[Rank]) -> None:
        """Compare those who are in the same view at the end of a complete run."""
        remaining: defaultdict[int, list[Event]] = defaultdict(list)
        for pid, install in sorted(self._current.items()):
            if pid in correct and (pid, install.inc) not in self._gone:
                remaining[install.view].append(install)
        for view, installs in sorted(remaining.items()):
            if 2 * len(installs) > len(installs[0].members) and view in self._views:
                lives = [(install.pid, install.inc) for install in installs]
                self._compare(self._views[view], lives, f"ended in view {view}", is_last=True)

    def _compare(
        self, view: "_ViewDeliveries", lives: list[Incarnation], how: str, *, is_last: bool
    ) -> None:
        wanted: dict[MessageId, Event] = {}
        for life in lives:
            wanted = {**view.delivered[life], **wanted}
        if is_last:
            mine = {name: event for name, event in view.sent.items() if name[0] in lives}
            wanted = {**mine, **wanted}
        if is_last or len(lives) > 1:
            self.checked += len(wanted) * len(lives)
        for life in lives:
            own = view.delivered[life]
            if not wanted.keys() <= own.keys():
                missing = view.relation.unsatisfied(own.keys()) & wanted.keys()
                self._report(view, life, how, (wanted[name] for name in sorted(missing)))

    def _report(
        self, view: "_ViewDeliveries", life: Incarnation, how: str, missing: Iterable[Event]
    ) -> None:
        for at in missing:
            what = (
                f"process {life[0]} {how} and delivered nothing for {at.sender}:{at.seq}, "
                f"which process {at.pid} {'delivered' if at.kind == DELIVER else 'multicast'}"
            )
            event = None if at.kind == MULTICAST else at
            self._ledger.add("semantic_view_synchrony", what, view.sent[_name(at)], event)

    def _in(self, event: Event) -> "_ViewDeliveries":
        if event.view not in self._views:
            self._views[event.view] = _ViewDeliveries(
                make_view_relation(self._relation, self._order)
            )
        return self._views[event.view]


class _ViewDeliveries:
    """What was multicast in one view, and by each process delivered in it."""

    __slots__ = ("delivered", "relation", "sent")

    def __init__(self, relation: ViewRelation) -> None:
        self.relation = relation
        self.sent: dict[MessageId, Event] = {}
        self.delivered: defaultdict[Incarnation, dict[MessageId, Event]] = defaultdict(dict)


def _name(event: Event) -> MessageId:
    return (event.sender, event.sender_inc), event.seq
