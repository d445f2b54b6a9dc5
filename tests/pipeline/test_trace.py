"""Traces as DataFrames; whatever is wrong with one is said with the file and the column."""

import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from semcast.pipeline.reading import spark_schema
from semcast.pipeline.reading.trace import read_trace
from semcast.terms.events import MULTICAST, Event
from semcast.terms.messages import DataMessage
from semcast.traces.errors import BadFile
from semcast.traces.journal import Journal
from semcast.traces.journal_file import JournalHeader
from semcast.traces.schema import EVENT_COLUMNS, arrow_schema
from semcast.traces.trace_files import check_trace_files


def test_a_recorded_run(spark, tmp_path, record):
    trace = read_trace(spark, record(tmp_path / "t"))
    assert trace.events.schema == spark_schema.EVENTS
    assert trace.runs.schema == spark_schema.RUNS
    rows = trace.events.orderBy("pid", "n").collect()
    assert [(row.kind, row.seq, row.dist) for row in rows] == [
        ("multicast", 1, None),
        ("multicast", 2, None),
        ("multicast", 3, 2),
        ("skip", 1, None),
        ("deliver", 2, None),
        ("deliver", 3, 2),
    ]
    assert [row.name for row in trace.processes.orderBy("pid").collect()] == ["a", "b"]
    assert trace.items.first().asDict() == {"run_id": 1, "item": 5, "name": "price"}


HEADER = JournalHeader(
    run_id=7,
    pid=0,
    names=("a",),
    incarnations=(9,),
    group="g",
    protocol="s-rm",
    order="fifo",
    relation="item",
    f=0,
)


def test_a_live_process_that_was_killed(spark, tmp_path):
    """Without items: that table is optional."""
    journal = Journal(tmp_path, HEADER)
    journal.record([Event(MULTICAST, 0, 0, 1, DataMessage(0, 1, payload=b"x"))], 5)
    with pytest.raises(BadFile, match=r"no runs.parquet \(still being written: 7-0-9.journal\)"):
        read_trace(spark, tmp_path)
    journal._release()  # as the kernel does for a process that is killed
    trace = read_trace(spark, tmp_path)
    assert trace.events.select("run_id", "inc", "ts_ns").collect() == [(7, 9, 5)]
    assert trace.items.count() == 0


def rewrite(path, change):
    [file] = path.glob("*.parquet") if path.is_dir() else [path]
    table = change(pq.ParquetFile(file).read())
    pq.write_table(table, file)
    return file


@pytest.mark.parametrize("column", ["run_id", "pid", "inc", "n", "ts_ns", "sender", "seq"])
def test_a_missing_column(tmp_path, record, column):
    kind = record(tmp_path) / "events" / "kind=deliver"
    file = rewrite(kind, lambda table: table.drop_columns([column]))
    with pytest.raises(BadFile) as caught:
        check_trace_files(tmp_path)
    assert str(caught.value) == f"{file}: not part of a trace of this version: no column {column}"


def test_a_column_of_another_type(tmp_path, record):
    kind = record(tmp_path) / "events" / "kind=deliver"
    cast = lambda table: table.set_column(9, "seq", table["seq"].cast(pa.string()))  # noqa: E731
    file = rewrite(kind, cast)
    with pytest.raises(BadFile) as caught:
        check_trace_files(tmp_path)
    assert str(caught.value) == f"{file}: column seq is string, must be int64"


def test_a_small_table_of_another_type(tmp_path, record):
    path = record(tmp_path) / "runs.parquet"
    rewrite(path, lambda table: table.drop_columns(["complete"]))
    with pytest.raises(BadFile, match=r"runs.parquet: .*no column complete"):
        check_trace_files(tmp_path)


def test_narrower_numbers_do(spark, tmp_path, record):
    kind = record(tmp_path) / "events" / "kind=skip"
    rewrite(kind, lambda table: table.set_column(9, "seq", table["seq"].cast(pa.int32())))
    assert read_trace(spark, tmp_path).events.where("kind = 'skip'").first().seq == 1


def test_an_unknown_kind(tmp_path, record):
    events = record(tmp_path) / "events"
    (events / "kind=skip").rename(events / "kind=guess")
    with pytest.raises(
        BadFile, match=r"kind=guess: kind: unknown value 'guess'; allowed: acknowledge"
    ):
        check_trace_files(tmp_path)
    (events / "kind=guess").rename(events / "skip")
    with pytest.raises(BadFile, match=r"not in a folder kind=KIND"):
        check_trace_files(tmp_path)


def test_an_empty_trace(tmp_path, record):
    shutil.rmtree(record(tmp_path) / "events")
    (tmp_path / "events").mkdir()
    with pytest.raises(BadFile, match=r"events: empty, this trace has no events"):
        check_trace_files(tmp_path)


@pytest.mark.parametrize("part", ["runs.parquet", "processes.parquet", "events"])
def test_a_half_written_trace(tmp_path, record, part):
    path = record(tmp_path) / part
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    with pytest.raises(BadFile, match=f"not a trace, or one that was not finished: no {part}"):
        check_trace_files(tmp_path)


def test_a_torn_file(tmp_path, record):
    file = record(tmp_path) / "events" / "kind=deliver" / "part-0.parquet"
    file.write_bytes(file.read_bytes()[:-10])
    with pytest.raises(BadFile, match=r"part-0.parquet: cannot be read as Parquet of a trace: "):
        check_trace_files(tmp_path)


def test_a_journal_of_another_version(tmp_path):
    (tmp_path / "journals").mkdir()
    (tmp_path / "journals" / "1-0-1.journal").write_bytes(b"semcast\x09")
    with pytest.raises(BadFile, match=r"1-0-1.journal: not a journal that this version can read"):
        check_trace_files(tmp_path)


def test_one_definition(tmp_path):
    """What Spark and Arrow are told of events is the same."""
    assert spark_schema.EVENTS.names == [*arrow_schema(EVENT_COLUMNS).names, "kind"]
