"""Kills writers of a lake with `kill -9`, at every step and anywhere, and counts what is left.

Each round a process ingests or compacts and is killed, at a step of the commit or after a random
time; then Spark and DuckDB count, and both must find every batch whole or not at all.  At the end
everything is ingested once more, and nothing may be missing or double.

    python bench/kills.py --rounds 20 --seed 1
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from random import Random

import duckdb
from pyspark.sql import SparkSession

from semcast.pipeline.lake.compact import compact
from semcast.pipeline.lake.ingest import ingest
from semcast.pipeline.lake.lake import Lake
from semcast.pipeline.reading.keyed_text import KeyedColumns
from semcast.pipeline.reading.trace import read_trace
from semcast.pipeline.spark_session import SparkTarget, session

STEPS = ("staged", "linked", "named", "switched")
ROWS = 20_000
COLUMNS = KeyedColumns("key")


def work(lake: Path, source: str, step: str) -> None:
    """What a killed process does: `source` is a file, or "" to compact."""

    def die(done: str) -> None:
        if done == step:
            os.kill(os.getpid(), signal.SIGKILL)

    with session(SparkTarget("local[1]")) as spark:
        print("ready", flush=True)
        if source:
            ingest(spark, Lake(lake, die), source, COLUMNS)
        else:
            compact(spark, Lake(lake, die))


def kill_one(lake: Path, source: str, step: str, after_s: float) -> None:
    """Start a writer; it kills itself at the step, or is killed some time after it began."""
    command = [sys.executable, __file__, "--work", str(lake), source, step]
    writer = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
    assert writer.stdout is not None
    with writer.stdout:
        writer.stdout.readline()
        try:
            writer.wait(None if step else after_s)
        except subprocess.TimeoutExpired:
            writer.kill()
        writer.wait()
    with suppress(ProcessLookupError):
        os.killpg(writer.pid, signal.SIGKILL)  # Its JVM, too: nobody lives on to finish.


def count(spark: SparkSession, lake: Path) -> int:
    """Events, as Spark and DuckDB agree, in whole batches."""
    if not (lake / "current").exists():
        return 0
    told = sum(batch.rows for batch in Lake(lake).snapshot().batches)
    by_spark = read_trace(spark, lake).events.count()
    by_duckdb = 0
    if any((lake / "events").glob("*/*/*.parquet")):
        files = f"{lake}/events/*/*/*.parquet"
        [(by_duckdb,)] = duckdb.sql(f"SELECT count(*) FROM '{files}'").fetchall()
    assert told == by_spark == by_duckdb, (told, by_spark, by_duckdb)
    assert told % ROWS == 0
    return told


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    options.add_argument("--rounds", type=int, default=12)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--work", nargs=3, metavar=("LAKE", "SOURCE", "STEP"))
    given = options.parse_args()
    if given.work:
        work(Path(given.work[0]), *given.work[1:])
        return
    random = Random(given.seed)
    with tempfile.TemporaryDirectory() as folder, session(SparkTarget("local[1]")) as spark:
        lake = Path(folder, "lake")
        sources = []
        for number in range(6):
            sources.append(Path(folder, f"{number}.csv"))
            keys = (f"{number} {random.randrange(500)}" for _ in range(ROWS))
            sources[-1].write_text("\n".join(["key", *keys]))
        for source in sources[:2]:  # So that there is something to compact.
            ingest(spark, Lake(lake), source, COLUMNS)
        for number in range(given.rounds):
            step = (*STEPS, "")[number % (len(STEPS) + 1)]
            source = random.choice([*map(str, sources[2:]), ""])
            after_s = random.uniform(0.0, 8.0)
            kill_one(lake, source, step, after_s)
            what = Path(source).name or "compact"
            when = f"at {step}" if step else f"{after_s:.1f} s"
            print(f"{what:8} killed {when:12} {count(spark, lake):>7,} rows", flush=True)
        for source in sources:
            ingest(spark, Lake(lake), source, COLUMNS)
        assert count(spark, lake) == len(sources) * ROWS
        print(f"{given.rounds} kills: {len(sources) * ROWS:,} rows, once each, by Spark and DuckDB")


if __name__ == "__main__":
    main()
