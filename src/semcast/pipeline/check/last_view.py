"""The last view of a run: who remained in it, and where what they said in it stands in the order.

Nobody leaves the last view.  Once a run has fallen quiet, all who remained in it must have
delivered what one of them delivered or multicast, or something that replaces it; this is asked of a
view in which a majority remained.
"""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from semcast.pipeline.check.evidence import INCARNATION, MESSAGE, STREAM, of_kind
from semcast.pipeline.reading.trace import TraceTables
from semcast.terms.events import CRASH, DELIVER, INSTALL, LEAVE, PURGE

LAST: Final = -1  # in place of the view after it
_NEVER: Final = 1 << 62  # a place that nobody reaches


def remaining(trace: TraceTables) -> DataFrame:
    """Correct processes in the view they installed last, of complete runs, if they are a majority
    of its members: run_id, pid, inc, view, after."""
    newest_first = Window.partitionBy("run_id", "pid").orderBy(F.desc("inc"), F.desc("n"))
    in_view = Window.partitionBy("run_id", "view")
    correct = trace.processes.where("correct").join(trace.runs.where("complete"), "run_id")
    gone = of_kind(trace, CRASH, LEAVE).where("peer is null").select("run_id", *INCARNATION)
    return (
        of_kind(trace, INSTALL)
        .select(
            "run_id",
            *INCARNATION,
            "view",
            "members",
            F.row_number().over(newest_first).alias("back"),
        )
        .where("back = 1")
        .join(F.broadcast(correct.select("run_id", "pid")), ["run_id", "pid"], "left_semi")
        .join(F.broadcast(gone), ["run_id", *INCARNATION], "left_anti")
        .withColumn("count", F.count("*").over(in_view))
        .withColumn("members", F.min_by("members", "pid").over(in_view))
        .where(2 * F.col("count") > F.size("members"))
        .select("run_id", *INCARNATION, "view", F.lit(LAST).cast("bigint").alias("after"))
    )


def with_positions(trace: TraceTables, sent: DataFrame) -> DataFrame:
    """What was multicast in last views, with its place in the order if it has one (`position`):
    that at which it was delivered or purged.  What never had a place, since it was purged when it
    waited for it, would have had it before its sender's next one of the item."""
    message = ["run_id", "view", *MESSAGE]
    ordered = of_kind(trace, DELIVER, PURGE).where("position is not null")
    first = F.min_by("position", F.struct("ts_ns", "pid", "n"))
    places = ordered.groupBy(*message).agg(first.alias("position"))
    onward = (
        Window.partitionBy("run_id", "view", "after", *STREAM, "line")
        .orderBy("seq")
        .rowsBetween(Window.currentRow, Window.unboundedFollowing)
    )
    place = F.coalesce(F.first("position", ignorenulls=True).over(onward), F.lit(_NEVER))
    placed = sent.drop("position").join(places, message, "left")
    return placed.withColumn("position", place)
