"""Recorded executions judged in this process, without Spark: a trace on disk, or one in memory.

`specs/run_check.py` judges a run; here the runs of a directory are read and judged one by one.  The
columns of all events are held in memory and the monitors keep much of a run, about 1 KiB per event,
so larger traces are for Spark.
"""

from collections.abc import Iterable, Sequence
from math import inf
from pathlib import Path
from typing import Final

from semcast.specs.monitors import RunFacts
from semcast.specs.run_check import CheckResults, RecordedRun, check_run, multicasts_in, streams_of
from semcast.specs.verdict import CheckVerdict, check_names
from semcast.terms.promises import FIXED, PROPERTIES, protocols_with
from semcast.traces.errors import BadFile
from semcast.traces.parquet import RunTrace, read_processes, read_runs_in
from semcast.traces.recorded_events import RecordedEvents, read_events
from semcast.traces.schema import EVENTS, PROCESSES, RUNS, ProcessInfo, RunInfo
from semcast.traces.trace_files import root_of

EVENTS_MAX: Final = 2_000_000  # of a trace that `semcast check` judges in this process
SKEW: Final = "skew_ms"  # parameter of a run: by how much clocks of two processes may differ


def judge(
    directory: str | Path,
    names: Iterable[str] | None = None,
    *,
    run_id: int | None = None,
    skew_s: float | None = None,
) -> CheckVerdict:
    """Read a trace or a lake and run the monitors over each of its runs.

    `names` are the properties to judge, by default all; `run_id` chooses one run.  `skew_s` is by
    how much the clocks of two processes may differ, by default as the run says, or by any time.

        verdict = judge("out/trace", skew_s=0.001)
        assert verdict.passed, verdict.properties
    """
    chosen = PROPERTIES if names is None else set(names)
    check_names(chosen)
    root = root_of(Path(directory))
    events, processes = read_events(root / EVENTS), read_processes(root)
    results = CheckResults()
    runs = [run for run in read_runs_in(root) if run_id in (None, run.run_id)]
    if not runs and run_id is not None:
        raise BadFile(f"{root / RUNS}: no run {run_id}")
    for run in runs:
        judge_run(run, processes.get(run.run_id, ()), events, chosen, results, skew_s=skew_s)
    return results.verdict(chosen)


def judge_run(
    run: RunInfo,
    processes: Sequence[ProcessInfo],
    events: RecordedEvents,
    names: Iterable[str],
    results: CheckResults,
    *,
    skew_s: float | None = None,
) -> None:
    """Judge the named properties of one run, and add to the results."""
    _check_listed(run, processes, events)
    info = describe(run, processes, skew_s)
    streams = events.by_process(run, info.facts.n)
    check_run(info, streams, events.multicasts(run.run_id), names, results)


def _check_listed(run: RunInfo, processes: Iterable[ProcessInfo], events: RecordedEvents) -> None:
    spoken = events.processes(run.run_id)
    # Where processes come and go, one may have left no record.
    if run.protocol in protocols_with(FIXED):
        spoken |= events.senders(run.run_id)
    for pid in sorted(spoken - {process.pid for process in processes}):
        raise BadFile(f"{PROCESSES}: run {run.run_id} has events of process {pid}, not listed")


def judge_trace(trace: RunTrace, *, skew_s: float | None = None) -> CheckVerdict:
    """Judge a run that was read."""
    results = CheckResults()
    streams = streams_of(trace.events, len(trace.processes))
    info = describe(trace.run, trace.processes, skew_s)
    check_run(info, streams, multicasts_in(streams), PROPERTIES, results)
    return results.verdict(PROPERTIES)


def describe(run: RunInfo, processes: Iterable[ProcessInfo], skew_s: float | None) -> RecordedRun:
    """What the monitors need to know of a run."""
    pids = {process.pid for process in processes}
    n = max(pids, default=-1) + 1
    facts = RunFacts(run.protocol, run.order, run.relation, run.f, n, run.parameters)
    return RecordedRun(
        run_id=run.run_id,
        facts=facts,
        correct=frozenset(process.pid for process in processes if process.correct),
        absent=tuple(sorted(set(range(max(n, _members(run)))) - pids)),
        complete=run.complete,
        skew_ns=_skew_ns(run) if skew_s is None else skew_s * 1e9,
    )


def _members(run: RunInfo) -> int:
    """The number of processes that the run says it has; 0 if they come and go."""
    text = run.parameters.get("members", "0")
    return int(text) if text.isdecimal() else 0


def _skew_ns(run: RunInfo) -> float:
    try:
        return float(run.parameters.get(SKEW, "inf")) * 1e6
    except ValueError:
        return inf
