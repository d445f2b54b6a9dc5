"""The monitors of one run: every property that its protocol and order promise.

Feed all events of all processes, in the order of occurrence, to `on_events`; then say with `on_end`
who was correct and whether the run was left to fall quiet.  Safety is judged at each event,
liveness at the end, and only of a complete run.

    monitors = Monitors("s-rm", "fifo", "item", f=1, n=3)
    monitors.on_events(trace)
    monitors.on_end(correct=frozenset({0, 1, 2}), complete=True)
    assert not monitors.violations
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, Protocol, TypeAlias, runtime_checkable

from semcast.specs.causality import CausalOrder
from semcast.specs.history import EventHandler, History
from semcast.specs.liveness import LIVENESS
from semcast.specs.loggers import CollectionSafety, Durability, ReliableDelivery
from semcast.specs.obsolete_deliveries import PurgesInViews, SemanticIntegrity
from semcast.specs.purging import PurgeSafety
from semcast.specs.replication import AcknowledgedSurvives, ReplicaEquality
from semcast.specs.safety import AtMostOnce, FifoOrder, Integrity, ItemOrder
from semcast.specs.service import (
    ExactlyOnceRequests,
    NeverBlocked,
    RefusedNeverExecuted,
    SequentialConsistency,
)
from semcast.specs.total_order import Confirmation, PrefixDelivery, TotalOrder
from semcast.specs.verdict import AT_THE_END
from semcast.specs.view_synchrony import SemanticViewSynchrony
from semcast.specs.views import PrimaryOrder, SendingViewDelivery, ViewOrder
from semcast.specs.violations import Violation, ViolationLog
from semcast.terms.errors import ConfigError
from semcast.terms.events import DELIVER, INSTALL, MULTICAST, RECOVER, Event
from semcast.terms.promises import FOUNDERS, QUORUM_SETS, is_replicated, promised, protocols_with
from semcast.terms.relations import is_by_place

__all__ = ["Monitors", "Violation"]

AT_LEAST_ONCE: Final = "at-least-once"

Table: TypeAlias = dict[str, tuple[EventHandler, ...]]  # by kind of event, who sees it


class EventMonitor(Protocol):
    """Whatever wants to see events: by kind, the methods to call."""

    def handlers(self) -> Mapping[str, EventHandler]:
        """By kind of event, what to call."""
        ...


class PropertyMonitor(EventMonitor, Protocol):
    """A watcher that judges a property."""

    @property
    def checked(self) -> int:
        """How often the property could have been broken: its obligations so far."""
        ...


@runtime_checkable
class EndMonitor(Protocol):
    """A watcher that judges when the trace has ended."""

    def on_end(self) -> None:
        """Judge what is left."""
        ...


@runtime_checkable
class QuiescenceMonitor(Protocol):
    """A watcher that judges what correct processes share once a run has fallen quiet."""

    def on_quiet(self, correct: frozenset[int]) -> None:
        """Judge the end of a complete run."""
        ...


@runtime_checkable
class RestartMonitor(Protocol):
    """A watcher whose property, under at-least-once recovery, holds within each life."""

    def on_restart(self, event: Event) -> None:
        """`event.pid` starts anew."""
        ...


_SAFETY: Final[Mapping[str, Callable[[History, ViolationLog], PropertyMonitor]]] = {
    "integrity": Integrity,
    "at_most_once": AtMostOnce,
    "fifo_order": FifoOrder,
    "item_order": ItemOrder,
}


class RunFacts(NamedTuple):
    """What a monitor may need to know of a run beforehand."""

    protocol: str
    order: str
    relation: str
    f: int
    n: int
    parameters: Mapping[str, str]

    def number(self, name: str, otherwise: int) -> int:
        """A parameter that is a whole number, 1 or more."""
        text = self.parameters.get(name, str(otherwise))
        if not text.isdecimal() or not int(text):
            raise ConfigError(f"{name}: {text!r} is not a whole number, 1 or more")
        return int(text)

    @property
    def quorums(self) -> tuple[frozenset[int], ...]:
        """The sets of servers that make a view primary, if they are not all majorities."""
        text = self.parameters.get(QUORUM_SETS, "")
        sets = (each.split() for each in text.split(",") if each.strip())
        try:
            return tuple(frozenset(map(int, each)) for each in sets)
        except ValueError:
            raise ConfigError(f"quorum_sets: {text!r} has something else than numbers") from None


# Monitors that keep what they need themselves: processes come, go and recover.
_SELF_CONTAINED: Final[Mapping[str, Callable[[ViolationLog, RunFacts], PropertyMonitor]]] = {
    "view_order": lambda ledger, _: ViewOrder(ledger),
    "sending_view_delivery": lambda ledger, _: SendingViewDelivery(ledger),
    "semantic_view_synchrony": lambda ledger, run: SemanticViewSynchrony(
        ledger, run.relation, run.order
    ),
    "primary_order": lambda ledger, run: PrimaryOrder(
        ledger,
        run.number("servers", run.n) if run.protocol in protocols_with(FOUNDERS) else None,
        run.quorums,
    ),
    "total_order": lambda ledger, _: TotalOrder(ledger),
    "prefix_delivery": lambda ledger, _: PrefixDelivery(ledger),
    "confirmation": lambda ledger, _: Confirmation(ledger),
    "reliable_delivery": lambda ledger, run: ReliableDelivery(ledger, run.relation),
    "collection_safety": lambda ledger, _: CollectionSafety(ledger),
    "durability": lambda ledger, run: Durability(ledger, run.relation, run.number("copies", 1)),
    "acknowledged_survives": lambda ledger, _: AcknowledgedSurvives(ledger),
    "replica_equality": lambda ledger, _: ReplicaEquality(ledger),
    "exactly_once_requests": lambda ledger, _: ExactlyOnceRequests(ledger),
    "never_blocked": lambda ledger, _: NeverBlocked(ledger),
    "refused_never_executed": lambda ledger, _: RefusedNeverExecuted(ledger),
    "sequential_consistency": lambda ledger, _: SequentialConsistency(ledger),
}
_NOT_QUIET: Final = "the run is not complete: it was stopped before it became quiet"


class Monitors:
    """One per run of the processes 0 to n - 1; reads events, never changes them.

    `names` are the properties promised, `unjudged` those of them that could not be decided, and
    why; `violations` holds the first few of each property, `counts` the number of all.  After
    `on_end`, `obligations` says of each property promised how often it could have been broken.
    Groups with views that were founded apart share nothing, not even the numbers of their views:
    each lineage is judged by itself.  What happens to a process outside views counts in all.
    """

    __slots__ = (
        *("_added", "_facts", "_last", "_ledger", "_lineages", "_of_life", "_outside", "_tables"),
        *("names", "obligations", "unjudged"),
    )

    def __init__(
        self,
        protocol: str,
        order: str,
        relation: str,
        f: int,
        n: int,
        parameters: Mapping[str, str] | None = None,
        promises: frozenset[str] | None = None,
    ) -> None:
        """`parameters` are the run's; `copies`, `servers`, `quorum_sets` and
        `recovery` matter here.  `promises`
        are the properties to judge, by default those of the protocol under the order."""
        if not 0 <= f < n:
            raise ConfigError(f"f: {f} is not between 0 and n - 1 = {n - 1}")
        self.names = promised(protocol, order) if promises is None else promises
        self.unjudged = dict.fromkeys(self.names & AT_THE_END, _NOT_QUIET)
        self.obligations = Counter(dict.fromkeys(sorted(self.names), 0))
        self._ledger = ViolationLog()
        self._facts = RunFacts(protocol, order, relation, f, n, parameters or {})
        self._of_life: dict[tuple[int, int], int] = {}
        self._last: dict[int, int] = {}  # by process, the lineage it was in last
        self._added: list[Mapping[str, EventHandler]] = []
        first = _OfLineage(self.names, self._facts, self._ledger)
        self._lineages = {0: first}  # The first lineage that is met takes the place of 0.
        self._outside = self._table(0, first)  # who sees what happens outside views
        self._tables: dict[int, Table] = {}

    def add(self, handlers: Mapping[str, EventHandler]) -> None:
        """Before the run: by kind of event, what else to call, after the monitors."""
        self._added.append(handlers)
        _enter(self._outside, handlers)

    def on_events(self, events: Iterable[Event]) -> None:
        """Judge the next events of the run."""
        outside = self._outside
        for event in events:
            table = self._in_lineage(event) if event.lineage else outside
            for watch in table.get(event.kind, ()):
                watch(event)

    def on_event(self, event: Event) -> None:
        """Judge the next one."""
        self.on_events((event,))

    def _in_lineage(self, event: Event) -> Table:
        # A life is in one; that it stays there is for view_order to judge.
        lineage = self._of_life.setdefault((event.pid, event.inc), event.lineage)
        return self._tables.get(lineage) or self._begin(lineage)

    def _begin(self, lineage: int) -> Table:
        judges = self._lineages.pop(0, None)
        if judges is None:
            judges = _OfLineage(self.names, self._facts, self._ledger)
            for kind, watches in judges.by_kind.items():
                self._outside[kind] = (*self._outside.get(kind, ()), *watches)
        self._lineages[lineage] = judges
        self._tables[lineage] = self._table(lineage, judges)
        return self._tables[lineage]

    def _table(self, lineage: int, judges: "_OfLineage") -> Table:
        """Who sees the events of a lineage; which one a process was in last is noted beside."""

        def note(event: Event) -> None:
            self._last[event.pid] = lineage

        table = dict(judges.by_kind)
        for handlers in ({INSTALL: note}, *self._added):
            _enter(table, handlers)
        return table

    def on_end(self, correct: frozenset[int], complete: bool) -> None:
        """Judge what needs the whole trace, and liveness of a complete run; once, at the end."""
        if complete:
            for name in AT_THE_END:
                self.unjudged.pop(name, None)
        for lineage, judges in self._lineages.items():
            # Who has gone on to another lineage is not of this one any more.
            present = frozenset(pid for pid in correct if self._last.get(pid, lineage) == lineage)
            self.unjudged.update(judges.on_end(present, complete))
            self.obligations.update(judges.obligations)

    @property
    def violations(self) -> list[Violation]:
        """The first violations of each property, in the order they were found."""
        return self._ledger.stored

    @property
    def counts(self) -> dict[str, int]:
        """By property, how many violations there were."""
        return self._ledger.counts


def _enter(table: Table, handlers: Mapping[str, EventHandler]) -> None:
    """Call these, too, behind those that are in the table."""
    for kind, watch in handlers.items():
        table[kind] = (*table.get(kind, ()), watch)


class _OfLineage:
    """The monitors of one lineage, or of a run without views; `by_kind` says who sees what.
    `obligations` is for after the end."""

    __slots__ = (
        *("_beside", "_causal", "_history", "_judges", "_ledger", "_names", "_purges", "by_kind"),
        "obligations",
    )

    def __init__(self, names: frozenset[str], facts: RunFacts, ledger: ViolationLog) -> None:
        self._names, self._ledger = names, ledger
        self._history = History(facts.relation, facts.n, by_life="view_order" in names)
        self.obligations: dict[str, int] = {}
        self._judges: dict[str, PropertyMonitor] = {
            name: make(self._history, ledger) for name, make in _SAFETY.items() if name in names
        }
        by_place = is_by_place(facts.order, facts.relation)
        has_views = "view_order" in names
        if "semantic_integrity" in names:
            integrity = SemanticIntegrity(self._history, ledger, by_place=by_place)
            self._judges["semantic_integrity"] = integrity
        self._purges = PurgesInViews(self._history, ledger, by_place=by_place)
        if "purge_safety" in names and has_views:
            self._judges["purge_safety"] = self._purges
        elif "purge_safety" in names:
            replicated = is_replicated(facts.protocol)
            purges = PurgeSafety(self._history, ledger, f=facts.f, replicated=replicated)
            self._judges["purge_safety"] = purges
        self._causal: CausalOrder | None = None
        if "causal_order" in names:
            self._causal = CausalOrder(self._history, ledger)
            self._judges["causal_order"] = self._causal
        self._beside = {
            name: make(ledger, facts) for name, make in _SELF_CONTAINED.items() if name in names
        }
        self._judges |= self._beside
        watchers: list[EventMonitor] = [*self._judges.values()]
        watchers.append(self._history)
        self.by_kind: Table = {
            MULTICAST: (self._history.on_multicast,),
            DELIVER: (self._history.on_deliver,),
        }
        for watcher in watchers:
            _enter(self.by_kind, watcher.handlers())
        if facts.parameters.get("recovery") == AT_LEAST_ONCE:
            lives = (
                watcher.on_restart for watcher in watchers if isinstance(watcher, RestartMonitor)
            )
            self.by_kind[RECOVER] = (*self.by_kind.get(RECOVER, ()), *lives)

    def on_end(self, correct: frozenset[int], complete: bool) -> dict[str, str]:
        """Judge the rest; what could not be decided, and why."""
        unjudged = {}
        self._purges.on_end()
        for name, watcher in self._beside.items():
            if isinstance(watcher, EndMonitor) and (complete or name not in AT_THE_END):
                watcher.on_end()
            if complete and isinstance(watcher, QuiescenceMonitor):
                watcher.on_quiet(correct)
            if isinstance(watcher, SequentialConsistency) and watcher.reason:
                unjudged[name] = watcher.reason
        self.obligations = {name: judge.checked for name, judge in self._judges.items()}
        if not complete:
            return unjudged
        owed = self._history.owed(correct)
        for name, verdict in LIVENESS.items():
            if name in self._names:
                self.obligations[name] = verdict(self._history, owed, self._ledger)
        if self._causal is not None and "causal_completeness" in self._names:
            self.obligations["causal_completeness"] = self._causal.on_end(owed)
        return unjudged
