"""What loggers promise to subscribers and to senders.

A subscription is a vector of numbers: owed is what each sender multicast after its number.  Whether
all subscribers are settled about a message is a bit mask of them; when a subscriber had everything
up to a number is a count and a latest time along the stream.

Rule: Reliable Multicast [RPB §2.1], with crashes [RPB §6.1]; stability-oriented collection
[RPB §5.2]; a logger acknowledges what it has on stable storage [RPB §3.2].
"""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from semcast.pipeline.check.evidence import clock_skews, of_kind
from semcast.pipeline.check.subscriber_knowledge import resolved_messages
from semcast.pipeline.check.subscriptions import active_at_end, last_not_owed, subscriptions
from semcast.pipeline.check.violations import event, violations
from semcast.pipeline.reading.trace import TraceTables
from semcast.terms.events import (
    ACKNOWLEDGE,
    AGE,
    CRASH,
    DELIVER,
    MULTICAST,
    RECEIVE,
    RECLAIM,
    SKIP,
)

_MESSAGE: Final = ("sender", "seq")  # numbers go on when a sender recovers
_STREAM: Final = ("run_id", "pid", "subscription", "sender")
_WORD: Final = 63  # bits of a mask


def reliable_delivery(trace: TraceTables) -> DataFrame:
    """At the end every subscriber that is up is settled about every message after its vector: it
    delivered or declined it, was told that it will not come, which the trace supports, or was told
    that it is obsolete and got, or was told of the loss of, what makes it so."""
    subscribers = active_at_end(trace)
    is_owed = F.col("seq") > last_not_owed(F.col("sender"))
    word, bit = F.expr(f"place div {_WORD}"), F.expr(f"cast(place % {_WORD} as int)")
    done = (
        resolved_messages(trace)
        .join(F.broadcast(subscribers), ["run_id", "pid"])
        .where(is_owed & F.col("is_settled"))
        .groupBy("run_id", *_MESSAGE, word.alias("word"))
        .agg(F.bit_or(F.expr(f"shiftleft(1L, cast(place % {_WORD} as int))")).alias("mask"))
        .groupBy("run_id", *_MESSAGE)
        .agg(
            F.map_from_entries(F.collect_list(F.struct("word", "mask"))).alias("masks"),
            F.sum(F.bit_count("mask")).alias("done"),
        )
    )
    wrong = (
        _owed_messages(trace, subscribers)
        .join(done, ["run_id", *_MESSAGE], "left")
        .where(F.coalesce("done", F.lit(0)) < F.col("owed"))
    )
    mask = F.coalesce(F.try_element_at("masks", word), F.lit(0))
    rows = (
        wrong.join(F.broadcast(subscribers), "run_id")
        .where(is_owed & (F.getbit(mask, bit) == 0))
        .select("run_id", "pid", *_MESSAGE, "sent")
    )
    what = F.format_string(
        "subscriber %d is owed %d:%d and has neither it nor a message that supersedes it",
        "pid",
        "sender",
        "seq",
    )
    return violations(rows, "reliable_delivery", what, F.col("sent"))


def owed_messages(trace: TraceTables) -> DataFrame:
    """How many pairs there are of a subscriber and a message that it is owed (`obligations`)."""
    owed = _owed_messages(trace, active_at_end(trace))
    return owed.agg(F.coalesce(F.sum("owed"), F.lit(0)).alias("obligations"))


def _owed_messages(trace: TraceTables, subscribers: DataFrame) -> DataFrame:
    """Messages with their multicast (`sent`) and the number of those who are owed them (`owed`),
    without what a sender took with it when it crashed."""
    first = F.struct("ts_ns", "pid", "n")
    crashed = of_kind(trace, CRASH).groupBy("run_id", F.col("pid").alias("sender"))
    promised = of_kind(trace, ACKNOWLEDGE).select("run_id", *_MESSAGE).distinct()
    vectors = subscribers.groupBy("run_id").agg(F.collect_list("after").alias("vectors"))
    owed = F.filter("vectors", lambda v: F.col("seq") > last_not_owed(F.col("sender"), v))
    return (
        of_kind(trace, MULTICAST)
        .groupBy("run_id", *_MESSAGE)
        .agg(F.min_by(event(), first).alias("sent"))
        .join(promised.withColumn("is_promised", F.lit(True)), ["run_id", *_MESSAGE], "left")
        .join(F.broadcast(crashed.agg(F.max("inc").alias("crashed"))), ["run_id", "sender"], "left")
        .where("is_promised or crashed is null or sent.inc > crashed")
        .join(F.broadcast(vectors), "run_id")
        .withColumn("owed", F.size(owed))
    )


def collection_safety(trace: TraceTables) -> DataFrame:
    """A logger reclaims a message only when every subscriber that is owed it has it, or by age.

    That includes who joins later with a vector before it.  Of each subscription and sender the
    first wrong reclaim is reported.
    """
    claims = _claims(trace)
    has = _first_had(trace, claims)
    judged = _wrong_claims(claims, has, of_kind(trace, MULTICAST))
    first = judged.groupBy(*_STREAM).agg(
        *(F.min_by(name, F.struct("ts_ns", "seq")).alias(name) for name in _OF_CLAIM)
    )
    lacking = _lacking(first, has, of_kind(trace, MULTICAST))
    what = F.format_string(
        "logger %d reclaimed up to %d:%d, but subscriber %d is owed %d:%d and does not have it",
        *("reclaim.pid", "sender", "seq", "pid", "sender", "lacking"),
    )
    is_later = F.col("joined.ts_ns") > F.col("reclaim.ts_ns")
    joined = F.col("joined")
    proof = F.when(~is_later, joined), F.col("reclaim"), F.when(is_later, joined)
    return violations(lacking, "collection_safety", what, *proof)


def claimed(trace: TraceTables) -> DataFrame:
    """How often something was reclaimed that a subscriber was owed (`obligations`)."""
    return _claims(trace).agg(F.count("*").alias("obligations"))


def _claims(trace: TraceTables) -> DataFrame:
    """Reclaims that are not by age, for each subscriber that is owed some of what was reclaimed."""
    reclaims = (
        of_kind(trace, RECLAIM)
        .where(F.coalesce(F.col("attrs")["reason"], F.lit("")) != AGE)
        .select("run_id", *_MESSAGE, "ts_ns", event().alias("reclaim"))
        .join(F.broadcast(clock_skews(trace)), "run_id")
    )
    return (
        reclaims.join(F.broadcast(subscriptions(trace)), "run_id")
        .where("until is null or until > ts_ns + skew_ns")
        .withColumn("last", last_not_owed(F.col("sender")))
        .where("seq > last")
        .withColumn("ts_ns", F.greatest("ts_ns", "joined.ts_ns"))  # Who joins later: by then.
    )


_OF_CLAIM: Final = ("seq", "ts_ns", "skew_ns", "last", "reclaim", "joined")


def _first_had(trace: TraceTables, claims: DataFrame) -> DataFrame:
    """When a subscriber first had a message that a logger let go of, by any event that says so."""
    furthest = claims.groupBy("run_id", "pid", "sender").agg(F.max("seq").alias("furthest"))
    return (
        of_kind(trace, RECEIVE, DELIVER, SKIP)
        .join(F.broadcast(furthest), ["run_id", "pid", "sender"])
        .where("seq <= furthest")
        .groupBy("run_id", "pid", *_MESSAGE)
        .agg(F.min("ts_ns").alias("had_at"))
    )


def _wrong_claims(claims: DataFrame, has: DataFrame, multicasts: DataFrame) -> DataFrame:
    """The claims that are wrong: up to there, the subscriber has fewer messages than there are, or
    got one of them later."""
    starts = claims.select(*_STREAM, "last").distinct()
    upward = Window.partitionBy(*_STREAM).orderBy("seq", "is_claim")
    count = F.count(F.when(~F.col("is_claim"), F.lit(1))).over(upward)
    had = has.join(starts, ["run_id", "pid", "sender"]).where("seq > last")
    sent = multicasts.select("run_id", *_MESSAGE).distinct()
    owed = sent.join(starts, ["run_id", "sender"]).where("seq > last")
    sent_rows = owed.select(*_STREAM, "seq", F.lit(False).alias("is_claim"))
    total = _beside(claims, sent_rows).withColumn("total", count).where("is_claim")
    had_rows = had.join(sent, ["run_id", *_MESSAGE], "left_semi").select(
        *_STREAM, "seq", "had_at", F.lit(False).alias("is_claim")
    )
    counted = (
        _beside(total, had_rows)
        .withColumn("has", count)
        .withColumn("latest", F.max("had_at").over(upward))
        .where("is_claim")
    )
    return counted.where("has < total or latest > ts_ns + skew_ns")


def _beside(claims: DataFrame, rows: DataFrame) -> DataFrame:
    """The claims among the rows that they speak of."""
    return claims.withColumn("is_claim", F.lit(True)).unionByName(rows, allowMissingColumns=True)


def _lacking(claims: DataFrame, has: DataFrame, multicasts: DataFrame) -> DataFrame:
    """The claims with the first message that the subscriber did not have (`lacking`)."""
    sent = multicasts.select("run_id", "sender", F.col("seq").alias("number")).distinct()
    had = has.withColumnRenamed("seq", "number")
    owed = sent.join(F.broadcast(claims), ["run_id", "sender"]).where(
        "number > last and number <= seq"
    )
    missing = owed.join(had, ["run_id", "pid", "sender", "number"], "left").where(
        "had_at is null or had_at > ts_ns + skew_ns"
    )
    return missing.groupBy(*_STREAM).agg(
        *(F.first(name).alias(name) for name in _OF_CLAIM), F.min("number").alias("lacking")
    )
