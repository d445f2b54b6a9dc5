"""What a subscriber knows of a message: delivered, lost, or obsolete and replaced.

A `skip` with a reason tells of a loss.  One that names what made the message obsolete counts where
the subscriber got, or was told of the loss of, a message that makes it so; which, the relation of
the run says [RPB §6.1], [SRM §3.2].
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
    ListedMessage,
    RowDict,
    annotated,
    annotation,
    peek,
    scan_streams,
    unsatisfied,
)
from semcast.pipeline.reading.trace import TraceTables
from semcast.terms.events import DELIVER, MULTICAST, SKIP

_COLUMNS: Final = ("run_id", "pid", "sender", "seq")
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
    had = of_kind(trace, DELIVER).select(*_COLUMNS)
    had = had.unionByName(skips.where("by_seq is null").select(*_COLUMNS))
    messages = annotated(trace, MULTICAST).select(
        *("run_id", "sender", "seq", "is_listed", "is_kept", "line", "covers")
    )
    obsolete = skips.where("by_seq is not null").select(*_COLUMNS).distinct()
    obsolete = obsolete.join(messages, ["run_id", "sender", "seq"])
    replaced = [
        had.withColumn("is_settled", F.lit(True)),
        _by_replace_key(obsolete.where("not is_listed"), had, messages),
        _by_lists(obsolete.where("is_listed"), had, messages.where("is_listed")),
    ]
    return reduce(DataFrame.unionByName, replaced)


def _by_replace_key(obsolete: DataFrame, had: DataFrame, messages: DataFrame) -> DataFrame:
    """A later message of the same line replaces one that may be replaced."""
    line = ("run_id", "pid", "sender", "line")
    lines = obsolete.select(*line).distinct()
    marks = (
        had.join(messages.where("line is not null"), ["run_id", "sender", "seq"])
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
    about = ("is_kept", "covers")
    rows = (
        messages.select("run_id", "sender", "seq", *about, nobody, F.lit(False).alias("is_asked"))
        .unionByName(
            had.select(*_COLUMNS, F.lit(False).alias("is_asked")), allowMissingColumns=True
        )
        .unionByName(obsolete.select(*_COLUMNS, *about, F.lit(True).alias("is_asked")))
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
