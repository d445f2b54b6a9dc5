"""A trace directory has the agreed layout, and comes back as the events that were written."""

import hashlib
import sys
from dataclasses import replace
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from semcast.terms.errors import ConfigError, LocalProtocolError
from semcast.terms.events import (
    ACKNOWLEDGE,
    AGE,
    APPEND,
    CONFIRM,
    CRASH,
    DELIVER,
    DELIVERY,
    DISCARD,
    DISK,
    EXECUTE,
    INSTALL,
    JOIN,
    LEAVE,
    MULTICAST,
    NOT_PRIMARY,
    PURGE,
    QUERY,
    RECEIVE,
    RECLAIM,
    RECOVER,
    REPLY,
    REQUEST,
    SKIP,
    STABLE,
    SUSPECT,
    UPDATE,
    Event,
)
from semcast.terms.messages import DataMessage
from semcast.traces.errors import BadFile
from semcast.traces.event_rows import digest
from semcast.traces.parquet import TraceWriter, read_trace
from semcast.traces.schema import ProcessInfo, RunInfo

RUN = RunInfo(
    name="demo",
    protocol="s-rm",
    order="fifo",
    relation="item",
    f=1,
    seed=42,
    run_id=7,
    parameters={"rate": "100", "buffer": "20"},
)

FIRST = DataMessage(0, 1, item=-5, payload=b"one")
SECOND = DataMessage(0, 2, payload=b"", never_purge=True, after=((1, 4), (2, 0)))
THIRD = DataMessage(0, 3, item=-5, payload=b"three")
EVENTS = [
    Event(MULTICAST, 0, 0, 1, FIRST, n=0, ts_ns=10, buffered=1),
    Event(MULTICAST, 0, 0, 2, SECOND, n=1, ts_ns=20, buffered=2),
    Event(RECEIVE, 1, 0, 1, n=0, ts_ns=30, peer=0),
    Event(MULTICAST, 0, 0, 3, THIRD, n=2, ts_ns=40, buffered=3),
    Event(PURGE, 1, 0, 1, by_seq=3, note=DELIVERY, n=1, ts_ns=50),
    Event(SKIP, 2, 0, 1, by_seq=3, n=0, ts_ns=55, peer=1),
    Event(DISCARD, 2, 0, 2, note="duplicate", n=1, ts_ns=56, peer=0),
    Event(SKIP, 2, 0, 4, note="block", n=2, ts_ns=57),
    Event(DELIVER, 1, 0, 3, THIRD, n=2, ts_ns=60),
    Event(STABLE, 1, 0, 3, n=3, ts_ns=70),
    Event(CRASH, 2, n=3, ts_ns=80),
    Event(LEAVE, 0, n=3, ts_ns=90, peer=2),
]


def record(path: Path, events: list[Event] = EVENTS, *, row_group: int = 100) -> Path:
    items = {-5: "price"}
    with TraceWriter(path, RUN, "abc", items=items, row_group=row_group) as trace:
        for event in events:
            trace.append([event])
        trace.close(complete=True)
    return path


def as_read(event: Event) -> Event:
    """What a trace keeps of an event: the digest stands for the payload."""
    message = event.message
    if message is None:
        return event
    seen = digest(message.payload).to_bytes(8, "big", signed=True)
    message = msgspec.structs.replace(message, payload=seen)
    return msgspec.structs.replace(event, message=message)


def rows(path: Path, kind: str) -> list[dict]:  # type: ignore[type-arg]
    return pq.ParquetFile(next((path / "events" / f"kind={kind}").glob("*"))).read().to_pylist()


@pytest.mark.parametrize("row_group", [1, 2, 100])
def test_round_trip(tmp_path: Path, row_group: int) -> None:
    trace = read_trace(record(tmp_path / "t", row_group=row_group))
    assert trace.events == [as_read(event) for event in EVENTS]
    assert trace.run == replace(RUN, complete=True)
    assert trace.items == {-5: "price"}
    assert trace.processes == (
        ProcessInfo(0, "a", True),
        ProcessInfo(1, "b", True),
        ProcessInfo(2, "c", False),  # it crashed
    )


def test_what_only_some_protocols_tell_comes_back_too(tmp_path: Path) -> None:
    events = [
        Event(JOIN, 1, note="0:12 3:40", version=0),
        Event(INSTALL, 1, view=4, members=(2, 0, 1), note=NOT_PRIMARY),
        Event(MULTICAST, 0, 0, 1, FIRST, inc=3, sender_inc=3, view=4),
        Event(DELIVER, 1, 0, 1, FIRST, sender_inc=3, view=4, position=9),
        Event(CONFIRM, 1, 0, 1, sender_inc=3, view=4),
        Event(PURGE, 2, 0, 1, by_seq=7, note=DELIVERY, sender_inc=3, by_sender=1, by_inc=2),
        Event(PURGE, 2, 0, 2, by_seq=3, note=DELIVERY, sender_inc=3),
        Event(SUSPECT, 0, peer=2, view=4, inc=3),
        Event(APPEND, 2, 0, 1),
        Event(ACKNOWLEDGE, 2, 0, 1),
        Event(RECLAIM, 2, 0, 1, note=AGE),
        Event(REQUEST, 0, client=0, request=0, inc=3),
        Event(EXECUTE, 0, client=0, request=0, position=1, note=UPDATE, inc=3),
        Event(EXECUTE, 0, client=0, request=1, version=0, note=QUERY, inc=3),
        Event(REPLY, 0, client=0, request=1, version=0, digest=-(2**63), inc=3),
        Event(CRASH, 2, note=DISK),
        Event(RECOVER, 2, inc=2, version=5),
    ]
    for n, event in enumerate(events):
        event.n, event.ts_ns = n, 10 * n
    assert read_trace(record(tmp_path / "t", events)).events == [as_read(one) for one in events]
    assert rows(tmp_path / "t", JOIN)[0]["attrs"] == [("after", "0:12 3:40")]
    assert rows(tmp_path / "t", INSTALL)[0]["attrs"] == [("primary", "0")]
    assert rows(tmp_path / "t", EXECUTE)[0]["attrs"] == [("op", "update")]
    assert rows(tmp_path / "t", CRASH)[0]["attrs"] == [("reason", "disk")]
    assert [(row["by_sender"], row["by_inc"]) for row in rows(tmp_path / "t", PURGE)] == [
        (1, 2),
        (0, 3),
    ]


@pytest.mark.parametrize(
    ("relation", "covers"),
    [
        ("bitmap", [b"", b"\x01", b"\x03", b"\x00\x01"]),
        ("bitmap:32", [b"", b"\x01"]),
        ("list", [(), (1,), (1, 2)]),
        ("update-fin", [(), (), (1, 2)]),
        ("all", [b"", b""]),
        ("none", [b"", b""]),
    ],
)
def test_covers_come_back_in_the_form_of_the_relation(
    tmp_path: Path, relation: str, covers: list[bytes | tuple[int, ...]]
) -> None:
    """Monitors tell relations by it."""
    events = [
        Event(MULTICAST, 0, 0, seq, DataMessage(0, seq, covers=cover), n=seq, ts_ns=seq)
        for seq, cover in enumerate(covers, 1)
    ]
    with TraceWriter(tmp_path, replace(RUN, relation=relation), "a") as trace:
        trace.append(events)
        trace.close(complete=False)
    assert read_trace(tmp_path).events == [as_read(event) for event in events]


def test_event_schema_is_the_contract(tmp_path: Path) -> None:
    record(tmp_path)
    ints, text = pa.list_(pa.int32()), pa.map_(pa.string(), pa.string())
    expected = pa.schema(
        [
            *(("run_id", pa.int64()), ("pid", pa.int32()), ("inc", pa.int32())),
            *(("n", pa.int64()), ("ts_ns", pa.int64())),
            *(("grp", pa.int32()), ("view", pa.int64())),
            *(("sender", pa.int32()), ("sender_inc", pa.int32()), ("seq", pa.int64())),
            *(("item", pa.int64()), ("dist", pa.int32()), ("covers", ints)),
            *(("by_sender", pa.int32()), ("by_inc", pa.int32()), ("by_seq", pa.int64())),
            *(("position", pa.int64()), ("peer", pa.int32())),
            *(("client", pa.int64()), ("request", pa.int64()), ("version", pa.int64())),
            *(("size", pa.int32()), ("digest", pa.int64()), ("buffered", pa.int32())),
            *(("members", ints), ("attrs", text), ("declared", pa.list_(pa.int64()))),
        ]
    )
    folders = sorted(path.name for path in (tmp_path / "events").iterdir())
    assert folders == sorted(f"kind={kind}" for kind in {event.kind for event in EVENTS})
    for path in (tmp_path / "events").glob("*/*.parquet"):
        schema = pq.ParquetFile(path).schema_arrow
        assert schema.names == expected.names
        for field in expected:
            # Parquet has its own names for the inner fields of a list or map.
            assert inner(schema.field(field.name).type) == inner(field.type)


def inner(kind: pa.DataType) -> tuple[object, ...]:
    if pa.types.is_list(kind):
        return ("list", kind.value_type)
    return ("map", kind.key_type, kind.item_type) if pa.types.is_map(kind) else (kind,)


def test_small_tables_are_the_contract(tmp_path: Path) -> None:
    record(tmp_path)
    names = {path.name: pq.read_schema(path) for path in tmp_path.glob("*.parquet")}
    columns = {
        name: [(field.name, str(field.type)) for field in schema] for name, schema in names.items()
    }
    assert columns.keys() == {"runs.parquet", "processes.parquet", "items.parquet"}
    assert columns["processes.parquet"] == [
        ("run_id", "int64"),
        ("pid", "int32"),
        ("name", "string"),
        ("correct", "bool"),
    ]
    assert columns["items.parquet"] == [("run_id", "int64"), ("item", "int64"), ("name", "string")]
    assert columns["runs.parquet"][:-1] == [
        ("run_id", "int64"),
        *((name, "string") for name in ("name", "protocol", "order", "relation")),
        ("f", "int32"),
        ("seed", "int64"),
        ("complete", "bool"),
    ]
    assert columns["runs.parquet"][-1][0] == "parameters"
    assert columns["runs.parquet"][-1][1].startswith("map<string, string")


def test_any_reader_sees_kind_as_a_column(tmp_path: Path) -> None:
    record(tmp_path)
    dataset = ds.dataset(tmp_path / "events", partitioning="hive")
    assert dataset.schema.field("kind").type == pa.string()
    assert dataset.count_rows() == len(EVENTS)
    assert dataset.count_rows(filter=ds.field("kind") == "multicast") == 3


def test_cells(tmp_path: Path) -> None:
    record(tmp_path)
    first, second, third = rows(tmp_path, "multicast")
    assert (first["item"], first["dist"], first["size"], first["inc"]) == (-5, None, 3, 1)
    expected = hashlib.blake2b(b"one", digest_size=8).digest()
    assert first["digest"] == int.from_bytes(expected, "big", signed=True)
    assert first["attrs"] is None
    assert dict(second["attrs"]) == {"never_purge": "1", "deps": "1:4 2:0"}
    assert (second["item"], second["dist"], second["size"]) == (None, None, 0)
    assert third["dist"] == 2
    [deliver] = rows(tmp_path, "deliver")
    assert (deliver["item"], deliver["dist"]) == (-5, 2)
    [purge] = rows(tmp_path, "purge")
    assert dict(purge["attrs"]) == {"where": "delivery"}
    assert (purge["by_sender"], purge["by_inc"], purge["by_seq"]) == (0, 1, 3)
    assert (purge["item"], purge["size"], purge["digest"]) == (None, None, None)
    [discard] = rows(tmp_path, "discard")
    assert dict(discard["attrs"]) == {"reason": "duplicate"}
    skip, block = rows(tmp_path, "skip")
    assert (skip["by_seq"], skip["attrs"]) == (3, None)
    assert (block["by_seq"], dict(block["attrs"])) == (None, {"reason": "block"})
    [crash] = rows(tmp_path, "crash")
    assert {crash[name] for name in ("sender", "sender_inc", "seq", "by_sender", "peer")} == {None}


def test_rows_leave_in_bounded_groups(tmp_path: Path) -> None:
    events = [Event(RECEIVE, 1, 0, seq, n=seq, ts_ns=seq) for seq in range(1, 26)]
    record(tmp_path, events, row_group=10)
    [path] = (tmp_path / "events" / "kind=receive").glob("*.parquet")
    metadata = pq.ParquetFile(path).metadata
    groups = [metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)]
    assert groups == [10, 10, 5]


def test_same_events_same_bytes(tmp_path: Path) -> None:
    def contents(path: Path) -> dict[str, bytes]:
        return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file()}

    one, two = contents(record(tmp_path / "1")), contents(record(tmp_path / "2"))
    assert len(one) == 3 + len({event.kind for event in EVENTS})
    assert one == two


def test_local_order_survives_a_clock_that_went_back(tmp_path: Path) -> None:
    events = [Event(RECEIVE, 0, 0, 1, n=0, ts_ns=50), Event(STABLE, 0, 0, 1, n=1, ts_ns=40)]
    assert read_trace(record(tmp_path, events)).events == events


def test_a_run_without_events(tmp_path: Path) -> None:
    assert read_trace(record(tmp_path, [])).events == []


def test_several_runs_and_tables_that_are_directories(tmp_path: Path) -> None:
    record(tmp_path)
    table = pq.read_table(tmp_path / "runs.parquet")
    (tmp_path / "runs.parquet").unlink()
    (tmp_path / "runs.parquet").mkdir()
    other = table.set_column(0, "run_id", pa.array([8], pa.int64()))
    pq.write_table(table, tmp_path / "runs.parquet" / "a.parquet")
    pq.write_table(other, tmp_path / "runs.parquet" / "b.parquet")
    with pytest.raises(BadFile, match="name one run to read, it has 7, 8"):
        read_trace(tmp_path)
    assert len(read_trace(tmp_path, 7).events) == len(EVENTS)
    assert read_trace(tmp_path, 8).events == []


def test_what_is_not_a_trace(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match=r"not a trace, or one .* no runs\.parquet"):
        read_trace(tmp_path)
    record(tmp_path / "t")
    [path] = (tmp_path / "t" / "events" / "kind=crash").glob("*")
    path.write_bytes(b"junk")
    with pytest.raises(BadFile, match="cannot be read as Parquet") as caught:
        read_trace(tmp_path / "t")
    assert "\n" not in str(caught.value)
    pq.write_table(pa.table({"x": [1]}), tmp_path / "t" / "runs.parquet")
    with pytest.raises(BadFile, match="not part of a trace: no column run_id"):
        read_trace(tmp_path / "t")


def test_an_abandoned_recording_is_not_a_trace(tmp_path: Path) -> None:
    with TraceWriter(tmp_path, RUN, "abc") as trace:
        trace.append(EVENTS)
    with pytest.raises(BadFile, match="not finished"):
        read_trace(tmp_path)


def test_misuse(tmp_path: Path) -> None:
    record(tmp_path / "t")
    with pytest.raises(ConfigError, match="already holds a trace"):
        TraceWriter(tmp_path / "t", RUN, "abc")
    with pytest.raises(ConfigError, match="relation: unknown value 'newest'; allowed: item"):
        TraceWriter(tmp_path / "u", replace(RUN, relation="newest"), "abc")
    with pytest.raises(ConfigError, match="row_group: 0"):
        TraceWriter(tmp_path / "u", RUN, "abc", row_group=0)
    with (
        TraceWriter(tmp_path / "v", RUN, "abc") as trace,
        pytest.raises(LocalProtocolError, match=r"kind: unknown value '\.\./x'"),
    ):
        trace.append([Event("../x", 0)])


def test_without_pyarrow_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ConfigError, match=r"pip install semcast\[lab\]"):
        TraceWriter(tmp_path, RUN, "abc")
