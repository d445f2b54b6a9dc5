"""What goes into a lake is there once and whole, as Spark counts it and as DuckDB does."""

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F

from semcast.pipeline.lake import ingest_keyed
from semcast.pipeline.lake.batch_files import StagedCounts
from semcast.pipeline.lake.ingest import ingest
from semcast.pipeline.lake.lake import Lake
from semcast.pipeline.reading.keyed_text import KeyedColumns
from semcast.pipeline.reading.trace import read_trace
from semcast.terms.errors import ConfigError
from semcast.terms.items import item_tag
from semcast.traces.errors import BadFile
from semcast.traces.journal import Journal
from semcast.traces.journal_file import JournalHeader

CSV = "id,what,who\na,C,x\na,U,x\nb,Q,x\na,U,y\na,U,x\nb\nc,R,y\n"
KEYED = ("--key", "id", "--kind", "what", "--sender", "who")
EVENTS = "events/*/*/*.parquet"


@pytest.fixture(autouse=True)
def adaptive(spark):
    """How many files make a good size, Spark finds out as it writes them."""
    before = spark.conf.get("spark.sql.adaptive.enabled")
    spark.conf.set("spark.sql.adaptive.enabled", "true")
    yield
    spark.conf.set("spark.sql.adaptive.enabled", before)


class Killed(BaseException):
    """Nothing that handles errors handles it, as nothing handles `kill -9`."""


def query(sql, lake):
    """Ask DuckDB; `{}` stands for the lake."""
    return duckdb.sql(sql.format(lake)).fetchall()


def count(spark, lake):
    """Events in the lake, by both."""
    [(found,)] = query(f"SELECT count(*) FROM '{{}}/{EVENTS}'", lake)
    assert read_trace(spark, lake).events.count() == found
    return found


def test_a_lake_from_first_to_last(spark, semcast, tmp_path, record, monkeypatch):
    """One story, since each chapter needs the one before."""
    lake, keyed = tmp_path / "lake", tmp_path / "keyed.csv"
    keyed.write_text(CSV)
    traces = [record(tmp_path / "one", seed=1), record(tmp_path / "two", seed=2)]

    monkeypatch.chdir(tmp_path)
    done = semcast("lake", "ingest", "lake", "one", "two", "--json")
    assert done.code == 0
    assert {k: done.answer[k] for k in ("files", "rows", "quarantined", "skipped")} == {
        "files": 12,
        "rows": 12,
        "quarantined": 0,
        "skipped": 0,
    }
    done = semcast("lake", "ingest", lake, keyed, *KEYED)
    assert done.code == 0
    assert f"2 invalid rows were set aside in {lake}/quarantine" in done.out

    check_runs(lake, traces)
    check_keyed(spark, lake, keyed)

    before = sorted(lake.rglob("*"))
    moved = keyed.rename(tmp_path / "other name.csv")
    done = semcast("lake", "ingest", lake, moved, *KEYED, "--json")
    assert (done.answer["rows"], done.answer["skipped"]) == (0, 1)
    assert sorted(lake.rglob("*")) == before

    listed = semcast("lake", "ls", lake, "--json").answer
    assert (listed["rows"], listed["quarantined"]) == (17, 2)
    assert [each["rows"] for each in listed["batches"]] == [6, 6, 5]
    check_compact(spark, semcast, lake, listed["files"])
    check_screens(semcast, monkeypatch)


def check_screens(semcast, monkeypatch):
    """In the directory of the lake, so that its path is short."""
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    for columns in (60, 80, 120):
        monkeypatch.setenv("COLUMNS", str(columns))
        for command, answer in (("ls", "17 rows of 3 sources in "), ("vacuum", "deleted 0 files")):
            done = semcast("lake", command, "lake")
            lines = done.out.splitlines()
            assert (done.code, lines[0].startswith(answer)) == (0, True), done.out
            assert max(map(len, lines)) <= columns, done.out
            assert "\nnext: semcast " in done.out


def check_runs(lake, traces):
    """Both traces had the run 1; the lake tells them apart and knows where they came from."""
    rows = query(
        "SELECT run_id, seed, parameters['lake.source'], parameters['lake.run_id'],"
        " parameters['lake.batch'] FROM '{}/runs.parquet/*.parquet' WHERE protocol = 's-rm'"
        " ORDER BY seed",
        lake,
    )
    assert [row[1:4] for row in rows] == [(1, str(traces[0]), "1"), (2, str(traces[1]), "1")]
    assert len({row[0] for row in rows}) == 2
    joined = query(
        f"SELECT run_id, count(*) FROM '{{0}}/{EVENTS}' JOIN '{{0}}/processes.parquet/*.parquet'"
        " USING (run_id, pid) JOIN '{0}/runs.parquet/*.parquet' USING (run_id)"
        " WHERE protocol = 's-rm' GROUP BY 1",
        lake,
    )
    assert sorted(joined) == sorted((row[0], 6) for row in rows)
    batches = {each.id for each in Lake(lake).snapshot().batches}
    assert {row[4] for row in rows} < batches


def check_keyed(spark, lake, keyed):
    """Places are those in the file; the rows that were refused keep theirs."""
    trace = read_trace(spark, lake)
    run = trace.runs.where("protocol = 'foreign'").select("run_id")
    events = trace.events.join(run, "run_id").join(trace.processes, ["run_id", "pid"])
    named = events.join(trace.items.withColumnRenamed("name", "key"), ["run_id", "item"], "left")
    rows = named.orderBy("name", "seq").select(
        "name", "seq", "key", "item", "dist", F.col("attrs")["never_purge"]
    )
    assert [tuple(row) for row in rows.collect()] == [
        ("x", 1, "a", item_tag("a"), None, "1"),
        ("x", 2, "a", item_tag("a"), None, None),
        ("x", 4, "a", item_tag("a"), 2, None),
        ("y", 1, "a", item_tag("a"), None, None),
        ("y", 2, "c", item_tag("c"), None, "1"),
    ]
    bad = query(
        "SELECT file, row, \"column\", reason FROM '{}/quarantine/*/*.parquet' ORDER BY row", lake
    )
    assert bad == [
        (str(keyed), 4, "what", "'Q' is not one of U, C, D, R"),
        (str(keyed), 7, None, "1 cells, the first line has 3"),
    ]


def check_compact(spark, semcast, lake, files):
    old = Lake(lake).root
    done = semcast("lake", "compact", lake, "--json").answer
    assert (done["rows"], done["quarantined"]) == (17, 2)
    assert done["files"] == files - done["merged"] + done["into"]
    assert done["into"] < done["merged"]
    plain = "hive_partitioning = false"
    for table in ("runs.parquet/*", "processes.parquet/*", "items.parquet/*", EVENTS):
        rows = [
            query(f"SELECT * FROM read_parquet('{{}}/{table}', {plain}) ORDER BY ALL", root)
            for root in (old, lake)
        ]
        assert rows[0] == rows[1] != []
    assert count(spark, lake) == 17
    again = semcast("lake", "compact", lake, "--json").answer
    assert (again["merged"], again["into"]) == (0, 0)
    assert semcast("lake", "vacuum", lake, "--json").answer["deleted"] == done["merged"]
    assert count(spark, lake) == 17
    assert not old.exists()


def test_killed_before_the_commit_and_ingested_again(spark, tmp_path, record):
    """The later steps, which need no Spark, are in test_lake."""

    def kill(step):
        if step == "staged":
            raise Killed

    trace, lake = record(tmp_path / "trace"), tmp_path / "lake"
    with pytest.raises(Killed):
        ingest(spark, Lake(lake, kill), trace)
    assert any((lake / "staging" / "events").rglob("*.parquet"))
    assert Lake(lake).files() == []
    assert ingest(spark, Lake(lake), trace).is_new
    assert count(spark, lake) == 6


def with_rows(path, kind, change):
    [file] = (path / "events" / f"kind={kind}").iterdir()
    table = pq.ParquetFile(file).read()
    rows = [{**row, "attrs": None} for row in table.to_pylist()]
    pq.write_table(pa.Table.from_pylist(change(rows), schema=table.schema), file)
    return file


def test_rows_of_a_trace_that_cannot_be(spark, tmp_path, record):
    path = record(tmp_path / "trace")
    faults = [
        ({"pid": None}, "pid", "is missing"),
        ({"n": None}, "n", "is missing"),
        ({"ts_ns": None}, "ts_ns", "is missing"),
        ({"run_id": None}, "run_id", "is missing"),
        ({"run_id": 2}, "run_id", "2 is not in runs"),
        ({"pid": 7}, "pid", "7 is not in processes"),
        ({"sender": None}, "sender", "is missing"),
        ({"seq": None}, "seq", "is missing"),
        ({"seq": 0}, "seq", "0 is not 1 or more"),
    ]
    delivered = with_rows(
        path, "deliver", lambda rows: [*rows, *({**rows[0], **fault[0]} for fault in faults)]
    )
    resent = [{"n": 4, "seq": 3}, {"n": 5, "seq": 2}, {"n": 6, "seq": 4}]
    sent = with_rows(
        path, "multicast", lambda rows: [*({**rows[0], **each} for each in resent), *rows]
    )
    batch, _ = ingest(spark, Lake(tmp_path / "lake"), path)
    assert (batch.rows, batch.quarantined) == (7, 11)
    bad = query(
        "SELECT file, row, \"column\", reason FROM '{}/quarantine/*/*.parquet' ORDER BY ALL",
        tmp_path / "lake",
    )
    assert bad == [
        *((str(delivered), row, column, why) for row, (_, column, why) in enumerate(faults, 3)),
        (str(sent), 1, "seq", "3 is a duplicate"),
        (str(sent), 2, "seq", "2 comes after 3"),
    ]
    assert count(spark, tmp_path / "lake") == 7


def test_a_source_that_changes_meanwhile(tmp_path, monkeypatch):
    path = tmp_path / "x.csv"
    path.write_text("id\na\n")

    def stage(*_):
        path.write_text("id\na\nb\n")
        return StagedCounts(1, 1, 0)

    monkeypatch.setattr(ingest_keyed, "stage", stage)
    with pytest.raises(BadFile, match=r"x.csv: changed while it was read; try again"):
        ingest(None, Lake(tmp_path / "lake"), path, KeyedColumns("id"))
    assert Lake(tmp_path / "lake").snapshot().batches == []


def test_an_empty_file(spark, tmp_path):
    (tmp_path / "x.csv").write_text("id\n")
    with pytest.raises(BadFile, match=r"x.csv: empty, it has no rows"):
        ingest(spark, Lake(tmp_path / "lake"), tmp_path / "x.csv", KeyedColumns("id"))
    assert not (tmp_path / "lake" / "staging").exists()


def test_a_trace_that_is_still_written(tmp_path):
    about = {"group": "g", "protocol": "s-rm", "order": "fifo", "relation": "item", "f": 0}
    header = JournalHeader(run_id=7, pid=0, names=("a",), incarnations=(9,), **about)
    with (
        Journal(tmp_path / "t", header),
        pytest.raises(BadFile, match=r"7-0-9.journal: still being written"),
    ):
        ingest(None, Lake(tmp_path / "lake"), tmp_path / "t")
    assert not (tmp_path / "lake").exists()


def test_small_tables_that_do_not_fit(tmp_path, record):
    path = record(tmp_path / "t")
    runs = pq.read_table(path / "runs.parquet")
    pq.write_table(pa.concat_tables([runs, runs]), path / "runs.parquet")
    with pytest.raises(BadFile, match=r"runs.parquet: run_id 1 stands there twice"):
        ingest(None, Lake(tmp_path / "lake"), path)
    pq.write_table(runs.set_column(0, "run_id", pa.array([4])), path / "runs.parquet")
    with pytest.raises(BadFile, match=r"processes.parquet: run_id 1 is not in runs.parquet"):
        ingest(None, Lake(tmp_path / "lake"), path)
    assert Lake(tmp_path / "lake").snapshot().batches == []


def test_a_file_without_a_key(semcast, tmp_path):
    (tmp_path / "x.csv").write_text("id\n")
    with pytest.raises(ConfigError, match=r"key: needed for x.csv, which is not a trace"):
        ingest(None, Lake(tmp_path / "lake"), tmp_path / "x.csv")
    done = semcast("lake", "ingest", tmp_path / "lake", tmp_path / "x.csv", "--order", "id")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "semcast: key: required with --order, --sender and --kind; add --key COLUMN\n"
    )


@pytest.mark.parametrize("command", ["ls", "compact", "vacuum"])
def test_where_there_is_no_lake(semcast, tmp_path, command):
    done = semcast("lake", command, tmp_path)
    assert (done.code, done.out) == (2, "")
    assert done.err == f"semcast: {tmp_path}: not a lake; semcast lake ingest makes one\n"


@pytest.mark.parametrize("command", ["ingest", "ls", "compact", "vacuum"])
def test_help_has_an_example(semcast, command):
    assert f"semcast lake {command} out/lake" in semcast("lake", command, "--help").out
