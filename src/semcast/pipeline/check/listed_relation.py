"""Relations richer than items, followed through a stream from the newest message down.

A message is settled for who has it, or has something settled that lists it; so one sweep decides a
stream, whatever the chains.  A *fin* settles the updates of earlier requests that are of items of
its own request.  Both are as the application declared them.  Sets of processes are bit masks, one
bit for each place in a list.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby
from typing import Any, Final, NamedTuple, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from semcast.pipeline.check.evidence import of_kind
from semcast.pipeline.reading.trace import TraceTables
from semcast.terms.events import MULTICAST
from semcast.terms.relations import EVERYTHING, ITEM, LISTED, REQUESTS, relations_that

ANNOTATION: Final = ("is_kept", "covers", "updates", "is_fin")  # the columns of an `annotation`

RowDict: TypeAlias = Mapping[str, Any]  # a row, by column


class ListedMessage(NamedTuple):
    """One message: who has it, who is asked about it, the distances that it lists, the item that it
    updates in a request, and whether it ends one."""

    seq: int
    has: int
    expected: int
    is_kept: bool
    covers: Sequence[int]
    updates: int | None = None
    is_fin: bool = False


def unsatisfied(newest_first: Iterable[ListedMessage]) -> Iterator[tuple[int, int]]:
    """Messages with those who were asked about them and have nothing for them."""
    settled: dict[int, int] = {}  # by number, who has something that makes it obsolete
    updated: dict[int | None, int] = {}  # by item, who has a *fin* of a later request
    items: set[int] = set()  # of the request that the sweep is in
    fin = 0  # who has what ended it
    for link in newest_first:
        newer = settled.pop(link.seq, 0) | updated.get(link.updates, 0)
        has = link.has if link.is_kept else link.has | newer
        if link.expected & ~has:
            yield link.seq, link.expected & ~has
        for distance in link.covers:
            older = link.seq - distance
            settled[older] = settled.get(older, 0) | link.has | newer
        if link.is_fin:
            updated |= {item: updated.get(item, 0) | fin for item in items}
            items, fin = set(), link.has
        elif link.updates is not None:
            items.add(link.updates)


def scan_streams(
    rows: DataFrame,
    key: Sequence[str],
    follow: Callable[[Iterator[tuple[int, list[RowDict]]]], Iterator[RowDict]],
    schema: pa.Schema,
) -> DataFrame:
    """What `follow` says of each stream, given its numbers from the newest down, each with the
    rows that speak of it.  Only the rows of one number are held at a time."""

    def judge(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = (row for batch in batches for row in batch.to_pylist())
        for _, stream in groupby(rows, key=lambda row: tuple(row[name] for name in key)):
            numbers = ((seq, list(same)) for seq, same in groupby(stream, key=_number))
            found = list(follow(numbers))
            if found:
                yield pa.RecordBatch.from_pylist(found, schema=schema)

    newest_first = rows.repartition(*key).sortWithinPartitions(*key, F.desc("seq"))
    return newest_first.mapInArrow(judge, from_arrow_schema(schema))


def peek(
    numbers: Iterator[tuple[int, list[RowDict]]],
) -> tuple[RowDict, Iterator[tuple[int, list[RowDict]]]]:
    """A row of the newest number, and all numbers."""
    seq, rows = next(numbers)
    return rows[0], chain([(seq, rows)], numbers)


def _number(row: RowDict) -> int:
    return int(row["seq"])


def annotation(rows: Sequence[RowDict]) -> tuple[bool, Sequence[int], int | None, bool]:
    """Whether a message is kept, what it lists, what it updates and whether it is a *fin*, by the
    first row that knows it."""
    known = next((row for row in rows if row["is_kept"] is not None), None)
    if known is None:
        return True, (), None, False
    return known["is_kept"], known["covers"] or (), known["updates"], known["is_fin"]


def annotated(trace: TraceTables, kind: str) -> DataFrame:
    """Events of messages with their relation (`relation`, `is_listed`, `is_kept`), the distances
    that were declared obsolete (`covers`), the item that is updated in a request (`updates`) and
    whether it is a *fin* (`is_fin`), which only a multicast tells; `line` is what a later message
    must share with one to replace it, null where nothing does."""
    relation = F.split_part("relation", F.lit(":"), F.lit(1))
    runs = trace.runs.select("run_id", relation.alias("relation"))
    declared = F.coalesce(F.col("attrs")["declares"], F.lit(""))
    own = F.expr("try_cast(regexp_extract(attrs['declares'], 'item=(-?[0-9]+)', 1) as bigint)")
    item = F.when(declared.startswith("item"), own).otherwise(F.col("item"))
    replace_key = F.when(F.col("relation").isin(*relations_that(ITEM)), item).when(
        F.col("relation").isin(*relations_that(EVERYTHING)), F.lit(0)
    )
    never_purged = F.coalesce(F.col("attrs")["never_purge"] == "1", F.lit(False))
    never_purged = F.when(declared.contains("never_purge"), declared.endswith("=1")).otherwise(
        never_purged
    )
    is_told = ~F.col("is_listed") | F.lit(kind == MULTICAST)
    distances = F.expr("transform(declared, one -> cast(seq - one as int))")
    in_request = F.col("relation").isin(*relations_that(REQUESTS))
    return (
        of_kind(trace, kind)
        .join(F.broadcast(runs), "run_id")
        .withColumn("is_listed", F.col("relation").isin(*relations_that(LISTED, REQUESTS)))
        .withColumn("is_kept", F.when(is_told, never_purged))
        .withColumn("line", replace_key)
        .withColumn("covers", F.when(is_told & ~in_request, distances))
        .withColumn("updates", F.when(is_told & in_request, item))
        .withColumn("is_fin", is_told & in_request & item.isNull())
    )
