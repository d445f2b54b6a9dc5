"""Semantic View Synchrony: who goes from a view to the same next one has delivered the same in it,
but for what is obsolete.

Those who go together are compared with each other.  Under item tags the greatest number that each
delivered of an item is enough: who is below the group's greatest lacks that message and whatever
replaces it.  What nothing replaces must have been delivered by all.  A relation that lists what is
obsolete is followed through each sender's stream, from the newest message down.

Rule: [SVS §4.1].  Sending View Delivery is taken for granted: what links two messages of a view was
multicast in it.
Rejected: joining every message with every process, which took twenty times as long.
"""

from collections.abc import Iterator
from functools import reduce
from operator import or_
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from semcast.pipeline.check.following import (
    Link,
    Told,
    annotated,
    annotation,
    followed,
    peeked,
    unsettled,
)
from semcast.pipeline.check.proof import LIFE, MESSAGE, STREAM, of_kind, with_multicast
from semcast.pipeline.check.violations import event, violations
from semcast.pipeline.trace import Trace
from semcast.terms.events import DELIVER, INSTALL, MULTICAST

_PASSAGE: Final = ("run_id", "view", "after")  # from a view to the next
_SCHEMA: Final = pa.schema(
    [
        *((name, pa.int64()) for name in _PASSAGE),
        *((name, pa.int32()) for name in STREAM),
        ("seq", pa.int64()),
        *((name, pa.int32()) for name in LIFE),
    ]
)


def semantic_view_synchrony(trace: Trace) -> DataFrame:
    """If two processes install a view and the same view after it, and one of them delivered m in
    the first, the other delivered some m' ⊒ m in it."""
    by_life = Window.partitionBy("run_id", *LIFE).orderBy("n")
    passages = (
        of_kind(trace, INSTALL)
        .select("run_id", *LIFE, "view", F.lead("view").over(by_life).alias("after"))
        .where("after is not null")
    )
    groups = passages.groupBy(*_PASSAGE).agg(F.count("*").alias("size"))
    delivered = annotated(trace, DELIVER).join(passages, ["run_id", *LIFE, "view"])
    missing = [
        _below_mark(delivered.where("not is_listed and line is not null"), groups, passages),
        _not_by_all(
            delivered.where("not is_listed and (line is null or is_kept)"), groups, passages
        ),
        _unfollowed(delivered.where("is_listed"), _listed(trace, passages), passages),
    ]
    return _proven(trace, reduce(DataFrame.unionByName, missing), delivered)


def _below_mark(delivered: DataFrame, groups: DataFrame, passages: DataFrame) -> DataFrame:
    """Processes that are below the group's mark of an item, which is the message they lack."""
    line = (*_PASSAGE, *STREAM, "line")
    replaceable = F.when(~F.col("is_kept"), F.col("seq"))
    marks = delivered.groupBy(*line, *LIFE).agg(
        F.max("seq").alias("own"), F.max(replaceable).alias("most")
    )
    mark = F.max("most").over(Window.partitionBy(*line))
    wrong = (
        marks.withColumn("seq", mark)
        .groupBy(*line, "seq")
        .agg(F.count_if(F.col("own") >= F.col("seq")).alias("reached"))
        .join(groups, [*_PASSAGE])
        .where("reached < size")
        .select(*line, "seq")
    )
    there = marks.join(F.broadcast(wrong), [*line]).where("own >= seq")
    return _all_but(passages, wrong, there.select(*line, *LIFE), line)


def _not_by_all(delivered: DataFrame, groups: DataFrame, passages: DataFrame) -> DataFrame:
    """Processes that lack a message which nothing replaces."""
    message = (*_PASSAGE, *MESSAGE)
    wrong = (
        delivered.groupBy(*message)
        .agg(F.count("*").alias("reached"))
        .join(groups, [*_PASSAGE])
        .where("reached < size")
        .select(*message)
    )
    there = delivered.join(F.broadcast(wrong), [*message]).select(*message, *LIFE)
    return _all_but(passages, wrong, there, message)


def _all_but(
    passages: DataFrame, wrong: DataFrame, there: DataFrame, key: tuple[str, ...]
) -> DataFrame:
    """Each process of the passage with each wrong message, but for those that have it."""
    everyone = passages.join(F.broadcast(wrong), [*_PASSAGE])
    return everyone.join(there, [*key, *LIFE], "left_anti").select(*_PASSAGE, *MESSAGE, *LIFE)


def _listed(trace: Trace, passages: DataFrame) -> DataFrame:
    """What was multicast in the views that were left, under a relation that lists: a message that
    nobody delivered may still link those that were."""
    sent = annotated(trace, MULTICAST).where("is_listed")
    views = passages.select(*_PASSAGE).distinct()
    return sent.join(views, ["run_id", "view"])


def _unfollowed(delivered: DataFrame, sent: DataFrame, passages: DataFrame) -> DataFrame:
    """The same of a relation that lists, stream by stream."""
    stream, nobody = [*_PASSAGE, *STREAM], F.lit(None).cast("int")
    lives = passages.groupBy(*_PASSAGE).agg(F.collect_set(F.struct(*LIFE)).alias("lives"))
    rows = delivered.select(*stream, "seq", "covers", "is_kept", *LIFE).unionByName(
        sent.select(
            *(*stream, "seq", "covers", "is_kept"), nobody.alias("pid"), nobody.alias("inc")
        )
    )
    return followed(rows.join(lives, [*_PASSAGE]), stream, _follow, _SCHEMA)


def _follow(numbers: Iterator[tuple[int, list[Told]]]) -> Iterator[Told]:
    first, numbers = peeked(numbers)
    head = {name: first[name] for name in (*_PASSAGE, *STREAM)}
    lives = sorted((life["pid"], life["inc"]) for life in first["lives"])
    bit = {life: 1 << place for place, life in enumerate(lives)}

    def links() -> Iterator[Link]:
        for seq, told in numbers:
            has = reduce(or_, (bit.get((row["pid"], row["inc"]), 0) for row in told))
            asked = (1 << len(lives)) - 1 if has else 0
            yield Link(seq, has, asked, *annotation(told))

    for seq, lacking in unsettled(links()):
        for pid, inc in lives:
            if lacking & bit[pid, inc]:
                yield {**head, "seq": seq, "pid": pid, "inc": inc}


def _proven(trace: Trace, missing: DataFrame, delivered: DataFrame) -> DataFrame:
    """With the multicast, and the first delivery in the same passage."""
    message = [*_PASSAGE, *MESSAGE]
    wanted = F.broadcast(missing.select(*message).distinct())
    first: Column = F.min_by(event(), F.struct("ts_ns", "pid", "n"))
    at = delivered.join(wanted, message).groupBy(*message).agg(first.alias("at"))
    rows = with_multicast(missing.join(at, message), of_kind(trace, MULTICAST))
    what = F.format_string(
        "process %d went from view %d to view %d and delivered nothing for %d:%d, "
        "which process %d delivered",
        *("pid", "view", "after", "sender", "seq", "at.pid"),
    )
    return violations(rows, "semantic_view_synchrony", what, F.col("sent"), F.col("at"))
