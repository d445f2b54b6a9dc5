"""What a process writes about itself is for its owner alone, whatever the umask is."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from semcast.runtime.options.options import Options
from semcast.runtime.storage.recording import check_trace
from semcast.sim.swarm_trace import recorded_swarm
from semcast.terms.errors import ConfigError
from semcast.terms.events import DELIVER, Event
from semcast.terms.messages import DataMessage
from semcast.traces.errors import BadFile
from semcast.traces.files import new_file, new_folder, refuse_links
from semcast.traces.journal import Journal
from semcast.traces.journal_conversion import write_run
from semcast.traces.journal_file import JournalHeader
from semcast.traces.parquet import TraceWriter
from semcast.traces.schema import RunInfo

RUN = RunInfo(name="demo", protocol="s-rm", order="fifo", relation="item", f=0, seed=1, run_id=7)
HEADER = JournalHeader(
    run_id=7,
    pid=0,
    names=("a", "b"),
    incarnations=(4, 5),
    group="g",
    protocol="s-rm",
    order="fifo",
    relation="item",
    f=0,
)
DELIVERED = Event(DELIVER, 0, 1, 1, DataMessage(1, 1, item=5, payload=b"x", name="five"), n=1)


@pytest.fixture(params=[0o000, 0o022, 0o377], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    """From one that forbids nothing to one that would leave files without any right to write."""
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def modes(root: Path) -> dict[str, int]:
    return {
        str(path.relative_to(root)): path.stat().st_mode & 0o777
        for path in root.rglob("*")
        if path.is_file()
    }


def all_private(root: Path, *names: str) -> None:
    """These files are there, among others, and nobody else can read any."""
    found = modes(root)
    assert set(names) <= found.keys()
    assert set(found.values()) == {0o600}


def folder_mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_files_are_for_their_owner(tmp_path: Path, umask: int) -> None:
    path = new_file(tmp_path / "x")
    assert folder_mode(path) == 0o600
    assert path.read_bytes() == b""
    path.write_bytes(b"old")
    path.chmod(0o644)
    assert new_file(path).read_bytes() == b""
    assert folder_mode(path) == 0o600


def test_a_new_file_takes_the_place_of_a_link(tmp_path: Path) -> None:
    (tmp_path / "mine").write_bytes(b"mine")
    for target in ("mine", "none"):
        (tmp_path / "x").unlink(missing_ok=True)
        (tmp_path / "x").symlink_to(tmp_path / target)
        new_file(tmp_path / "x").write_bytes(b"new")
    assert (tmp_path / "mine").read_bytes() == b"mine"
    assert not (tmp_path / "none").exists()


def test_folders_are_for_their_owner_unless_they_were_there(tmp_path: Path) -> None:
    new_folder(tmp_path / "a" / "b")
    assert folder_mode(tmp_path / "a" / "b") == 0o700
    assert folder_mode(tmp_path / "a") == 0o777 & ~_umask()
    (tmp_path / "c").mkdir(mode=0o755)
    new_folder(tmp_path / "c")
    assert folder_mode(tmp_path / "c") == 0o755 & ~_umask()
    new_file(tmp_path / "file")
    with pytest.raises(FileExistsError):
        new_folder(tmp_path / "file")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@pytest.mark.parametrize("umask", [0o000, 0o022], indirect=True)
def test_journals_and_what_becomes_of_them(tmp_path: Path, umask: int) -> None:
    trace = tmp_path / "trace"
    journal = Journal(trace, HEADER)
    journal.record([DELIVERED], 1)
    all_private(trace, "journals/7-0-4.journal")
    assert folder_mode(trace) == folder_mode(trace / "journals") == 0o700
    journal.close()
    write_run(trace, RUN, ["a", "b"], complete=True, crashes={1: 5})
    all_private(
        trace,
        "events/kind=deliver/7-0-4.parquet",
        "events/kind=crash/7-1-1.parquet",
        "items.parquet/7-0-4.parquet",
        "processes.parquet/7-0.parquet",
        "runs.parquet/7.parquet",
    )


@pytest.mark.parametrize("umask", [0o000, 0o022], indirect=True)
def test_the_numbers_of_processes(tmp_path: Path, umask: int) -> None:
    write_run(tmp_path / "trace", RUN, {99: "a"}, complete=True)
    all_private(tmp_path / "trace", "journals/7.pids", "runs.parquet/7.parquet")
    assert folder_mode(tmp_path / "trace") == 0o700


@pytest.mark.parametrize("umask", [0o000, 0o022], indirect=True)
def test_traces_of_simulations(tmp_path: Path, umask: int) -> None:
    with TraceWriter(tmp_path / "one", RUN, ["a", "b"], items={5: "five"}) as trace:
        trace.append([DELIVERED])
        trace.close(complete=True)
    all_private(
        tmp_path / "one",
        "events/kind=deliver/part-0.parquet",
        "items.parquet",
        "processes.parquet",
        "runs.parquet",
    )
    with recorded_swarm(tmp_path / "swarm", "s-rm") as swarm:
        swarm.run(1)
    all_private(tmp_path / "swarm", "events/kind=deliver/part-0.parquet", "runs.parquet")
    assert folder_mode(tmp_path / "one") == folder_mode(tmp_path / "swarm") == 0o700


def test_a_live_member_makes_its_directory_private_or_refuses_it(tmp_path: Path) -> None:
    options = Options(group="g", name="a", members=1, trace=tmp_path / "new")
    check_trace(options)
    assert folder_mode(tmp_path / "new") == 0o700
    (tmp_path / "new" / "journals").symlink_to(tmp_path)
    with pytest.raises(BadFile, match="journals: a symbolic link"):
        check_trace(options)
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="cannot write"):
        check_trace(Options(group="g", name="a", members=1, trace=tmp_path / "file"))


def test_what_is_not_there_leads_nowhere(tmp_path: Path) -> None:
    refuse_links(tmp_path / "none")
    (tmp_path / "file").touch()
    refuse_links(tmp_path / "file")
