"""Random executions of groups, loggers and services, sound or with one fault, and their verdicts.

An execution is a list of events in the order of occurrence.  It goes to the monitors as it is, and
to Spark as rows of one table with the others; both must find the same properties broken.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

import msgspec
from pyspark.sql import SparkSession

from semcast.pipeline.check.properties import PROPERTIES
from semcast.pipeline.trace import Trace
from semcast.specs.monitors import Monitors
from semcast.terms.events import CONFIRM, DELIVER, MULTICAST, Event
from semcast.terms.messages import Message

RELATIONS = ("item", "none", "list", "bitmap", "all")
NOTES = {
    "install": ("", "0"),
    "join": ("", "0:1", "0:4 1:2"),
    "skip": ("", "lost"),
    "reclaim": ("", "age"),
    "crash": ("", "disk"),
    "execute": ("update", "query"),
}


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

    def broken(self) -> set[str]:
        """What the monitors find broken."""
        monitors = Monitors(self.protocol, self.order, self.relation, 0, self.n, self.parameters)
        for event in self.events:
            monitors.on_event(event)
        monitors.on_end(frozenset(range(self.n)) - self.crashed, self.complete)
        return monitors.counts.keys() - monitors.unjudged.keys()


def message(rng: Random, relation: str, sender: int, seq: int) -> Message:
    """A message with the annotation that the relation asks for."""
    item, covers, keep = None, b"", rng.random() < 0.1
    if relation == "item" and rng.random() < 0.8:
        item = rng.randrange(3)
    distances = [d for d in range(1, min(seq, 5)) if rng.random() < 0.4]
    if relation == "list":
        covers = tuple(distances)
    elif relation == "bitmap":
        covers = bytes([sum(1 << (d - 1) for d in distances)])
    return Message(sender, seq, item, covers, keep, payload=bytes([sender, seq % 256]))


def spoil(rng: Random, events: list[Event], changes: dict[str, tuple[str, ...]]) -> None:
    """One fault: an event that is missing, out of place, or says something else.

    `changes` has, by kind, the numbers that may be wrong; events of other kinds are left alone.
    """
    kinds = sorted({event.kind for event in events} & changes.keys())
    if not kinds:
        return
    kind = rng.choice(kinds)
    place = rng.choice([place for place, event in enumerate(events) if event.kind == kind])
    event = events[place] = msgspec.structs.replace(events[place])
    elsewhere = () if kind == MULTICAST else ("missing", "moved", "moved")  # Integrity's concern.
    if kind == DELIVER and rng.random() < 0.3:
        double(rng, events, place)
    what = rng.choice((*elsewhere, *changes[kind] * 2))
    if what == "missing":
        del events[place]
    elif what == "moved":
        to = min(max(0, place + rng.randrange(-12, 12)), len(events) - 1)
        if is_possible(event, events[min(place, to) : max(place, to) + 1]):
            events.insert(to, events.pop(place))
    elif what == "note":
        event.note = rng.choice([note for note in NOTES[event.kind] if note != event.note])
    elif what == "members":
        event.members = tuple(rng.sample(event.members, rng.randint(1, len(event.members))))
    else:
        value = max(0, getattr(event, what) + rng.choice((-2, -1, 1, 2)))
        if what == "seq" and kind != CONFIRM:
            value = min(value, last_multicast(event.sender, events[:place])) or event.seq
        setattr(event, what, value)


def double(rng: Random, events: list[Event], place: int) -> None:
    """The same delivery again, later in the same life."""
    event = events[place]
    rest = events[place + 1 :]
    ends = (i for i, one in enumerate(rest) if not is_possible(event, [one]))
    to = place + 1 + rng.randint(0, next(ends, len(rest)))
    events.insert(to, msgspec.structs.replace(event))


def is_possible(event: Event, crossed: list[Event]) -> bool:
    """Lives do not overlap, and nobody speaks of messages before they are multicast."""
    return all(
        (one.pid != event.pid or one.inc == event.inc)
        and (one.kind != MULTICAST or one.sender != event.sender)
        for one in crossed
    )


def last_multicast(sender: int, events: list[Event]) -> int:
    """The number that the sender has come to."""
    sent = (one.seq for one in events if one.kind == MULTICAST and one.sender == sender)
    return max(sent, default=0)


def disagreements(trace: Trace, runs: list[Execution], names: Iterable[str]) -> list[str]:
    """Where Spark and the monitors differ, and properties that were broken nowhere."""
    names = sorted(names)
    frames = [PROPERTIES[name].violations(trace).select("run_id", "property") for name in names]
    union = frames[0]
    for frame in frames[1:]:
        union = union.unionByName(frame)
    with interpreted(trace.runs.sparkSession):
        rows = union.distinct().collect()
    found: dict[int, set[str]] = {}
    for row in rows:
        found.setdefault(row["run_id"], set()).add(row["property"])
    said, met = [], set()
    for run_id, run in enumerate(runs, 1):
        promises = Monitors(run.protocol, run.order, run.relation, 0, run.n).names & set(names)
        broken = run.broken()
        if broken & {"sending_view_delivery", "total_order"}:  # which the query takes for granted
            promises -= {"semantic_view_synchrony"}
        expected, seen = broken & promises, found.get(run_id, set()) & promises
        met |= expected
        if expected != seen:
            said.append(f"run {run_id}: monitors {sorted(expected)}, Spark {sorted(seen)}")
    return [*said, *(f"no execution breaks {name}" for name in names if name not in met)]


@contextmanager
def interpreted(spark: SparkSession) -> Iterator[None]:
    """Many small stages: compiling and replanning each would take longer than running it."""
    settings = {
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
    }
    before = {name: spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, known in before.items():
            spark.conf.set(name, known)
