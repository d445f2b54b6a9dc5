"""The multicasts of a trace, counted where its files are read: by distance and by item.

The recorder has written into each multicast how far back the latest message lies that it makes
obsolete, so nothing is sorted and no two messages are compared.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from semcast.pipeline.profile.distance_bins import bin_of, count_distances, unique_counts
from semcast.pipeline.profile.partial_counts import (
    STREAM,
    StreamCodes,
    pack_counts,
)
from semcast.pipeline.reading.file_splits import FileSplit, make_splits, read_split
from semcast.terms.events import MULTICAST
from semcast.traces.trace_files import kind_files

SPLIT_ROWS: Final = 1 << 22  # Fewer take less time than Spark takes for a task.

_TYPES: Final = {
    **dict.fromkeys((*STREAM, "seq", "item", "dist"), pa.int64()),
    "covers": pa.list_(pa.int32()),
    "attrs": pa.map_(pa.string(), pa.string()),
}


def open_trace(path: Path) -> list[FileSplit]:
    """The multicasts of a trace or a lake, in splits."""
    return make_splits(kind_files(path, MULTICAST), SPLIT_ROWS)


def count_split(buckets: int, split: FileSplit) -> Iterator[Any]:
    """Batches of `PARTIAL_SCHEMA` for the multicasts of a split.

    `is_rich` beside distances: among these messages one names others by more than its item, so
    that more or fewer may be superseded than supersede.
    """
    for batch in read_split(split, [*STREAM, "item", "dist", "covers", "attrs"]):
        if batch.num_rows:
            streams = StreamCodes([_column(batch, name) for name in STREAM])
            yield from _distances(streams, batch, buckets).to_batches()
            yield from _items(streams, _column(batch, "item"), buckets).to_batches()


def _distances(streams: StreamCodes, batch: Any, buckets: int) -> Any:
    dist = _column(batch, "dist").fill_null(0).to_numpy()
    of, found, messages = count_distances(streams.of, dist)
    records = np.stack([found, messages], axis=1)
    is_rich = _is_rich(batch, dist > 0)
    return pack_counts(streams, of, bin_of(found) % buckets, "dist_pack", records, is_rich)


def _items(streams: StreamCodes, items: Any, buckets: int) -> Any:
    is_valid = items.is_valid()
    coded = items.filter(is_valid).dictionary_encode()
    size = max(1, len(coded.dictionary))
    stream = streams.of[is_valid.to_numpy(zero_copy_only=False)]
    found, messages = unique_counts(stream * size + coded.indices.to_numpy())
    item = coded.dictionary.to_numpy()[found % size]
    records = np.stack([item, messages], axis=1)
    return pack_counts(streams, found // size, item % buckets, "item_pack", records)


def _is_rich(batch: Any, is_related: Any) -> bool:
    covers, attrs = _column(batch, "covers"), _column(batch, "attrs")
    is_named = covers.is_valid().to_numpy(zero_copy_only=False)
    return bool(((is_named | _is_kept(attrs)) & is_related).any())


def _column(batch: Any, name: str) -> Any:
    """Files may lack columns, or have narrower numbers."""
    if name not in batch.schema.names:
        return pa.nulls(batch.num_rows, _TYPES[name])
    column = batch.column(name)
    return column if pa.types.is_map(column.type) else column.cast(_TYPES[name])


def count_superseded(splits: Sequence[FileSplit]) -> dict[tuple[int | None, ...], int]:
    """The number of messages of each stream that some later one supersedes, for any relation."""
    names = ["covers", "seq", "dist", *STREAM]
    batches = [batch for split in splits for batch in read_split(split, [*names, "attrs"])]
    covers, *numbers = (pa.concat_arrays([_column(b, name) for b in batches]) for name in names)
    seq, dist = (column.fill_null(0).to_numpy() for column in numbers[:2])
    streams = StreamCodes(numbers[2:])
    is_listed = covers.is_valid().to_numpy(zero_copy_only=False) & (dist > 0)
    listed = covers.filter(pa.array(is_listed))
    by_list = np.flatnonzero(is_listed)[pc.list_parent_indices(listed).to_numpy()]
    by_dist = np.flatnonzero(~is_listed & (dist > 0))
    rows = np.concatenate([by_list, by_dist])
    targets = seq[rows] - np.concatenate([listed.flatten().to_numpy(), dist[by_dist]])
    bits = int(seq.max(initial=0)).bit_length()
    keys = np.unique((streams.of[rows] << bits | targets)[targets >= 1])
    never_purged = np.flatnonzero(np.concatenate([_is_kept(_column(b, "attrs")) for b in batches]))
    keys = np.setdiff1d(
        keys, streams.of[never_purged] << bits | seq[never_purged], assume_unique=True
    )
    found, messages = unique_counts(keys >> bits)
    columns = streams.stream_columns(found)
    labels = zip(*(columns[name].to_pylist() for name in STREAM), strict=True)
    return dict(zip(labels, messages.tolist(), strict=True))


def _is_kept(attrs: Any) -> Any:
    """Whether each message says that it may never be purged."""
    if attrs.null_count == len(attrs):
        return np.zeros(len(attrs), bool)
    value = pc.equal(pc.map_lookup(attrs, "never_purge", "first"), "1")
    return value.fill_null(False).to_numpy(zero_copy_only=False)
