"""The verdict on recorded executions: each property on the runs that promise it.

The runs of a small trace are judged by the monitors in tasks, those of a larger one by queries.

A property that no run promises, or that cannot be judged of those that do, is not applicable, with
the reason; it never counts as passed.  What comes back to the driver does not grow with the trace:
a count and a few examples for each property.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from semcast.pipeline.check.lineages import by_lineage
from semcast.pipeline.check.properties import PROPERTIES, filter_runs, violations_of
from semcast.pipeline.check.run_facts import with_processes
from semcast.pipeline.check.service import is_witnessed
from semcast.pipeline.check.task_monitors import add_from_tasks
from semcast.pipeline.check.violations import VIOLATIONS
from semcast.pipeline.reading.trace import TraceTables
from semcast.specs.run_check import CheckResults
from semcast.specs.service import NO_WITNESS
from semcast.specs.verdict import (
    EXAMPLES,
    EXERCISED_BY,
    CheckVerdict,
    ViolationExample,
    check_names,
    reason_against,
)

TASK_EVENTS_MAX: Final = 500_000  # of a trace whose runs are judged by the monitors, in tasks
_KIND: Final = ("protocol", "order", "complete")


def check(trace: TraceTables, names: Iterable[str] | None = None) -> CheckVerdict:
    """Judge the named properties, or all.

    verdict = check(read_trace(spark, "out/trace"))
    assert verdict.passed, verdict.properties
    """
    chosen = sorted(PROPERTIES if names is None else set(names))
    check_names(chosen)
    results = CheckResults()
    judge = add_from_tasks if trace.events.count() <= TASK_EVENTS_MAX else _add_from_queries
    judge(trace, chosen, results)
    return results.verdict(chosen)


def _add_from_queries(trace: TraceTables, names: Sequence[str], results: CheckResults) -> None:
    """Judge all runs by queries over columns, and add to the results."""
    trace, restored = by_lineage(trace)
    scopes = _scopes(trace, names)
    found = _found(trace, scopes)
    found = None if found is None else restored(found)
    rows = {row["property"]: row for row in _count_violations(trace, found).collect()}
    obligations = _obligations(trace, scopes)
    results.events += rows[""]["violations"]
    results.runs += max((scope.of for scope in scopes.values()), default=0)
    for name, scope in scopes.items():
        row = rows.get(name)
        results.add(
            name,
            runs=scope.runs,
            violations=row["violations"] if row is not None else 0,
            broken_runs=row["broken_runs"] if row is not None else 0,
            examples=[_example(one) for one in (row["examples"] if row is not None else ())],
            obligations=obligations[name],
            reasons=filter(None, scope.reasons),
        )


def violations_in(trace: TraceTables, names: Iterable[str] | None = None) -> DataFrame:
    """All violations of the named properties, or of all, each on the runs that promise it."""
    trace, restored = by_lineage(trace)
    found = _found(trace, _scopes(trace, names))
    if found is None:
        return trace.events.sparkSession.createDataFrame([], VIOLATIONS)
    return restored(found)


@dataclass(frozen=True, slots=True)
class PropertyScope:
    """On how many runs a property is judged, of how many, of which kinds these are, and why it is
    not judged on the others."""

    runs: int
    of: int
    kinds: Sequence[Row]
    reasons: Sequence[str]


def _scopes(trace: TraceTables, names: Iterable[str] | None) -> dict[str, PropertyScope]:
    wanted = sorted(PROPERTIES if names is None else set(names))
    check_names(wanted)
    kinds = _kinds_of_run(trace, wanted)
    return {name: _scope(name, kinds) for name in wanted}


def _found(trace: TraceTables, scopes: Mapping[str, PropertyScope]) -> DataFrame | None:
    judged = {name: _condition(scope) for name, scope in scopes.items() if scope.kinds}
    return violations_of(trace, judged)


def _condition(scope: PropertyScope) -> Column | None:
    """Which runs the property is judged on, over the columns of `with_processes`; None: all."""
    return None if scope.runs == scope.of else _is_one_of(scope.kinds)


def _kinds_of_run(trace: TraceTables, wanted: Iterable[str]) -> list[Row]:
    """What decides which properties are judged, with the number of runs that have it.  Whether
    runs have a witness is asked only where it matters."""
    runs = with_processes(trace)
    kinds = _counted(runs.withColumn("is_witnessed", F.lit(None).cast("boolean")))
    needing = [name for name in wanted if PROPERTIES[name].needs_witness]
    if any(not _reason_against(name, kind) for name in needing for kind in kinds):
        return _counted(runs.join(is_witnessed(trace), "run_id", "left"))
    return kinds


def _counted(runs: DataFrame) -> list[Row]:
    kinds = runs.groupBy(*_KIND, _kind().alias("kind"), "absent", "is_witnessed")
    return kinds.agg(F.count("*").alias("runs")).collect()


def _scope(name: str, kinds: Sequence[Row]) -> PropertyScope:
    reasons = [_reason_against(name, kind) for kind in kinds]
    judged = [kind for kind, reason in zip(kinds, reasons, strict=True) if not reason]
    of = sum(kind["runs"] for kind in kinds)
    return PropertyScope(sum(kind["runs"] for kind in judged), of, judged, reasons)


def _reason_against(name: str, kind: Row) -> str:
    """Why the property cannot be judged of runs of this kind, if so."""
    about = (name, kind["protocol"], kind["order"], kind["absent"])
    reason = reason_against(*about, complete=kind["complete"])
    if reason:
        return reason
    if PROPERTIES[name].needs_witness and kind["is_witnessed"] is False:
        return NO_WITNESS
    return ""


def _is_one_of(kinds: Sequence[Row]) -> Column:
    """Whether a row of `with_processes` is of one of these kinds, which lack no process.  Runs
    without a witness are left out by the property that needs one."""
    return (F.size("absent") == 0) & _kind().isin(*(kind["kind"] for kind in kinds))


def _kind() -> Column:
    return F.to_json(F.struct(*_KIND))


def _count_violations(trace: TraceTables, found: DataFrame | None) -> DataFrame:
    """A row for each property with violations, and one under no name that counts the events."""
    events = trace.events.agg(F.lit("").alias("property"), F.count("*").alias("violations"))
    if found is None:
        return events
    last = F.element_at("events", -1)
    when = F.struct("run_id", last["ts_ns"], last["pid"], last["n"], "what")
    example = F.struct("run_id", "what", "events")
    tallies = found.groupBy("property").agg(
        F.count("*").alias("violations"),
        F.count_distinct("run_id").alias("broken_runs"),
        F.min_by(example, when, EXAMPLES).alias("examples"),
    )
    return tallies.unionByName(events, allowMissingColumns=True)


def _example(one: Row) -> tuple[tuple[int, ...], ViolationExample]:
    """A violation with its place among others: by run, then by its last event."""
    events = tuple(map(_event, one["events"]))
    last = [events[-1][name] for name in ("ts_ns", "pid", "n")] if events else []
    return (one["run_id"], *last), ViolationExample(one["run_id"], one["what"], events)


def _obligations(trace: TraceTables, scopes: Mapping[str, PropertyScope]) -> dict[str, int]:
    """By property, how often it could have been broken on the runs that it is judged on: as its
    query counts it, or the number of events that it judges."""
    about = with_processes(trace).select("run_id", "absent", _kind().alias("about"))
    counts = trace.events.groupBy("run_id", "kind").count().join(F.broadcast(about), "run_id")
    rows = counts.groupBy("about", "absent", "kind").agg(F.sum("count").alias("events")).collect()
    found = {}
    for name, scope in scopes.items():
        judged = {(kind["kind"], tuple(kind["absent"])) for kind in scope.kinds}
        mine = (row for row in rows if (row["about"], tuple(row["absent"])) in judged)
        found[name] = sum(row["events"] for row in mine if row["kind"] in EXERCISED_BY[name])
        count = PROPERTIES[name].obligations
        if found[name] and count is not None:
            found[name] = count(filter_runs(trace, _condition(scope))).collect()[0]["obligations"]
    return found


def _event(row: Row) -> dict[str, Any]:
    return {name: value for name, value in row.asDict().items() if value is not None}
