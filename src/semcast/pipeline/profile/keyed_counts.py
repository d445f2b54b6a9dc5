"""Counts distances of keyed rows without a global sort: a task handles chunks of rows.

A chunk has consecutive places of one sender, as the rows come.  Within it numpy finds all
neighbours of a key.  Only the first and last row of each key in each chunk are merged across
chunks.  Rows that come in no order make chunks of one row: slower, as correct.  A key with half of
all rows leaves two rows of each chunk.

Keys are compared by 64 bits of hash, as the items of a trace are.
Rejected: `with_distances`, which sorts every row and takes several times as long.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import md5
from itertools import chain
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from semcast.pipeline.profile.distance_bins import bin_of, count_distances
from semcast.pipeline.profile.partial_counts import (
    PARTIAL_SCHEMA,
    StreamCodes,
    pack_counts,
    table_of,
)
from semcast.pipeline.reading.file_splits import ROWS_BITS, ROWS_MAX
from semcast.pipeline.reading.keyed_source import KeyedSource
from semcast.terms.items import item_tag
from semcast.traces.keyed import KINDS

TAGS_MAX: Final = ROWS_MAX  # keys whose tags a task remembers
HEX_DIGITS: Final = 15  # of the MD5 of a sender
_UPDATE, _CREATE, _DELETE, _ONE_OFF = range(1, 1 + len(KINDS))


def sender_number(name: str) -> int:
    """The number that stands for a sender: 60 bits that Spark computes too."""
    return int(md5(name.encode(), usedforsecurity=False).hexdigest()[:HEX_DIGITS], 16)


def count_work(source: KeyedSource, buckets: int, work: Any) -> Iterator[Any]:
    """Batches of `PARTIAL_SCHEMA` for one stream whose rows are counted as they are read."""
    tags: dict[str, int] = {}
    wrong: list[Any] = []

    def numbers() -> Iterator[Any]:
        for block in source.read(work):
            is_bad = block.column("reason").is_valid()
            if is_bad.true_count:
                wrong.append(_wrong(block.filter(is_bad), source.files))
                block = block.filter(pc.invert(is_bad))
            yield _numbers(block, tags)

    yield from count_rows(buckets, numbers())
    yield from chain.from_iterable(table.to_batches() for table in wrong)


def resolve_boundaries(stream: Any, records: Any) -> tuple[Any, Any]:
    """The distances of the first rows of chunks, whose neighbours are in other chunks."""
    item, _, place, flags = records.T
    kind, is_first = flags >> 1, (flags & 1).astype(bool)
    order = np.lexsort((place, kind == _ONE_OFF, item, stream))
    chain = np.stack([stream, item, kind == _ONE_OFF])[:, order]
    kind, place, is_first = kind[order], place[order], is_first[order]
    is_new = np.append(True, (np.diff(chain) != 0).any(axis=0))
    dist = np.append(0, np.where(_supersedes(kind[1:], kind[:-1]), np.diff(place), 0))
    return chain[0][is_first], np.where(is_new, 0, dist)[is_first]


def _supersedes(kind: Any, before: Any) -> Any:
    return ((kind == _UPDATE) | (kind == _DELETE)) & (before == _UPDATE)


def _numbers(block: Any, tags: dict[str, int]) -> Any:
    """The rows of a block as (stream, item, place, kind)."""
    if len(tags) > TAGS_MAX:
        tags.clear()
    return pa.record_batch(
        {
            "sender": pa.repeat(pa.scalar(0, pa.int64()), block.num_rows),
            "item": numbered(block.column("key"), tags, item_tag),
            "place": block.column("nth"),
            "kind": kind_number(block.column("kind")),
        }
    )


def numbered(names: Any, numbers: dict[str, int], number_of: Callable[[str], int]) -> Any:
    """The number of each name; each is computed once and remembered in `numbers`."""
    coded = names.dictionary_encode()
    distinct = coded.dictionary.to_pylist()
    numbers.update((name, number_of(name)) for name in distinct if name not in numbers)
    return pa.array([numbers[name] for name in distinct], pa.int64()).take(coded.indices)


def kind_number(kinds: Any) -> Any:
    """The number of each kind, from 1."""
    return pc.add(pc.index_in(kinds, pa.array(KINDS)).cast(pa.int64()), 1)


def _wrong(block: Any, files: Sequence[Path]) -> Any:
    """How many rows of a block are wrong, and the first."""
    first = {name: block.column(name).slice(0, 1) for name in ("row", "column", "reason")}
    file = str(files[block.column("file")[0].as_py()])
    return table_of(PARTIAL_SCHEMA, {"bad": [block.num_rows], "file": [file], **first})


def count_rows(buckets: int, batches: Iterable[Any]) -> Iterator[Any]:
    """Batches of `PARTIAL_SCHEMA` for rows (sender, item, place, kind), all of them numbers."""
    for table in _regroup(batches):
        chains = _KeyChains(table)
        yield from chains.resolve_inner(buckets).to_batches()
        yield from chains.ends(buckets).to_batches()


def _regroup(batches: Iterable[Any]) -> Iterator[Any]:
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


class _KeyChains:
    """Rows ordered by chunk, item and whether they are one-offs, then by place.

    Numbers below `ROWS_MAX` are packed into one, which sorts fast.
    """

    def __init__(self, table: Any) -> None:
        sender, item, place, kind = (
            table[name].to_numpy() for name in ("sender", "item", "place", "kind")
        )
        coded = pa.array(item).dictionary_encode().indices.to_numpy().astype(np.int64)
        is_cut = (np.diff(place) != 1) | (np.diff(sender) != 0)
        chunk = np.append(0, np.cumsum(is_cut))
        chain = ((chunk << ROWS_BITS | coded) << 1) | (kind == _ONE_OFF)
        ordered = np.sort(chain << ROWS_BITS | np.arange(len(chain)))
        chain, at = ordered >> ROWS_BITS, ordered & (ROWS_MAX - 1)
        zero = pa.repeat(pa.scalar(0, pa.int64()), len(sender))
        self.streams = StreamCodes([zero, pa.array(sender), zero])
        self.stream = self.streams.of[at]
        self.item, self.place, self.kind = item[at], place[at], kind[at]
        self.is_first = np.append(True, chain[1:] != chain[:-1])

    def resolve_inner(self, buckets: int) -> Any:
        """Packs of the distances of all but the first of each chain."""
        dist = np.where(_supersedes(self.kind[1:], self.kind[:-1]), np.diff(self.place), 0)
        is_later = ~self.is_first[1:]
        of, found, messages = count_distances(self.stream[1:][is_later], dist[is_later])
        records = np.stack([found, messages], axis=1)
        return pack_counts(self.streams, of, bin_of(found) % buckets, "dist_pack", records)

    def ends(self, buckets: int) -> Any:
        """Packs of the first and the last of each chain: item, messages of the chain (with the
        first), place, and kind and whether it is the first in one."""
        firsts = np.flatnonzero(self.is_first)
        size = np.zeros(len(self.is_first), np.int64)
        size[firsts] = np.diff(firsts, append=len(size))
        flags = self.kind << 1 | self.is_first
        is_end = self.is_first | np.append(self.is_first[1:], True)
        records = np.stack([self.item, size, self.place, flags], axis=1)[is_end]
        bucket = records[:, 0] % buckets
        return pack_counts(self.streams, self.stream[is_end], bucket, "item_pack", records)
