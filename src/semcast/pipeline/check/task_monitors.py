"""The runs of a small trace, judged by the monitors in tasks: one task holds the events of one run.

The tables of a trace meet by run, in one shuffle; what comes back is a row for each run and
property.  The queries take Spark 20 to 35 s of processor time to plan, whatever they read, so they
are for larger traces.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from semcast.pipeline.reading.trace import TraceTables
from semcast.specs.run_check import CheckResults
from semcast.specs.verdict import EXAMPLES, ViolationExample
from semcast.traces.schema import EVENT_COLUMNS, EVENTS, ProcessInfo, RunInfo, arrow_schema

# One row for each run and property; under no name the number of events.
_RESULTS: Final = (
    "run_id bigint, property string, judged int, violations bigint, obligations bigint, "
    "reasons array<string>, examples string"
)
_SCHEMA: Final = arrow_schema(EVENT_COLUMNS)


def add_from_tasks(trace: TraceTables, names: Sequence[str], results: CheckResults) -> None:
    """Judge the named properties of all runs in tasks, and add to the results."""
    inside = F.collect_list(F.struct("pid", "name", "correct")).alias("processes")
    processes = trace.processes.groupBy("run_id").agg(inside)
    runs = trace.runs.join(processes, "run_id", "left").groupBy("run_id")
    judged = runs.cogroup(trace.events.groupBy("run_id")).applyInArrow(_judge(names), _RESULTS)
    first = F.min_by("examples", F.when(F.col("violations") > 0, F.col("run_id")), EXAMPLES)
    rows = judged.groupBy("property").agg(
        F.count("*").alias("runs"),
        F.sum("judged").alias("judged"),
        F.sum("violations").alias("violations"),
        F.count_if(F.col("violations") > 0).alias("broken_runs"),
        F.sum("obligations").alias("obligations"),
        F.array_distinct(F.flatten(F.collect_set("reasons"))).alias("reasons"),
        F.when(F.col("property") != "", first).alias("examples"),
    )
    for row in rows.collect():
        if not row["property"]:
            results.runs += row["runs"]
            results.events += row["violations"]
            continue
        results.add(
            row["property"],
            runs=row["judged"],
            violations=row["violations"],
            broken_runs=row["broken_runs"],
            examples=[one for text in row["examples"] or () for one in _examples(text)],
            obligations=row["obligations"],
            reasons=row["reasons"],
        )


def _judge(names: Sequence[str]) -> Callable[[pa.Table, pa.Table], pa.Table]:
    def judge(runs: pa.Table, events: pa.Table) -> pa.Table:  # Spark reads these types.
        return pa.Table.from_pylist(list(_results(runs, events, names)), _ROW)

    return judge


_ROW: Final = pa.schema(
    [
        ("run_id", pa.int64()),
        ("property", pa.string()),
        ("judged", pa.int32()),
        ("violations", pa.int64()),
        ("obligations", pa.int64()),
        ("reasons", pa.list_(pa.string())),
        ("examples", pa.string()),
    ]
)


def _results(runs: Any, events: Any, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Rows of `_RESULTS` for one run; none for events of a run that the trace does not list."""
    from semcast.fleet.trace_verdict import judge_run
    from semcast.traces.recorded_events import CODES, RecordedEvents

    for row in runs.to_pylist():
        listed = {one["pid"]: ProcessInfo(**one) for one in row.pop("processes") or ()}
        run = RunInfo(**{**row, "parameters": dict(row["parameters"] or ())})
        kind = pc.index_in(events["kind"], pa.array(CODES)).cast(pa.int8())
        table = events.select(_SCHEMA.names).cast(_SCHEMA).append_column("kind", kind)
        table = table.combine_chunks()  # To take rows from many chunks takes long.
        results = CheckResults()
        recorded = RecordedEvents(table if table.num_rows else None, EVENTS)
        judge_run(run, [listed[pid] for pid in sorted(listed)], recorded, names, results)
        head = {"run_id": run.run_id, "obligations": 0, "reasons": [], "judged": 1}
        yield {**head, "property": "", "violations": results.events}
        for name in names:
            yield {
                **head,
                "property": name,
                "judged": results.judged.get(name, 0),
                "violations": results.counts.get(name, 0),
                "obligations": results.obligations.get(name, 0),
                "reasons": sorted(results.reasons.get(name, ())),
                "examples": msgspec.json.encode(results.examples.get(name, ())).decode(),
            }


def _examples(text: str) -> list[tuple[tuple[int, ...], ViolationExample]]:
    return msgspec.json.decode(text, type=list[tuple[tuple[int, ...], ViolationExample]])
