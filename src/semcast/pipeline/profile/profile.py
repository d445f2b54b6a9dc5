"""The obsolescence profile of streams: how far apart related messages lie, how much is ever
superseded, how often items change [SRM §5.1, §7.1].

A trace has each distance in its multicast (`trace_counts`); the distances of keyed rows are found
first (`keyed_counts`).  The same functions count in this process (`local_profile`) and in tasks of
Spark (`spark_profile`).  What comes here is bounded, however long the streams are: curves of the
distances, and how many items have how many messages.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from semcast.models.advice import DistanceCurve, Rates
from semcast.pipeline.profile.distance_curve import (
    BinTarget,
    DistanceBins,
    StreamLabel,
    make_curves,
)
from semcast.pipeline.profile.partial_counts import STREAM

STREAMS_MAX: Final = 100  # shown one by one, the longest first


@dataclass(frozen=True, slots=True)
class StreamProfile:
    """One sender's stream by its name, or all streams together, without a name."""

    name: Mapping[str, Any]
    items: int
    distances: DistanceCurve


class ItemFrequency(NamedTuple):
    """The number of items with this many messages; above 1,000 rounded down to three digits."""

    messages: int
    items: int


@dataclass(frozen=True, slots=True)
class Profile:
    """`streams` has the longest ones, if there are several; `stream_count` counts them all."""

    total: StreamProfile
    streams: Sequence[StreamProfile]
    stream_count: int
    frequencies: Sequence[ItemFrequency]


class BadRows(NamedTuple):
    """Rows that could not be understood, and the first of them in words."""

    rows: int = 0
    first: str | None = None


class StreamCounts(NamedTuple):
    """The counts of one stream.  `is_rich`: a message names others by more than its item."""

    label: StreamLabel
    items: int
    bins: DistanceBins
    is_rich: bool


class MergedCounts(Protocol):
    """The merged counts of all streams."""

    def by_stream(self, limit: int) -> tuple[Sequence[StreamCounts], Sequence[ItemFrequency]]:
        """The longest streams, and the frequencies of all items."""

    def together(self) -> tuple[DistanceBins, bool, int]:
        """The bins of all streams, whether any stream is rich, and the number of streams."""

    def find(self, targets: Sequence[BinTarget]) -> Iterable[Sequence[int]]:
        """Look for targets in their bins."""

    def superseded(self, shown: Sequence[StreamLabel]) -> Mapping[StreamLabel, int]:
        """How many messages some later one supersedes, in all streams and in each shown one, for
        relations richer than items."""


def make_profile(counts: MergedCounts, rates: Rates | None) -> Profile:
    """The profile of merged counts."""
    streams, frequencies = counts.by_stream(STREAMS_MAX + 1)
    shown = {each.label: each.bins for each in streams[:STREAMS_MAX]}
    if len(streams) <= STREAMS_MAX:
        bins, count = _together(shown.values()), len(streams)
        is_rich = any(each.is_rich for each in streams)
    else:
        bins, is_rich, count = counts.together()
    of = {None: bins, **(shown if count > 1 else {})}
    curves = make_curves(of, counts.find, rates)
    if is_rich:
        obsolete = counts.superseded([label for label in of if label is not None])
        curves = {
            label: curve._replace(superseded=obsolete.get(label, 0))
            for label, curve in curves.items()
        }
    items: dict[StreamLabel, int] = {each.label: each.items for each in streams}
    items[None] = sum(each.items for each in frequencies)

    def stream(label: StreamLabel) -> StreamProfile:
        name = dict(zip(STREAM, label or (), strict=False))
        return StreamProfile(name, items.get(label, 0), curves[label])

    named = [stream(label) for label in of if label is not None]
    return Profile(stream(None), named, count, frequencies)


def name_senders(profile: Profile, names: Mapping[int, str]) -> Profile:
    """The senders' names in place of the numbers that stand for them; equal lengths by name."""
    streams = [
        replace(stream, name={"sender": names[stream.name["sender"]]}) for stream in profile.streams
    ]
    streams.sort(key=lambda stream: (-stream.distances.messages, stream.name["sender"]))
    return replace(profile, streams=streams)


def bins_of(rows: Iterable[Sequence[int]]) -> DistanceBins:
    """Bins from rows of (bin, dist, messages)."""
    return DistanceBins(*np.array(sorted(map(tuple, rows)), np.int64).reshape(-1, 3).T)


def _together(of: Iterable[DistanceBins]) -> DistanceBins:
    """Bins of equal number as one."""
    numbers, dist, messages = np.concatenate([np.empty((3, 0), np.int64), *of], axis=1)
    found, index = np.unique(numbers, return_inverse=True)
    farthest, sums = np.zeros((2, len(found)), np.int64)
    np.maximum.at(farthest, index, dist)
    np.add.at(sums, index, messages)
    return DistanceBins(found, farthest, sums)


def describe_bad(file: str, row: int, column: str | None, reason: str) -> str:
    """One bad row in words."""
    return f"{file}:{row}: {column or 'the row'} {reason}"
