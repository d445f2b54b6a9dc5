"""Parts that the queries share: events by kind, and the events that prove what a mark has shown.

A query first reduces a trace to marks, a few numbers per process and stream, and finds those that
are wrong.  What proves it is then fetched for these alone: in a sound trace nothing is.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from semcast.pipeline.check.block import ANY_SKEW
from semcast.pipeline.check.runs import SKEW
from semcast.pipeline.check.violations import event
from semcast.pipeline.trace import Trace
from semcast.terms.events import ORDER

LIFE: Final = ("pid", "inc")
STREAM: Final = ("sender", "sender_inc")
MESSAGE: Final = ("sender", "sender_inc", "seq")


def of_kind(trace: Trace, *kinds: str) -> DataFrame:
    """The events of these kinds."""
    return trace.events.where(F.col("kind").isin(*kinds))


def is_order() -> Column:
    """Whether a multicast only says the order of others; it is nobody's to deliver."""
    return F.coalesce(F.col("attrs")["note"] == ORDER, F.lit(False))


def skews(trace: Trace) -> DataFrame:
    """By run, by how much the clocks of two processes may differ (`skew_ns`): if nobody says, by
    so much that only what never happened came too late."""
    known = F.expr(f"cast(try_cast(parameters['{SKEW}'] as double) * 1e6 as bigint)")
    return trace.runs.select("run_id", F.coalesce(known, F.lit(ANY_SKEW)).alias("skew_ns"))


def with_event(rows: DataFrame, events: DataFrame, name: str, n: str = "n") -> DataFrame:
    """The rows with the event that stands at their place (run_id, pid, inc, n), as one value."""
    told = events.select("run_id", *LIFE, F.col("n").alias(n), event().alias(name))
    return told.join(F.broadcast(rows), ["run_id", *LIFE, n])


def with_multicast(
    rows: DataFrame, multicasts: DataFrame, message: tuple[str, ...] = MESSAGE
) -> DataFrame:
    """The rows with the first multicast of the message they speak of (`sent`), if there is one."""
    key = ["run_id", *message]
    wanted = multicasts.join(F.broadcast(rows.select(*key).distinct()), key, "left_semi")
    first = F.min_by(event(), F.struct("ts_ns", "pid", "n"))
    return rows.join(wanted.groupBy(*key).agg(first.alias("sent")), key, "left")
