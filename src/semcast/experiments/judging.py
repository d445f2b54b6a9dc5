"""The verdict on a recorded execution: every property that its protocol promises, monitored.

Each process recorded itself by its own clock, so the events are first put into one order in which
causes come before effects (`specs/interleaving.py`).  Between processes of one machine clocks can
be trusted, which makes the verdict on purging as strict as in the simulator: say so by `skew_s`.
Across machines leave it out; then a claim that frontiers had got somewhere counts as wrong only
if it cannot have been right, and the other properties are judged in full, as they are decided by
the order at each process and by which message is which.

A member that left with everything done, after the last multicast, was owed what all were.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path

from semcast.specs.interleaving import Interleaving
from semcast.specs.monitors import REPLICATED, Monitors
from semcast.terms.events import DRAINED, LEAVE, MULTICAST, Event
from semcast.terms.promises import PROPERTIES
from semcast.traces.parquet import Trace, read_trace
from semcast.traces.schema import Run

PASS = "pass"
FAIL = "fail"
NOT_APPLICABLE = "not applicable"


@dataclass(frozen=True, slots=True)
class Judgement:
    """What was found of one property: `violations` counts all, `examples` tell the first few."""

    status: str
    reason: str = ""
    violations: int = 0
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found of one run, by the name of the property."""

    run: Run
    events: int
    properties: Mapping[str, Judgement]

    @property
    def passed(self) -> bool:
        """Whether something could be judged, and nothing that was judged failed."""
        found = {judgement.status for judgement in self.properties.values()}
        return PASS in found and FAIL not in found

    @property
    def violations(self) -> int:
        """How many there are of all properties."""
        return sum(judgement.violations for judgement in self.properties.values())


def judge(
    directory: str | Path, *, run_id: int | None = None, skew_s: float = inf, examples: int = 3
) -> Verdict:
    """Read a trace and run every monitor over it.

    `skew_s` is by how much the clocks of two processes may differ; 0.001 is plenty on one
    machine.  `run_id` is needed only where the directory holds several runs.

        verdict = judge("out/trace", skew_s=0.001)
        assert verdict.passed, verdict.properties
    """
    trace = read_trace(directory, run_id)
    return judge_trace(trace, skew_s=skew_s, examples=examples)


def judge_trace(trace: Trace, *, skew_s: float = inf, examples: int = 3) -> Verdict:
    """The same of a trace that was read."""
    run, n = trace.run, len(trace.processes)
    missing = _missing(trace)
    if missing:
        unknown = Judgement(NOT_APPLICABLE, missing)
        return Verdict(run, len(trace.events), dict.fromkeys(sorted(PROPERTIES), unknown))
    monitors = Monitors(run.protocol, run.order, run.relation, run.f, n, run.parameters)
    ordered = trace.events
    if "purge_safety" in monitors.names:
        ordered = _interleaved(trace, skew_s)
    for event in _without_last_leaves(ordered):
        monitors.on_event(event)
    correct = frozenset(process.pid for process in trace.processes if process.correct)
    monitors.on_end(correct, complete=run.complete)
    properties = {name: _judgement(name, monitors, run, examples) for name in sorted(PROPERTIES)}
    return Verdict(run, len(trace.events), properties)


def _interleaved(trace: Trace, skew_s: float) -> list[Event]:
    """Causes before effects, as far as frontiers tell; other protocols have the clocks alone."""
    run = trace.run
    streams: list[list[Event]] = [[] for _ in trace.processes]
    for event in trace.events:
        streams[event.pid].append(event)
    replicated = run.protocol in REPLICATED
    return list(Interleaving(streams, run.f, replicated=replicated, skew_ns=skew_s * 1e9))


def _missing(trace: Trace) -> str:
    """Why nothing can be judged, if so: claims of some speak of the frontiers of all."""
    n = int(trace.run.parameters.get("members", 0))  # 0: they come and go
    absent = sorted(set(range(n)) - {process.pid for process in trace.processes})
    if not absent:
        return ""
    return f"the trace has no record of process {', '.join(map(str, absent))} of {n}"


def _without_last_leaves(events: Sequence[Event]) -> list[Event]:
    """Who left drained when nothing more was to come has not been excluded from anything."""
    last = max((i for i, event in enumerate(events) if event.kind == MULTICAST), default=-1)
    return [
        event
        for i, event in enumerate(events)
        if i < last or event.kind != LEAVE or event.note != DRAINED
    ]


def _judgement(name: str, monitors: Monitors, run: Run, examples: int) -> Judgement:
    if name not in monitors.names:
        reason = f"{run.protocol} with order {run.order} does not promise it"
        return Judgement(NOT_APPLICABLE, reason)
    found = [violation for violation in monitors.violations if violation.property == name]
    if found:
        told = tuple(str(violation) for violation in found[:examples])
        return Judgement(FAIL, found[0].explanation, monitors.counts[name], told)
    if name in monitors.unjudged:
        return Judgement(NOT_APPLICABLE, monitors.unjudged[name])
    return Judgement(PASS)
