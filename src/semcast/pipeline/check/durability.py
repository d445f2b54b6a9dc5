"""Durability: what is acknowledged is on the stable storage of enough loggers.

A logger has a copy of m if it appended m, or what makes m obsolete, before the acknowledgement, and
no crash took its disk in between.  Copies of m itself are counted first; only where these are too
few is it asked what else the loggers had.

Rule: a logger acknowledges what it has on stable storage [RPB §3.2].
"""

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from semcast.pipeline.check.evidence import clock_skews, of_kind, with_event
from semcast.pipeline.check.listed_relation import (
    ANNOTATION,
    ListedMessage,
    RowDict,
    annotated,
    annotation,
    scan_streams,
    unsatisfied,
)
from semcast.pipeline.check.violations import violations
from semcast.pipeline.reading.trace import TraceTables
from semcast.terms.events import ACKNOWLEDGE, APPEND, CRASH, DISK, MULTICAST

_MESSAGE: Final = ("run_id", "sender", "seq")
_CLAIM: Final = ("run_id", "pid", "inc", "n", "sender", "seq")


def durability(trace: TraceTables) -> DataFrame:
    """What is acknowledged is on the stable storage of `copies` loggers, which no crash took."""
    copies = F.coalesce(F.expr("try_cast(parameters['copies'] as int)"), F.lit(1))
    runs = trace.runs.select("run_id", copies.alias("copies")).join(clock_skews(trace), "run_id")
    claims = (
        of_kind(trace, ACKNOWLEDGE)
        .join(F.broadcast(runs), "run_id")
        .select(*_CLAIM, "copies", "ts_ns", (F.col("ts_ns") + F.col("skew_ns")).alias("by_ns"))
    )
    appended = _appended(trace)
    is_copy = F.expr("appended_at <= by_ns and (lost is null or lost > ts_ns)")
    itself = F.size(F.collect_set(F.when(is_copy, F.col("logger")))).alias("itself")
    few = (
        claims.join(appended, [*_MESSAGE], "left")
        .groupBy(*claims.columns)
        .agg(itself)
        .where("itself < copies")
    )
    messages = annotated(trace, MULTICAST).select(*_MESSAGE, "is_listed", "line", *ANNOTATION)
    known = few.join(messages, [*_MESSAGE], "left")
    by_line = _by_replace_key(known.where("line is not null and not is_kept"), appended, messages)
    by_lists = _by_lists(known.where("is_listed"), appended, messages.where("is_listed"))
    others = by_line.unionByName(by_lists)
    rows = (
        few.join(others, [*_CLAIM], "left")
        .withColumn("there", F.coalesce("there", "itself"))
        .where("there < copies")
    )
    what = F.format_string(
        "process %d acknowledged %d:%d with %d of %d copies on stable storage",
        *("pid", "sender", "seq", "there", "copies"),
    )
    rows = with_event(rows, of_kind(trace, ACKNOWLEDGE), "this")
    return violations(rows, "durability", what, F.col("this"))


def _appended(trace: TraceTables) -> DataFrame:
    """Copies: at which logger, since when, and when its disk was lost, if it was."""
    losses = (
        of_kind(trace, CRASH)
        .where(F.col("attrs")["reason"] == DISK)
        .groupBy("run_id", "pid")
        .agg(F.collect_list("ts_ns").alias("losses"))
    )
    lost = F.array_min(F.filter("losses", lambda at: at > F.col("ts_ns")))
    return (
        of_kind(trace, APPEND)
        .join(F.broadcast(losses), ["run_id", "pid"], "left")
        .select(
            *_MESSAGE,
            F.col("pid").alias("logger"),
            F.col("ts_ns").alias("appended_at"),
            lost.alias("lost"),
        )
    )


def _by_replace_key(claims: DataFrame, appended: DataFrame, messages: DataFrame) -> DataFrame:
    """How many loggers had this or a later message of the same line: the greatest number of the
    line that each had appended by then, on the disk that it has."""
    line = ("run_id", "sender", "line")
    held = appended.join(messages.where("line is not null"), [*_MESSAGE]).join(
        claims.select(*line).distinct(), [*line], "left_semi"
    )
    loggers = held.select(*line, "logger", "lost").distinct()
    asked = claims.join(loggers, [*line]).where("lost is null or lost > ts_ns")
    order = Window.partitionBy(*line, "logger", "lost").orderBy("at", "is_asked")
    rows = asked.select(
        *(*_CLAIM, "line", "logger", "lost"),
        F.col("by_ns").alias("at"),
        F.lit(True).alias("is_asked"),
    ).unionByName(
        held.select(
            *(*line, "seq", "logger", "lost"),
            F.col("appended_at").alias("at"),
            F.lit(False).alias("is_asked"),
        ),
        allowMissingColumns=True,
    )
    greatest: Column = F.max(F.when(~F.col("is_asked"), F.col("seq"))).over(order)
    answered = rows.withColumn("greatest", greatest).where("is_asked and greatest >= seq")
    return answered.groupBy(*_CLAIM).agg(F.count_distinct("logger").alias("there"))


def _by_lists(claims: DataFrame, appended: DataFrame, messages: DataFrame) -> DataFrame:
    """The same where messages list what they replace, sender by sender."""
    streams = claims.select("run_id", "sender").distinct()
    rows = (
        claims.select(*_CLAIM, "ts_ns", "by_ns")
        .unionByName(appended, allowMissingColumns=True)
        .unionByName(messages.drop("is_listed", "line"), allowMissingColumns=True)
        .join(streams, ["run_id", "sender"], "left_semi")
    )
    return scan_streams(rows, ["run_id", "sender"], _check_stream, _SCHEMA)


def _check_stream(numbers: Iterator[tuple[int, list[RowDict]]]) -> Iterator[RowDict]:
    stream = list(numbers)
    rows = [row for _, entries in stream for row in entries]
    loggers = sorted({row["logger"] for row in rows if row["logger"] is not None})
    for row in rows:
        if row["by_ns"] is not None:
            copies = _copies(row, stream, loggers)
            yield {**{name: row[name] for name in _CLAIM}, "there": copies}


def _copies(claim: RowDict, stream: list[tuple[int, list[RowDict]]], loggers: list[int]) -> int:
    """How many loggers had the message of this claim, or something for it."""
    links = []
    for seq, entries in stream:
        if seq < claim["seq"]:
            break
        has = sum(1 << loggers.index(at) for at in _holders(claim, entries))
        asked = (1 << len(loggers)) - 1 if seq == claim["seq"] else 0
        links.append(ListedMessage(seq, has, asked, *annotation(entries)))
    lacking = dict(unsatisfied(links)).get(claim["seq"], 0)
    return len(loggers) - lacking.bit_count()


def _holders(claim: RowDict, entries: list[RowDict]) -> set[int]:
    return {
        row["logger"]
        for row in entries
        if row["logger"] is not None
        and row["appended_at"] <= claim["by_ns"]
        and (row["lost"] is None or row["lost"] > claim["ts_ns"])
    }


_SCHEMA: Final = pa.schema(
    [
        ("run_id", pa.int64()),
        *((name, pa.int32()) for name in ("pid", "inc")),
        ("n", pa.int64()),
        ("sender", pa.int32()),
        *((name, pa.int64()) for name in ("seq", "there")),
    ]
)
