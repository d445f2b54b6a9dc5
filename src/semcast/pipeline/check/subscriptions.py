"""Who subscribed when, to what, and until when.

A `join` starts a subscription and ends the one that the process had; so does a `leave`, its own or
of who goes on without it.  A crash does not, but who is down at the end is owed nothing.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from semcast.pipeline.check.evidence import of_kind
from semcast.pipeline.check.violations import event
from semcast.pipeline.reading.trace import TraceTables
from semcast.terms.events import CRASH, JOIN, LEAVE, RECOVER


def subscriptions(trace: TraceTables) -> DataFrame:
    """By run, process and number (`subscription`): the vector (`after`), the time it ended
    (`until`, null if it lasts) and the event that began it (`joined`)."""
    by_process = Window.partitionBy("run_id", "pid").orderBy("inc", "n")
    joins = of_kind(trace, JOIN).select(
        *("run_id", "pid", "ts_ns"),
        F.row_number().over(by_process).alias("subscription"),
        F.lead("ts_ns").over(by_process).alias("next"),
        F.expr("str_to_map(coalesce(attrs['after'], ''), ' ', ':')").alias("after"),
        event().alias("joined"),
    )
    leaves = (
        of_kind(trace, LEAVE)
        .groupBy("run_id", F.coalesce("peer", "pid").alias("pid"))
        .agg(F.collect_list("ts_ns").alias("leaves"))
    )
    left = F.array_min(F.filter("leaves", lambda at: at > F.col("ts_ns")))
    return joins.join(leaves, ["run_id", "pid"], "left").select(
        *("run_id", "pid", "subscription", "after", "joined"),
        F.least("next", left).alias("until"),
    )


def active_at_end(trace: TraceTables) -> DataFrame:
    """The subscriptions of those who are up at the end, with a dense `place` from 0 in each run."""
    ends = (
        of_kind(trace, CRASH, RECOVER)
        .groupBy("run_id", "pid")
        .agg(F.max_by("kind", F.struct("ts_ns", "inc", "n")).alias("state"))
    )
    place = F.row_number().over(Window.partitionBy("run_id").orderBy("pid")) - 1
    return (
        subscriptions(trace)
        .where("until is null")
        .join(ends, ["run_id", "pid"], "left")
        .where(F.coalesce("state", F.lit(RECOVER)) != CRASH)
        .select("run_id", "pid", "after", place.alias("place"))
    )


def last_not_owed(sender: Column, after: Column | None = None) -> Column:
    """The last number of a sender that a vector does not owe."""
    vector = F.col("after") if after is None else after
    number = F.try_element_at(vector, sender.cast("string")).cast("bigint")
    return F.coalesce(number, F.lit(0))
