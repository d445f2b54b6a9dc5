"""From a trace directory to the staged files of a batch.

The small tables must fit together, or the trace is refused; of the events, single rows are.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pyspark.sql import Column, DataFrame, Observation, SparkSession, Window
from pyspark.sql import functions as F

from semcast.pipeline.lake.batch_files import (
    StagedCounts,
    count_rows,
    origin,
    run_id_of,
    write_events,
    write_quarantine,
)
from semcast.pipeline.reading import spark_schema
from semcast.pipeline.reading.trace import file_name
from semcast.terms.events import DELIVER, MULTICAST, PURGE, RECEIVE
from semcast.traces.arrow import pyarrow
from semcast.traces.errors import BadFile
from semcast.traces.files import new_file
from semcast.traces.schema import (
    EVENTS,
    ITEM_COLUMNS,
    ITEMS,
    PROCESS_COLUMNS,
    PROCESSES,
    QUARANTINE,
    RUN_COLUMNS,
    RUNS,
    arrow_schema,
)
from semcast.traces.trace_files import files_of

_OF_A_MESSAGE: Final = (MULTICAST, RECEIVE, DELIVER, PURGE)


def stage(spark: SparkSession, path: Path, batch: str, staging: Path) -> StagedCounts:
    """Write everything of a trace that was examined; the events are read by Spark."""
    ids = _stage_runs(path, batch, staging)
    _copy(path / PROCESSES, PROCESS_COLUMNS, ids, staging / PROCESSES)
    _copy(path / ITEMS, ITEM_COLUMNS, ids, staging / ITEMS)
    _stage_events(spark, path, ids, staging)
    rows, quarantined = count_rows(staging / EVENTS), count_rows(staging / QUARANTINE)
    if rows + quarantined != count_rows(path / EVENTS):
        raise BadFile(f"{path / EVENTS}: changed while it was read; try again")
    return StagedCounts(len(ids), rows, quarantined)


def _stage_runs(path: Path, batch: str, staging: Path) -> dict[int, int]:
    """Write the runs under new ids; old → new."""
    ids: dict[int, int] = {}
    rows = []
    for file in files_of(path / RUNS):
        for run in _table(file, RUN_COLUMNS).to_pylist():
            run_id = run["run_id"]
            if run_id is None or run_id in ids:
                problem = "is missing" if run_id is None else f"{run_id} stands there twice"
                raise BadFile(f"{file}: run_id {problem}")
            ids[run_id] = run_id_of(batch, run_id)
            known = {**dict(run["parameters"] or ()), **origin(batch, path, run_id)}
            rows.append({**run, "run_id": ids[run_id], "parameters": sorted(known.items())})
    target = staging / RUNS
    target.mkdir()
    table = pyarrow().Table.from_pylist(rows, schema=arrow_schema(RUN_COLUMNS))
    pyarrow("parquet").write_table(table, new_file(target / "part.parquet"), compression="zstd")
    return ids


def _copy(path: Path, columns: Mapping[str, str], ids: Mapping[int, int], target: Path) -> None:
    """A small table under the new ids, a file of it at a time."""
    pa, pc = pyarrow(), pyarrow("compute")
    old, new = pa.array(list(ids)), pa.array(list(ids.values()))
    target.mkdir()
    for number, file in enumerate(files_of(path)):
        table = _table(file, columns)
        among = pc.index_in(table["run_id"], old)
        if among.null_count:
            lost = table["run_id"].filter(pc.is_null(among))[0].as_py()
            raise BadFile(f"{file}: run_id {lost} is not in {RUNS}")
        table = table.set_column(0, "run_id", new.take(among.combine_chunks()))
        new = new_file(target / f"{number:05}.parquet")
        pyarrow("parquet").write_table(table, new, compression="zstd")


def _table(file: Path, columns: Mapping[str, str]) -> Any:
    dataset = pyarrow("dataset")
    return dataset.dataset(file, schema=arrow_schema(columns), format="parquet").to_table()


def _stage_events(spark: SparkSession, path: Path, ids: Mapping[int, int], staging: Path) -> None:
    judged = _judged(spark, path, ids)
    seen = Observation()
    observed = judged.observe(seen, F.count("reason").alias("bad"))
    good = observed.where("reason IS NULL").withColumn("run_id", F.col("lake_id"))
    write_events(good, staging)
    if seen.get["bad"]:  # They are few, if any: read again only then.
        write_quarantine(judged.where("reason IS NOT NULL"), staging)


def _judged(spark: SparkSession, path: Path, ids: Mapping[int, int]) -> DataFrame:
    """The events with their runs' ids in the lake, and what is wrong with a row, or null."""
    pa = pyarrow()
    runs = spark.createDataFrame(
        pa.table({"run_id": pa.array(ids), "lake_id": pa.array(ids.values())})
    )
    processes = spark.read.schema(spark_schema.PROCESSES).parquet(f"file://{path / PROCESSES}")
    known = processes.select("run_id", "pid", F.lit(True).alias("is_known")).distinct()
    events = (
        spark.read.schema(spark_schema.EVENTS)
        .parquet(f"file://{path / EVENTS}")
        .select(
            "*",
            file_name(F.col("_metadata.file_path")).alias("file"),
            (F.col("_metadata.row_index") + 1).alias("row"),
        )
        .join(F.broadcast(runs), "run_id", "left")
        .join(F.broadcast(known), ["run_id", "pid"], "left")
    )
    # A sender's multicasts bear growing numbers; its own `n` says in which order it sent them.
    stream = Window.partitionBy("run_id", "pid", "inc", "sender").orderBy("n")
    highest = F.max("seq").over(stream.rowsBetween(Window.unboundedPreceding, -1))
    is_multicast = F.col("kind") == MULTICAST
    sent = events.where(is_multicast).withColumn("highest", highest)
    rest = events.where(~is_multicast).withColumn("highest", F.lit(None).cast("bigint"))
    column, reason = _row_problem()
    return sent.unionByName(rest).withColumns({"column": column, "reason": reason})


def _row_problem() -> tuple[Column, Column]:
    """The column and the reason of the first thing wrong with a row."""
    seq, is_message = F.col("seq"), F.col("kind").isin(*_OF_A_MESSAGE)
    missing = F.lit("is missing")
    faults = [(F.col(name).isNull(), name, missing) for name in ("run_id", "pid", "n", "ts_ns")]
    faults += [
        (F.col("lake_id").isNull(), "run_id", _formatted("{} is not in runs", "run_id")),
        (F.col("is_known").isNull(), "pid", _formatted("{} is not in processes", "pid")),
        (is_message & F.col("sender").isNull(), "sender", missing),
        (is_message & seq.isNull(), "seq", missing),
        (is_message & (seq < 1), "seq", _formatted("{} is not 1 or more", "seq")),
        (seq == F.col("highest"), "seq", _formatted("{} is a duplicate", "seq")),
        (seq < F.col("highest"), "seq", _formatted("{} comes after {}", "seq", "highest")),
    ]
    column, reason = F.lit(None).cast("string"), F.lit(None).cast("string")
    for is_wrong, name, why in reversed(faults):
        column = F.when(is_wrong, F.lit(name)).otherwise(column)
        reason = F.when(is_wrong, why).otherwise(reason)
    return column, reason


def _formatted(text: str, *columns: str) -> Column:
    return F.format_string(text.replace("{}", "%s"), *columns)
