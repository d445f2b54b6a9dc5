"""Distances counted in steps: every distance up to 1,024, then 64 steps in a doubling.

However long a stream is, it has at most a few thousand steps.  What a wide step holds goes along
as two lists, distances and their counts, for whoever has to look into it.
"""

from typing import Any, Final

import numpy as np
import pyarrow as pa

EXACT_BITS: Final = 10
EXACT_TO: Final = 1 << EXACT_BITS
PER_DOUBLING_BITS: Final = 6
DIST_BITS: Final = 43  # what is left beside the number of a stream among `ROWS_MAX`

# Of a stream: the step, its farthest distance, its messages, and what it holds if it is wide.
STEP: Final = "step bigint, dist bigint, messages bigint, dists array<bigint>, counts array<bigint>"


def step_of(dist: Any) -> Any:
    """The number of the step that holds a distance."""
    log = np.frexp(dist.astype(np.float64))[1].astype(np.int64) - 1
    wide = np.maximum(dist, EXACT_TO)
    part = (wide >> np.maximum(log - PER_DOUBLING_BITS, 0)) & ((1 << PER_DOUBLING_BITS) - 1)
    step = EXACT_TO + 1 + ((log - EXACT_BITS) << PER_DOUBLING_BITS) + part
    return np.where(dist <= EXACT_TO, dist, step)


def in_steps(stream: Any, dist: Any) -> tuple[Any, dict[str, Any]]:
    """The stream of each step, and the columns of `STEP`; streams are small numbers."""
    found, messages = counted(stream.astype(np.int64) << DIST_BITS | dist)
    stream, dist = found >> DIST_BITS, found & ((1 << DIST_BITS) - 1)
    step = step_of(dist)
    is_last = np.append((np.diff(stream) != 0) | (np.diff(step) != 0), True)[: len(found)]
    last = np.flatnonzero(is_last)
    upto = np.cumsum(messages)[last]
    is_wide = step > EXACT_TO
    offsets = pa.array(np.append(0, np.cumsum(is_wide)[last]).astype(np.int32))
    return stream[last], {
        "step": pa.array(step[last]),
        "dist": pa.array(dist[last]),
        "messages": pa.array(np.diff(upto, prepend=0)),
        "dists": pa.ListArray.from_arrays(offsets, pa.array(dist[is_wide])),
        "counts": pa.ListArray.from_arrays(offsets, pa.array(messages[is_wide])),
    }


def counted(values: Any) -> tuple[Any, Any]:
    """Distinct values, ascending, and how often each occurs."""
    if not values.size or values.max() >= 4 * values.size:
        return np.unique(values, return_counts=True)
    counts = np.bincount(values)
    found = np.flatnonzero(counts)
    return found, counts[found]
