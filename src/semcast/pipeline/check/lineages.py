"""Each lineage of a run judged by itself: groups that were founded apart share nothing.

A life is in one lineage, which its `install` events name, and so are all its events.  Nearly every
run has one lineage at most, and then the trace is judged as it is.  Otherwise the lives of the runs
with several, of which there are few, come to the driver: plans that derive them again for every
property take Spark longer to optimise than to run.
"""

from collections.abc import Callable, Sequence
from typing import Final

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from semcast.pipeline.check.event_files import kind_of
from semcast.pipeline.check.evidence import INCARNATION, of_kind
from semcast.pipeline.reading.trace import TraceTables
from semcast.terms.events import INSTALL

_LIVES: Final = "run_id bigint, pid int, inc int, own_id bigint"
_RUNS: Final = "run_id bigint, own_id bigint"
_PROCESSES: Final = "run_id bigint, pid int, own_id bigint, is_last boolean"


def by_lineage(trace: TraceTables) -> tuple[TraceTables, Callable[[DataFrame], DataFrame]]:
    """The trace with a run for each lineage, and what gives its rows the run_id that they had.

    The first lineage of a run keeps its number and whatever happened to nobody's lineage.
    """
    files = trace.events.inputFiles()
    if files and not any(kind_of(file) == INSTALL for file in files):
        return trace, lambda rows: rows
    lives = _lives(trace)
    if not lives:
        return trace, lambda rows: rows
    spark = trace.events.sparkSession
    of_life = [(row.run_id, row.pid, row.inc, row.own_id) for row in lives]
    runs = sorted({(row.run_id, row.own_id) for row in lives})
    last = {(row.run_id, row.pid): row.own_id for row in sorted(lives, key=lambda row: row.inc)}
    inside = sorted({(row.run_id, row.pid, row.own_id) for row in lives})
    of_process = [(*key, last[key[:2]] == key[2]) for key in inside]
    own = spark.createDataFrame(runs, _RUNS)
    apart = TraceTables(
        _renamed(trace.runs, own, "run_id"),
        _processes(trace.processes, spark.createDataFrame(of_process, _PROCESSES)),
        _renamed(trace.items, own, "run_id"),
        _renamed(trace.events, spark.createDataFrame(of_life, _LIVES), "run_id", *INCARNATION),
    )
    was = spark.createDataFrame(runs, "was bigint, run_id bigint")

    def restored(rows: DataFrame) -> DataFrame:
        known = rows.join(F.broadcast(was), "run_id", "left")
        return known.withColumn("run_id", F.coalesce("was", "run_id")).select(*rows.columns)

    return apart, restored


def _lives(trace: TraceTables) -> Sequence[Row]:
    """The lives of runs with several lineages, each with the number of the run of its lineage."""
    installs = of_kind(trace, INSTALL).select(
        "run_id", *INCARNATION, "n", "ts_ns", F.col("attrs")["lineage"].alias("lineage")
    )
    by_life = installs.where("lineage is not null").groupBy("run_id", *INCARNATION)
    lives = by_life.agg(F.min_by("lineage", "n").alias("lineage"), F.min("ts_ns").alias("since"))
    begins = Window.partitionBy("run_id", "lineage")
    in_run = Window.partitionBy("run_id")
    first = F.struct("begun", "lineage")
    found = (
        lives.withColumn("begun", F.min("since").over(begins))
        .withColumn("first", F.min(first).over(in_run))
        .withColumn("several", F.size(F.collect_set("lineage").over(in_run)) > 1)
        .where("several")
    )
    apart = F.xxhash64("run_id", "lineage")
    own = F.when(F.col("lineage") == F.col("first.lineage"), F.col("run_id")).otherwise(apart)
    return found.select("run_id", *INCARNATION, own.alias("own_id")).collect()


def _renamed(rows: DataFrame, own: DataFrame, *names: str) -> DataFrame:
    """Rows under the number of the run of their lineage."""
    known = rows.join(F.broadcast(own), [*names], "left")
    return known.withColumn("run_id", F.coalesce("own_id", "run_id")).select(*rows.columns)


def _processes(processes: DataFrame, inside: DataFrame) -> DataFrame:
    """In each lineage those that were in it; who went on to another is owed nothing there."""
    known = processes.join(F.broadcast(inside), ["run_id", "pid"], "left")
    correct = F.col("correct") & F.coalesce("is_last", F.lit(True))
    named = known.withColumns({"correct": correct, "run_id": F.coalesce("own_id", "run_id")})
    return named.select(*processes.columns)
