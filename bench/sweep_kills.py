"""Sweeps killed with SIGKILL at one moment after the other, and resumed until they are done.

Each must end with the digest of a sweep that nobody killed, and with every run once, counted by
Spark and by DuckDB.  Every other time the JVM dies with the program, as when a machine goes down.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from time import monotonic, sleep

import duckdb

from semcast.pipeline.spark_session import SparkTarget, session

DEADLINE_S = 300.0
RUNS = 60
SWEEP = (
    *("sweep", "slow-receiver", "--grid", "r=0.25,0.5,7", "--grid", "delay_ms=10,20"),
    *("--set", "buffers=queue", "--set", "seconds=300", "--repeat", "10", "--master", "local[2]"),
)


def command(out: Path) -> list[str]:
    """The sweep, one command line."""
    return [sys.executable, "-m", "semcast.cli.main", *SWEEP, "--out", str(out), "--json"]


def finish(out: Path) -> dict[str, object]:
    """Run it to its end; some runs fail, on purpose."""
    done = subprocess.run(command(out), check=False, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    answer: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return answer


def kill_at(out: Path, waves: int, *, whole_group: bool) -> None:
    """Let it commit so many waves, then kill it."""
    running = subprocess.Popen(
        command(out),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    ends = monotonic() + DEADLINE_S
    while len(list(out.glob("waves/wave-*.parquet"))) < waves and running.poll() is None:
        assert monotonic() < ends, "no wave was committed"
        sleep(0.002)
    if whole_group:
        os.killpg(running.pid, signal.SIGKILL)
    else:
        running.kill()
    running.wait()


def main() -> int:
    """Kill, resume, compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=6)
    kills = parser.parse_args().kills
    with tempfile.TemporaryDirectory() as folder:
        whole = finish(Path(folder) / "whole")
        out = Path(folder) / "killed"
        for number in range(kills):
            kill_at(out, number, whole_group=bool(number % 2))
            there = len(list(out.glob("waves/wave-*.parquet")))
            print(f"killed with {there} waves committed")
        resumed = finish(out)
        files = f"{out}/results/*.parquet"
        query = "SELECT count(*), count(DISTINCT key), count(error) FROM"
        by_duckdb = duckdb.sql(f"{query} '{files}'").fetchall()[0]
        with session(SparkTarget("local[1]")) as spark:
            spark.read.parquet(f"{out}/results").createOrReplaceTempView("results")
            by_spark = tuple(spark.sql(f"{query} results").collect()[0])
    same = resumed["digest"] == whole["digest"]
    print(f"resumed with {resumed['skipped']} of {RUNS} runs there; the same digest: {same}")
    print(f"runs, distinct, failed: by Spark {by_spark}, by DuckDB {by_duckdb}")
    return 0 if same and by_spark == by_duckdb == (RUNS, RUNS, RUNS // 3) else 1


if __name__ == "__main__":
    sys.exit(main())
