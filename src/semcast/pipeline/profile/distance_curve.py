"""Distances counted in steps, as many as the streams are long, as curves of a few thousand points.

A curve has the farthest distance of each step; and, found in a second look at the steps that hold
them, those at which a percentile or the wanted rate is reached.  All of its points are exact.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from semcast.models.advice import MOST_PAIRS, Distances, Rates
from semcast.pipeline.profile.distance_bins import EXACT_MAX, unique_sums, unpack_rows
from semcast.pipeline.profile.partial_counts import STREAM

MEDIAN: Final = 0.5

StreamLabel: TypeAlias = (
    tuple[int | None, ...] | None
)  # of a stream, by `STREAM`; None is all together

_FOUND: Final = "mark int, dist bigint, upto bigint"


class _BinTarget(NamedTuple):
    """Within a step the first distance is wanted up to which there are `short` messages."""

    label: StreamLabel
    step: int
    before: int  # messages of the steps before
    short: float


class DistanceBins(NamedTuple):
    """Of each step, ascending, the farthest distance, 0 for none, and its messages."""

    step: Any
    dist: Any
    messages: Any

    def far(self) -> "DistanceBins":
        """Those of messages that supersede others."""
        return DistanceBins(*(column[self.dist > 0] for column in self))


def make_curves(
    of: Mapping[StreamLabel, DistanceBins], found: DataFrame, rates: Rates | None
) -> dict[StreamLabel, Distances]:
    """By label the curve of the steps; `found` has what they hold.

    As many messages count as superseded as supersede.
    """
    marks = [mark for label, steps in of.items() for mark in _marks(label, steps, rates)]
    extra = _reached(found, marks) if marks else {}
    return {label: _curve(steps, extra.get(label, {})) for label, steps in of.items()}


def _curve(steps: DistanceBins, extra: Mapping[int, int]) -> Distances:
    far = steps.far()
    upto = np.cumsum(far.messages)
    points = dict(zip(far.dist.tolist(), upto.tolist(), strict=True)) | dict(extra)
    x = np.array(sorted(points), np.int64)
    at = np.array([points[dist] for dist in x.tolist()], np.int64)
    return Distances(int(steps.messages.sum()), int(far.messages.sum()), x, at)


def _marks(label: StreamLabel, steps: DistanceBins, rates: Rates | None) -> Iterator[_BinTarget]:
    """Where the steps are too wide to tell."""
    far = steps.far()
    upto = np.append(0, np.cumsum(far.messages))
    needs = [MEDIAN * upto[-1], MOST_PAIRS * upto[-1]]
    if rates is not None:
        needs.append(rates.purged_at_least * steps.messages.sum())
    for needed in needs:
        place = int(np.searchsorted(upto[1:], needed * (1 - 1e-12)))
        if place < len(far.step) and far.step[place] > EXACT_MAX:
            short = float(needed * (1 - 1e-12) - upto[place])
            yield _BinTarget(label, int(far.step[place]), int(upto[place]), short)


def _reached(found: DataFrame, marks: Sequence[_BinTarget]) -> dict[StreamLabel, dict[int, int]]:
    """By label, at which distances the marks are reached: dist → messages up to it."""

    def look(table: pa.Table) -> pa.Table:  # Spark looks at these types.
        return _look(marks, table)

    wanted = found.where(F.col("step").isin(*{mark.step for mark in marks}))
    points: dict[StreamLabel, dict[int, int]] = defaultdict(dict)
    held = wanted.select(*STREAM, "step", "held")
    for number, dist, upto in held.groupBy("step").applyInArrow(look, _FOUND).collect():
        points[marks[number].label][dist] = marks[number].before + upto
    return points


def _look(marks: Sequence[_BinTarget], table: Any) -> Any:
    """Into one step of all streams."""
    points = []
    [step] = pc.unique(table["step"]).to_pylist()
    for number, mark in enumerate(marks):
        if mark.step == step:
            dist, messages = unique_sums(*_held(table, mark.label).T)
            upto = np.cumsum(messages)
            place = int(np.searchsorted(upto, mark.short))
            points.append((number, dist[place], upto[place]))
    numbers, dists, uptos = zip(*points, strict=True)
    return pa.table(
        {"mark": pa.array(numbers, pa.int32()), "dist": pa.array(dists), "upto": pa.array(uptos)}
    )


def _held(table: Any, label: StreamLabel) -> Any:
    """Distances and their messages."""
    for name, number in zip(STREAM, label or (), strict=False):
        column = table[name]
        table = table.filter(column.is_null() if number is None else pc.equal(column, number))
    return unpack_rows(table["held"], 2)[0]
