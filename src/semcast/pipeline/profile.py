"""The obsolescence profile of streams: how far apart related messages lie, how much is ever
superseded, how often items change [SRM §5.1, §7.1].

A trace has each distance in its multicast, so one aggregation counts them; the distances of keyed
rows are found first (`stretches`).  What comes here from Spark is bounded, however long the
streams are: `curves` of the distances, and how many items have how many messages.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from semcast.models.advice import Distances, Rates
from semcast.pipeline import stretches
from semcast.pipeline.curves import curves
from semcast.pipeline.foreign import read_judged
from semcast.pipeline.keyed_blocks import Columns
from semcast.pipeline.trace import Trace
from semcast.traces.errors import BadFile

STREAMS_MAX: Final = 100  # shown one by one, the longest first

_TRACE_STREAM: Final = ("run_id", "sender", "sender_inc")
_KEYED_STREAM: Final = ("stream",)


@dataclass(frozen=True, slots=True)
class Stream:
    """One sender's stream, by what names it; or all streams together, by nothing."""

    name: Mapping[str, Any]
    items: int
    distances: Distances


class Frequency(NamedTuple):
    """So many items have so many messages each; above 1,000 rounded down to three digits."""

    messages: int
    items: int


@dataclass(frozen=True, slots=True)
class Profile:
    """`streams` has the longest ones, if there are several; `stream_count` counts them all."""

    total: Stream
    streams: Sequence[Stream]
    stream_count: int
    frequencies: Sequence[Frequency]


class BadRows(NamedTuple):
    """Rows that could not be understood, and the first of them in words."""

    rows: int = 0
    first: str | None = None


class _Counts(NamedTuple):
    """What is aggregated from the messages of streams that the columns `stream` name.

    `distances`: dist (0 for none), messages.  `items`: item, messages.
    `superseded`: messages; None where it is the number of those that supersede.
    """

    stream: tuple[str, ...]
    distances: DataFrame
    items: DataFrame
    superseded: DataFrame | None = None


def profile_rows(rows: DataFrame, rates: Rates | None = None) -> Profile:
    """The profile of keyed rows (sender, place, key, kind), as `foreign.read_keyed` gives them.

    Each supersedes at most the row before it on its key, and no two have the same row before
    them.  So as many are superseded as supersede.
    """
    with (
        _kept(stretches.parts_of(rows)) as parts,
        _kept(stretches.distances(parts)) as distances,
    ):
        counts = _Counts(_KEYED_STREAM, distances, stretches.items(parts))
        return _with_senders(_profile(counts, rates), rows)


def profile_file(
    spark: SparkSession, path: Path, columns: Columns, rates: Rates | None = None
) -> tuple[Profile, BadRows]:
    """The profile of a keyed file, and what of it could not be understood.

    Raises `BadFile` if that is all of it.
    """
    seen = Observation()
    wrong = F.when(F.col("reason").isNotNull(), F.struct("file", "row", "column", "reason"))
    first = F.to_json(F.min(wrong)).alias("first")
    judged = read_judged(spark, path, columns)
    watched = judged.observe(seen, F.count("reason").alias("bad"), first)
    profile = profile_rows(watched.where("reason IS NULL"), rates)
    if not profile.total.distances.messages:  # Then Spark may have observed nothing.
        told = judged.agg(first).head()
        if told is not None and told["first"] is not None:
            raise BadFile(_told(told["first"]))
        return profile, BadRows()
    bad = BadRows(seen.get["bad"], _told(seen.get["first"]) if seen.get["bad"] else None)
    return profile, bad


def _told(first: str) -> str:
    row = json.loads(first)  # without the keys whose values are null
    return f"{row['file']}:{row['row']}: {row.get('column', 'the row')} {row['reason']}"


def _with_senders(profile: Profile, rows: DataFrame) -> Profile:
    """The senders' names in place of the numbers that stand for them."""
    if not profile.streams:
        return profile
    number = stretches.stream_of("sender").alias("stream")
    wanted = F.col("stream").isin(*(stream.name["stream"] for stream in profile.streams))
    found = rows.select("sender", number).where(wanted).distinct().collect()
    senders = {row["stream"]: row["sender"] for row in found}
    named = [
        replace(stream, name={"sender": senders[stream.name["stream"]]})
        for stream in profile.streams
    ]
    return replace(profile, streams=named)


def profile_trace(trace: Trace, rates: Rates | None = None) -> Profile:
    """The profile of the multicasts of a trace or a lake."""
    sent = trace.events.where("kind = 'multicast'").select(
        *(*_TRACE_STREAM, "seq", "item", "dist", "covers"),
        F.coalesce(F.col("attrs")["never_purge"] == "1", F.lit(False)).alias("is_kept"),
    )
    by_distance = sent.groupBy(
        *_TRACE_STREAM,
        F.coalesce("dist", F.lit(0)).cast("bigint").alias("dist"),
        (F.col("is_kept") | F.col("covers").isNotNull()).alias("is_rich"),
    )
    items = sent.where("item IS NOT NULL").groupBy(*_TRACE_STREAM, "item")
    with _kept(by_distance.agg(F.count("*").alias("messages"))) as counted:
        # Under item tags a message supersedes the latest one of its item that is not kept.  If it
        # is not kept either, it is itself the latest for those after it: no two supersede the
        # same one, and as many are superseded as supersede.
        is_simple = counted.where("is_rich AND dist > 0").isEmpty()
        counts = _Counts(
            _TRACE_STREAM,
            counted,
            items.agg(F.count("*").alias("messages")),
            None if is_simple else superseded(sent),
        )
        return _profile(counts, rates)


def superseded(sent: DataFrame) -> DataFrame:
    """How many messages of each stream some later one supersedes, for any relation."""
    far = F.explode(F.coalesce("covers", F.array("dist"))).alias("far")
    named = sent.where("dist > 0").select(*_TRACE_STREAM, "seq", far)
    targets = named.select(*_TRACE_STREAM, (F.col("seq") - F.col("far")).alias("seq"))
    kept = sent.where("is_kept").select(*_TRACE_STREAM, "seq")
    found = targets.where("seq >= 1").distinct().join(kept, [*_TRACE_STREAM, "seq"], "left_anti")
    return found.groupBy(*_TRACE_STREAM).agg(F.count("*").alias("messages"))


@contextmanager
def _kept(frame: DataFrame) -> Iterator[DataFrame]:
    """What several jobs read, computed once."""
    frame.persist()
    try:
        yield frame
    finally:
        frame.unpersist()


def _profile(counts: _Counts, rates: Rates | None) -> Profile:
    name = F.to_json(F.struct(*counts.stream))
    shown, stream_count = _longest(counts, name)
    found = curves(_named(counts.distances, name, shown), rates)
    if counts.superseded is not None:
        obsolete = _superseded(_named(counts.superseded, name, shown))
        found = {label: d._replace(superseded=obsolete.get(label, 0)) for label, d in found.items()}
    frequencies = _frequencies(counts)
    items = _items(counts, name, shown) | {None: sum(each.items for each in frequencies)}
    none = np.empty(0, np.int64)

    def stream(label: str | None) -> Stream:
        distances = found.get(label, Distances(0, 0, none, none))
        return Stream(json.loads(label or "{}"), items.get(label, 0), distances)

    streams = [stream(label) for label in shown]
    return Profile(stream(None), streams, stream_count, frequencies)


def _longest(counts: _Counts, name: Column) -> tuple[list[str], int]:
    """The names of the streams to show, none if there is but one, and how many there are."""
    sizes = counts.distances.groupBy(*counts.stream).agg(F.sum("messages").alias("messages"))
    named = sizes.select(name.alias("name"), "messages")
    rows = named.orderBy(F.desc("messages"), "name").limit(STREAMS_MAX + 1).collect()
    count = len(rows) if len(rows) <= STREAMS_MAX else sizes.count()
    return [row["name"] for row in rows[:STREAMS_MAX]] if count > 1 else [], count


def _named(frame: DataFrame, name: Column, shown: Sequence[str]) -> DataFrame:
    """Each row once without a name, for all streams together, and once with it if shown."""
    everything = frame.withColumn("name", F.lit(None).cast("string"))
    if not shown:
        return everything
    return everything.union(frame.withColumn("name", name).where(F.col("name").isin(*shown)))


def _superseded(named: DataFrame) -> dict[str | None, int]:
    sums = named.groupBy("name").agg(F.sum("messages").alias("messages"))
    return {row["name"]: row["messages"] for row in sums.collect()}


def _items(counts: _Counts, name: Column, shown: Sequence[str]) -> dict[str | None, int]:
    """How many items each stream has that is shown."""
    if not shown:
        return {}
    found = counts.items.groupBy(*counts.stream).count().select(name.alias("name"), "count")
    return {row["name"]: row["count"] for row in found.where(F.col("name").isin(*shown)).collect()}


def _frequencies(counts: _Counts) -> list[Frequency]:
    """An item of two senders counts once; items of different runs are different."""
    run = [column for column in counts.stream if column == "run_id"]
    items = counts.items.groupBy(*run, "item").agg(F.sum("messages").alias("messages"))
    unit = F.pow(F.lit(10.0), F.greatest(F.floor(F.log10("messages")) - 2, F.lit(0)))
    rounded = (F.floor(F.col("messages") / unit) * unit).cast("bigint")
    rows = items.groupBy(rounded.alias("messages")).count().orderBy("messages").collect()
    return [Frequency(row["messages"], row["count"]) for row in rows]
