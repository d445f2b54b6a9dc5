"""The monitors of one run: every property that its protocol and order promise.

Feed each event of all processes, in the order of occurrence, to `on_event`; then say with `on_end`
who was correct and whether the run was left to fall quiet.  Safety is judged at each event,
liveness at the end, and only of a complete run.

    monitors = Monitors("s-rm", "fifo", "item", f=1, n=3)
    for event in trace:
        monitors.on_event(event)
    monitors.on_end(correct=frozenset({0, 1, 2}), complete=True)
    assert not monitors.violations
"""

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from semcast.specs.causality import CausalOrder
from semcast.specs.history import History, Watch
from semcast.specs.liveness import LIVENESS
from semcast.specs.purging import PurgeSafety
from semcast.specs.safety import AtMostOnce, FifoOrder, Integrity, ItemOrder
from semcast.specs.violations import Ledger, Violation
from semcast.terms.errors import ConfigError
from semcast.terms.events import Event
from semcast.terms.promises import promised

__all__ = ["REPLICATED", "Monitors", "Violation"]

REPLICATED: Final = frozenset({"s-rm", "rm"})


class Watcher(Protocol):
    """Whatever wants to see events: by kind, the methods to call."""

    def watches(self) -> Mapping[str, Watch]:
        """By kind of event, what to call."""
        ...


_SAFETY: Final[Mapping[str, Callable[[History, Ledger], Watcher]]] = {
    "integrity": Integrity,
    "at_most_once": AtMostOnce,
    "fifo_order": FifoOrder,
    "item_order": ItemOrder,
}


class Monitors:
    """One per run of the processes 0 to n - 1; reads events, never changes them.

    `names` are the properties promised, `unjudged` those of them that could not be decided;
    `violations` holds the first few of each property, `counts` the number of all.
    """

    __slots__ = ("_by_kind", "_causal", "_history", "_ledger", "names", "unjudged")

    def __init__(self, protocol: str, order: str, relation: str, f: int, n: int) -> None:
        if not 0 <= f < n:
            raise ConfigError(f"f: {f} is not between 0 and n - 1 = {n - 1}")
        self.names = promised(protocol, order)
        self.unjudged = self.names - _SAFETY.keys() - {"purge_safety", "causal_order"}
        self._ledger = Ledger()
        self._history = History(relation, n)
        watchers: list[Watcher] = [
            make(self._history, self._ledger)
            for name, make in _SAFETY.items()
            if name in self.names
        ]
        if "purge_safety" in self.names:
            replicated = protocol in REPLICATED
            watchers.append(PurgeSafety(self._history, self._ledger, f=f, replicated=replicated))
        self._causal: CausalOrder | None = None
        if "causal_order" in self.names:
            self._causal = CausalOrder(self._history, self._ledger)
            watchers.append(self._causal)
        watchers.append(self._history)  # Last: monitors look before it records.
        self._by_kind: dict[str, tuple[Watch, ...]] = {}
        for watcher in watchers:
            for kind, watch in watcher.watches().items():
                self._by_kind[kind] = (*self._by_kind.get(kind, ()), watch)

    def on_event(self, event: Event) -> None:
        """Judge the next event of the run."""
        for watch in self._by_kind.get(event.kind, ()):
            watch(event)

    def on_end(self, correct: frozenset[int], complete: bool) -> None:
        """Judge liveness, once, after the last event."""
        if not complete:
            return
        self.unjudged = frozenset()
        owed = self._history.owed(correct)
        for name, verdict in LIVENESS.items():
            if name in self.names:
                verdict(self._history, owed, self._ledger)
        if self._causal is not None:
            self._causal.on_end(owed)

    @property
    def violations(self) -> list[Violation]:
        """The first violations of each property, in the order they were found."""
        return self._ledger.kept

    @property
    def counts(self) -> dict[str, int]:
        """By property, how many violations there were."""
        return self._ledger.counts
