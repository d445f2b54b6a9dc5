"""Runs spread over Spark tasks, their outcomes wave by wave.

A task takes a pack of runs that together last a few seconds, as far as the runs before tell; the
last runs are dealt out singly.  A wave is a job of some tasks, at most an eighth of the slots, so
it is small enough to be held here.  One more wave is under way than keeps every slot busy: no slot
waits for the slowest task of a wave.  Nothing of this enters the outcomes.
Rejected: all runs as one job, which shows nothing before its end and loses all to a crash.
"""

from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing
from typing import Any, Final
from uuid import uuid4

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import DoubleType, StringType, StructField, StructType

from semcast.pipeline.sweep.outcome_store import OutcomeStore
from semcast.pipeline.sweep.runs import SweepRun, task_function
from semcast.terms.errors import SemcastError

TASK_S: Final = 3.0
TASKS_MIN: Final = 4  # in a wave: what a job costs beside its tasks is shared
JOBS_MAX: Final = 8  # waves that together fill all slots

SCHEMA: Final = StructType(
    [
        StructField("key", StringType()),
        StructField("row", StringType()),
        StructField("error", StringType()),
        StructField("wall_s", DoubleType()),
        StructField("cpu_s", DoubleType()),
    ]
)


class SweepJobError(SemcastError):
    """Spark could not run a wave; what was committed stays."""


class TaskPlanner:
    """Cuts waves from what waits, by how long runs have taken so far."""

    def __init__(self, runs: Sequence[SweepRun], slots: int, task_s: float) -> None:
        self.waiting = deque(runs)
        self.slots = slots
        self.tasks = max(TASKS_MIN, -(-slots // JOBS_MAX))
        self.jobs = 1 + -(-slots // self.tasks)
        self.task_s = task_s
        self._done = 0
        self._took_s = 0.0

    def next_job(self) -> list[list[SweepRun]]:
        """Packs for the tasks of one wave."""
        return [self._next_task() for _ in range(self.tasks) if self.waiting]

    def on_job_done(self, table: pa.Table) -> None:
        """Learn from a wave that has come back."""
        self._done += table.num_rows
        self._took_s += sum(table.column("wall_s").to_pylist())

    def _next_task(self) -> list[SweepRun]:
        fitting = int(self.task_s * self._done / max(self._took_s, 1e-9))
        fair = -(-len(self.waiting) // self.slots)
        return [self.waiting.popleft() for _ in range(max(1, min(fitting, fair)))]


def slots_of(spark: SparkSession) -> int:
    """How many tasks can run at once: into so many parts Spark cuts a range by itself."""
    parts = spark.range(1 << 16).select(sf.spark_partition_id().alias("part"))
    [[last]] = parts.agg(sf.max("part")).collect()
    return int(last) + 1


def run_jobs(
    spark: SparkSession, runs: Sequence[SweepRun], *, task_s: float = TASK_S
) -> Generator[pa.Table, None, None]:
    """The outcomes of all runs, a wave at a time, as they come; closing it ends what runs."""
    packing = TaskPlanner(runs, slots_of(spark), task_s)
    tag = f"semcast-{uuid4()}"
    pool = ThreadPoolExecutor(packing.jobs)
    under_way: set[Future[pa.Table]] = set()
    try:
        while packing.waiting or under_way:
            while packing.waiting and len(under_way) < packing.jobs:
                under_way.add(pool.submit(_run_job, spark, packing.next_job(), tag))
            done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
            for wave in done:
                table = wave.result()
                packing.on_job_done(table)
                yield table
    except PySparkException as error:
        raise SweepJobError(
            f"spark: job failed: {_line(error)}; finished runs are saved, "
            "run the command again to resume"
        ) from error
    finally:
        if under_way:
            spark.interruptTag(tag)
        pool.shutdown(cancel_futures=True)


def run_and_store(
    waves: OutcomeStore,
    spark: SparkSession,
    runs: Sequence[SweepRun],
    on_wave: Callable[[pa.Table], Any],
    *,
    task_s: float = TASK_S,
) -> None:
    """Run them all and keep every wave as it comes."""
    with closing(run_jobs(spark, runs, task_s=task_s)) as tables:
        for table in tables:
            waves.commit(table)
            on_wave(table)


def _run_job(spark: SparkSession, packs: list[list[SweepRun]], tag: str) -> pa.Table:
    spark.addTag(tag)  # It marks what this thread starts.
    tasks = spark.range(0, len(packs), 1, len(packs))
    return tasks.mapInArrow(task_function(packs), SCHEMA).toArrow()


def _line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
