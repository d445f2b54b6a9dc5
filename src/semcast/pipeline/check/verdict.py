"""The verdict on recorded executions: each property on the runs that promise it, in one job.

A property that no run promises, or that cannot be judged of those that do, is not applicable, with
the reason; it never counts as passed.  What comes back to the driver does not grow with the trace:
a count and a few examples for each property.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from semcast.pipeline.check.properties import PROPERTIES, violations_of
from semcast.pipeline.check.runs import with_processes
from semcast.pipeline.check.services import is_witnessed
from semcast.pipeline.check.violations import VIOLATIONS
from semcast.pipeline.trace import Trace
from semcast.specs.service import WITNESSLESS
from semcast.terms.errors import ConfigError, one_of
from semcast.terms.promises import promised

PASS: Final = "pass"
FAIL: Final = "fail"
NOT_APPLICABLE: Final = "not applicable"
EXAMPLES: Final = 3
_KIND: Final = ("protocol", "order", "complete")


@dataclass(frozen=True, slots=True)
class Example:
    """One violation: the run, what happened, and the events that prove it, in order."""

    run_id: int
    what: str
    events: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Judgement:
    """What was found of one property: `violations` counts all, `examples` are the first few."""

    status: str
    reason: str = ""
    violations: int = 0
    examples: tuple[Example, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found in a trace: how many events it has, and by property what was found."""

    events: int
    properties: Mapping[str, Judgement]

    @property
    def status(self) -> str:
        """Fail if a promise was broken, pass if some were judged and none was."""
        found = {judgement.status for judgement in self.properties.values()}
        return FAIL if FAIL in found else PASS if PASS in found else NOT_APPLICABLE

    @property
    def passed(self) -> bool:
        """Whether something could be judged, and nothing that was judged failed."""
        return self.status == PASS


def check(trace: Trace, names: Iterable[str] | None = None) -> Verdict:
    """Judge the named properties, or all.

    verdict = check(read_trace(spark, "out/trace"))
    assert verdict.passed, verdict.properties
    """
    scopes = _scopes(trace, names)
    rows = {row["property"]: row for row in _tally(trace, _found(trace, scopes)).collect()}
    properties = {name: _judgement(scope, rows.get(name)) for name, scope in scopes.items()}
    return Verdict(rows[""]["violations"], properties)


def check_names(names: Iterable[str]) -> None:
    """Raise `ConfigError` unless all are names of properties."""
    for name in names:
        if name not in PROPERTIES:
            raise one_of("property", name, sorted(PROPERTIES))


def violations_in(trace: Trace, names: Iterable[str] | None = None) -> DataFrame:
    """All violations of the named properties, or of all, each on the runs that promise it."""
    found = _found(trace, _scopes(trace, names))
    return trace.events.sparkSession.createDataFrame([], VIOLATIONS) if found is None else found


@dataclass(frozen=True, slots=True)
class Scope:
    """On how many runs a property is judged, of how many; of which kinds these are, or else why
    there are none."""

    runs: int
    of: int
    kinds: Sequence[Row]
    reason: str = ""


def _scopes(trace: Trace, names: Iterable[str] | None) -> dict[str, Scope]:
    wanted = sorted(PROPERTIES if names is None else set(names))
    check_names(wanted)
    kinds = _kinds_of_run(trace, wanted)
    return {name: _scope(name, kinds) for name in wanted}


def _found(trace: Trace, scopes: Mapping[str, Scope]) -> DataFrame | None:
    judged = {
        name: None if scope.runs == scope.of else _is_one_of(scope.kinds)
        for name, scope in scopes.items()
        if scope.kinds
    }
    return violations_of(trace, judged)


def _kinds_of_run(trace: Trace, wanted: Iterable[str]) -> list[Row]:
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


def _scope(name: str, kinds: Sequence[Row]) -> Scope:
    reasons = [_reason_against(name, kind) for kind in kinds]
    judged = [kind for kind, reason in zip(kinds, reasons, strict=True) if not reason]
    of = sum(kind["runs"] for kind in kinds)
    why = "; ".join(sorted(set(filter(None, reasons)))) or "the trace has no run"
    return Scope(sum(kind["runs"] for kind in judged), of, judged, "" if judged else why)


def _reason_against(name: str, kind: Row) -> str:
    """Why the property cannot be judged of runs of this kind, if so."""
    protocol, order = kind["protocol"], kind["order"]
    try:
        if name not in promised(protocol, order):
            return f"{protocol} with order {order} does not promise it"
    except ConfigError as error:
        return f"what the run promises is not known: {error}"
    if kind["absent"]:
        return f"the trace has no record of process {', '.join(map(str, kind['absent']))}"
    if PROPERTIES[name].is_liveness and not kind["complete"]:
        return "the run was not left to fall quiet"
    if PROPERTIES[name].needs_witness and kind["is_witnessed"] is False:
        return WITNESSLESS
    return ""


def _is_one_of(kinds: Sequence[Row]) -> Column:
    """Whether a row of `with_processes` is of one of these kinds, which lack no process.  Runs
    without a witness are left out by the property that needs one."""
    return (F.size("absent") == 0) & _kind().isin(*(kind["kind"] for kind in kinds))


def _kind() -> Column:
    return F.to_json(F.struct(*_KIND))


def _tally(trace: Trace, found: DataFrame | None) -> DataFrame:
    """A row for each property with violations, and one under no name that counts the events."""
    events = trace.events.agg(F.lit("").alias("property"), F.count("*").alias("violations"))
    if found is None:
        return events
    last = F.element_at("events", -1)
    when = F.struct("run_id", last["ts_ns"], last["pid"], last["n"], "what")
    example = F.struct("run_id", "what", "events")
    tallies = found.groupBy("property").agg(
        F.count("*").alias("violations"), F.min_by(example, when, EXAMPLES).alias("examples")
    )
    return tallies.unionByName(events, allowMissingColumns=True)


def _judgement(scope: Scope, row: Row | None) -> Judgement:
    if not scope.kinds:
        return Judgement(NOT_APPLICABLE, scope.reason)
    on = "" if scope.of == 1 else f"judged on {scope.runs} of {scope.of} runs"
    if row is None:
        return Judgement(PASS, on)
    examples = tuple(
        Example(one["run_id"], one["what"], tuple(map(_event, one["events"])))
        for one in row["examples"]
    )
    reason = f"{examples[0].what} ({on})" if on else examples[0].what
    return Judgement(FAIL, reason, row["violations"], examples)


def _event(row: Row) -> dict[str, Any]:
    return {name: value for name, value in row.asDict().items() if value is not None}
