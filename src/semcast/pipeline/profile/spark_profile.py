"""Profiles on Spark: tasks count what they read, partial counts meet by bucket.

Jobs: one that reads, counts and merges, with one shuffle, kept for the next; one for the bins and
items of each stream; one more if a percentile lies inside a bin, if there are more streams than are
shown, or if the relation is richer than items.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from semcast.models.advice import Rates
from semcast.pipeline.profile import trace_counts
from semcast.pipeline.profile.distance_curve import (
    POINTS,
    BinTarget,
    DistanceBins,
    StreamLabel,
    points_in,
)
from semcast.pipeline.profile.keyed_counts import (
    HEX_DIGITS,
    count_rows,
    count_work,
    resolve_boundaries,
)
from semcast.pipeline.profile.partial_counts import (
    MERGED_SCHEMA,
    PARTIAL_SCHEMA,
    STREAM,
    ResolveDistances,
    merge_bucket,
)
from semcast.pipeline.profile.profile import (
    BadRows,
    ItemFrequency,
    Profile,
    StreamCounts,
    bins_of,
    describe_bad,
    make_profile,
    name_senders,
)
from semcast.pipeline.reading.file_splits import FileSplit, run_per_task
from semcast.pipeline.reading.keyed_files import read_validated
from semcast.pipeline.reading.keyed_source import KeyedSource, open_source
from semcast.pipeline.reading.keyed_text import KeyedColumns
from semcast.pipeline.reading.trace import read_trace
from semcast.traces.errors import BadFile
from semcast.traces.keyed import KINDS

# Tasks count in Python; Spark itself has little to do, and compiling that costs more than it saves.
SPARK_CONF: Final = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
_OF_BIN: Final = ("max(dist) AS dist", "sum(messages) AS messages", "max(is_rich) AS is_rich")


class PartialCounts(NamedTuple):
    """Rows of `PARTIAL_SCHEMA`, their buckets numbered from 0."""

    rows: DataFrame
    buckets: int


def profile_trace(
    spark: SparkSession,
    path: Path,
    rates: Rates | None = None,
    splits: Sequence[FileSplit] | None = None,
) -> Profile:
    """The profile of the multicasts of a trace or a lake; `splits` if they were found before."""
    splits = trace_counts.open_trace(path) if splits is None else splits
    # Small files are splits of their own, but need no task each to meet in.
    buckets = min(len(splits), splits[-1].place // trace_counts.SPLIT_ROWS + 1) if splits else 1
    count = partial(trace_counts.count_split, buckets)
    parts = PartialCounts(run_per_task(spark, splits, count, PARTIAL_SCHEMA), buckets)
    with _persisted(merge_counts(parts)) as merged:
        return make_profile(SparkCounts(merged, read_trace(spark, path).events), rates)


def profile_rows(rows: DataFrame, rates: Rates | None = None) -> Profile:
    """The profile of keyed rows (sender, place, key, kind), as `keyed_files.read_keyed` gives."""
    buckets = int(rows.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)
    kind = F.position(F.col("kind"), F.lit("".join(KINDS))).cast("bigint")
    numbers = rows.select(
        _sender_number().alias("sender"),
        F.xxhash64("key").alias("item"),
        "place",
        kind.alias("kind"),
    )
    parts = numbers.mapInArrow(partial(count_rows, buckets), PARTIAL_SCHEMA)
    return _with_senders(_profile_keyed(PartialCounts(parts, buckets), rates), rows)


def profile_file(
    spark: SparkSession, path: Path, columns: KeyedColumns, rates: Rates | None = None
) -> tuple[Profile, BadRows]:
    """The profile of a keyed file, and its rows that could not be understood.

    Raises `BadFile` if no row could be.
    """
    source, seen = open_source(path, columns), Observation()
    wrong = F.when(F.col("reason").isNotNull(), F.struct("file", "row", "column", "reason"))
    first = F.to_json(F.min(wrong)).alias("first")
    if source.is_counted and columns.order is None and columns.sender is None:
        parts, bad = _count_source(spark, source), F.coalesce(F.sum("bad"), F.lit(0))
        validated = parts.rows
        watched = validated.observe(seen, bad.alias("bad"), first)
        profile = _profile_keyed(parts._replace(rows=watched), rates)
    else:
        validated = read_validated(spark, path, columns)
        watched = validated.observe(seen, F.count("reason").alias("bad"), first)
        profile = profile_rows(watched.where("reason IS NULL"), rates)
    if not profile.total.distances.messages:  # Then Spark may have observed nothing.
        row = validated.agg(first).head()
        if row is not None and row["first"] is not None:
            raise BadFile(_describe(row["first"]))
        return profile, BadRows()
    observed = seen.get
    text = _describe(observed["first"]) if observed["bad"] else None
    return profile, BadRows(observed["bad"], text)


def _describe(first: str) -> str:
    row = json.loads(first)  # without the keys whose values are null
    return describe_bad(row["file"], row["row"], row.get("column"), row["reason"])


def _count_source(spark: SparkSession, source: KeyedSource) -> PartialCounts:
    buckets = max(1, len(source.work))
    count = partial(count_work, source, buckets)
    return PartialCounts(run_per_task(spark, source.work, count, PARTIAL_SCHEMA), buckets)


def _profile_keyed(parts: PartialCounts, rates: Rates | None) -> Profile:
    """Each row supersedes at most the one before it on its key, and no two have the same row
    before them.  So as many are superseded as supersede."""
    with _persisted(merge_counts(parts, resolve_boundaries)) as merged:
        return make_profile(SparkCounts(merged), rates)


def merge_counts(parts: PartialCounts, resolve: ResolveDistances | None = None) -> DataFrame:
    """The partial counts of all tasks as rows of `MERGED_SCHEMA`."""

    def merge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        received = list(batches)
        if received:
            for table in merge_bucket(resolve, pa.Table.from_batches(received)):
                yield from table.to_batches()

    met = parts.rows.where("bad IS NULL").repartitionById(parts.buckets, "bucket")
    return met.mapInArrow(merge, MERGED_SCHEMA)


@contextmanager
def _persisted(frame: DataFrame) -> Iterator[DataFrame]:
    """Computed once for the jobs of this block."""
    frame.persist()
    try:
        yield frame
    finally:
        frame.unpersist()


def _sender_number() -> Column:
    """`keyed_counts.sender_number` of the column `sender`."""
    digits = F.substring(F.md5("sender"), 1, HEX_DIGITS)
    return F.conv(digits, 16, 10).cast("bigint")


def _with_senders(profile: Profile, rows: DataFrame) -> Profile:
    """The senders' names in place of the numbers that stand for them."""
    if not profile.streams:
        return profile
    is_shown = F.col("number").isin(*(stream.name["sender"] for stream in profile.streams))
    named = rows.select("sender", _sender_number().alias("number")).where(is_shown).distinct()
    return name_senders(profile, {row["number"]: row["sender"] for row in named.collect()})


class SparkCounts:
    """Rows of `MERGED_SCHEMA`; `events` has the trace, if they come from one."""

    def __init__(self, merged: DataFrame, events: DataFrame | None = None) -> None:
        self._merged = merged
        self._events = events

    def by_stream(self, limit: int) -> tuple[Sequence[StreamCounts], Sequence[ItemFrequency]]:
        """In one job: a row for each stream, and one of no stream with the frequencies."""
        first = F.desc(F.size("frequencies"))
        rows = self._by_stream().orderBy(first, F.desc("messages"), *STREAM).limit(limit + 1)
        found = rows.collect()
        frequencies = sorted(ItemFrequency(*pair) for row in found for pair in row["frequencies"])
        streams = [
            StreamCounts(_label(row), row["items"] or 0, bins_of(row["bins"]), bool(row["is_rich"]))
            for row in found
            if row["bins"]
        ]
        return streams[:limit], frequencies

    def together(self) -> tuple[DistanceBins, bool, int]:
        """The bins of all streams, whether any stream is rich, and the number of streams."""
        bins = self._merged.where("bin IS NOT NULL").groupBy("bin").agg(*map(F.expr, _OF_BIN))
        rows = bins.collect()
        count = self._by_stream().where("messages IS NOT NULL").count()
        return bins_of(row[:3] for row in rows), any(row["is_rich"] for row in rows), count

    def find(self, targets: Sequence[BinTarget]) -> Iterable[Sequence[int]]:
        """Look for targets in their bins, a task for each bin."""

        def look(table: pa.Table) -> pa.Table:  # Spark looks at these types.
            return points_in(targets, table)

        held = self._merged.where(F.col("bin").isin(*{target.bin for target in targets}))
        by_bin = held.select(*STREAM, "bin", "held").groupBy("bin")
        rows: list[Any] = by_bin.applyInArrow(look, POINTS).collect()
        return rows

    def superseded(self, shown: Sequence[StreamLabel]) -> Mapping[StreamLabel, int]:
        """Under item tags a message supersedes the latest one of its item that is not kept.  If it
        is not kept either, it is itself the latest for those after it: no two supersede the same
        one, and as many are superseded as supersede.  Other relations are counted here."""
        assert self._events is not None  # Keyed rows are never rich.
        labels = {" ".join(map(str, label or ())): label for label in shown}
        names = (F.coalesce(F.col(name).cast("string"), F.lit("None")) for name in STREAM)
        label = F.concat_ws(" ", *names)
        by_label = superseded(self._events).groupBy(F.when(label.isin(*labels), label))
        rows = by_label.agg(F.sum("messages")).collect()
        sums = {labels.get(text): messages for text, messages in rows}
        return sums | {None: sum(sums.values())}

    def _by_stream(self) -> DataFrame:
        """In SQL's words: each call to build an expression crosses to the JVM and back."""
        of_stream = (
            "sum(messages) AS messages",
            "sum(items) FILTER (WHERE frequency IS NULL) AS items",
            "collect_list(struct(bin, dist, messages)) FILTER (WHERE bin IS NOT NULL) AS bins",
            "collect_list(struct(frequency, items)) FILTER (WHERE frequency IS NOT NULL) "
            "AS frequencies",
            "max(is_rich) AS is_rich",
        )
        once = self._merged.groupBy(*STREAM, "bin", "frequency")
        sums = once.agg(*map(F.expr, (*_OF_BIN, "sum(items) AS items")))
        return sums.groupBy(*STREAM).agg(*map(F.expr, of_stream))


def superseded(events: DataFrame) -> DataFrame:
    """How many messages of each stream some later one supersedes, for any relation."""
    sent = events.where("kind = 'multicast'")
    far = F.explode(F.coalesce("covers", F.array("dist"))).alias("far")
    named = sent.where("dist > 0").select(*STREAM, "seq", far)
    targets = named.select(*STREAM, (F.col("seq") - F.col("far")).alias("seq"))
    never_purged = sent.where(F.col("attrs")["never_purge"] == "1").select(*STREAM, "seq")
    found = targets.where("seq >= 1").distinct().join(never_purged, [*STREAM, "seq"], "left_anti")
    return found.groupBy(*STREAM).agg(F.count("*").alias("messages"))


def _label(row: Any) -> StreamLabel:
    return tuple(row[name] for name in STREAM)
