"""The multicasts of a trace, counted where its files are read: by distance and by item.

The recorder has written into each multicast how far back the latest message lies that it makes
obsolete, so nothing is sorted and no two messages are compared.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from semcast.pipeline.profile.distance_bins import bin_of, count_distances, unique_counts
from semcast.pipeline.profile.partial_counts import (
    PARTIAL_SCHEMA,
    STREAM,
    PartialCounts,
    StreamCodes,
    pack_counts,
)
from semcast.pipeline.reading.file_splits import FileSplit, make_splits, read_split, run_per_task
from semcast.terms.events import MULTICAST
from semcast.traces.trace_files import kind_files

PIECE_ROWS: Final = 1 << 22  # Fewer take less time than Spark takes for a task.

_TYPES: Final = {
    **dict.fromkeys((*STREAM, "item", "dist"), pa.int64()),
    "covers": pa.list_(pa.int32()),
    "attrs": pa.map_(pa.string(), pa.string()),
}


def count_trace(spark: SparkSession, path: Path) -> PartialCounts:
    """The parts of a trace or a lake.

    `is_rich` beside distances: among these messages one names others by more than its item, so
    that more or fewer may be superseded than supersede.
    """
    pieces = make_splits(kind_files(path, MULTICAST), PIECE_ROWS)
    # Small files are pieces of their own, but need no task each to meet in.
    buckets = min(len(pieces), pieces[-1].place // PIECE_ROWS + 1) if pieces else 1
    return PartialCounts(
        run_per_task(spark, pieces, partial(_count, buckets), PARTIAL_SCHEMA), buckets
    )


def _count(buckets: int, piece: FileSplit) -> Iterator[Any]:
    for batch in read_split(piece, list(_TYPES)):
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
    if attrs.null_count < len(attrs):
        is_kept = pc.equal(pc.map_lookup(attrs, "never_purge", "first"), "1").fill_null(False)
        is_named = is_named | is_kept.to_numpy(zero_copy_only=False)
    return bool((is_named & is_related).any())


def _column(batch: Any, name: str) -> Any:
    """Files may lack columns, or have narrower numbers."""
    if name not in batch.schema.names:
        return pa.nulls(batch.num_rows, _TYPES[name])
    column = batch.column(name)
    return column if pa.types.is_map(column.type) else column.cast(_TYPES[name])
