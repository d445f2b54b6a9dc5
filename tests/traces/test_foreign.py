"""A trace of somebody else: nothing outside its directory is written, nothing inside is lost."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from struct import pack
from typing import Any
from zlib import crc32

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from semcast.cli.main import main
from semcast.terms.errors import LocalProtocolError
from semcast.terms.events import DELIVER, KINDS, MULTICAST, RECEIVE, Event
from semcast.terms.messages import DataMessage
from semcast.traces import journal as writing
from semcast.traces import journal_conversion, journal_file
from semcast.traces.errors import BadFile
from semcast.traces.journal import Journal
from semcast.traces.journal_conversion import convert_journals, write_run
from semcast.traces.journal_file import JournalHeader, read_journal
from semcast.traces.parquet import TraceWriter, read_runs, read_trace
from semcast.traces.schema import RunInfo

HEADER = {
    "run_id": 7,
    "pid": 0,
    "names": ["a", "b"],
    "incarnations": [4, 5],
    "group": "g",
    "protocol": "s-rm",
    "order": "fifo",
    "relation": "item",
    "f": 0,
}
WITH_VIEWS = {**HEADER, "names": ["a"], "incarnations": [], "inc": 4}
EVENT = [DELIVER, 1, 1, 0, "", 1, 0, 5, b"", False, [], 1, bytes(8)]
SENT = [MULTICAST, 0, 1, 0, "", -1, 0, 5, b"", False, [], 1, bytes(8)]
INSIDE = [4, 4, -1, 1, 2, 0, [0]]
RUN = RunInfo(name="demo", protocol="s-rm", order="fifo", relation="item", f=0, seed=1, run_id=7)
KEPT = b"mine"


def framed(body: object) -> bytes:
    encoded = msgspec.msgpack.encode(body)
    return pack("<II", len(encoded), crc32(encoded)) + encoded


def forge(
    folder: Path, *batches: Any, header: dict[str, Any] = HEADER, name: str = "7-0-4"
) -> Path:
    """A journal that says this, whether or not a process could have said it."""
    path = folder / "journals" / f"{name}.journal"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"semcast\x01" + b"".join(map(framed, (header, *batches))) + bytes(64))
    return path


def change(row: list[Any], place: int, value: Any) -> list[Any]:
    return [*row[:place], value, *row[place + 1 :]]


def contents(path: Path) -> dict[str, bytes]:
    return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file()}


def refused(trace: Path, match: str) -> None:
    """Reading says why, and changes nothing in or around the trace."""
    before = contents(trace.parent)
    with pytest.raises(BadFile, match=match):
        read_trace(trace)
    assert contents(trace.parent) == before


def test_a_forged_journal_is_read_if_it_says_what_a_process_could(tmp_path: Path) -> None:
    """So it is the changes below that are refused."""
    forge(tmp_path, [1, [EVENT, SENT], [[5, "five"]]], [0, [], [], True])
    trace = read_trace(tmp_path)
    assert [event.kind for event in trace.events] == [DELIVER, MULTICAST]
    assert trace.items == {5: "five"}
    forge(tmp_path / "views", [1, [EVENT], [], False, [INSIDE]], header=WITH_VIEWS)
    assert read_trace(tmp_path / "views").events[0].members == (0,)


def test_a_kind_that_is_a_path_overwrites_nothing(tmp_path: Path) -> None:
    """It was opened for writing, and moved into the trace."""
    mine = tmp_path / "mine"
    mine.write_bytes(KEPT)
    trace = tmp_path / "trace"
    for kind in (str(mine), "../../../mine", "..", ".", "", "deliver/../../x", "x" * 10_000):
        forge(trace, [1, [EVENT, change(EVENT, 0, kind)]])
        refused(trace, "kind: unknown value .* allowed: acknowledge, adopt, append")
    assert mine.read_bytes() == KEPT


def test_the_command_says_it_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = tmp_path / "mine"
    mine.write_bytes(KEPT)
    journal = forge(tmp_path / "trace", [1, [change(EVENT, 0, str(mine))]])
    assert main(["check", str(tmp_path / "trace")]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"semcast: {journal}: kind: unknown value '{str(mine)[:60]}'; ")
    assert said.endswith("; move this file away to read the rest of the trace\n")
    assert said.count("\n") == 1
    assert mine.read_bytes() == KEPT


def test_every_kind_of_the_table_is_read(tmp_path: Path) -> None:
    forge(tmp_path, [1, [change(SENT if k == MULTICAST else EVENT, 0, k) for k in sorted(KINDS)]])
    assert [event.kind for event in read_trace(tmp_path).events] == sorted(KINDS)


@pytest.mark.parametrize("name", [".", "..", "", "7-0-5", "8-0-4", "x"])
def test_a_journal_is_called_as_its_header_says(tmp_path: Path, name: str) -> None:
    """`...journal` without its ending was `..`, and that folder was emptied."""
    forge(tmp_path / "trace", [1, [EVENT]], name=name)
    (tmp_path / "trace" / "journals" / "x").mkdir()
    (tmp_path / "trace" / "journals" / "x" / "kept").write_bytes(KEPT)
    refused(tmp_path / "trace", r"its header is that of 7-0-4\.journal")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("run_id", -1), ("run_id", 2**63), ("run_id", "../7"), ("run_id", None)),
        *(("pid", -1), ("pid", 2), ("pid", 2**31), ("f", -1), ("f", 2**31)),
        *(("names", []), ("names", ["a"]), ("incarnations", [4]), ("incarnations", [-1, 5])),
        *(("incarnations", [2**31, 5]), ("relation", "newest"), ("inc", -1), ("inc", 4)),
        ("inc", 2**31),
    ],
)
def test_a_header_out_of_range(tmp_path: Path, field: str, value: Any) -> None:
    forge(tmp_path / "trace", [1, [EVENT]], header={**HEADER, field: value})
    refused(tmp_path / "trace", "a journal without a valid header: ")


@pytest.mark.parametrize(
    ("place", "value"),
    [
        *((1, -2), (1, 2**31), (2, -1), (2, 2**63), (3, -1), (5, -2), (5, 2**31), (6, -1)),
        *((6, 2**31), (7, 2**63), (8, [0]), (8, [-1]), (8, [2**31]), (8, [1] * 4097)),
        *((8, bytes((1 << 16) + 1)), (10, [[-1, 1]]), (10, [[0, -1]]), (11, -1), (11, 2**31)),
        *((12, b""), (12, bytes(9)), (12, 5)),
    ],
)
def test_an_event_out_of_range(tmp_path: Path, place: int, value: Any) -> None:
    forge(tmp_path / "trace", [1, [EVENT]], [2, [change(EVENT, place, value)]])
    refused(tmp_path / "trace", "cannot decode a batch: ")


@pytest.mark.parametrize(
    "batch", [5, [], [1], [2**63, []], [1, [], [[2**63, "x"]]], [1, [], [["/etc", "x"]]], [1, [[]]]]
)
def test_a_batch_that_cannot_be_one(tmp_path: Path, batch: Any) -> None:
    forge(tmp_path / "trace", batch)
    refused(tmp_path / "trace", "cannot decode a batch: ")


@pytest.mark.parametrize(
    ("place", "value"),
    [
        *((0, -1), (0, 2**31), (1, -1), (2, -2), (2, 2**31), (3, -1), (4, -1), (5, -1)),
        *((6, [-1]), (6, [2**31]), (6, [0] * 4097)),
    ],
)
def test_a_view_out_of_range(tmp_path: Path, place: int, value: Any) -> None:
    inside = change(INSIDE, place, value)
    forge(tmp_path / "trace", [1, [EVENT], [], False, [inside]], header=WITH_VIEWS)
    refused(tmp_path / "trace", "cannot decode a batch: ")


@pytest.mark.parametrize(
    ("header", "inside"),
    [(HEADER, [INSIDE]), (WITH_VIEWS, []), (WITH_VIEWS, [INSIDE, INSIDE])],
)
def test_each_event_has_one_view_where_there_are_views(
    tmp_path: Path, header: dict[str, Any], inside: list[Any]
) -> None:
    forge(tmp_path / "trace", [1, [EVENT], [], False, inside], header=header)
    refused(tmp_path / "trace", f"a batch of 1 events tells of {len(inside)} views")


def test_a_process_multicasts_for_itself_and_counts(tmp_path: Path) -> None:
    """Room is kept for every number before one that was sent."""
    forge(tmp_path / "trace", [1, [change(SENT, 1, 1)]])
    refused(tmp_path / "trace", "a multicast of process 1 in the journal of 0")
    forge(tmp_path / "trace", [1, [change(SENT, 2, 2**40)]])
    refused(tmp_path / "trace", "multicast 1,099,511,627,776 within the first 1 events")


def test_many_distances_are_not_held_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_conversion, "_VALUES_MAX", 100)
    bitmap = {**HEADER, "relation": "bitmap"}
    wide = [change(change(EVENT, 2, seq), 8, b"\xff" * 8) for seq in range(1, 7)]
    forge(tmp_path, [1, wide], header=bitmap)
    events = read_trace(tmp_path).events
    assert [event.message.covers for event in events if event.message] == [b"\xff" * 8] * 6
    file = tmp_path / "events" / "kind=deliver" / "7-0-4.parquet"
    assert pq.read_metadata(file).num_row_groups == 3


def test_a_size_larger_than_the_file_ends_the_journal(tmp_path: Path) -> None:
    path = forge(tmp_path, [1, [EVENT]])
    whole = path.read_bytes()[:-64]
    path.write_bytes(whole + pack("<II", 2**32 - 1, 0) + b"x")
    assert len(list(read_journal(path)[1])) == 1
    with path.open("ab") as file:
        file.truncate(1 << 40)  # Nothing of that size is read into memory.
    assert len(list(read_journal(path)[1])) == 1


def test_a_batch_larger_than_any_ends_the_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = forge(tmp_path, [1, [EVENT]], [2, [EVENT] * 50])
    monkeypatch.setattr(journal_file, "BODY_BYTES_MAX", 200)
    assert len(list(read_journal(path)[1])) == 1


def test_numbers_of_processes_that_cannot_be(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    forge(trace, [1, [EVENT], [], False, [INSIDE]], header=WITH_VIEWS)
    for content in (b"{", b"[]", b'{"0": "x"}', b'{"0": 5}', b'{"0": 0, "1": 0}', b'{"0": -1}'):
        (trace / "journals" / "7.pids").write_bytes(content)
        refused(trace, r"7\.pids: damaged")


@pytest.mark.parametrize(
    "place",
    [
        *("events", "events/kind=deliver", "processes.parquet", "runs.parquet", "items.parquet"),
        *("journals/7-0-4", "events/kind=deliver/7-0-4.parquet/x"),
    ],
)
def test_what_is_in_the_way_stays(tmp_path: Path, place: str) -> None:
    """A file where a folder belongs, or the other way round."""
    trace = tmp_path / "trace"
    forge(trace, [1, [EVENT], [[5, "five"]]])
    (trace / place).parent.mkdir(parents=True, exist_ok=True)
    (trace / place).write_bytes(KEPT)
    with pytest.raises(BadFile, match=r"not what a trace has at this place; move it away"):
        read_trace(trace)
    assert (trace / place).read_bytes() == KEPT
    assert (trace / "journals" / "7-0-4.journal").exists()


def test_a_damaged_table_of_items_beside_a_journal(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    forge(trace, [1, [EVENT], [[5, "five"]]])
    (trace / "items.parquet").mkdir()
    (trace / "items.parquet" / "7-1-5.parquet").write_bytes(KEPT)
    with pytest.raises(BadFile, match=r"7-1-5\.parquet: cannot be read as Parquet"):
        read_trace(trace)
    assert (trace / "journals" / "7-0-4.journal").exists()


def recorded(path: Path) -> Path:
    message = DataMessage(0, 1, item=5, payload=b"x")
    with TraceWriter(path, RUN, ["a"], items={5: "five"}) as trace:
        trace.append([Event(MULTICAST, 0, 0, 1, message, n=1, ts_ns=1)])
        trace.append([Event(DELIVER, 0, 0, 1, message, n=2, ts_ns=2)])
        trace.close(complete=True)
    return path


PLACES = [
    *("runs.parquet", "processes.parquet", "items.parquet", "events", "events/kind=deliver"),
    *("events/kind=deliver/part-0.parquet", "journals", "journals/7-0-4.journal"),
    *("journals/7-0-4", "journals/7.new", "journals/7.pids", "current", "note.txt"),
]
READERS: dict[str, Callable[[Path], object]] = {
    "read_trace": read_trace,
    "read_runs": read_runs,
    "settle": convert_journals,
    "write_run": lambda path: write_run(path, RUN, ["a"], complete=True),
    "Journal": lambda path: Journal(path, JournalHeader(**{**HEADER, "run_id": 8})),
    "TraceWriter": lambda path: TraceWriter(path, RUN, ["a"]),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("place", PLACES)
def test_links_inside_a_trace_are_not_followed(tmp_path: Path, place: str, reader: str) -> None:
    """Moved elsewhere and linked, everything would be found, and written there."""
    trace, elsewhere = recorded(tmp_path / "trace"), tmp_path / "elsewhere"
    link = trace / place
    if place.startswith("journals"):
        forge(trace, [1, [EVENT], [[5, "five"]]])
    if link.exists():
        shutil.move(link, elsewhere)
    else:
        link.parent.mkdir(exist_ok=True)
        elsewhere.mkdir()
    link.symlink_to(elsewhere)
    before = contents(tmp_path)
    with pytest.raises(BadFile) as caught:
        READERS[reader](trace)
    assert str(caught.value) == (
        f"{link}: a symbolic link, which is not followed; put what it leads to in its place"
    )
    assert contents(tmp_path) == before


def test_the_links_of_a_lake_lead_nowhere_else(tmp_path: Path) -> None:
    for name, target in [
        *(("current", "snapshots"), ("current", "/etc"), ("current", "snapshots/../..")),
        *(("current", "snapshots/0000000x"), ("current", "snapshots/00000000/events")),
        *(("events", "/etc"), ("events", "current/runs.parquet"), ("events", "../events")),
        *(("notes", "current/notes"), ("current.new", "..")),
    ]:
        lake = tmp_path / "lake"
        lake.mkdir()
        (lake / name).symlink_to(target)
        with pytest.raises(BadFile, match="a symbolic link"):
            convert_journals(lake)
        shutil.rmtree(lake)
        (lake / "below").mkdir(parents=True)
        (lake / "below" / "current").symlink_to("snapshots/00000000")
        with pytest.raises(BadFile, match="a symbolic link"):
            convert_journals(lake)  # A lake has its links at its top only.
        shutil.rmtree(lake)


def test_the_directory_itself_may_be_a_link(tmp_path: Path) -> None:
    forge(tmp_path / "trace", [1, [EVENT]])
    (tmp_path / "link").symlink_to(tmp_path / "trace")
    assert len(read_trace(tmp_path / "link").events) == 1


@pytest.mark.parametrize("place", ["journals/7-0-4.journal", "events/kind=skip/0.parquet", "x"])
def test_a_pipe_is_not_waited_for(tmp_path: Path, place: str) -> None:
    pipe = recorded(tmp_path / "trace") / place
    pipe.parent.mkdir(exist_ok=True)
    os.mkfifo(pipe)
    with pytest.raises(BadFile, match="neither a file nor a directory"):
        read_trace(tmp_path / "trace")


def test_a_journal_that_is_no_file(tmp_path: Path) -> None:
    path = tmp_path / "7-0-4.journal"
    os.mkfifo(path)
    with pytest.raises(BadFile, match=r"7-0-4\.journal: not a file"):
        read_journal(path)
    path.unlink()
    path.symlink_to(forge(tmp_path / "trace", [1, [EVENT]]))
    with pytest.raises(BadFile, match="a symbolic link"):
        read_journal(path)
    with pytest.raises(FileNotFoundError):
        read_journal(tmp_path / "none")


def test_a_writer_says_what_no_reader_would_accept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(LocalProtocolError, match="header: no reader would accept it"):
        Journal(tmp_path, JournalHeader(**{**HEADER, "run_id": -1}))
    assert list(tmp_path.iterdir()) == []
    with Journal(tmp_path, JournalHeader(**HEADER)) as journal:
        with pytest.raises(LocalProtocolError, match="kind: unknown value '/etc'"):
            journal.record([Event(RECEIVE, 0, 1, 1), Event("/etc", 0)], 1)
        monkeypatch.setattr(writing, "BODY_BYTES_MAX", 100)
        with pytest.raises(LocalProtocolError, match="record fewer events at once"):
            journal.record([Event(RECEIVE, 0, 1, 1)] * 50, 1)
        journal.record([Event(RECEIVE, 0, 1, 2)], 2)
    assert [event.seq for event in read_trace(tmp_path).events] == [2]


def rewritten(file: Path, column: str, values: list[Any]) -> None:
    table = pq.ParquetFile(file).read()
    place = table.schema.get_field_index(column)
    kind = table.schema.field(place).type
    pq.write_table(table.set_column(place, column, pa.array(values, kind)), file)


@pytest.mark.parametrize(
    ("column", "value", "says"),
    [
        *(("pid", None, "column pid is empty"), ("n", None, "column n is empty")),
        *(("ts_ns", None, "column ts_ns is empty"), ("pid", -1, "column pid is -1")),
        *(("seq", -5, "column seq is -5, must be 0 or more"), ("inc", -1, "column inc is -1")),
        ("sender", None, "column sender is empty, though the row has a message"),
        *(("covers", [None], "column covers has None"), ("covers", [0], "covers has 0, must be 1")),
        ("members", [-1], "column members has -1, must be 0 or more"),
        ("attrs", [("deps", "0:x")], "attribute deps is not a list of RANK:SEQ"),
        ("attrs", [("deps", "0:1:2")], "attribute deps is not a list of RANK:SEQ"),
    ],
)
def test_rows_of_events_that_cannot_be(tmp_path: Path, column: str, value: Any, says: str) -> None:
    path = recorded(tmp_path)
    rewritten(path / "events" / "kind=deliver" / "part-0.parquet", column, [value])
    with pytest.raises(BadFile, match=says):
        read_trace(path)


def test_a_bitmap_is_not_made_as_long_as_somebody_says(tmp_path: Path) -> None:
    path = recorded(tmp_path)
    rewritten(path / "runs.parquet", "relation", ["bitmap:32"])
    rewritten(path / "events" / "kind=deliver" / "part-0.parquet", "covers", [[2**31 - 1]])
    with pytest.raises(BadFile, match="covers has 2,147,483,647, a bitmap reaches 524,288 back"):
        read_trace(path)


@pytest.mark.parametrize(
    ("table", "column"),
    [("runs", "run_id"), ("runs", "relation"), ("processes", "pid"), ("items", "name")],
)
def test_small_tables_with_nothing_where_something_is_needed(
    tmp_path: Path, table: str, column: str
) -> None:
    path = recorded(tmp_path)
    rewritten(path / f"{table}.parquet", column, [None])
    with pytest.raises(BadFile, match=f"column {column} is empty|name one run"):
        read_trace(path, 7 if column != "run_id" else None)


def test_attributes_without_a_value_are_none(tmp_path: Path) -> None:
    path = recorded(tmp_path)
    file = path / "events" / "kind=deliver" / "part-0.parquet"
    rewritten(file, "attrs", [[("note", None), ("deps", None)]])
    assert read_trace(path).events[1].note == ""


def test_text_that_is_none(tmp_path: Path) -> None:
    path = recorded(tmp_path)
    bad = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(pack("<ii", 0, 2)), pa.py_buffer(b"\xff\xfe")]
    )
    table = pq.ParquetFile(path / "runs.parquet").read()
    pq.write_table(table.set_column(1, "name", bad), path / "runs.parquet")
    with pytest.raises(BadFile, match=r"runs\.parquet: cannot be read as Parquet of a trace"):
        read_trace(path)


@pytest.mark.parametrize(
    ("folder", "says"),
    [
        ("kind=guess", "kind: unknown value 'guess'"),
        ("skip", "not in a folder"),
        ("kind=", "kind: unknown value ''"),
    ],
)
def test_folders_of_events_have_known_kinds(tmp_path: Path, folder: str, says: str) -> None:
    events = recorded(tmp_path) / "events"
    (events / "kind=deliver").rename(events / folder)
    with pytest.raises(BadFile, match=f"{folder}: {says}"):
        read_trace(tmp_path)


def test_events_that_are_a_file(tmp_path: Path) -> None:
    shutil.rmtree(recorded(tmp_path) / "events")
    (tmp_path / "events").write_bytes(KEPT)
    with pytest.raises(BadFile, match="events: not a directory"):
        read_trace(tmp_path)
