"""Total order by recorded places, and what a view adds to it.

Rule: Total Order [SRM §4.4]; prefix and *safe*, here confirmation, of VS [VSD app. A].
Positions are the witness: if each names one message, each message has one, and each process's
increase, then any two processes deliver what both deliver in the same order.
"""

from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from semcast.pipeline.check.evidence import (
    INCARNATION,
    MESSAGE,
    STREAM,
    clock_skews,
    is_order,
    of_kind,
    with_event,
    with_multicast,
)
from semcast.pipeline.check.violations import event, violations
from semcast.pipeline.reading.trace import TraceTables
from semcast.terms.events import CONFIRM, DELIVER, INSTALL, MULTICAST

_PLACE: Final = ("view", "position")


def total_order(trace: TraceTables) -> DataFrame:
    """A place names one message and a message one place; each process goes up."""
    delivered = of_kind(trace, DELIVER)
    unplaced = delivered.where("position is null").select(
        "run_id", *INCARNATION, *MESSAGE, "view", "position", event().alias("this")
    )
    placed = delivered.where("position is not null")
    frames = [
        _disorder(unplaced, F.lit("without a place in the total order")),
        _decreasing(placed),
        *_conflicts(placed),
    ]
    return reduce(DataFrame.unionByName, frames)


def _decreasing(placed: DataFrame) -> DataFrame:
    local = Window.partitionBy("run_id", *INCARNATION).orderBy("n")
    steps = placed.select(
        *("run_id", *INCARNATION, *MESSAGE, *_PLACE, "n"),
        F.lag("n").over(local).alias("last_n"),
        F.lag("view").over(local).alias("last_view"),
        F.lag("position").over(local).alias("last_position"),
    ).where(F.struct(*_PLACE) <= F.struct("last_view", "last_position"))
    rows = with_event(with_event(steps, placed, "this"), placed, "last", "last_n")
    why = F.format_string("after %d:%d", "last.sender", "last.seq")
    return _disorder(rows, why, F.col("last"))


def _conflicts(placed: DataFrame) -> list[DataFrame]:
    """Places with two messages, and messages with two places, by the least and greatest of each;
    the second from the places, which are fewer than the deliveries."""
    places = placed.groupBy("run_id", *_PLACE).agg(*_extremes(MESSAGE))
    contested = places.where(_differ(MESSAGE)).select("run_id", *_PLACE)
    lowest = [F.col(f"least_{name}").alias(name) for name in MESSAGE]
    messages = places.select("run_id", *lowest, *_PLACE).groupBy("run_id", *MESSAGE)
    scattered = messages.agg(*_extremes(_PLACE)).where(_differ(_PLACE)).select("run_id", *MESSAGE)
    at_place = _second(placed, contested, _PLACE, MESSAGE)
    of_message = _second(placed, scattered, MESSAGE, _PLACE)
    return [
        _disorder(
            at_place,
            F.format_string(
                "where process %d delivered %d:%d", "first.pid", "first.sender", "first.seq"
            ),
            F.col("first"),
        ),
        _disorder(
            of_message,
            F.format_string(
                "which process %d did at position %d of view %d",
                *("first.pid", "first.position", "first.view"),
            ),
            F.col("first"),
        ),
    ]


def _second(
    placed: DataFrame, wrong: DataFrame, key: tuple[str, ...], value: tuple[str, ...]
) -> DataFrame:
    """The deliveries under a wrong key that differ from the first one in the value."""
    by_key = Window.partitionBy("run_id", *key).orderBy("ts_ns", "pid", "n")
    rows = placed.join(F.broadcast(wrong), ["run_id", *key]).select(
        *("run_id", *INCARNATION, *MESSAGE, *_PLACE),
        event().alias("this"),
        F.first(event()).over(by_key).alias("first"),
    )
    return rows.where(F.struct(*value) != F.struct(*(f"first.{name}" for name in value)))


def _extremes(columns: tuple[str, ...]) -> list[Column]:
    return [
        extreme(name).alias(f"{word}_{name}")
        for name in columns
        for word, extreme in (("least", F.min), ("most", F.max))
    ]


def _differ(columns: tuple[str, ...]) -> Column:
    return reduce(
        Column.__or__, (F.col(f"least_{name}") != F.col(f"most_{name}") for name in columns)
    )


def _disorder(rows: DataFrame, why: Column, *before: Column) -> DataFrame:
    what = F.concat(
        F.format_string(
            "process %d delivered %d:%d at position %d of view %d, ",
            *("pid", "sender", "seq", F.coalesce("position", F.lit(0)), "view"),
        ),
        why,
    )
    return violations(rows, "total_order", what, *before, F.col("this"))


def prefix_delivery(trace: TraceTables) -> DataFrame:
    """What a process delivers in a view is a beginning of its total order, without omissions.

    As many places as the last of them, with the sum they must have, are all of them unless two are
    delivered twice, which total_order does not allow.
    """
    view = ("run_id", *INCARNATION, "view")
    placed = of_kind(trace, DELIVER).where("position is not null")
    wrong = (
        placed.groupBy(*view)
        .agg(
            F.count("*").alias("count"),
            F.max("position").alias("last"),
            F.sum("position").alias("sum"),
        )
        .where("count <> last or sum <> last * (last + 1) div 2")
        .select(*view)
    )
    upward = Window.partitionBy(*view).orderBy("position")
    after_hole = (
        placed.join(F.broadcast(wrong), [*view])
        .select(*view, "position", event().alias("this"))
        .withColumn("expected", F.coalesce(F.lag("position").over(upward), F.lit(0)) + 1)
        .where("position > expected")
        .groupBy(*view)
        .agg(
            F.min_by("this", "position").alias("this"),
            F.min("expected").alias("expected"),
        )
    )
    what = F.format_string(
        "process %d delivered position %d of view %d but not position %d",
        *("pid", "this.position", "view", "expected"),
    )
    return violations(after_hole, "prefix_delivery", what, F.col("this"))


def confirmation(trace: TraceTables) -> DataFrame:
    """What is confirmed in a view was delivered by every member of it before.

    A message is ripe when the last member delivers it; a confirmation speaks of all of a sender's
    messages in the view up to a number, so it must come after the latest of their times.
    """
    rows = (
        of_kind(trace, CONFIRM)
        .select("run_id", "view", *MESSAGE, "pid", "ts_ns", event().alias("this"))
        .join(
            _delivered_by_all(trace).withColumn("is_sent", F.lit(True)),
            ["run_id", "view", *MESSAGE],
            "left",
        )
        .join(F.broadcast(clock_skews(trace)), "run_id")
        .where("is_sent is null or unripe is not null or ripe_at > ts_ns + skew_ns")
    )
    why = (
        F.when(F.col("is_sent").isNull(), "which was not multicast in it")
        .when(F.col("unripe").isNull(), "which not every member had delivered by then")
        .otherwise(F.format_string("but not every member delivered %d:%d", "sender", "unripe"))
    )
    what = F.concat(
        F.format_string("process %d confirmed %d:%d in view %d, ", "pid", "sender", "seq", "view"),
        why,
    )
    wrong = rows.select("run_id", *MESSAGE, "this", what.alias("what"))
    rows = with_multicast(wrong, trace, CONFIRM)
    return violations(rows, "confirmation", F.col("what"), F.col("sent"), F.col("this"))


def _delivered_by_all(trace: TraceTables) -> DataFrame:
    """By message and view, when it and all before it were ripe (`ripe_at`), and the first that is
    not at all (`unripe`)."""
    message = ("run_id", "view", *MESSAGE)
    stream = Window.partitionBy("run_id", "view", *STREAM).orderBy("seq")
    members = (
        of_kind(trace, INSTALL)
        .groupBy("run_id", "view")
        .agg(F.min_by(F.size("members"), F.struct("ts_ns", "pid", "n")).alias("members"))
    )
    delivered = (
        of_kind(trace, DELIVER)
        .groupBy(*message, "pid")
        .agg(F.min("ts_ns").alias("first"))
        .groupBy(*message)
        .agg(F.count("*").alias("by"), F.max("first").alias("at"))
    )
    is_ripe = F.coalesce("by", F.lit(0)) >= F.coalesce("members", F.lit(0))
    return (
        of_kind(trace, MULTICAST)
        .where(~is_order())
        .select(*message)
        .distinct()
        .join(delivered, [*message], "left")
        .join(members, ["run_id", "view"], "left")
        .withColumn("unripe", F.min(F.when(~is_ripe, F.col("seq"))).over(stream))
        .withColumn("ripe_at", F.max("at").over(stream))
        .select(*message, "unripe", "ripe_at")
    )
