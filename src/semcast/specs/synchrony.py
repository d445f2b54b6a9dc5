"""Semantic View Synchrony: what the members of a view share when they leave it.

Two processes that go from a view to the same next one delivered the same in it, but for what is
obsolete.  Nobody leaves the last view; there, once a run has fallen quiet, the same holds of all
who are still in it, and what they multicast has been delivered too.

Rule: [SVS §4.1].  Sending View Delivery is taken for granted: what links two messages of a view was
multicast in it.
Departs: of the last view SVS says nothing; we ask what Validity and Agreement ask [SRM fig. 3], of
a view in which a majority remained: fewer may wait for ever.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from semcast.specs.history import Life, Watch
from semcast.specs.relation import AmongSenders, Id, among_senders
from semcast.specs.violations import Ledger
from semcast.terms.declared import declared_by
from semcast.terms.events import CRASH, DELIVER, INSTALL, LEAVE, MULTICAST, ORDER, PURGE, Event
from semcast.terms.ids import Rank


class SemanticViewSynchrony:
    """If two processes install a view and the same view after it, and one of them delivered m in
    the first, the other delivered some m' ⊒ m in it.  Under total order, m' may be of any sender.
    """

    __slots__ = ("_current", "_gone", "_ledger", "_order", "_relation", "_through", "_views")

    def __init__(self, ledger: Ledger, relation: str, order: str) -> None:
        self._ledger = ledger
        self._relation = relation
        self._order = order
        self._current: dict[Rank, Event] = {}  # by process, what it installed last
        self._gone: set[Life] = set()
        self._views: dict[int, _InView] = {}
        self._through: defaultdict[tuple[int, int], list[Life]]
        self._through = defaultdict(list)  # who went from one view to the other

    def watches(self) -> Mapping[str, Watch]:
        """The events it learns from."""
        return {
            MULTICAST: self.on_multicast,
            DELIVER: self.on_deliver,
            PURGE: self.on_place,
            INSTALL: self.on_install,
            CRASH: self.on_gone,
            LEAVE: self.on_gone,
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
        self.on_place(event)

    def on_place(self, event: Event) -> None:
        """Learn where a message stands in the order, also if it was purged there."""
        if event.position:
            self._in(event).relation.on_place(_name(event), event.position)

    def on_install(self, event: Event) -> None:
        """Learn who goes from which view to which."""
        before = self._current.get(event.pid)
        if before is not None and before.inc == event.inc:
            self._through[before.view, event.view].append((event.pid, event.inc))
        self._current[event.pid] = event

    def on_gone(self, event: Event) -> None:
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

    def _compare(self, view: "_InView", lives: list[Life], how: str, *, is_last: bool) -> None:
        wanted: dict[Id, Event] = {}
        for life in lives:
            wanted = {**view.delivered[life], **wanted}
        if is_last:
            mine = {name: event for name, event in view.sent.items() if name[0] in lives}
            wanted = {**mine, **wanted}
        for life in lives:
            own = view.delivered[life]
            if not wanted.keys() <= own.keys():
                missing = view.relation.unsatisfied(own.keys()) & wanted.keys()
                self._report(view, life, how, (wanted[name] for name in sorted(missing)))

    def _report(self, view: "_InView", life: Life, how: str, missing: Iterable[Event]) -> None:
        for at in missing:
            what = (
                f"process {life[0]} {how} and delivered nothing for {at.sender}:{at.seq}, "
                f"which process {at.pid} {'delivered' if at.kind == DELIVER else 'multicast'}"
            )
            told = None if at.kind == MULTICAST else at
            self._ledger.add("semantic_view_synchrony", what, view.sent[_name(at)], told)

    def _in(self, event: Event) -> "_InView":
        if event.view not in self._views:
            self._views[event.view] = _InView(among_senders(self._relation, self._order))
        return self._views[event.view]


class _InView:
    """What was multicast in one view, and by each process delivered in it."""

    __slots__ = ("delivered", "relation", "sent")

    def __init__(self, relation: AmongSenders) -> None:
        self.relation = relation
        self.sent: dict[Id, Event] = {}
        self.delivered: defaultdict[Life, dict[Id, Event]] = defaultdict(dict)


def _name(event: Event) -> Id:
    return (event.sender, event.sender_inc), event.seq
