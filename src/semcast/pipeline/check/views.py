"""Views: in which order they come, what is delivered in them, and what their members share.

Each process is in one view at a time and each sender's numbers in a view follow each other, so all
of a view's deliveries reduce to marks: the first and last event of a process in it, the least and
greatest number it delivered of a sender, the greatest of a sender and item.  Messages are looked at
one by one only where a mark is wrong.

Rule: view order [VSD app. A]; Sending View Delivery [SVS §4.1]; primary partition [SVS §2], primary
views [VSD §1].
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
)
from semcast.pipeline.check.run_facts import with_processes
from semcast.pipeline.check.violations import event, violations
from semcast.pipeline.reading.trace import TraceTables
from semcast.terms.events import CONFIRM, DELIVER, INSTALL, LEAVE, MULTICAST, NOT_PRIMARY
from semcast.terms.promises import FOUNDERS, protocols_with


def view_order(trace: TraceTables) -> DataFrame:
    """Each process installs views by increasing number and of one lineage, and only views it is a
    member of; a number names one membership; what it says to happen in a view happens while it is
    in it."""
    name, described = "view_order", event()
    by_life = Window.partitionBy("run_id", *INCARNATION).orderBy("n")
    by_view = Window.partitionBy("run_id", "view").orderBy("ts_ns", "pid", "n")
    lineage = F.col("attrs")["lineage"]
    installs = of_kind(trace, INSTALL).select(
        *("run_id", "pid", "view", "members", described.alias("this"), lineage.alias("lineage")),
        F.lag(lineage).over(by_life).alias("last_lineage"),
        F.lag(described).over(by_life).alias("last"),
        F.first(described).over(by_view).alias("first"),
        F.first("members").over(by_view).alias("first_members"),
    )
    this, who = F.col("this"), _process("installed view %d", "pid", "view")
    stranger = installs.where(~F.array_contains("members", F.col("pid")))
    other = installs.where(F.col("members") != F.col("first_members"))
    back = installs.where(F.col("view") <= F.col("last.view"))
    strayed = installs.where(
        F.col("last").isNotNull() & ~F.col("lineage").eqNullSafe(F.col("last_lineage"))
    )
    frames = [
        violations(stranger, name, F.concat(who, F.lit(", but is not a member of it")), this),
        violations(
            other, name, F.concat(who, F.lit(" with different members")), F.col("first"), this
        ),
        violations(
            back,
            name,
            F.concat(who, F.format_string(" after view %d", "last.view")),
            F.col("last"),
            this,
        ),
        violations(
            strayed, name, F.concat(who, F.lit(" of a different lineage")), F.col("last"), this
        ),
        _misplaced(trace, name),
    ]
    return reduce(DataFrame.unionByName, frames)


def _misplaced(trace: TraceTables, name: str) -> DataFrame:
    """The first event of a process said to be in a view when it is not."""
    view = ("run_id", *INCARNATION, "view")
    by_life = Window.partitionBy("run_id", *INCARNATION).orderBy("n")
    spans = (
        of_kind(trace, INSTALL)
        .withColumn("until", F.lead("n").over(by_life))
        .groupBy(*view)
        .agg(F.min("n").alias("since"), F.max(F.coalesce("until", F.lit(1 << 62))).alias("until"))
    )
    inside = of_kind(trace, MULTICAST, DELIVER, CONFIRM).where(~is_order())
    wrong = (
        inside.groupBy(*view)
        .agg(F.min("n").alias("first"), F.max("n").alias("last"))
        .join(spans, [*view], "left")
        .where("since is null or first < since or last > until")
        .select(*view, "since", "until")
    )
    outside = inside.join(F.broadcast(wrong), [*view]).where(
        "since is null or n < since or n > until"
    )
    first = outside.groupBy(*view).agg(F.min_by(event(), F.col("n")).alias("this"))
    what = F.format_string(
        "process %d reports %s in view %d when it is not in it", "pid", "this.kind", "view"
    )
    return violations(first, name, what, F.col("this"))


def sending_view_delivery(trace: TraceTables) -> DataFrame:
    """No message is delivered in another view than the one it was multicast in.

    What a sender multicasts in a view are consecutive numbers; where they are not, its deliveries
    are looked at one by one.
    """
    view = ("run_id", "view", *STREAM)
    first, last = F.min("seq").alias("least"), F.max("seq").alias("most")
    multicast, delivered = of_kind(trace, MULTICAST), of_kind(trace, DELIVER)
    sent = multicast.groupBy(*view).agg(first, last, F.count("*").alias("count"))
    wrong = (
        delivered.groupBy(*view, *INCARNATION)
        .agg(F.min("seq").alias("low"), F.max("seq").alias("high"))
        .join(sent, [*view], "left")
        .where("count is null or low < least or high > most or count <> most - least + 1")
        .select(*view, *INCARNATION)
    )
    found = delivered.join(F.broadcast(wrong), [*view, *INCARNATION]).select(
        "run_id", *MESSAGE, "pid", "view", event().alias("this")
    )
    sources = multicast.select(
        "run_id", *MESSAGE, F.col("view").alias("sent_in"), event().alias("first")
    )
    rows = sources.join(F.broadcast(found), ["run_id", *MESSAGE]).where("view <> sent_in")
    what = F.format_string(
        "process %d delivered %d:%d in view %d, multicast in view %d",
        *("pid", "sender", "seq", "view", "sent_in"),
    )
    return violations(rows, "sending_view_delivery", what, F.col("first"), F.col("this"))


_QUORUMS: Final = """
    transform(
        filter(split(coalesce(parameters['quorum_sets'], ''), ','), each -> trim(each) != ''),
        each -> transform(split(trim(each), ' +'), pid -> try_cast(pid as int))
    )
"""


def primary_order(trace: TraceTables) -> DataFrame:
    """The primary views are one sequence: each has a majority of the members of the one before
    it, of which those count too who asked to leave; or, with a fixed number of servers, a majority
    of them, or one of the quorums if there are any."""
    name, is_fixed = "primary_order", F.col("protocol").isin(*protocols_with(FOUNDERS))
    servers = F.coalesce(F.expr("try_cast(parameters['servers'] as int)"), F.size("pids"))
    quorums = F.expr(_QUORUMS).alias("quorums")
    fixed = F.when(is_fixed, servers).alias("servers")
    runs = with_processes(trace).select("run_id", fixed, quorums)
    views = _primary_views(trace).join(F.broadcast(runs), "run_id")
    is_minority = 2 * F.size(F.array_distinct("members")) <= F.col("servers")
    has_quorum = F.exists("quorums", lambda quorum: F.size(F.array_except(quorum, "members")) == 0)
    is_few = F.when(F.size("quorums") > 0, ~has_quorum).otherwise(is_minority)
    few = views.where(F.col("servers").isNotNull() & is_few)
    apart = views.where("servers is null and before is not null and 2 * shared <= of")
    has = F.size(F.array_distinct("members"))
    how_few = F.format_string("primary view %d has %d of all %d servers", "view", has, "servers")
    how_apart = F.format_string(
        "primary view %d has %d of the %d members of primary view %d",
        *("view", "shared", "of", "before.view"),
    )
    before, after = F.col("before"), F.col("after")
    found = violations(few, name, how_few, after)
    return found.unionByName(violations(apart, name, how_apart, before, after))


def following_views(trace: TraceTables) -> DataFrame:
    """How many primary views follow another one, or with a fixed number of servers how many there
    are (`obligations`)."""
    is_fixed = F.col("protocol").isin(*protocols_with(FOUNDERS)).alias("is_fixed")
    views = _primary_views(trace).join(trace.runs.select("run_id", is_fixed), "run_id")
    return views.agg(F.count_if(F.expr("is_fixed or before is not null")).alias("obligations"))


def _primary_views(trace: TraceTables) -> DataFrame:
    """By run and view, its first `install` (`after`), that of the one before it (`before`), and how
    many of that one's members it shares (`shared`, `of`)."""
    is_primary = F.coalesce(F.col("attrs")["primary"], F.lit("")) != NOT_PRIMARY
    first = F.struct("ts_ns", "pid", "n")
    by_view = Window.partitionBy("run_id").orderBy("view")
    return (
        of_kind(trace, INSTALL)
        .where(is_primary)
        .groupBy("run_id", "view")
        .agg(
            F.min_by(event(), first).alias("after"),
            F.min_by("members", first).alias("members"),
        )
        .withColumn("before", F.lag("after").over(by_view))
        .withColumn("ancestors", F.lag("members").over(by_view))
        .join(_leaves(trace), "run_id", "left")
        .join(clock_skews(trace), "run_id")
        .withColumn("voters", F.array_union("members", _leaving()))
        .withColumn("shared", F.size(F.array_intersect("voters", "ancestors")))
        .withColumn("of", F.size("ancestors"))
    )


def _leaves(trace: TraceTables) -> DataFrame:
    """By run, who asked to leave when, and when it was back as another life (`leaves`)."""
    leaves = (
        of_kind(trace, LEAVE)
        .where("peer is null")
        .select("run_id", *INCARNATION, F.col("ts_ns").alias("left_at"))
    )
    returns = of_kind(trace, INSTALL).select(
        "run_id", "pid", F.col("inc").alias("new_inc"), F.col("ts_ns").alias("back_at")
    )
    is_back = (F.col("new_inc") > F.col("inc")) & (F.col("back_at") > F.col("left_at"))
    back_at = F.min(F.when(is_back, F.col("back_at")))
    return (
        leaves.join(returns, ["run_id", "pid"], "left")
        .groupBy("run_id", *INCARNATION, "left_at")
        .agg(back_at.alias("back_at"))
        .groupBy("run_id")
        .agg(F.collect_list(F.struct("pid", "left_at", "back_at")).alias("leaves"))
    )


def _leaving() -> Column:
    """Who had asked to leave, and was not back, when a view was first installed (`after`)."""
    installed = F.col("after")["ts_ns"]

    def is_leaving(leave: Column) -> Column:
        is_back = F.coalesce(leave["back_at"] <= installed, F.lit(False))
        return (leave["left_at"] <= installed + F.col("skew_ns")) & ~is_back

    gone = F.transform(F.filter("leaves", is_leaving), lambda leave: leave["pid"])
    return F.coalesce(gone, F.array().cast("array<int>"))


def _process(did: str, *columns: str) -> Column:
    return F.format_string(f"process %d {did}", *columns)
