"""What a subscriber knows of a message: delivered, declined, lost, or obsolete and replaced.

A `skip` with a reason tells of a loss, and counts where the trace supports it: a logger collected
the message by age, or it was acknowledged and no disk holds it any more.  One that names what made
the message obsolete counts where the subscriber got, or was told of the loss of, a message that
makes it so; which, the relation of the run says [RPB §6.1], [SRM §3.2].
"""

from collections.abc import Iterable, Iterator
from functools import reduce
from operator import or_
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from semcast.pipeline.check.evidence import of_kind
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
from semcast.pipeline.reading.trace import TraceTables
from semcast.terms.events import (
    ACKNOWLEDGE,
    AGE,
    APPEND,
    CRASH,
    DELIVER,
    DISK,
    INTEREST,
    MULTICAST,
    RECLAIM,
    SKIP,
)

_COLUMNS: Final = ("run_id", "pid", "sender", "seq")
_MESSAGE: Final = ("run_id", "sender", "seq")
_SCHEMA: Final = pa.schema(
    [
        ("run_id", pa.int64()),
        ("pid", pa.int32()),
        ("sender", pa.int32()),
        ("seq", pa.int64()),
        ("is_settled", pa.bool_()),
    ]
)


def resolved_messages(trace: TraceTables) -> DataFrame:
    """By run, process, sender and number, whether the process is settled (`is_settled`), where it
    was told anything.  There may be several rows; one that says so is enough."""
    skips = of_kind(trace, SKIP)
    declined = skips.where(F.expr(f"by_seq is null and attrs['reason'] = '{INTEREST}'"))
    had = of_kind(trace, DELIVER).select(*_COLUMNS).unionByName(declined.select(*_COLUMNS))
    had = had.unionByName(_lost(trace, skips.where("by_seq is null")))
    messages = annotated(trace, MULTICAST).select(*_MESSAGE, "is_listed", "line", *ANNOTATION)
    obsolete = skips.where("by_seq is not null").select(*_COLUMNS).distinct()
    obsolete = obsolete.join(messages, [*_MESSAGE])
    replaced = [
        had.withColumn("is_settled", F.lit(True)),
        _by_replace_key(obsolete.where("not is_listed"), had, messages),
        _by_lists(obsolete.where("is_listed"), had, messages.where("is_listed")),
    ]
    return reduce(DataFrame.unionByName, replaced)


def _lost(trace: TraceTables, skips: DataFrame) -> DataFrame:
    """The skips of messages that nobody can get any more."""
    aged = (
        of_kind(trace, RECLAIM)
        .where(F.col("attrs")["reason"] == AGE)
        .groupBy("run_id", "sender")
        .agg(F.max("seq").alias("aged"))
    )
    losses = (
        of_kind(trace, CRASH)
        .where(F.col("attrs")["reason"] == DISK)
        .groupBy("run_id", "pid")
        .agg(F.max("inc").alias("lost"))
    )
    held = (
        of_kind(trace, APPEND)
        .join(F.broadcast(losses), ["run_id", "pid"], "left")
        .where("lost is null or inc > lost")
    )
    skipped = skips.select(*_COLUMNS).join(F.broadcast(aged), ["run_id", "sender"], "left")
    acknowledged = of_kind(trace, ACKNOWLEDGE).select(*_MESSAGE)
    by_disk = skipped.join(acknowledged, [*_MESSAGE], "left_semi").join(
        held, [*_MESSAGE], "left_anti"
    )
    return skipped.where("seq <= aged").unionByName(by_disk).select(*_COLUMNS)


def _by_replace_key(obsolete: DataFrame, had: DataFrame, messages: DataFrame) -> DataFrame:
    """A later message of the same line replaces one that may be replaced."""
    line = ("run_id", "pid", "sender", "line")
    lines = obsolete.select(*line).distinct()
    marks = (
        had.join(messages.where("line is not null"), [*_MESSAGE])
        .join(lines, [*line], "left_semi")
        .groupBy(*line)
        .agg(F.max("seq").alias("mark"))
    )
    is_settled = ~F.col("is_kept") & F.coalesce(F.col("mark") > F.col("seq"), F.lit(False))
    return obsolete.join(marks, [*line], "left").select(*_COLUMNS, is_settled.alias("is_settled"))


def _by_lists(obsolete: DataFrame, had: DataFrame, messages: DataFrame) -> DataFrame:
    """The same where messages list what they replace: everything of a sender, in one sweep."""
    nobody = F.lit(None).cast("int").alias("pid")
    streams = obsolete.select("run_id", "sender").distinct()
    rows = (
        messages.select(*_MESSAGE, *ANNOTATION, nobody, F.lit(False).alias("is_asked"))
        .unionByName(
            had.select(*_COLUMNS, F.lit(False).alias("is_asked")), allowMissingColumns=True
        )
        .unionByName(obsolete.select(*_COLUMNS, *ANNOTATION, F.lit(True).alias("is_asked")))
        .join(streams, ["run_id", "sender"], "left_semi")
    )
    return scan_streams(rows, ["run_id", "sender"], _check_stream, _SCHEMA)


def _check_stream(numbers: Iterator[tuple[int, list[RowDict]]]) -> Iterator[RowDict]:
    first, numbers = peek(numbers)
    head = {"run_id": first["run_id"], "sender": first["sender"]}
    bit: dict[int, int] = {}
    asked_about: dict[int, int] = {}

    def bits(pids: Iterable[int | None]) -> int:
        known = (bit.setdefault(pid, 1 << len(bit)) for pid in pids if pid is not None)
        return reduce(or_, known, 0)

    def links() -> Iterator[ListedMessage]:
        for seq, rows in numbers:
            has = bits(row["pid"] for row in rows if not row["is_asked"])
            asked = asked_about[seq] = bits(row["pid"] for row in rows if row["is_asked"])
            yield ListedMessage(seq, has, asked, *annotation(rows))

    lacking = dict(unsatisfied(links()))
    for seq, asked in asked_about.items():
        for pid, mask in bit.items():
            if asked & mask:
                is_settled = not lacking.get(seq, 0) & mask
                yield {**head, "seq": seq, "pid": pid, "is_settled": is_settled}
