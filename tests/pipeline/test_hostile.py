"""Lakes, sweeps and reports of somebody else: nothing leads out of them, and all is checked."""

import json
import os
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from semcast.pipeline.lake.lake import Lake, LakeBatch
from semcast.pipeline.report.report import report
from semcast.pipeline.report.result_files import scan_directory
from semcast.pipeline.sweep.outcome_store import OutcomeStore, open_store
from semcast.pipeline.sweep.runs import OUTCOMES
from semcast.pipeline.sweep.sweep import plan, run_sweep
from semcast.terms.errors import ConfigError
from semcast.traces.errors import BadFile
from semcast.traces.files import atomic_write
from semcast.traces.parquet import read_runs
from semcast.traces.trace_files import check_trace_files, kind_files, root_of

MINE = b"mine"


@pytest.fixture
def mine(tmp_path):
    """A file of the user's, outside everything that is read."""
    path = tmp_path / "mine"
    path.write_bytes(MINE)
    yield path
    assert path.read_bytes() == MINE


@pytest.fixture
def lake(tmp_path, record):
    """A lake of one batch, made without Spark."""
    path, trace = tmp_path / "lake", record(tmp_path / "source")
    opened = Lake(path)
    with opened.exclusive_write(create=True) as staging:
        shutil.copytree(trace, staging / "in")
        places = {
            Path("runs.parquet", "a.parquet"): staging / "in" / "runs.parquet",
            Path("processes.parquet", "a.parquet"): staging / "in" / "processes.parquet",
        }
        for kind in ("multicast", "deliver", "skip"):
            staged = staging / "in" / "events" / f"kind={kind}" / "part-0.parquet"
            staged.chmod(0o644)  # as Spark leaves it
            places[Path("events", f"kind={kind}", "batch=a", "0.parquet")] = staged
        opened.commit([LakeBatch("a", str(trace), {}, 5, 1, 6, 0)], places)
    return path


LAKE_READERS = [
    lambda path: Lake(path).snapshot(),
    lambda path: Lake(path).vacuum(),
    root_of,
    lambda path: kind_files(path, "deliver"),
    read_runs,
]


def test_the_lake_itself_is_read(lake):
    """So it is the changes below that are refused."""
    for read in LAKE_READERS:
        read(lake)
    assert len(kind_files(lake, "deliver")) == 1


@pytest.mark.parametrize("read", LAKE_READERS)
@pytest.mark.parametrize(
    "place",
    [
        *("snapshots", "snapshots/00000001", "snapshots/00000001/events"),
        *("snapshots/00000001/events/kind=deliver", "snapshots/00000001/lake.json"),
        *("snapshots/00000001/events/kind=deliver/batch=a/0.parquet", "staging"),
    ],
)
def test_links_inside_a_lake_are_not_followed(lake, tmp_path, mine, place, read):
    link, elsewhere = lake / place, tmp_path / "elsewhere"
    if link.exists():
        shutil.move(link, elsewhere)
    else:
        elsewhere.mkdir()
        (elsewhere / "kept").touch()
    link.symlink_to(elsewhere)
    with pytest.raises(BadFile) as caught:
        read(lake)
    assert str(caught.value).startswith(f"{link}: a symbolic link, which is not followed")
    assert elsewhere.exists()


@pytest.mark.parametrize("read", LAKE_READERS)
@pytest.mark.parametrize("target", ["../elsewhere", "snapshots/../../elsewhere", "/etc"])
def test_the_current_snapshot_is_one_of_the_lake(lake, tmp_path, target, read):
    shutil.copytree(lake / "snapshots" / "00000001", tmp_path / "elsewhere")
    (lake / "current").unlink()
    (lake / "current").symlink_to(target)
    with pytest.raises(BadFile, match="current: a symbolic link"):
        read(lake)


def test_the_lake_may_be_reached_through_a_link(lake, tmp_path):
    (tmp_path / "link").symlink_to(lake)
    assert Lake(tmp_path / "link").snapshot().number == 1


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("id", "../../mine"), ("id", "/etc"), ("id", ""), ("id", "A"), ("files", -1)),
        *(("runs", -1), ("rows", 2**63), ("quarantined", "x")),
    ],
)
def test_a_batch_that_cannot_be(lake, field, value):
    manifest = lake / "current" / "lake.json"
    told = json.loads(manifest.read_bytes())
    told["batches"][0][field] = value
    manifest.write_text(json.dumps(told))
    with pytest.raises(BadFile, match=r"lake\.json: damaged"):
        Lake(lake).snapshot()


@pytest.mark.parametrize("number", [-1, 0, 2, 2**63])
def test_a_snapshot_of_another_number(lake, number):
    """The next one would take the place of a snapshot that is there."""
    manifest = lake / "current" / "lake.json"
    told = json.loads(manifest.read_bytes()) | {"number": number}
    manifest.write_text(json.dumps(told))
    with pytest.raises(BadFile, match=r"lake\.json: damaged"):
        Lake(lake).snapshot()


@pytest.mark.parametrize("read", [LAKE_READERS[0], root_of])
def test_kinds_of_a_lake(lake, read):
    events = lake / "current" / "events"
    (events / "kind=skip").rename(events / "kind=guess")
    with pytest.raises(BadFile, match="kind=guess: kind: unknown value 'guess'"):
        read(lake)


def test_the_command_names_a_link(semcast, lake, mine):
    link = lake / "snapshots" / "00000001" / "events" / "kind=safe"
    link.symlink_to(mine)
    for command in (("check",), ("lake", "ls"), ("lake", "vacuum"), ("lake", "compact")):
        done = semcast(*command, lake)
        assert done.code == 2
        assert done.err.startswith(f"semcast: {link}: a symbolic link, which is not followed;")
        assert done.err.count("\n") == 1


def test_ingest_names_a_link(semcast, tmp_path, record, mine):
    trace = record(tmp_path / "trace")
    (trace / "items.parquet").unlink()
    (trace / "items.parquet").symlink_to(mine)
    done = semcast("lake", "ingest", tmp_path / "new", trace)
    assert done.code == 2
    assert f"{trace / 'items.parquet'}: a symbolic link" in done.err
    assert not (tmp_path / "new").exists()


def test_files_of_a_lake_are_for_its_owner(lake):
    modes = {path.stat().st_mode & 0o777 for path in lake.rglob("*") if path.is_file()}
    assert modes == {0o600}
    assert lake.stat().st_mode & 0o777 == 0o700


def test_events_that_are_a_file(tmp_path, record):
    shutil.rmtree(record(tmp_path) / "events")
    (tmp_path / "events").write_bytes(MINE)
    with pytest.raises(BadFile, match="events: cannot be read as Parquet"):
        check_trace_files(tmp_path)


KEY = "0" * 32


def wave(path, **changed):
    row = {"key": KEY, "row": '{"x": 1}', "error": None, "wall_s": 1.0, "cpu_s": 1.0, **changed}
    path.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist([row], OUTCOMES), path / "wave-00000000.parquet")


def test_a_wave_that_a_sweep_could_have_left(tmp_path):
    wave(tmp_path)
    assert OutcomeStore(tmp_path).outcomes()[KEY].read_row() == {"x": 1}
    wave(tmp_path, row=None, error="no disk")
    assert OutcomeStore(tmp_path).outcomes()[KEY].error == "no disk"
    wave(tmp_path, row='{"x": NaN, "violations": 0}')
    assert OutcomeStore(tmp_path).outcomes()[KEY].read_row()["violations"] == 0


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        *(({"key": None}, "None is not the key of a run"), ({"key": "../x"}, "is not the key")),
        *(({"row": None}, "neither a row nor an error"), ({"wall_s": None}, "has no times")),
        *(({"row": "{"}, "is not JSON"), ({"row": "[" * 10**5}, "is not JSON")),
        *(({"row": "[1]"}, "names with one value"), ({"row": '{"x": []}'}, "names with one value")),
        ({"row": '{"violations": "many"}'}, "has 'many' violations"),
    ],
)
def test_a_wave_that_no_sweep_has_left(tmp_path, changed, says):
    wave(tmp_path, **changed)
    with pytest.raises(BadFile, match=rf"wave-00000000\.parquet: not an outcome: .*{says}"):
        OutcomeStore(tmp_path).outcomes()


def test_waves_are_counted(tmp_path):
    wave(tmp_path)
    (tmp_path / "wave-00000000.parquet").rename(tmp_path / "wave-next.parquet")
    with pytest.raises(BadFile, match=r"wave-next\.parquet: a wave is called"):
        OutcomeStore(tmp_path).outcomes()


@pytest.mark.parametrize(
    "place",
    [
        *("waves", "waves/.lock", "waves/wave-00000000.parquet", "results", "results.csv"),
        *("sweep.json", ".unfinished-sweep.json", "waves/.unfinished-wave-00000000.parquet"),
    ],
)
def test_links_inside_a_sweep_are_not_followed(tmp_path, mine, place):
    out = tmp_path / "out"
    link = out / place
    link.parent.mkdir(parents=True)
    link.symlink_to(mine)
    planned = plan("slow-receiver", {"r": [0.5]})
    with pytest.raises(BadFile) as caught:
        run_sweep(planned, out)
    assert str(caught.value).startswith(f"{link}: a symbolic link, which is not followed")


@pytest.mark.parametrize("place", [".", ".lock", "wave-00000000.parquet"])
def test_links_among_the_waves_of_figures_are_not_followed(tmp_path, mine, place):
    """A lock that was a link emptied the file it led to."""
    link = tmp_path / "part" if place == "." else tmp_path / "part" / place
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(tmp_path if place == "." else mine)
    with pytest.raises(BadFile, match="a symbolic link"):
        OutcomeStore(tmp_path / "part").outcomes()
    with pytest.raises(BadFile, match="a symbolic link"), open_store(tmp_path / "part"):
        pytest.fail("opened")


def test_a_sweep_that_is_described_by_something_else(tmp_path):
    (tmp_path / "sweep.json").write_text("[]")
    with pytest.raises(ConfigError, match=r"sweep\.json is not what a sweep says of itself"):
        run_sweep(plan("slow-receiver", {"r": [0.5]}), tmp_path)


@pytest.mark.parametrize("umask", [0o000, 0o022])
def test_what_is_replaced_is_for_its_owner(tmp_path, mine, umask):
    before = os.umask(umask)
    try:
        (tmp_path / ".unfinished-x").symlink_to(mine)  # It was written through.
        with atomic_write(tmp_path / "x") as path:
            path.write_text("x")
        with open_store(tmp_path / "waves"):
            pass
    finally:
        os.umask(before)
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "waves" / ".lock").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "waves").stat().st_mode & 0o777 == 0o700


def test_a_report_is_for_its_owner_and_shows_nothing_from_elsewhere(tmp_path, record):
    results, outside = tmp_path / "results", tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.csv").write_text("password\nswordfish\n")
    results.mkdir()
    (results / "a.csv").symlink_to(outside / "secret.csv")
    (results / "b").symlink_to(outside)
    linked = record(results / "trace")
    (linked / "items.parquet").unlink()
    (linked / "items.parquet").symlink_to(outside / "secret.csv")
    os.mkfifo(results / "c.json")
    page = tmp_path / "page.html"
    told = report(results, page)
    assert told["not_shown"] == ["a.csv", "b", "c.json", "trace"]
    assert page.stat().st_mode & 0o777 == 0o600
    assert "swordfish" not in page.read_text()
    assert [each.why for each in scan_directory(results).not_shown][:2] == [
        "a symbolic link, which is not followed"
    ] * 2


def test_a_report_on_a_sweep_with_links_names_them(tmp_path, mine):
    (tmp_path / "sweep").mkdir()
    (tmp_path / "sweep" / "sweep.json").symlink_to(mine)
    [not_shown] = scan_directory(tmp_path / "sweep").not_shown
    assert "a symbolic link" in not_shown.why


@pytest.mark.parametrize("text", ["[" * 10**5, '{"x": 1'])
def test_a_report_names_json_that_cannot_be_read(tmp_path, text):
    (tmp_path / "a.json").write_text(text)
    assert [each.source for each in scan_directory(tmp_path).not_shown] == ["a.json"]


def test_a_report_names_tables_that_cannot_be_read(tmp_path):
    (tmp_path / "a.csv").write_text('a\n"b"c\n')
    [not_shown] = scan_directory(tmp_path).not_shown
    assert not_shown.source == "a.csv"


def test_a_report_believes_only_known_kinds(tmp_path, record):
    events = record(tmp_path / "trace") / "events"
    (events / "kind=skip").rename(events / "kind=<b>")
    [not_shown] = scan_directory(tmp_path / "trace").not_shown
    assert "kind: unknown value '<b>'" in not_shown.why
