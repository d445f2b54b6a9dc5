"""One recorded run judged by the monitors of every property that it promises.

Each process recorded itself by its own clock, so the events are first put into one order in which
causes come before effects (`interleaving.py`).  Between processes of one machine clocks can be
trusted, which makes the verdict as strict as in the simulator: `skew_ns` says so.  Without a bound,
a claim about other processes is wrong only if it cannot have been right.

A member that left with everything done, after the last multicast, was owed the same as the others.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from semcast.specs.interleaving import Causes, FrontierCauses, Interleaving, MessageCauses
from semcast.specs.monitors import Monitors, RunFacts
from semcast.specs.verdict import (
    BY_CLOCKS,
    EXAMPLES,
    UNKNOWN_CLOCKS,
    CheckVerdict,
    PropertyResult,
    ViolationExample,
    reason_against,
    result_of,
    shown,
)
from semcast.specs.violations import Violation
from semcast.terms.errors import ConfigError
from semcast.terms.events import ATTRIBUTES, DRAINED, LEAVE, MULTICAST, Event
from semcast.terms.promises import is_replicated


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRun:
    """What is known of a run beside its events.  `correct` are the processes that never crashed,
    `absent` those whose record is missing."""

    run_id: int
    facts: RunFacts
    correct: frozenset[int]
    absent: tuple[int, ...] = ()
    complete: bool = False
    skew_ns: float = inf


@dataclass(slots=True)
class CheckResults:
    """The results of some runs, by property."""

    runs: int = 0
    events: int = 0
    judged: dict[str, int] = field(default_factory=dict)  # on how many runs
    obligations: dict[str, int] = field(default_factory=dict)
    reasons: dict[str, set[str]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    broken: dict[str, int] = field(default_factory=dict)  # on how many runs
    examples: dict[str, list[tuple[tuple[int, ...], ViolationExample]]] = field(
        default_factory=dict
    )

    def add(
        self,
        name: str,
        *,
        runs: int,
        violations: int,
        broken_runs: int,
        examples: Iterable[tuple[tuple[int, ...], ViolationExample]],
        obligations: int,
        reasons: Iterable[str] = (),
    ) -> None:
        """Add the result of a property on some runs; each example comes with its place."""
        self.judged[name] = self.judged.get(name, 0) + runs
        self.counts[name] = self.counts.get(name, 0) + violations
        self.broken[name] = self.broken.get(name, 0) + broken_runs
        self.reasons.setdefault(name, set()).update(reasons)
        ordered = sorted([*self.examples.get(name, ()), *examples], key=lambda each: each[0])
        self.examples[name] = ordered[:EXAMPLES]
        self.obligations[name] = self.obligations.get(name, 0) + obligations

    def verdict(self, names: Iterable[str]) -> CheckVerdict:
        """The verdict on all of them."""
        return CheckVerdict(self.events, {name: self._result(name) for name in sorted(names)})

    def _result(self, name: str) -> PropertyResult:
        return result_of(
            name,
            (self.judged.get(name, 0), self.runs),
            self.reasons.get(name, ()),
            (self.counts.get(name, 0), self.broken.get(name, 0)),
            [example for _, example in self.examples.get(name, ())],
            self.obligations.get(name, 0),
        )


def check_run(
    run: RecordedRun,
    streams: Sequence[Iterable[Event]],
    multicasts: int,
    names: Iterable[str],
    results: CheckResults,
) -> None:
    """Judge the named properties of a run and add to the results.

    `streams` has the events of each process in local order; `multicasts` is their number.
    """
    results.runs += 1
    judged = [name for name in names if _may_judge(name, run, results)]
    try:
        monitors = Monitors(*run.facts)
    except ConfigError as error:
        for name in judged:
            reason = f"the monitors cannot judge the run: {error}"
            results.reasons.setdefault(name, set()).add(reason)
        judged = []
    if not judged:
        results.events += sum(1 for stream in streams for _ in stream)
        return
    ordered = Interleaving(streams, causes_of(run.facts, monitors.names), skew_ns=run.skew_ns)
    _judge(monitors, ordered, multicasts, results)
    monitors.on_end(run.correct, complete=run.complete)
    for name in judged:
        violations = monitors.counts.get(name, 0)
        if name in monitors.unjudged and not violations:
            results.reasons.setdefault(name, set()).add(monitors.unjudged[name])
            continue
        mine = [one for one in monitors.violations if one.property == name]
        results.add(
            name,
            runs=1,
            violations=violations,
            broken_runs=int(violations > 0),
            examples=[_example(run.run_id, one) for one in mine],
            obligations=monitors.obligations[name],
        )


def _may_judge(name: str, run: RecordedRun, results: CheckResults) -> bool:
    """Whether a property can be judged of the run; if not, the results get the reason."""
    facts = run.facts
    reason = reason_against(name, facts.protocol, facts.order, run.absent, complete=run.complete)
    if not reason and name in BY_CLOCKS and run.skew_ns == inf:
        reason = UNKNOWN_CLOCKS
    if reason:
        results.reasons.setdefault(name, set()).add(reason)
    return not reason


def causes_of(facts: RunFacts, names: frozenset[str]) -> Causes:
    """What the events of a run have to wait for, by the properties that it promises."""
    if "purge_safety" in names and "view_order" not in names:
        return FrontierCauses(facts.n, facts.f, replicated=is_replicated(facts.protocol))
    return MessageCauses(by_life="view_order" in names, is_primary="primary_order" in names)


def _judge(
    monitors: Monitors, events: Iterable[Event], multicasts: int, results: CheckResults
) -> None:
    """Feed the events to the monitors."""
    on_event, count = monitors.on_event, 0
    for event in events:
        count += 1
        kind = event.kind
        if kind == MULTICAST:
            multicasts -= 1
        elif kind == LEAVE and not multicasts and event.note == DRAINED:
            continue  # It left when nothing more was to come, and was excluded from nothing.
        on_event(event)
    results.events += count


def _example(run_id: int, violation: Violation) -> tuple[tuple[int, ...], ViolationExample]:
    """A violation with its place among others: by run, then by its last event."""
    names: Mapping[str, str] = ATTRIBUTES["note"].names
    events = tuple(shown(event, names[event.kind]) for event in violation.events)
    last = violation.events[-1] if violation.events else None
    place = (run_id, last.ts_ns, last.pid, last.n) if last is not None else (run_id,)
    return place, ViolationExample(run_id, violation.explanation, events)


def streams_of(events: Iterable[Event], n: int) -> list[list[Event]]:
    """The events of each of n processes."""
    streams: list[list[Event]] = [[] for _ in range(n)]
    for event in events:
        streams[event.pid].append(event)
    return streams


def multicasts_in(streams: Sequence[Sequence[Event]]) -> int:
    """The number of multicasts among these events."""
    return sum(event.kind == MULTICAST for event in _all(streams))


def _all(streams: Sequence[Sequence[Event]]) -> Iterator[Event]:
    return (event for stream in streams for event in stream)
