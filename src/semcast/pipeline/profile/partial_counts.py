"""Partial counts of distances and items, as tasks return them, and their merge.

A pack holds records of one stream, whole numbers of which the first is a distance or an item and
the second its messages.  All packs with one bucket meet in one task; there are about as many
buckets as tasks that read, so each holds about as much.  So Spark moves thousands of rows instead
of millions.
Rejected: a row for each item and split, which costs Spark more than all the counting.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from semcast.pipeline.profile.distance_bins import (
    BIN_SCHEMA,
    count_distances,
    pack_rows,
    to_bins,
    unique_counts,
    unpack_rows,
)

STREAM: Final = ("run_id", "sender", "sender_inc")
RECORDS_MAX: Final = 4_096  # in one pack: a JVM does not like large values

_STREAM: Final = "run_id bigint, sender bigint, sender_inc bigint"
# Packs of a stream, of distances or items; or the number of bad rows, and the first of them.
PARTIAL_SCHEMA: Final = (
    f"{_STREAM}, bucket int, dist_pack binary, is_rich boolean, item_pack binary, "
    "bad bigint, file string, row bigint, column string, reason string"
)
# Bins of a stream; its items in a bucket; or how many items have `frequency` messages.
MERGED_SCHEMA: Final = f"{_STREAM}, {BIN_SCHEMA}, is_rich boolean, items bigint, frequency bigint"

_TYPES: Final = {
    "bigint": pa.int64(),
    "int": pa.int32(),
    "boolean": pa.bool_(),
    "string": pa.string(),
    "binary": pa.binary(),
}
# (stream of each record, records) → stream and distance of each message whose distance they show.
ResolveDistances: TypeAlias = Callable[[Any, Any], tuple[Any, Any]]


def table_of(schema: str, columns: Mapping[str, Any]) -> Any:
    """A table of `PARTIAL_SCHEMA` or `MERGED_SCHEMA`, null where a column is not given."""
    fields = [column.split() for column in schema.split(", ")]
    size = len(next(iter(columns.values())))
    filled = [
        pa.array(columns.get(name, pa.nulls(size))).cast(_TYPES[type_]) for name, type_ in fields
    ]
    return pa.table(filled, [name for name, _ in fields])


class StreamCodes:
    """The streams of some rows: `of` has a small number for each row."""

    def __init__(self, columns: list[Any]) -> None:
        self.of = np.zeros(len(columns[0]), np.int64)
        for column in columns:
            if not _is_constant(column):
                coded = column.dictionary_encode(null_encoding="encode")
                self.of = self.of * len(coded.dictionary) + coded.indices.to_numpy()
                self.of = pa.array(self.of).dictionary_encode().indices.to_numpy().astype(np.int64)
        firsts = np.unique(self.of, return_index=True)[1] if self.of.any() else np.zeros(1, int)
        self._distinct = [column.take(pa.array(firsts)) for column in columns]
        self.count = len(firsts)

    def stream_columns(self, numbers: Any) -> dict[str, Any]:
        """The columns that name the streams with these numbers."""
        places = pa.array(numbers)
        return {n: each.take(places) for n, each in zip(STREAM, self._distinct, strict=True)}


def _is_constant(column: Any) -> bool:
    ends = pc.min_max(column)
    return not column.null_count and bool(ends["min"] == ends["max"])


def pack_counts(
    streams: StreamCodes, stream: Any, bucket: Any, pack: str, records: Any, is_rich: bool = False
) -> Any:
    """Records as rows of `PARTIAL_SCHEMA`, in the column `pack`."""
    key = bucket * streams.count + stream
    order = np.argsort(key, kind="stable")
    key, records = key[order], np.ascontiguousarray(records[order])
    cuts = np.flatnonzero(np.diff(key, prepend=-1))
    starts = np.union1d(cuts, np.arange(0, len(key), RECORDS_MAX))
    bucket, stream = np.divmod(key[starts], streams.count)
    columns = {
        "bucket": bucket,
        pack: pack_rows(records, np.append(starts, len(key))),
        "is_rich": np.full(len(starts), is_rich),
    }
    return table_of(PARTIAL_SCHEMA, {**streams.stream_columns(stream), **columns})


def merge_bucket(resolve: ResolveDistances | None, table: Any) -> Iterator[Any]:
    """Tables of `MERGED_SCHEMA` for all partial counts of one bucket; `resolve` finds the distances
    that only all records together show."""
    dists = table.filter(table["dist_pack"].is_valid())
    if dists.num_rows:
        streams, stream, records = _unpacked(dists, "dist_pack", 2)
        of, bins = to_bins(*count_distances(stream, *records.T))
        is_rich = pa.repeat(pc.any(dists["is_rich"]), len(of))
        yield table_of(MERGED_SCHEMA, {**streams.stream_columns(of), **bins, "is_rich": is_rich})
    items = table.filter(table["item_pack"].is_valid())
    if items.num_rows:
        streams, stream, records = _unpacked(items, "item_pack", 2 if resolve is None else 4)
        yield from _item_counts(streams, stream, records)
        if resolve is not None:
            of, bins = to_bins(*count_distances(*resolve(stream, records)))
            yield table_of(MERGED_SCHEMA, {**streams.stream_columns(of), **bins})


def _unpacked(table: Any, pack: str, width: int) -> tuple[StreamCodes, Any, Any]:
    """The streams of some packs, the stream of each record, and the records."""
    streams = StreamCodes([table[name].combine_chunks() for name in STREAM])
    records, sizes = unpack_rows(table[pack], width)
    return streams, np.repeat(streams.of, sizes), records


def _item_counts(streams: StreamCodes, stream: Any, records: Any) -> Iterator[Any]:
    """How many items each stream has, and how many have how many messages.

    An item of two senders counts once; items of different runs are different.
    """
    coded = pa.array(records[:, 0]).dictionary_encode()
    item, size = coded.indices.to_numpy().astype(np.int64), len(coded.dictionary)
    pairs, _ = unique_counts(stream * size + item)
    found, items = unique_counts(pairs // size)
    yield table_of(MERGED_SCHEMA, {**streams.stream_columns(found), "items": items})
    runs = (
        streams.stream_columns(np.arange(streams.count))["run_id"]
        .dictionary_encode()
        .indices.to_numpy()
    )
    _, place = np.unique(runs[stream] * size + item, return_inverse=True)
    messages = np.bincount(place, records[:, 1]).astype(np.int64)
    frequency, items = unique_counts(_rounded(messages))
    yield table_of(MERGED_SCHEMA, {"frequency": frequency, "items": items})


def _rounded(messages: Any) -> Any:
    """Down to three digits."""
    digits = np.searchsorted(10 ** np.arange(1, 19), messages, "right") + 1
    unit = 10 ** np.maximum(digits - 3, 0)
    return messages // unit * unit
