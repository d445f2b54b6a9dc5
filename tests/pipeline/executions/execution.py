"""One execution: events in the order of occurrence, and what the monitors find in them."""

from dataclasses import dataclass, field
from random import Random
from typing import Any

from semcast.specs.monitors import Monitors
from semcast.specs.relation import as_carried
from semcast.terms.events import INSTALL, MULTICAST, Event
from semcast.terms.messages import DataMessage
from semcast.traces.distance_tracker import DistanceTracker
from semcast.traces.event_rows import events_of, row_of
from semcast.traces.schema import EVENT_COLUMNS, arrow_schema
from semcast.traces.tables import event_table

RELATIONS = ("item", "none", "list", "bitmap", "all", "update-fin")


@dataclass
class Execution:
    """One run: what it promises, how many processes it has, and its events."""

    protocol: str
    order: str
    relation: str
    n: int
    events: list[Event] = field(default_factory=list)
    parameters: dict[str, str] = field(default_factory=dict)
    f: int = 0
    complete: bool = True
    crashed: frozenset[int] = frozenset()  # for good

    def say(self, kind: str, pid: int, **told: Any) -> None:
        self.events.append(Event(kind, pid, **told))

    def number(self) -> None:
        """Local indices and one clock for all."""
        counts: dict[tuple[int, int], int] = {}
        for place, event in enumerate(self.events, 1):
            life = event.pid, event.inc
            counts[life] = event.n = counts.get(life, 0) + 1
            event.ts_ns = 10 * place
            if event.kind == MULTICAST and event.message is not None and not event.declared:
                event.declared = as_carried(event.message).obsoletes

    def told(self) -> list[Event]:
        """The events, as they are read back from a trace."""
        if not self.events:
            return []
        distances = DistanceTracker(self.relation)
        rows = [row_of(event, distances) for event in self.events]
        table = event_table(0, rows, arrow_schema(EVENT_COLUMNS))
        told = events_of(table, [event.kind for event in self.events], self.relation)
        lineages: dict[tuple[int, int], int] = {}
        for event in told:
            if event.kind == INSTALL:
                lineages.setdefault((event.pid, event.inc), event.lineage)
        for event in told:  # Files have it at `install` alone.
            if event.view and event.kind != INSTALL:
                event.lineage = lineages.get((event.pid, event.inc), 0)
        return told

    @property
    def is_in_order(self) -> bool:
        """Whether no process goes back to an earlier incarnation, which no trace can tell."""
        last: dict[int, int] = {}
        return all(
            event.inc >= last.get(event.pid, 0) and last.update({event.pid: event.inc}) is None
            for event in self.events
        )

    def judged(self) -> Monitors:
        """What the monitors find."""
        about = self.protocol, self.order, self.relation, self.f, self.n, self.parameters
        monitors = Monitors(*about)
        for event in self.told():
            monitors.on_event(event)
        monitors.on_end(frozenset(range(self.n)) - self.crashed, self.complete)
        return monitors


def random_message(rng: Random, relation: str, sender: int, seq: int) -> DataMessage:
    """A message with the annotation that the relation asks for."""
    item, covers, keep = None, b"", rng.random() < 0.1
    if relation in ("item", "update-fin") and rng.random() < 0.8:
        item = rng.randrange(3)
    distances = [d for d in range(1, min(seq, 5)) if rng.random() < 0.4]
    if relation == "list":
        covers = tuple(distances)
    elif relation == "bitmap":
        covers = bytes([sum(1 << (d - 1) for d in distances)])
    return DataMessage(sender, seq, item, covers, keep, payload=bytes([sender, seq % 256]))
