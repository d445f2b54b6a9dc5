"""Parts that the queries share: events by kind, and the events that prove what a mark has shown.

A query first reduces a trace to marks, a few numbers per process and stream, and finds those that
are wrong.  What proves it is then fetched for these alone: in a sound trace nothing is.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from semcast.pipeline.check.run_facts import SKEW
from semcast.pipeline.check.stream_block import ANY_SKEW
from semcast.pipeline.check.violations import event
from semcast.pipeline.reading.trace import TraceTables
from semcast.terms.events import MULTICAST, ORDER

INCARNATION: Final = ("pid", "inc")
STREAM: Final = ("sender", "sender_inc")
MESSAGE: Final = ("sender", "sender_inc", "seq")


def of_kind(trace: TraceTables, *kinds: str) -> DataFrame:
    """The events of these kinds."""
    return trace.events.where(F.col("kind").isin(*kinds))


def is_order() -> Column:
    """Whether a multicast only says the order of others; it is nobody's to deliver."""
    return F.coalesce(F.col("attrs")["note"] == ORDER, F.lit(False))


def clock_skews(trace: TraceTables) -> DataFrame:
    """By run, by how much the clocks of two processes may differ (`skew_ns`): if nobody says, by
    so much that only what never happened came too late."""
    known = F.expr(f"cast(try_cast(parameters['{SKEW}'] as double) * 1e6 as bigint)")
    return trace.runs.select("run_id", F.coalesce(known, F.lit(ANY_SKEW)).alias("skew_ns"))


def with_event(rows: DataFrame, events: DataFrame, name: str, n: str = "n") -> DataFrame:
    """The rows with the event that stands at their place (run_id, pid, inc, n), as one value."""
    described = events.select("run_id", *INCARNATION, F.col("n").alias(n), event().alias(name))
    return described.join(F.broadcast(rows), ["run_id", *INCARNATION, n])


def with_multicast(
    rows: DataFrame, trace: TraceTables, kind: str, message: tuple[str, ...] = MESSAGE
) -> DataFrame:
    """The rows with the first multicast of the message they speak of (`sent`), if there is one.
    Each of these messages has an event of that kind.  The rows stand once in the query."""
    when = F.when(F.col("kind") == MULTICAST, F.struct("ts_ns", "pid", "n"))
    described = of_kind(trace, MULTICAST, kind).select(
        *message_columns(message), event().alias("told"), when.alias("when")
    )
    known = described.join(F.broadcast(rows), is_same_message(message)).groupBy(*rows.columns)
    return known.agg(F.min_by("told", "when").alias("sent"))


def message_columns(message: tuple[str, ...] = MESSAGE) -> list[Column]:
    """The columns that name a message, beside those of rows that speak of it."""
    return [F.col(name).alias(f"of_{name}") for name in ("run_id", *message)]


def is_same_message(message: tuple[str, ...] = MESSAGE) -> Column:
    """Whether they name the message of such a row; a number that is not known is one, too."""
    return F.expr(" and ".join(f"of_{name} <=> {name}" for name in ("run_id", *message)))
