"""The obsolescence profile of streams: how far apart related messages lie, how much is ever
superseded, how often items change [SRM §5.1, §7.1].

A trace has each distance in its multicast, which tasks count as they read (`trace_counts`); the
distances of keyed rows are found first (`keyed_counts`).  What comes here from Spark is bounded,
however long the streams are: curves of the distances, and how many items have how many messages.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from semcast.models.advice import Distances, Rates
from semcast.pipeline.profile import keyed_counts, trace_counts
from semcast.pipeline.profile.distance_curve import DistanceBins, StreamLabel, make_curves
from semcast.pipeline.profile.partial_counts import STREAM, PartialCounts, merge_counts
from semcast.pipeline.reading.keyed_files import open_source, read_validated
from semcast.pipeline.reading.keyed_text import KeyedColumns
from semcast.pipeline.reading.trace import read_trace
from semcast.traces.errors import BadFile

STREAMS_MAX: Final = 100  # shown one by one, the longest first
# Tasks count in Python; what is left to Spark is little, and compiling it costs more than it saves.
SPARK_CONF: Final = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
_OF_STEP: Final = ("max(dist) AS dist", "sum(messages) AS messages", "max(is_rich) AS is_rich")


@dataclass(frozen=True, slots=True)
class StreamProfile:
    """One sender's stream, by what names it; or all streams together, by nothing."""

    name: Mapping[str, Any]
    items: int
    distances: Distances


class ItemFrequency(NamedTuple):
    """So many items have so many messages each; above 1,000 rounded down to three digits."""

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


def profile_rows(rows: DataFrame, rates: Rates | None = None) -> Profile:
    """The profile of keyed rows (sender, place, key, kind), as `foreign.read_keyed` gives them."""
    return _with_senders(_profile_parts(keyed_counts.count_keyed_rows(rows), rates), rows)


def _profile_parts(parts: PartialCounts, rates: Rates | None) -> Profile:
    """Each row supersedes at most the one before it on its key, and no two have the same row
    before them.  So as many are superseded as supersede."""
    with _kept(merge_counts(parts, keyed_counts.resolve_boundaries)) as found:
        return _profile(found, rates)


def profile_file(
    spark: SparkSession, path: Path, columns: KeyedColumns, rates: Rates | None = None
) -> tuple[Profile, BadRows]:
    """The profile of a keyed file, and what of it could not be understood.

    Raises `BadFile` if that is all of it.
    """
    source, seen = open_source(path, columns), Observation()
    wrong = F.when(F.col("reason").isNotNull(), F.struct("file", "row", "column", "reason"))
    first = F.to_json(F.min(wrong)).alias("first")
    if source.is_counted and columns.order is None and columns.sender is None:
        parts, bad = keyed_counts.count_source(spark, source), F.coalesce(F.sum("bad"), F.lit(0))
        judged = parts.rows
        watched = judged.observe(seen, bad.alias("bad"), first)
        profile = _profile_parts(parts._replace(rows=watched), rates)
    else:
        judged = read_validated(spark, path, columns)
        watched = judged.observe(seen, F.count("reason").alias("bad"), first)
        profile = profile_rows(watched.where("reason IS NULL"), rates)
    if not profile.total.distances.messages:  # Then Spark may have observed nothing.
        told = judged.agg(first).head()
        if told is not None and told["first"] is not None:
            raise BadFile(_told(told["first"]))
        return profile, BadRows()
    found = seen.get
    return profile, BadRows(found["bad"], _told(found["first"]) if found["bad"] else None)


def _told(first: str) -> str:
    row = json.loads(first)  # without the keys whose values are null
    return f"{row['file']}:{row['row']}: {row.get('column', 'the row')} {row['reason']}"


def _with_senders(profile: Profile, rows: DataFrame) -> Profile:
    """The senders' names in place of the numbers that stand for them."""
    if not profile.streams:
        return profile
    number = keyed_counts.sender_hash("sender").alias("number")
    wanted = F.col("number").isin(*(stream.name["sender"] for stream in profile.streams))
    found = rows.select("sender", number).where(wanted).distinct().collect()
    senders = {row["number"]: row["sender"] for row in found}
    named = [
        replace(stream, name={"sender": senders[stream.name["sender"]]})
        for stream in profile.streams
    ]
    return replace(profile, streams=named)


def profile_trace(spark: SparkSession, path: Path, rates: Rates | None = None) -> Profile:
    """The profile of the multicasts of a trace or a lake."""
    with _kept(merge_counts(trace_counts.count_trace(spark, path))) as found:
        # Under item tags a message supersedes the latest one of its item that is not kept.  If it
        # is not kept either, it is itself the latest for those after it: no two supersede the
        # same one, and as many are superseded as supersede.
        return _profile(found, rates, lambda: superseded(read_trace(spark, path).events))


def superseded(events: DataFrame) -> DataFrame:
    """How many messages of each stream some later one supersedes, for any relation."""
    sent = events.where("kind = 'multicast'")
    far = F.explode(F.coalesce("covers", F.array("dist"))).alias("far")
    named = sent.where("dist > 0").select(*STREAM, "seq", far)
    targets = named.select(*STREAM, (F.col("seq") - F.col("far")).alias("seq"))
    kept = sent.where(F.col("attrs")["never_purge"] == "1").select(*STREAM, "seq")
    found = targets.where("seq >= 1").distinct().join(kept, [*STREAM, "seq"], "left_anti")
    return found.groupBy(*STREAM).agg(F.count("*").alias("messages"))


@contextmanager
def _kept(frame: DataFrame) -> Iterator[DataFrame]:
    """What several jobs read, computed once."""
    frame.persist()
    try:
        yield frame
    finally:
        frame.unpersist()


def _profile(
    found: DataFrame, rates: Rates | None, superseded: Callable[[], DataFrame] | None = None
) -> Profile:
    """The profile of merged parts; `superseded` counts for relations richer than items."""
    summary = _summary(found)
    told = make_curves(summary.steps, found, rates)
    shown = [label for label in told if label is not None]
    if superseded is not None and summary.is_rich:
        obsolete = _superseded(superseded(), shown)
        told = {label: d._replace(superseded=obsolete.get(label, 0)) for label, d in told.items()}

    def stream(label: StreamLabel) -> StreamProfile:
        name = dict(zip(STREAM, label or (), strict=False))
        return StreamProfile(name, summary.items.get(label, 0), told[label])

    streams = [stream(label) for label in shown]
    return Profile(stream(None), streams, summary.stream_count, summary.frequencies)


class _Summary(NamedTuple):
    """By label the steps and items of all streams together, then of each to show: the longest,
    none if there is but one."""

    steps: Mapping[StreamLabel, DistanceBins]
    items: Mapping[StreamLabel, int]
    frequencies: Sequence[ItemFrequency]
    stream_count: int
    is_rich: bool


def _summary(found: DataFrame) -> _Summary:
    """In one job, unless there are more streams than are shown."""
    each = _by_stream(found)
    first = F.desc(F.size("frequencies"))  # They are of no stream.
    rows = each.orderBy(first, F.desc("messages"), *STREAM).limit(STREAMS_MAX + 2).collect()
    frequencies = sorted(ItemFrequency(*pair) for row in rows for pair in row["frequencies"])
    streams = [row for row in rows if row["steps"]]
    steps = {_label(row): _steps(row["steps"]) for row in streams[:STREAMS_MAX]}
    items = {_label(row): row["items"] or 0 for row in streams}
    items[None] = sum(each.items for each in frequencies)
    if len(streams) <= STREAMS_MAX:
        is_rich = any(row["is_rich"] for row in streams)
        of = {None: _together(steps.values()), **(steps if len(steps) > 1 else {})}
        return _Summary(of, items, frequencies, len(steps), is_rich)
    everything = found.where("step IS NOT NULL").groupBy("step").agg(*map(F.expr, _OF_STEP))
    rows = everything.collect()
    of = {None: _steps(row[:3] for row in rows), **steps}
    count = each.where("messages IS NOT NULL").count()
    return _Summary(of, items, frequencies, count, any(row["is_rich"] for row in rows))


def _by_stream(found: DataFrame) -> DataFrame:
    """A row for each stream, and one of no stream with the frequencies.

    In SQL's words: each call to build an expression crosses to the JVM and back.
    """
    of_step = (*_OF_STEP, "sum(items) AS items")
    of_stream = (
        "sum(messages) AS messages",
        "sum(items) FILTER (WHERE frequency IS NULL) AS items",
        "collect_list(struct(step, dist, messages)) FILTER (WHERE step IS NOT NULL) AS steps",
        "collect_list(struct(frequency, items)) FILTER (WHERE frequency IS NOT NULL) "
        "AS frequencies",
        "max(is_rich) AS is_rich",
    )
    once = found.groupBy(*STREAM, "step", "frequency").agg(*map(F.expr, of_step))
    return once.groupBy(*STREAM).agg(*map(F.expr, of_stream))


def _label(row: Any) -> StreamLabel:
    return tuple(row[name] for name in STREAM)


def _steps(rows: Iterable[Any]) -> DistanceBins:
    return DistanceBins(*np.array(sorted(map(tuple, rows)), np.int64).reshape(-1, 3).T)


def _together(of: Iterable[DistanceBins]) -> DistanceBins:
    """Those of equal number as one."""
    step, dist, messages = np.concatenate([np.empty((3, 0), np.int64), *of], axis=1)
    found, place = np.unique(step, return_inverse=True)
    farthest, sums = np.zeros((2, len(found)), np.int64)
    np.maximum.at(farthest, place, dist)
    np.add.at(sums, place, messages)
    return DistanceBins(found, farthest, sums)


def _superseded(counts: DataFrame, shown: Sequence[StreamLabel]) -> dict[StreamLabel, int]:
    """Of all streams together, and of each that is shown."""
    labels = {" ".join(map(str, label or ())): label for label in shown}
    label = F.concat_ws(" ", *(F.coalesce(F.col(n).cast("string"), F.lit("None")) for n in STREAM))
    by_label = counts.groupBy(F.when(label.isin(*labels), label)).agg(F.sum("messages")).collect()
    sums = {labels.get(text): messages for text, messages in by_label}
    return sums | {None: sum(sums.values())}
