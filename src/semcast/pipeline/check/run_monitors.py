"""Properties that monitors judge, in tasks: each run is one, its events ordered as in `specs`.

What has no faster form over columns is judged by the monitor itself, so that it is defined once.  A
task holds the columns of one run and makes events of them a few thousand at a time.
"""

from collections.abc import Iterable, Mapping
from json import loads
from math import inf
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from semcast.pipeline.check.run_facts import SKEW, with_processes
from semcast.pipeline.check.violations import VIOLATIONS, arrow_rows
from semcast.pipeline.reading.trace import TraceTables
from semcast.specs.interleaving import Interleaving
from semcast.specs.monitors import Monitors, RunFacts
from semcast.specs.run_check import causes_of
from semcast.specs.verdict import shown
from semcast.specs.violations import Violation
from semcast.terms.events import ATTRIBUTES
from semcast.terms.promises import PRIMARY, protocols_with
from semcast.traces.recorded_events import CODES, RecordedEvents
from semcast.traces.schema import EVENT_COLUMNS, RunInfo

NAMES: Final = (
    "semantic_integrity",
    "exactly_once_requests",
    "acknowledged_survives",
    "replica_equality",
    "never_blocked",
    "refused_never_executed",
    "sequential_consistency",
)
IN_VIEWS: Final = ("purge_safety",)  # Without views, columns judge them.
HAVE_VIEWS: Final = protocols_with(PRIMARY)


def violations(trace: TraceTables, judged: Mapping[str, Column | None]) -> DataFrame:
    """The violations of the named properties, each on the runs of which its condition holds
    (over the columns of `run_facts.with_processes`; None: on all)."""
    names = (
        F.lit(name) if condition is None else F.when(condition, F.lit(name))
        for name, condition in judged.items()
    )
    wanted = F.filter(F.array(*names), lambda name: name.isNotNull())
    facts_of_run = F.struct(
        *("protocol", "order", "relation", "parameters", "complete", "correct", "judged"),
        F.coalesce("f", F.lit(0)).alias("f"),
        (F.coalesce(F.array_max("pids"), F.lit(-1)) + 1).alias("n"),
    )
    runs = with_processes(trace).withColumn("judged", wanted).where(F.size("judged") > 0)
    facts = runs.select("run_id", F.to_json(facts_of_run).alias("run"))
    events = trace.events.join(F.broadcast(facts), "run_id")
    return events.groupBy("run_id").applyInArrow(_judge, VIOLATIONS)


def _judge(table: pa.Table) -> pa.Table:
    run, run_id = loads(table["run"][0].as_py()), table["run_id"][0].as_py()
    parameters = run.get("parameters", {})
    about = (run["protocol"], run["order"], run["relation"])
    n = max(run["n"], run["f"] + 1)  # A lineage may have fewer processes than its run.
    facts = RunFacts(*about, run["f"], n, parameters)
    monitors = Monitors(*facts)
    info = RunInfo(
        name="",
        protocol=run["protocol"],
        order=run["order"],
        relation=run["relation"],
        f=run["f"],
        seed=0,
        run_id=run_id,
    )
    recorded = _recorded(table)
    streams = recorded.by_process(info, n)
    try:
        skew_ns = float(parameters.get(SKEW, "inf")) * 1e6
    except ValueError:
        skew_ns = inf
    monitors.on_events(Interleaving(streams, causes_of(facts, monitors.names), skew_ns=skew_ns))
    monitors.on_end(frozenset(run["correct"]), complete=run["complete"])
    found = [one for one in monitors.violations if one.property in run["judged"]]
    return pa.Table.from_pylist(_rows(run_id, found, monitors.counts), schema=arrow_rows())


def _recorded(table: pa.Table) -> RecordedEvents:
    codes = pc.index_in(table["kind"], pa.array(CODES)).cast(pa.int8())
    columns = {name: table[name] for name in EVENT_COLUMNS}
    return RecordedEvents(pa.table({**columns, "kind": codes}), "events")


def _rows(
    run_id: int, found: Iterable[Violation], counts: Mapping[str, int]
) -> list[dict[str, Any]]:
    """One row for each violation; those that a monitor counted and did not keep are as the last."""
    rows: dict[str, list[dict[str, Any]]] = {}
    names = ATTRIBUTES["note"].names
    for one in found:
        events = [shown(event, names[event.kind]) for event in one.events]
        row = {"run_id": run_id, "property": one.property, "what": one.explanation}
        rows.setdefault(one.property, []).append({**row, "events": events})
    for name, some in rows.items():
        some += [some[-1]] * (counts[name] - len(some))
    return [row for some in rows.values() for row in some]
