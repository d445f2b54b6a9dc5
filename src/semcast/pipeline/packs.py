"""What tasks found in pieces of streams: steps of distances, and packs of what they say of items.

A pack holds records of some items of one stream, whole numbers of which the first is the item and
the second its messages.  All packs with one bucket meet in one task, which holds about as much
then as a task that reads: there are as many buckets as pieces.  So Spark moves thousands of rows
instead of millions.
Rejected: a row for each item and piece, which costs Spark more than all the counting.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from semcast.pipeline.steps import STEP, counted

STREAM: Final = ("run_id", "sender", "sender_inc")
RECORDS_MAX: Final = 4_096  # in one pack: a JVM does not like large values

_STREAM: Final = "run_id bigint, sender bigint, sender_inc bigint"
# Of a task: steps of a stream, a pack of its items, or how many rows are bad, and the first.
PART: Final = (
    f"{_STREAM}, {STEP}, is_rich boolean, bucket bigint, pack binary, "
    "bad bigint, file string, row bigint, column string, reason string"
)
# Steps of a stream; how many items it has in a bucket; or how many items have so many messages.
MERGED: Final = f"{_STREAM}, {STEP}, is_rich boolean, items bigint, frequency bigint"

_TYPES: Final = {
    **dict.fromkeys((*STREAM, "step", "dist", "messages"), pa.int64()),
    **dict.fromkeys(("dists", "counts"), pa.list_(pa.int64())),
    **dict.fromkeys(("bucket", "items", "frequency", "bad", "row"), pa.int64()),
    **dict.fromkeys(("file", "column", "reason"), pa.string()),
    "is_rich": pa.bool_(),
    "pack": pa.binary(),
}
# (streams, stream of each record, records) → steps that the records settle.
Settle: TypeAlias = Callable[["Streams", Any, Any], Any]


def table_of(schema: str, columns: Mapping[str, Any]) -> Any:
    """A table of `PART` or `MERGED`, null where a column is not given."""
    names = [column.split()[0] for column in schema.split(", ")]
    size = len(next(iter(columns.values())))
    filled = [_arrow(columns.get(name, pa.nulls(size))).cast(_TYPES[name]) for name in names]
    return pa.table(filled, names)


def _arrow(column: Any) -> Any:
    """Of what is Arrow's in chunks, `pa.array` would make a Python object for each value."""
    return column if isinstance(column, pa.ChunkedArray) else pa.array(column)


class Streams:
    """The streams of some rows: `of` has a small number for each row."""

    def __init__(self, columns: list[Any]) -> None:
        self.of = np.zeros(len(columns[0]), np.int64)
        for column in columns:
            coded = column.dictionary_encode(null_encoding="encode")
            if len(coded.dictionary) > 1:
                self.of = self.of * len(coded.dictionary) + coded.indices.to_numpy()
                self.of = pa.array(self.of).dictionary_encode().indices.to_numpy().astype(np.int64)
        firsts = np.unique(self.of, return_index=True)[1] if self.of.any() else np.zeros(1, int)
        self._distinct = [column.take(pa.array(firsts)) for column in columns]
        self.count = len(firsts)

    def named(self, numbers: Any) -> dict[str, Any]:
        """The columns that name the streams with these numbers."""
        places = pa.array(numbers)
        return {n: each.take(places) for n, each in zip(STREAM, self._distinct, strict=True)}


def packed(streams: Streams, stream: Any, records: Any, buckets: int) -> Any:
    """Records as rows of `PART`."""
    key = records[:, 0] % buckets * streams.count + stream
    order = np.argsort(key, kind="stable")
    key, records = key[order], np.ascontiguousarray(records[order])
    cuts = np.flatnonzero(np.diff(key, prepend=-1))
    starts = np.union1d(cuts, np.arange(0, len(key), RECORDS_MAX))
    ends = np.append(starts, len(key)) * records.itemsize * records.shape[1]
    buffers = [None, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(records)]
    packs = pa.Array.from_buffers(pa.binary(), len(starts), buffers)
    bucket, stream = np.divmod(key[starts], streams.count)
    return table_of(PART, {**streams.named(stream), "bucket": bucket, "pack": packs})


def merged(parts: DataFrame, settle: Settle | None = None) -> DataFrame:
    """Parts of all tasks as rows of `MERGED`; `settle` finds what only all records tell."""

    def merge(table: pa.Table) -> pa.Table:  # Spark looks at these types.
        return _merge(settle, table)

    return parts.where("bad IS NULL").groupBy("bucket").applyInArrow(merge, MERGED)


def _merge(settle: Settle | None, table: Any) -> Any:
    """What came to one bucket."""
    is_pack = table["pack"].is_valid()
    steps = table.filter(pc.invert(is_pack))
    tables = [table_of(MERGED, dict(zip(steps.column_names, steps.columns, strict=True)))]
    packs = table.filter(is_pack)
    if packs.num_rows:
        streams = Streams([packs[name].combine_chunks() for name in STREAM])
        told = [np.frombuffer(pack, np.int64) for pack in packs["pack"].to_pylist()]
        width = 2 if settle is None else 4
        records = np.concatenate(told).reshape(-1, width)
        stream = np.repeat(streams.of, [len(pack) // width for pack in told])
        tables += _tallies(streams, stream, records)
        if settle is not None:
            tables.append(settle(streams, stream, records))
    return pa.concat_tables(tables)


def _tallies(streams: Streams, stream: Any, records: Any) -> Iterator[Any]:
    """How many items each stream has, and how many have how many messages.

    An item of two senders counts once; items of different runs are different.
    """
    coded = pa.array(records[:, 0]).dictionary_encode()
    item, size = coded.indices.to_numpy().astype(np.int64), len(coded.dictionary)
    pairs, _ = counted(stream * size + item)
    found, items = counted(pairs // size)
    yield table_of(MERGED, {**streams.named(found), "items": items})
    runs = streams.named(np.arange(streams.count))["run_id"].dictionary_encode().indices.to_numpy()
    _, place = np.unique(runs[stream] * size + item, return_inverse=True)
    messages = np.bincount(place, records[:, 1]).astype(np.int64)
    frequency, items = counted(_rounded(messages))
    yield table_of(MERGED, {"frequency": frequency, "items": items})


def _rounded(messages: Any) -> Any:
    """Down to three digits."""
    digits = np.searchsorted(10 ** np.arange(1, 19), messages, "right") + 1
    unit = 10 ** np.maximum(digits - 3, 0)
    return messages // unit * unit
