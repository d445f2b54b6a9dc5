"""The distances of keyed streams, counted: nothing is sorted but what a stretch leaves open.

A stretch is a run of consecutive places of one sender, as the rows come.  Within it a task finds
all neighbours of a key with numpy.  What is left is the first and last row of each key in each
stretch, and a window over those settles the rest.  Rows that come in no order make stretches of
one row: slower, as right.  A key with half of all rows leaves two rows of each stretch.

Keys are compared by 64 bits of hash, as the items of a trace are.
Rejected: `with_distances`, which sorts every row and takes several times as long.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from semcast.traces.keyed import KINDS

ROWS_BITS: Final = 20
ROWS_MAX: Final = 1 << ROWS_BITS  # in a stretch: what a task holds at once
_UPDATE, _CREATE, _DELETE, _ONE_OFF = range(1, 1 + len(KINDS))

# Parts are settled rows, counted by distance, and the open ends of stretches.
_SETTLED: Final = (("stream", "int64"), ("dist", "int64"), ("messages", "int64"))
_OPEN: Final = (
    *(("stream", "int64"), ("item", "int64"), ("place", "int64"), ("kind", "int8")),
    *(("is_first", "bool"), ("size", "int64")),
)
_PART: Final = pa.schema([pa.field(*each) for each in dict.fromkeys(_SETTLED + _OPEN)])
_PART_SPARK: Final = (
    "stream bigint, dist bigint, messages bigint, "
    "item bigint, place bigint, kind tinyint, is_first boolean, size bigint"
)


def stream_of(sender: str) -> Column:
    """What stands for a sender in `stream`."""
    return F.xxhash64(sender)


def parts_of(rows: DataFrame) -> DataFrame:
    """The parts of keyed rows (sender, place, key, kind), for the two functions below."""
    kind = F.position(F.col("kind"), F.lit("".join(KINDS))).cast("tinyint")
    numbers = rows.select(
        stream_of("sender").alias("stream"),
        F.xxhash64("key").alias("item"),
        "place",
        kind.alias("kind"),
    )
    return numbers.mapInArrow(_parts, _PART_SPARK)


def distances(parts: DataFrame) -> DataFrame:
    """(stream, dist, messages), with 0 for what supersedes nothing."""
    # The item first: what differs most makes sorting fast.
    chain = Window.partitionBy("item", "stream", F.col("kind") == _ONE_OFF).orderBy("place")
    before = F.lag(F.struct("place", "kind")).over(chain)
    is_related = F.col("kind").isin(_UPDATE, _DELETE) & (F.col("before.kind") == _UPDATE)
    dist = F.when(is_related, F.col("place") - F.col("before.place")).otherwise(0)
    ends = parts.where("item IS NOT NULL").withColumn("before", before).where("is_first")
    settled = parts.where("item IS NULL").select("stream", "dist", "messages")
    every = settled.union(ends.select("stream", dist, F.lit(1)))
    return every.groupBy("stream", "dist").agg(F.sum("messages").alias("messages"))


def items(parts: DataFrame) -> DataFrame:
    """(stream, item, messages)."""
    first = parts.where("is_first").groupBy("stream", "item")
    return first.agg(F.sum("size").alias("messages"))


def _parts(batches: Iterator[Any]) -> Iterator[Any]:
    for table in _gathered(batches):
        chains = _Chains(table)
        yield from _part(chains.settled())
        yield from _part(chains.ends())


def _part(columns: Mapping[str, Any]) -> Iterator[Any]:
    rows = len(columns["stream"])
    filled = [columns.get(name, pa.nulls(rows)) for name in _PART.names]
    arrays = [pa.array(each).cast(field.type) for each, field in zip(filled, _PART, strict=True)]
    yield from pa.table(arrays, schema=_PART).to_batches(max_chunksize=1 << 16)


def _gathered(batches: Iterator[Any]) -> Iterator[Any]:
    """Tables of at most `ROWS_MAX` rows, in order."""
    waiting: list[Any] = []
    for batch in batches:
        for start in range(0, batch.num_rows, ROWS_MAX):
            piece = batch.slice(start, ROWS_MAX)
            if sum(each.num_rows for each in waiting) + piece.num_rows > ROWS_MAX:
                yield pa.Table.from_batches(waiting)
                waiting = []
            waiting.append(piece)
    if waiting:
        yield pa.Table.from_batches(waiting)


class _Chains:
    """Rows ordered by stretch, item and whether they are one-offs, then by place.

    Numbers below `ROWS_MAX` are packed into one, which sorts fast.
    """

    def __init__(self, table: Any) -> None:
        stream, item, place, kind = (
            table[name].to_numpy() for name in ("stream", "item", "place", "kind")
        )
        coded = pa.array(item).dictionary_encode().indices.to_numpy().astype(np.int64)
        is_cut = (np.diff(place) != 1) | (np.diff(stream) != 0)
        stretch = np.append(0, np.cumsum(is_cut))
        chain = ((stretch << ROWS_BITS | coded) << 1) | (kind == _ONE_OFF)
        packed = np.sort(chain << ROWS_BITS | np.arange(len(chain)))
        chain, at = packed >> ROWS_BITS, packed & (ROWS_MAX - 1)
        self.stream, self.item, self.place, self.kind = (
            column[at] for column in (stream, item, place, kind)
        )
        self.is_first = np.append(True, chain[1:] != chain[:-1])

    def settled(self) -> dict[str, Any]:
        """All but the first of each chain, counted by distance, 0 for what supersedes nothing."""
        later, before = self.kind[1:], self.kind[:-1]
        is_related = ((later == _UPDATE) | (later == _DELETE)) & (before == _UPDATE)
        dist = np.where(is_related, np.diff(self.place), 0)
        streams = pa.array(self.stream[1:]).dictionary_encode()
        code = streams.indices.to_numpy().astype(np.int64)
        counted, messages = np.unique(
            (code << ROWS_BITS | dist)[~self.is_first[1:]], return_counts=True
        )
        return {
            "stream": streams.dictionary.take(pa.array(counted >> ROWS_BITS)),
            "dist": counted & (ROWS_MAX - 1),
            "messages": messages,
        }

    def ends(self) -> dict[str, Any]:
        """The first and the last of each chain; `size` is how many the chain has."""
        firsts = np.flatnonzero(self.is_first)
        size = np.zeros(len(self.is_first), np.int64)
        size[firsts] = np.diff(firsts, append=len(size))
        is_end = self.is_first | np.append(self.is_first[1:], True)
        columns = {name: getattr(self, name) for name in ("stream", "item", "place", "kind")}
        columns |= {"is_first": self.is_first, "size": size}
        return {name: column[is_end] for name, column in columns.items()}
