"""Semantic View Synchrony: who goes from a view to the same next one has delivered the same in it,
but for what is obsolete; and so has who is still in the last one, once a run has fallen quiet.

Those who go together are compared with each other.  Under item tags the greatest number that each
delivered of an item is enough, or under total order the last place: who is below the group's mark
lacks that message and whatever replaces it.  What nothing replaces must have been delivered by all.
A relation that lists what is obsolete is followed through each sender's stream, from the newest
message down.

Rule: [SVS §4.1].  Sending View Delivery is taken for granted: what links two messages of a view was
multicast in it; and Total Order: a message has one place.
Rejected: joining every message with every process, which took twenty times as long.
"""

from collections.abc import Iterator
from functools import reduce
from operator import or_
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from semcast.pipeline.check.evidence import (
    INCARNATION,
    MESSAGE,
    STREAM,
    is_order,
    is_same_message,
    message_columns,
    of_kind,
)
from semcast.pipeline.check.last_view import LAST, remaining, with_positions
from semcast.pipeline.check.listed_relation import (
    ANNOTATION,
    ListedMessage,
    RowDict,
    annotated,
    annotation,
    peek,
    scan_streams,
    unsatisfied,
)
from semcast.pipeline.check.violations import event, violations
from semcast.pipeline.reading.trace import TraceTables
from semcast.terms.events import DELIVER, INSTALL, MULTICAST
from semcast.terms.promises import BY_ORDER
from semcast.terms.relations import ITEM, relations_that

_TRANSITION: Final = ("run_id", "view", "after")  # from a view to the next, or LAST
_TOLD: Final = (*_TRANSITION, *MESSAGE, "line", "is_kept", "is_listed", "is_placed", "position")
_SCHEMA: Final = pa.schema(
    [
        *((name, pa.int64()) for name in _TRANSITION),
        *((name, pa.int32()) for name in STREAM),
        ("seq", pa.int64()),
        *((name, pa.int32()) for name in INCARNATION),
    ]
)


def semantic_view_synchrony(trace: TraceTables) -> DataFrame:
    """If two processes install a view and the same view after it, and one of them delivered m in
    the first, the other delivered some m' ⊒ m in it.  In the last view of a complete run, also if
    one of them multicast m."""
    passages = _transitions(trace)
    life = F.struct(*INCARNATION)
    groups = F.broadcast(passages.groupBy(*_TRANSITION).agg(F.collect_set(life).alias("lives")))
    delivered = _related(trace, DELIVER).join(
        F.broadcast(passages), ["run_id", *INCARNATION, "view"]
    )
    sent = _sent(trace, groups)
    asked = with_positions(trace, sent.where("is_wanted"))
    wanted = (
        delivered.select(*_TOLD, *INCARNATION)
        .unionByName(asked.select(*_TOLD), allowMissingColumns=True)
        .where("not is_listed")
    )
    missing = [
        _below_group_max(wanted.where("line is not null"), groups),
        _not_by_all(wanted.where("line is null or is_kept"), groups),
        _missing_listed(delivered.where("is_listed"), sent.where("is_listed"), groups),
    ]
    return _proven(trace, reduce(DataFrame.unionByName, missing), delivered)


def compared(trace: TraceTables) -> DataFrame:
    """How many deliveries others are compared with (`obligations`)."""
    passages = _transitions(trace)
    alone = passages.groupBy(*_TRANSITION).agg(F.count("*").alias("lives"))
    together = passages.join(alone.where(f"lives > 1 or after = {LAST}"), [*_TRANSITION])
    delivered = of_kind(trace, DELIVER).join(
        F.broadcast(together), ["run_id", *INCARNATION, "view"]
    )
    return delivered.agg(F.count("*").alias("obligations"))


def _transitions(trace: TraceTables) -> DataFrame:
    """Who went from which view to which, or remained."""
    by_life = Window.partitionBy("run_id", *INCARNATION).orderBy("n")
    left = (
        of_kind(trace, INSTALL)
        .select("run_id", *INCARNATION, "view", F.lead("view").over(by_life).alias("after"))
        .where("after is not null")
    )
    return left.unionByName(remaining(trace))


def _related(trace: TraceTables, kind: str) -> DataFrame:
    """Events of messages with their relation; `is_placed` where it goes by place."""
    placing = [name for name, order in BY_ORDER.items() if order.gives_places]
    orders = trace.runs.select("run_id", F.col("order").isin(*placing).alias("is_total"))
    is_placed = F.col("is_total") & F.col("relation").isin(*relations_that(ITEM))
    events = annotated(trace, kind).join(F.broadcast(orders), "run_id")
    return events.withColumn("is_placed", is_placed)


def _sent(trace: TraceTables, groups: DataFrame) -> DataFrame:
    """What was multicast in the views that were left or remained in, by passage.  Nobody may have
    delivered it: it may still link those that were, and in a last view what one who remained said
    is wanted (`is_wanted`)."""
    speaker = F.struct(F.col("sender").alias("pid"), F.col("sender_inc").alias("inc"))
    is_wanted = (F.col("after") == LAST) & F.array_contains("lives", speaker)
    sent = _related(trace, MULTICAST).where(~is_order()).drop(*INCARNATION)
    return sent.join(groups, ["run_id", "view"]).withColumn("is_wanted", is_wanted)


def _below_group_max(wanted: DataFrame, groups: DataFrame) -> DataFrame:
    """Processes that are below the group's mark of an item, which is the message they lack: the
    last place of all senders' messages, or each sender's last number."""
    line = (*_TRANSITION, "stream", "line")
    stream = F.when(~F.col("is_placed"), F.struct(*STREAM)).alias("stream")
    at = F.when(F.col("is_placed"), F.col("position")).otherwise(F.col("seq"))
    delivered = F.when(F.col("pid").isNotNull(), at)
    replaceable = F.when(~F.col("is_kept"), F.struct(at.alias("at"), *MESSAGE))
    marks = wanted.groupBy(*_TRANSITION, stream, "line", *INCARNATION).agg(
        F.max(delivered).alias("own"), F.max(replaceable).alias("most")
    )
    mark = F.max("most").over(Window.partitionBy(*line))
    reached = F.when(F.col("own") >= F.col("mark")["at"], F.struct(*INCARNATION))
    wrong = (
        marks.withColumn("mark", mark)
        .where("mark is not null")
        .groupBy(*line, "mark")
        .agg(F.collect_list(reached).alias("there"))
        .join(groups, [*_TRANSITION])
    )
    return _absent(wrong.select(*_TRANSITION, "lives", "there", "mark.*"))


def _not_by_all(wanted: DataFrame, groups: DataFrame) -> DataFrame:
    """Processes that lack a message which nothing replaces."""
    message = (*_TRANSITION, *MESSAGE)
    has_it = F.when(F.col("pid").isNotNull(), F.struct(*INCARNATION))
    holders = wanted.groupBy(*message).agg(F.collect_set(has_it).alias("there"))
    return _absent(holders.join(groups, [*_TRANSITION]))


def _absent(messages: DataFrame) -> DataFrame:
    """Each process that goes with others (`lives`) and is not `there`, with the message."""
    absent = F.explode(F.array_except("lives", "there")).alias("life")
    return messages.select(*_TRANSITION, *MESSAGE, absent).select(*_TRANSITION, *MESSAGE, "life.*")


def _missing_listed(delivered: DataFrame, sent: DataFrame, groups: DataFrame) -> DataFrame:
    """The same of a relation that lists, stream by stream."""
    stream = [*_TRANSITION, *STREAM]
    columns = [*stream, "seq", *ANNOTATION]
    rows = delivered.select(*columns, *INCARNATION, F.lit(True).alias("is_wanted")).unionByName(
        sent.select(*columns, "is_wanted"), allowMissingColumns=True
    )
    return scan_streams(rows.join(groups, [*_TRANSITION]), stream, _check_stream, _SCHEMA)


def _check_stream(numbers: Iterator[tuple[int, list[RowDict]]]) -> Iterator[RowDict]:
    first, numbers = peek(numbers)
    head = {name: first[name] for name in (*_TRANSITION, *STREAM)}
    lives = sorted((life["pid"], life["inc"]) for life in first["lives"])
    bit = {life: 1 << place for place, life in enumerate(lives)}

    def links() -> Iterator[ListedMessage]:
        for seq, rows in numbers:
            has = reduce(or_, (bit.get((row["pid"], row["inc"]), 0) for row in rows))
            is_wanted = any(row["is_wanted"] for row in rows)
            yield ListedMessage(
                seq, has, (1 << len(lives)) - 1 if is_wanted else 0, *annotation(rows)
            )

    for seq, lacking in unsatisfied(links()):
        for pid, inc in lives:
            if lacking & bit[pid, inc]:
                yield {**head, "seq": seq, "pid": pid, "inc": inc}


def _proven(trace: TraceTables, missing: DataFrame, delivered: DataFrame) -> DataFrame:
    """With the multicast, and the first delivery in the same passage: there is one of them."""
    first = F.struct("ts_ns", "pid", "n").alias("first")
    nowhere = (F.lit(None).cast("bigint").alias(name) for name in ("in_view", "until"))
    sent = of_kind(trace, MULTICAST).select(
        *message_columns(), event().alias("told"), first, *nowhere
    )
    passage = F.col("view").alias("in_view"), F.col("after").alias("until")
    described = delivered.select(
        *message_columns(), event().alias("told"), first, *passage
    ).unionByName(sent)
    is_sent = F.isnull("until")
    rows = (
        described.join(F.broadcast(missing), is_same_message())
        .where(is_sent | (F.expr("in_view = view and until = after")))
        .groupBy(*missing.columns)
        .agg(
            F.min_by("told", F.when(is_sent, F.col("first"))).alias("sent"),
            F.min_by("told", F.when(~is_sent, F.col("first"))).alias("at"),
        )
    )
    went = F.format_string("went from view %d to view %d", "view", "after")
    how = F.when(F.col("after") == LAST, F.format_string("ended in view %d", "view")).otherwise(
        went
    )
    what = F.format_string(
        "process %d %s and delivered nothing for %d:%d, which process %d %s",
        *("pid", how, "sender", "seq", F.coalesce("at.pid", "sender")),
        F.when(F.col("at").isNull(), "multicast").otherwise("delivered"),
    )
    return violations(rows, "semantic_view_synchrony", what, F.col("sent"), F.col("at"))
