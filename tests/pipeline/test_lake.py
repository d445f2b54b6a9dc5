"""A lake is as before or as after, wherever its writer was killed."""

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from semcast.pipeline.lake.lake import Lake, LakeBatch, LakeSnapshot
from semcast.terms.errors import ConfigError
from semcast.traces.errors import BadFile

STEPS = ["linked", "named", "switched"]


class Killed(BaseException):
    """Nothing that handles errors handles it, as nothing handles `kill -9`."""


def batch(name):
    return LakeBatch(name, f"/{name}", {}, 1, 1, 1, 0)


def add(path, name, *, kill_at=None):
    """Commit a batch with one file of one row."""

    def step(done):
        if done == kill_at:
            raise Killed

    lake = Lake(path, step)
    with lake.exclusive_write(create=True) as staging:
        pq.write_table(pa.table({"name": [name]}), staging / "new.parquet")
        place = Path("events", "kind=skip", f"batch={name}", "0.parquet")
        lake.commit([*lake.snapshot().batches, batch(name)], {place: staging / "new.parquet"})


def names(path):
    """Twice: by the manifest, and by who reads the files."""
    told = {each.id for each in Lake(path).snapshot().batches}
    files = (path / "events").glob("*/*/*.parquet")
    assert {pq.ParquetFile(file).read()["name"][0].as_py() for file in files} == told
    return told


def test_batches_add_up(tmp_path):
    path = tmp_path / "deep" / "lake"
    add(path, "a")
    add(path, "b")
    assert names(path) == {"a", "b"}
    assert Lake(path).snapshot().number == 2
    assert sorted(each.name for each in path.iterdir() if each.is_symlink()) == [
        *("current", "events", "items.parquet", "processes.parquet", "quarantine", "runs.parquet"),
    ]
    assert not (path / "staging").exists()


@pytest.mark.parametrize("step", STEPS)
def test_killed_in_the_first_commit(tmp_path, step):
    with pytest.raises(Killed):
        add(tmp_path, "a", kill_at=step)
    add(tmp_path, "b")
    assert names(tmp_path) == {"b"}  # An empty lake is committed first, by the same steps.


@pytest.mark.parametrize("step", STEPS)
def test_killed_in_a_later_commit(tmp_path, step):
    add(tmp_path, "a")
    with pytest.raises(Killed):
        add(tmp_path, "b", kill_at=step)
    after = {"a", "b"} if step == "switched" else {"a"}
    assert names(tmp_path) == after
    add(tmp_path, "c")
    assert names(tmp_path) == after | {"c"}
    assert not (tmp_path / "staging").exists()


def test_what_fails_leaves_nothing(tmp_path):
    add(tmp_path, "a")
    with pytest.raises(FileNotFoundError), Lake(tmp_path).exclusive_write() as staging:
        (staging / "half").rename(staging / "none" / "whole")
    assert not (tmp_path / "staging").exists()
    assert names(tmp_path) == {"a"}


def test_a_snapshot_stays_until_vacuum(tmp_path):
    add(tmp_path, "a")
    old = Lake(tmp_path).root
    lake = Lake(tmp_path)
    with lake.exclusive_write() as staging:
        pq.write_table(pa.table({"name": ["b"]}), staging / "new.parquet")
        place = Path("events", "kind=skip", "batch=b", "0.parquet")
        lake.commit([batch("b")], {place: staging / "new.parquet"}, without=lake.files())
    assert names(tmp_path) == {"b"}
    [kept] = old.rglob("*/*/*.parquet")
    size = kept.stat().st_size
    assert pq.read_metadata(kept).num_rows == 1
    assert lake.vacuum() == (1, size)
    assert not kept.exists()
    assert names(tmp_path) == {"b"}
    assert lake.vacuum() == (0, 0)


def test_vacuum_counts_no_file_that_is_still_there(tmp_path):
    for name in "abc":
        add(tmp_path, name)
    assert Lake(tmp_path).vacuum() == (0, 0)
    assert os.listdir(tmp_path / "snapshots") == ["00000003"]
    assert names(tmp_path) == {"a", "b", "c"}


def test_writers_take_turns(tmp_path):
    with (
        Lake(tmp_path).exclusive_write(create=True),
        pytest.raises(ConfigError, match="somebody else writes to"),
        Lake(tmp_path).exclusive_write(),
    ):
        pass


def test_what_is_no_lake(tmp_path, record):
    with pytest.raises(BadFile, match="not a lake; semcast lake ingest makes one"):
        Lake(tmp_path).snapshot()
    with pytest.raises(BadFile, match="not a lake"):
        Lake(tmp_path).vacuum()
    with pytest.raises(ConfigError, match="holds a trace"):
        add(record(tmp_path / "trace"), "a")
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="holds something else"):
        add(tmp_path, "a")
    with pytest.raises(ConfigError, match="is a file"):
        add(tmp_path / "file", "a")


@pytest.mark.parametrize(
    ("manifest", "says"),
    [("{", "lake.json: damaged"), ('{"format":2,"number":1}', "format 2, this is 1")],
)
def test_a_lake_that_cannot_be_understood(tmp_path, manifest, says):
    add(tmp_path, "a")
    (tmp_path / "current" / "lake.json").write_text(manifest)
    with pytest.raises(BadFile, match=says):
        Lake(tmp_path).snapshot()


def test_an_empty_lake(tmp_path):
    with Lake(tmp_path).exclusive_write(create=True):
        pass
    assert Lake(tmp_path).snapshot() == LakeSnapshot(1, 0)
