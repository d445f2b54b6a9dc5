"""One Spark session for all tests of the pipeline.

`SEMCAST_TEST_MASTER` (local-cluster[2,1,1024]) or `SEMCAST_TEST_REMOTE` (sc://HOST:PORT) runs the
same tests elsewhere.
"""

import importlib.util
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet
import pytest
from pyspark.sql import SparkSession

from semcast.cli.main import main
from semcast.pipeline.reading.trace import TraceTables, read_trace
from semcast.pipeline.spark_session import SparkTarget, open_session
from semcast.terms.events import DELIVER, MULTICAST, SKIP, Event
from semcast.terms.messages import DataMessage
from semcast.traces.distance_tracker import DistanceTracker
from semcast.traces.event_rows import row_of
from semcast.traces.parquet import TraceWriter
from semcast.traces.schema import EVENT_COLUMNS, PROCESS_COLUMNS, RUN_COLUMNS, RunInfo, arrow_schema
from semcast.traces.tables import event_table, write_table

# A JVM that compiles quickly rather than well, and starts with room for what it will load.
SHORT_LIFE = (
    "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m "
    "-XX:+UseSerialGC -XX:MetaspaceSize=256m -Xms1g -Xmn600m"
)
# Queries of a few rows: to compile a plan, or to make it anew after each stage, takes longer.
AS_PLANNED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Two cores, two partitions, plans as they are; elsewhere as for users."""
    remote, master = os.environ.get("SEMCAST_TEST_REMOTE"), os.environ.get("SEMCAST_TEST_MASTER")
    conf = {"spark.sql.shuffle.partitions": "2"}
    if remote is None:
        conf["spark.driver.extraJavaOptions"] = SHORT_LIFE
    if remote is None and master is None:
        conf |= AS_PLANNED
    target = SparkTarget(master or "local[2]", remote, conf)
    opened = open_session(target)
    yield opened
    opened.stop()


class Finished(NamedTuple):
    """A command that ended: its exit code and what it printed."""

    code: int
    out: str
    err: str

    @property
    def answer(self) -> dict[str, Any]:
        """The one JSON object, alone on standard output."""
        [line] = self.out.splitlines()
        found = json.loads(line, parse_constant=pytest.fail)
        assert isinstance(found, dict)
        return found


@pytest.fixture
def semcast(spark: SparkSession, capfd: pytest.CaptureFixture[str]) -> Callable[..., Finished]:
    """`semcast("lake", "ls", path)` gives what the command did; on Spark, in the open session:
    a JVM that a command started for itself would stay, with its options, for all later tests."""

    def run(*argv: object) -> Finished:
        code = main([str(word) for word in argv])
        return Finished(code, *capfd.readouterr())

    return run


@pytest.fixture
def record() -> Callable[..., Path]:
    """`record(path, seed=2)` writes the trace of a small run there."""
    return write_trace


def write_trace(path: Path, events: list[Event] | None = None, **run: Any) -> Path:
    """A trace of two processes, a and b; a sends three messages, of which b never gets one."""
    described = {"name": "demo", "protocol": "s-rm", "order": "fifo", "relation": "item"}
    first, second = DataMessage(0, 1, item=5, payload=b"x"), DataMessage(0, 2, payload=b"y")
    third = DataMessage(0, 3, item=5, payload=b"z")
    if events is None:
        events = [
            *(
                Event(MULTICAST, 0, 0, seq, message, n=seq, ts_ns=10 * seq)
                for seq, message in enumerate((first, second, third), 1)
            ),
            Event(SKIP, 1, 0, 1, by_seq=3, n=1, ts_ns=35),
            Event(DELIVER, 1, 0, 2, second, n=2, ts_ns=40),
            Event(DELIVER, 1, 0, 3, third, n=3, ts_ns=41),
        ]
    about = RunInfo(**{**described, "f": 0, "seed": 1, **run})
    with TraceWriter(path, about, ["a", "b"], items={5: "price"}) as trace:
        trace.append(events)
        trace.close(complete=True)
    return path


@pytest.fixture(scope="session")
def as_trace(spark: SparkSession) -> Callable[[Path, Sequence[Any]], TraceTables]:
    """`as_trace(folder, runs)` records executions as one trace, numbered from 1."""
    return partial(_as_trace, spark)


@pytest.fixture(scope="session")
def write_executions() -> Callable[[Path, Sequence[Any]], None]:
    """The same without Spark."""
    return _write_executions


def _as_trace(spark: SparkSession, folder: Path, runs: Sequence[Any]) -> TraceTables:
    _write_executions(folder, runs)
    return read_trace(spark, folder)


def _write_executions(folder: Path, runs: Sequence[Any]) -> None:
    rows: dict[str, list[Any]] = {}
    ids: dict[str, list[int]] = {}
    for run_id, run in enumerate(runs, 1):
        distances = DistanceTracker(run.relation)
        for event in run.events:
            rows.setdefault(event.kind, []).append(row_of(event, distances))
            ids.setdefault(event.kind, []).append(run_id)
    for kind in rows:
        table = event_table(0, rows[kind], arrow_schema(EVENT_COLUMNS))
        table = table.set_column(0, "run_id", pa.array(ids[kind], pa.int64()))
        path = folder / "events" / f"kind={kind}" / "part-0.parquet"
        path.parent.mkdir(parents=True)
        pyarrow.parquet.write_table(table, path)
    about = [
        (
            i,
            "",
            r.protocol,
            r.order,
            r.relation,
            r.f,
            0,
            r.complete,
            [*({"skew_ms": "0"} | r.parameters).items()],
        )
        for i, r in enumerate(runs, 1)
    ]
    processes = [
        (i, pid, "", pid not in r.crashed) for i, r in enumerate(runs, 1) for pid in range(r.n)
    ]
    write_table(folder / "runs.parquet", RUN_COLUMNS, about)
    write_table(folder / "processes.parquet", PROCESS_COLUMNS, processes)


@pytest.fixture(scope="session")
def executions() -> ModuleType:
    """The package `executions`: test modules are imported by path, so they cannot import it."""
    folder = Path(__file__).with_name("executions")
    spec = importlib.util.spec_from_file_location("executions", folder / "__init__.py")
    assert spec is not None
    assert spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = package  # where its modules look for it
    spec.loader.exec_module(package)
    return package
