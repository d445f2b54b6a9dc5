"""Binned distances as curves of a few thousand points, however long the streams are.

A curve has the farthest distance of each bin.  A second look into single bins adds the distances at
which a percentile or the required rate is reached.  So all points of a curve are exact.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from semcast.models.advice import DEFAULT_PAIR_SHARE, DistanceCurve, Rates
from semcast.pipeline.profile.distance_bins import EXACT_MAX, unique_sums, unpack_rows
from semcast.pipeline.profile.partial_counts import STREAM

MEDIAN: Final = 0.5
POINTS: Final = "target int, dist bigint, upto bigint"

# A stream by the values of `STREAM`; None stands for all streams together.
StreamLabel: TypeAlias = tuple[int | None, ...] | None


class BinTarget(NamedTuple):
    """Within a bin the first distance is wanted up to which there are `short` messages."""

    label: StreamLabel
    bin: int
    before: int  # messages of the bins before
    short: float


# Looks for targets in their bins: number of the target, distance, messages of the bin up to it.
FindPoints: TypeAlias = Callable[[Sequence[BinTarget]], Iterable[Sequence[int]]]


class DistanceBins(NamedTuple):
    """The farthest distance of each bin, 0 for none, and its messages; bins ascend."""

    bin: Any
    dist: Any
    messages: Any

    def superseding(self) -> "DistanceBins":
        """Those of messages that supersede others."""
        return DistanceBins(*(column[self.dist > 0] for column in self))


def make_curves(
    of: Mapping[StreamLabel, DistanceBins], find: FindPoints, rates: Rates | None
) -> dict[StreamLabel, DistanceCurve]:
    """The curve of each stream from its bins; `find` looks into bins.

    As many messages count as superseded as supersede.
    """
    targets = [target for label, bins in of.items() for target in _targets(label, bins, rates)]
    extra: dict[StreamLabel, dict[int, int]] = defaultdict(dict)
    for number, dist, upto in find(targets) if targets else ():
        extra[targets[number].label][dist] = targets[number].before + upto
    return {label: _curve(bins, extra.get(label, {})) for label, bins in of.items()}


def _curve(bins: DistanceBins, extra: Mapping[int, int]) -> DistanceCurve:
    far = bins.superseding()
    upto = np.cumsum(far.messages)
    points = dict(zip(far.dist.tolist(), upto.tolist(), strict=True)) | dict(extra)
    x = np.array(sorted(points), np.int64)
    at = np.array([points[dist] for dist in x.tolist()], np.int64)
    return DistanceCurve(int(bins.messages.sum()), int(far.messages.sum()), x, at)


def _targets(label: StreamLabel, bins: DistanceBins, rates: Rates | None) -> Iterator[BinTarget]:
    """Targets in bins that hold several distances."""
    far = bins.superseding()
    upto = np.append(0, np.cumsum(far.messages))
    needs = [MEDIAN * upto[-1], DEFAULT_PAIR_SHARE * upto[-1]]
    if rates is not None:
        needs.append(rates.required_purge_ratio * bins.messages.sum())
    for needed in needs:
        place = int(np.searchsorted(upto[1:], needed * (1 - 1e-12)))
        if place < len(far.bin) and far.bin[place] > EXACT_MAX:
            short = float(needed * (1 - 1e-12) - upto[place])
            yield BinTarget(label, int(far.bin[place]), int(upto[place]), short)


def points_in(targets: Sequence[BinTarget], table: Any) -> Any:
    """Table of `POINTS` for the targets of one bin; `table` has that bin of all streams."""
    points = []
    [number_of_bin] = pc.unique(table["bin"]).to_pylist()
    for number, target in enumerate(targets):
        if target.bin == number_of_bin:
            dist, messages = unique_sums(*_held(table, target.label).T)
            upto = np.cumsum(messages)
            place = int(np.searchsorted(upto, target.short))
            points.append((number, dist[place], upto[place]))
    numbers, dists, uptos = zip(*points, strict=True)
    return pa.table(
        {"target": pa.array(numbers, pa.int32()), "dist": pa.array(dists), "upto": pa.array(uptos)}
    )


def _held(table: Any, label: StreamLabel) -> Any:
    """Distances and their messages."""
    for name, number in zip(STREAM, label or (), strict=False):
        column = table[name]
        table = table.filter(column.is_null() if number is None else pc.equal(column, number))
    return unpack_rows(table["held"], 2)[0]
