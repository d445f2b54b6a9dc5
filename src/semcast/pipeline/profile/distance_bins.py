"""A logarithmic histogram of distances: a bin for each up to 1,024, then 64 bins per doubling.

However long a stream is, it has at most a few thousand bins.  Wide bins also store their exact
distances and counts, so that a percentile inside a bin can be computed.
"""

from typing import Any, Final

import numpy as np
import pyarrow as pa

EXACT_BITS: Final = 10
EXACT_MAX: Final = 1 << EXACT_BITS
PER_DOUBLING_BITS: Final = 6

# The bins of a stream: number, farthest distance, messages, and the records of a wide bin.
BIN_SCHEMA: Final = "bin bigint, dist bigint, messages bigint, held binary"


def bin_of(dist: Any) -> Any:
    """The number of the bin that holds a distance."""
    log = np.frexp(dist.astype(np.float64))[1].astype(np.int64) - 1
    wide = np.maximum(dist, EXACT_MAX)
    part = (wide >> np.maximum(log - PER_DOUBLING_BITS, 0)) & ((1 << PER_DOUBLING_BITS) - 1)
    wide_bin = EXACT_MAX + 1 + ((log - EXACT_BITS) << PER_DOUBLING_BITS) + part
    return np.where(dist <= EXACT_MAX, dist, wide_bin)


def count_distances(stream: Any, dist: Any, messages: Any = None) -> tuple[Any, Any, Any]:
    """Streams and distances, each pair once, and how many messages have it."""
    bits = int(dist.max(initial=0)).bit_length()
    pairs = stream.astype(np.int64) << bits | dist
    found, messages = unique_counts(pairs) if messages is None else unique_sums(pairs, messages)
    return found >> bits, found & ((1 << bits) - 1), messages


def to_bins(stream: Any, dist: Any, messages: Any) -> tuple[Any, dict[str, Any]]:
    """The stream of each bin, and the columns of `BIN_SCHEMA`, from counted distances."""
    bins = bin_of(dist)
    is_last = np.append((np.diff(stream) != 0) | (np.diff(bins) != 0), True)[: len(dist)]
    last = np.flatnonzero(is_last)
    upto = np.cumsum(messages)[last]
    is_wide = bins > EXACT_MAX
    ends = np.append(0, np.cumsum(is_wide)[last])
    return stream[last], {
        "bin": bins[last],
        "dist": dist[last],
        "messages": np.diff(upto, prepend=0),
        "held": pack_rows(np.stack([dist, messages], axis=1)[is_wide], ends),
    }


def pack_rows(records: Any, ends: Any) -> Any:
    """Rows of whole numbers as bytes, cut at `ends`, which begin with 0."""
    size = records.itemsize * records.shape[1]
    buffers = [pa.py_buffer((ends * size).astype(np.int32)), pa.py_buffer(records)]
    return pa.Array.from_buffers(pa.binary(), len(ends) - 1, [None, *buffers])


def unpack_rows(packs: Any, width: int) -> tuple[Any, Any]:
    """The rows of all packs together, and how many each has."""
    arrays = [np.frombuffer(pack, np.int64) for pack in packs.to_pylist()]
    records = np.concatenate([np.empty(0, np.int64), *arrays]).reshape(-1, width)
    return records, [len(pack) // width for pack in arrays]


def unique_counts(values: Any) -> tuple[Any, Any]:
    """Distinct values, ascending, and how often each occurs."""
    if not values.size or values.max() >= 4 * values.size:
        return np.unique(values, return_counts=True)
    counts = np.bincount(values)
    found = np.flatnonzero(counts)
    return found, counts[found]


def unique_sums(values: Any, counts: Any) -> tuple[Any, Any]:
    """Distinct values, ascending, and the sum of the counts of each."""
    if not values.size or values.max() >= 16 * values.size:
        order = np.argsort(values, kind="stable")
        values = values[order]
        firsts = np.flatnonzero(np.append(True, np.diff(values) != 0)[: len(values)])
        sums = np.add.reduceat(counts[order], firsts) if values.size else counts
        return values[firsts], sums
    sums = np.bincount(values, counts)  # Doubles: exact up to 2⁵³.
    found = np.flatnonzero(sums)
    return found, sums[found].astype(np.int64)
