"""Events on their way to who judges them: read from files, and written as cells of bytes."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from hypothesis import given
from hypothesis import strategies as st

from semcast.pipeline.check.event_encoding import EncodedEvents, encode_events, first_seq
from semcast.pipeline.check.event_fields import columns_of
from semcast.pipeline.check.event_files import RowGroupShare, assign_tasks, read_share
from semcast.pipeline.check.event_table import FIELDS
from semcast.pipeline.check.stream_block import ANY_SKEW, NEVER, StreamBlock, StreamInfo
from semcast.pipeline.check.stream_packing import BLOCK, _packed
from semcast.terms.events import MULTICAST
from semcast.terms.relations import LISTED
from semcast.traces.schema import EVENT_COLUMNS, arrow_schema

NAMES = ("run_id", "n", "sender", "seq", "item", "covers", "attrs", "by_seq")


def numbers(width: str) -> st.SearchStrategy[int]:
    info = np.iinfo(width)
    near = st.integers(0, 70_000)
    return (
        near | st.integers(int(info.min), int(info.max))
        if width == "i8"
        else near.map(lambda number: number % int(info.max))
    )


STREAM = StreamInfo(
    run_id=1,
    sender=0,
    sender_inc=0,
    n=1,
    f=0,
    skew_ns=ANY_SKEW,
    replaces=LISTED,
    is_replicated=True,
    restarts_streams=False,
    owed=np.ones(1, bool),
    left_at=np.full(1, NEVER),
    judged=frozenset(),
)
events = st.lists(st.tuples(*map(numbers, FIELDS.values())), min_size=1, max_size=12)


@given(events, st.sets(st.integers(1, 11)))
def test_cells_hold_what_was_written(rows, cuts) -> None:
    fields = {
        name: np.array(column, FIELDS[name])
        for name, column in zip(FIELDS, zip(*rows, strict=True), strict=True)
    }
    starts = np.array([0, *sorted(cut for cut in cuts if cut < len(rows))])
    cells = list(encode_events(fields, starts, len(rows)))
    assert [first_seq(cell) for cell in cells] == fields["seq"][starts].tolist()
    found = EncodedEvents(cells)
    assert found.size == len(rows)
    for name, values in fields.items():
        assert found.column(name).tolist() == values.tolist()


def test_a_column_that_is_not_given_is_zero_and_takes_no_room() -> None:
    few = {"seq": np.arange(5, 9), "pid": np.full(4, 2)}
    [cell] = encode_events(few, np.array([0]), 4)
    assert EncodedEvents([cell]).column("ts").tolist() == [0, 0, 0, 0]
    [longer] = encode_events({**few, "ts": np.arange(4)}, np.array([0]), 4)
    assert len(longer) == len(cell) + 4 * 2


def test_what_a_footer_tells_is_as_if_it_had_been_read(tmp_path) -> None:
    """One value, none, several, and one that only some rows have; rows without a sender are left
    out; row groups of two rows, dealt to three."""
    told = {
        "run_id": [7] * 8,
        "n": [*range(1, 9)],
        "sender": [0, 0, 0, 0, None, 1, 1, 1],
        "seq": [1, 2, 3, 4, None, 1, 2, 3],
        "item": [5, 5, 5, None, None, 5, 5, 5],
        "covers": [None, None, None, [1, 1], None, None, None, None],
        "attrs": [None] * 5 + [[("where", "delivery")]] * 3,
    }
    schema = pa.schema([field for field in arrow_schema(EVENT_COLUMNS) if field.name in told])
    file = tmp_path / "kind=deliver" / "part.parquet"
    file.parent.mkdir()
    pa.parquet.write_table(pa.table(told, schema=schema), file, row_group_size=2)
    read = [
        row
        for part in range(3)
        for columns in read_share(RowGroupShare(f"file://{file}", part, 3), NAMES)
        for row in zip(*(columns[name].to_pylist() for name in NAMES), strict=True)
    ]
    whole = [dict(zip(told, row, strict=True)) for row in zip(*told.values(), strict=True)]
    assert sorted(read, key=lambda row: row[1]) == [
        tuple(row.get(name) for name in NAMES) for row in whole if row["sender"] is not None
    ]


def test_little_is_one_task_and_every_share_has_one(tmp_path) -> None:
    files = [f"file://{tmp_path}/{name}" for name in "ab"]
    for name in "ab":
        (tmp_path / name).write_bytes(b"x")
    assert assign_tasks(files, 16) == [[RowGroupShare(file, 0, 1) for file in files]]
    (tmp_path / "a").write_bytes(bytes(20 << 20))
    dealt = assign_tasks(files, 16)
    assert len(dealt) == 3
    assert sorted(share for task in dealt for share in task) == [
        *(RowGroupShare(files[0], part, 3) for part in range(3)),
        RowGroupShare(files[1], 0, 1),
    ]
    (tmp_path / "b").unlink()
    assert len(assign_tasks(files, 16)) == 16
    assert len(assign_tasks(["elsewhere://a"], 16)) == 16
    assert assign_tasks([], 16) == []
    for name in "ab":
        (tmp_path / name).write_bytes(b"")
    assert len(assign_tasks(files, 16)) == 1, "who reads them says what is wrong"


@given(st.randoms(use_true_random=False), st.integers(2, 6))
def test_what_messages_list_is_theirs_in_whatever_order_tasks_end(rng, tasks) -> None:
    size = 24
    table = {
        "run_id": pa.array([1] * size, pa.int64()),
        "pid": pa.array([0] * size, pa.int32()),
        "inc": pa.array([0] * size, pa.int32()),
        "n": pa.array(range(1, size + 1), pa.int64()),
        "ts_ns": pa.array(range(size), pa.int64()),
        "sender": pa.array([0] * size, pa.int32()),
        "sender_inc": pa.array([0] * size, pa.int32()),
        "seq": pa.array(range(1, size + 1), pa.int64()),
        "declared": pa.array(
            [[n + 1 - d for d in range(1, n % 4 + 1)] or None for n in range(size)]
        ),
    }
    names = columns_of(MULTICAST)
    whole = {name: table.get(name, pa.nulls(size)) for name in names}
    parts = []
    for task in range(tasks):
        some = pa.array(range(task, size, tasks))
        share = {name: column.take(some) for name, column in whole.items()}
        parts += _packed(share, MULTICAST, BLOCK).to_pylist()
    rng.shuffle(parts)
    covers = StreamBlock(STREAM, parts).covers
    assert covers == {n + 1: [*range(1, n % 4 + 1)] for n in range(size) if n % 4}
