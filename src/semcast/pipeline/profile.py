"""The obsolescence profile of streams: how far apart related messages lie, how much is ever
superseded, how often items change [SRM §5.1, §7.1].

A trace has each distance in its multicast, which tasks count as they read (`recorded`); the
distances of keyed rows are found first (`stretches`).  What comes here from Spark is bounded,
however long the streams are: `curves` of the distances, and how many items have how many messages.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from semcast.models.advice import Distances, Rates
from semcast.pipeline import recorded, stretches
from semcast.pipeline.curves import Step, curves
from semcast.pipeline.foreign import open_source, read_judged
from semcast.pipeline.keyed_blocks import Columns
from semcast.pipeline.packs import STREAM, merged
from semcast.pipeline.trace import read_trace
from semcast.traces.errors import BadFile

STREAMS_MAX: Final = 100  # shown one by one, the longest first
# Tasks count in Python; what is left to Spark is little, and compiling it costs more than it saves.
CONF: Final = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


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


def profile_rows(rows: DataFrame, rates: Rates | None = None) -> Profile:
    """The profile of keyed rows (sender, place, key, kind), as `foreign.read_keyed` gives them."""
    return _with_senders(_profile_parts(stretches.parts_of(rows), rates), rows)


def _profile_parts(parts: DataFrame, rates: Rates | None) -> Profile:
    """Each row supersedes at most the one before it on its key, and no two have the same row
    before them.  So as many are superseded as supersede."""
    with _kept(merged(parts, stretches.settle)) as found:
        return _profile(found, rates)


def profile_file(
    spark: SparkSession, path: Path, columns: Columns, rates: Rates | None = None
) -> tuple[Profile, BadRows]:
    """The profile of a keyed file, and what of it could not be understood.

    Raises `BadFile` if that is all of it.
    """
    source, seen = open_source(path, columns), Observation()
    wrong = F.when(F.col("reason").isNotNull(), F.struct("file", "row", "column", "reason"))
    first = F.to_json(F.min(wrong)).alias("first")
    if source.is_counted and columns.order is None and columns.sender is None:
        judged, bad = stretches.parts_in(spark, source), F.coalesce(F.sum("bad"), F.lit(0))
        profile = _profile_parts(judged.observe(seen, bad.alias("bad"), first), rates)
    else:
        judged = read_judged(spark, path, columns)
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
    number = stretches.number_of("sender").alias("number")
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
    with _kept(merged(recorded.parts_of(spark, path))) as found:
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
    name = F.to_json(F.struct(*STREAM))
    steps = found.where("step IS NOT NULL")
    of, stream_count, is_rich = _steps(steps, name)
    shown = [label for label in of if label is not None]
    told = curves(of, _named(steps, name, shown), rates)
    if superseded is not None and is_rich:
        obsolete = _superseded(_named(superseded(), name, shown))
        told = {label: d._replace(superseded=obsolete.get(label, 0)) for label, d in told.items()}
    frequencies = _frequencies(found)
    items = _items(found, name, shown) | {None: sum(each.items for each in frequencies)}

    def stream(label: str | None) -> Stream:
        return Stream(json.loads(label or "{}"), items.get(label, 0), told[label])

    streams = [stream(label) for label in shown]
    return Profile(stream(None), streams, stream_count, frequencies)


def _steps(steps: DataFrame, name: Column) -> tuple[dict[str | None, list[Step]], int, bool]:
    """The steps of all streams together, then of each to show: the longest, none if there is but
    one; how many there are, and whether any is rich."""
    of_step = F.max("dist").alias("dist"), F.sum("messages").alias("messages")
    is_rich = F.max("is_rich").alias("is_rich")
    each = (
        steps.groupBy(*STREAM, "step")
        .agg(*of_step, is_rich)
        .groupBy(*STREAM)
        .agg(
            F.sum("messages").alias("messages"),
            F.sort_array(F.collect_list(F.struct("step", "dist", "messages"))).alias("steps"),
            is_rich,
        )
    )
    by_length = each.withColumn("name", name).orderBy(F.desc("messages"), "name")
    rows = by_length.limit(STREAMS_MAX + 1).collect()
    of = {row["name"]: [Step(*step) for step in row["steps"]] for row in rows[:STREAMS_MAX]}
    if len(rows) <= STREAMS_MAX:
        total = _together(step for steps in of.values() for step in steps)
        is_there = any(row["is_rich"] for row in rows)
        return {None: total} | (of if len(of) > 1 else {}), len(of), is_there
    everything = steps.groupBy("step").agg(*of_step, is_rich).collect()
    total = _together(Step(row["step"], row["dist"], row["messages"]) for row in everything)
    return {None: total, **of}, each.count(), any(row["is_rich"] for row in everything)


def _together(steps: Iterable[Step]) -> list[Step]:
    """Those of equal number as one, in order."""
    found: dict[int, Step] = {}
    for step in steps:
        same = found.get(step.step, Step(step.step, 0, 0))
        found[step.step] = Step(step.step, max(step.dist, same.dist), step.messages + same.messages)
    return [found[number] for number in sorted(found)]


def _named(frame: DataFrame, name: Column, shown: Sequence[str]) -> DataFrame:
    """Each row once without a name, for all streams together, and once with it if shown."""
    everything = frame.withColumn("name", F.lit(None).cast("string"))
    if not shown:
        return everything
    return everything.union(frame.withColumn("name", name).where(F.col("name").isin(*shown)))


def _superseded(named: DataFrame) -> dict[str | None, int]:
    sums = named.groupBy("name").agg(F.sum("messages").alias("messages"))
    return {row["name"]: row["messages"] for row in sums.collect()}


def _items(found: DataFrame, name: Column, shown: Sequence[str]) -> dict[str | None, int]:
    """How many items each stream has that is shown."""
    if not shown:
        return {}
    counts = found.where("items IS NOT NULL AND frequency IS NULL").withColumn("name", name)
    items = counts.where(F.col("name").isin(*shown)).groupBy("name").agg(F.sum("items"))
    return {row[0]: row[1] for row in items.collect()}


def _frequencies(found: DataFrame) -> list[Frequency]:
    counts = found.where("frequency IS NOT NULL").groupBy("frequency").agg(F.sum("items"))
    return sorted(Frequency(*row) for row in counts.collect())
