"""A new field of events is one entry of the table in `terms/events.py`."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql.types import StructType

ROOT = Path(__file__).parents[2]
ENTRY = """
    weight: Annotated[int, _number("its weight", kinds=frozenset((DELIVER, STABLE)))] = 0
    owners: Annotated[
        tuple[int, ...],
        Column(type=INT32_LIST, meaning="its owners", is_process=True, journal=VIEWS),
    ] = ()
"""
RECORD = """
from pathlib import Path
from semcast.terms.events import DELIVER, STABLE, Event
from semcast.terms.messages import DataMessage
from semcast.traces.journal import Journal
from semcast.traces.journal_file import JournalHeader
from semcast.traces.parquet import TraceWriter, read_trace
from semcast.traces.schema import RunInfo

def events():
    sent = DataMessage(0, 1, payload=b"x")
    return [
        Event(DELIVER, 0, 0, 1, sent, weight=7, n=1),
        Event(STABLE, 0, 0, 1, weight=8, n=2, owners=(0,)),
        Event(STABLE, 0, 0, 1, n=3),
    ]

run = RunInfo(name="x", protocol="s-vsm", order="fifo", relation="item", f=0, seed=0)
with TraceWriter("written", run, ["a"]) as trace:
    trace.append(events())
    trace.close(complete=True)
about = dict(run_id=1, pid=0, names=("a",), group="g", protocol="s-vsm", order="fifo",
             relation="item", f=0)
for path, more in (("fixed", {"incarnations": (1,)}), ("views", {"incarnations": (), "inc": 1})):
    with Journal(path, JournalHeader(**about, **more)) as journal:
        journal.record(events(), 1)
for path in ("written", "fixed", "views"):
    print(path, [(event.weight, event.owners) for event in read_trace(path).events])
from semcast.pipeline.reading.spark_schema import EVENTS
print(EVENTS.json())
"""


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A copy of the package whose table has one entry more."""
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    table = tmp_path / "src" / "semcast" / "terms" / "events.py"
    before, mark, after = table.read_text().partition("\n\n# Columns that come from the run")
    assert mark
    table.write_text(before + ENTRY.rstrip() + mark + after)
    return tmp_path


def test_a_new_field_is_one_entry_of_the_table(spark, copied: Path) -> None:
    """It goes through writer, journal and reader, and arrives in Spark."""
    done = subprocess.run(
        [sys.executable, "-c", RECORD],
        cwd=copied,
        env={**os.environ, "PYTHONPATH": str(copied / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    *told, schema = done.stdout.splitlines()
    assert told == [
        "written [(7, ()), (8, (0,)), (0, ())]",
        "fixed [(7, ()), (8, ()), (0, ())]",  # `owners` belongs to groups with views
        "views [(7, ()), (8, (0,)), (0, ())]",
    ]
    for path in ("written", "fixed", "views"):
        reader = spark.read.schema(StructType.fromJson(json.loads(schema)))
        rows = reader.parquet(f"file://{copied / path / 'events'}").orderBy("n").collect()
        assert [row["weight"] for row in rows] == [7, 8, None]
        assert [row["owners"] for row in rows] == [None, None if path == "fixed" else [0], None]
