"""An event as a record of fixed width, and how one is made of the columns of a file.

Local order is by incarnation and index, both in `place`.  `content` stands for everything of a
message that has no field of its own and must arrive as it was multicast.
"""

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from semcast.terms.events import (
    DELIVER,
    DELIVERY,
    MULTICAST,
    PURGE,
    RECEIVE,
    RECLAIM,
    RETRANSMISSION,
    SAFE,
    SKIP,
    STABLE,
)

KINDS: Final = (MULTICAST, RECEIVE, SKIP, DELIVER, PURGE, SAFE, STABLE, RECLAIM)
CODE: Final = {kind: code for code, kind in enumerate(KINDS)}
WHERE: Final = (None, DELIVERY, RETRANSMISSION)
HAS_MESSAGE: Final = 1
HAS_ITEM: Final = 2
KEEP: Final = 4
FLAG_BITS: Final = 3  # above them: the place in WHERE

RECORD: Final = np.dtype(
    [
        ("pid", "i4"),
        ("kind", "i2"),
        ("flags", "i2"),
        ("seq", "i8"),
        ("by", "i8"),
        ("place", "i8"),
        ("ts", "i8"),
        ("item", "i8"),
        ("content", "i8"),
        ("covers", "i8"),  # how many of the distances kept beside the records are this one's
    ]
)
_PLACE: Final = ("run_id", "pid", "inc", "n", "ts_ns", "sender", "sender_inc", "seq")
_MESSAGE: Final = ("item", "digest", "covers", "attrs")
_MORE: Final = {MULTICAST: _MESSAGE, DELIVER: _MESSAGE, PURGE: ("by_seq", "attrs")}
_SPREAD: Final = np.uint64(0x9E37_79B9_7F4A_7C15)

Columns = Mapping[str, Any]


class Lists(NamedTuple):
    """The distances that each of some messages lists: how many, and all of them in a row."""

    counts: Any
    values: Any

    def ordered(self, order: Any) -> "Lists":
        """The same for the messages in another order."""
        counts = self.counts[order]
        first = (np.cumsum(self.counts) - self.counts)[order]
        shift = np.repeat(first - (np.cumsum(counts) - counts), counts)
        return Lists(counts, self.values[shift + np.arange(len(shift))])


def columns_of(kind: str) -> tuple[str, ...]:
    """The columns of a trace that a record of this kind is made of."""
    return (*_PLACE, *_MORE.get(kind, ()))


def records_of(kind: str, columns: Columns, size: int) -> tuple[Any, Lists]:
    """The events of a batch, and what the multicasts among them list."""
    records = np.zeros(size, RECORD)
    records["kind"] = CODE[kind]
    records["pid"], records["seq"] = numbers(columns["pid"]), numbers(columns["seq"])
    records["place"] = (numbers(columns["inc"]).astype("i8") << 32) + numbers(columns["n"])
    records["ts"] = numbers(columns["ts_ns"])
    lists = Lists(np.zeros(size, "i8"), np.zeros(0, "i4"))
    if kind == PURGE:
        _add_purge(records, columns)
    elif kind in _MORE:
        covers = _lists(columns.get("covers"), size)
        _add_message(records, columns, covers)
        if kind == MULTICAST:
            lists = covers
            records["covers"] = lists.counts
    return records, lists


def numbers(column: Any) -> Any:
    """A column of whole numbers; 0 where it has none."""
    return (pc.fill_null(column, 0) if column.null_count else column).to_numpy()


def _add_purge(records: Any, columns: Columns) -> None:
    records["by"] = numbers(columns["by_seq"])
    for place, name in enumerate(WHERE):
        if name:
            records["flags"][_has(columns["attrs"], "where", name)] = place << FLAG_BITS


def _add_message(records: Any, columns: Columns, covers: Lists) -> None:
    item, digest, attrs = columns["item"], columns["digest"], columns["attrs"]
    records["item"], records["content"] = numbers(item), numbers(digest)
    for column, flag in ((digest, HAS_MESSAGE), (item, HAS_ITEM)):
        records["flags"] |= np.where(column.is_valid().to_numpy(zero_copy_only=False), flag, 0)
    records["flags"][_has(attrs, "never_purge", "1")] |= KEEP
    if len(covers.values):
        records["content"] ^= _mixed(covers)
    if attrs.null_count < len(attrs):
        depends = pc.map_lookup(attrs, pa.scalar("deps"), "first").to_pylist()
        for i, text in enumerate(depends):
            if text:
                hashed = blake2b(text.encode(), digest_size=8).digest()
                records["content"][i] ^= int.from_bytes(hashed, "little", signed=True)


def _has(attrs: Any, name: str, value: str) -> Any:
    """Which rows have the attribute with this value."""
    if attrs.null_count == len(attrs):
        return np.zeros(len(attrs), bool)
    found = pc.map_lookup(attrs, pa.scalar(name), "first")
    return pc.fill_null(pc.equal(found, value), False).to_numpy(zero_copy_only=False)


def _lists(covers: Any, size: int) -> Lists:
    if covers is None or covers.null_count == size:
        return Lists(np.zeros(size, "i8"), np.zeros(0, "i4"))
    counts = numbers(pc.list_value_length(covers)).astype("i8")
    return Lists(counts, numbers(covers.flatten()).astype("i4"))


def _mixed(lists: Lists) -> Any:
    """A number for each list; that of an empty one is 0."""
    ends = np.cumsum(lists.counts)
    within = np.arange(len(lists.values)) - np.repeat(ends - lists.counts, lists.counts)
    spread = (lists.values.astype("u8") + within.astype("u8") * 31 + 1) * _SPREAD
    sums = np.append(np.uint64(0), np.cumsum(spread ^ (spread >> np.uint64(29))))
    return (sums[ends] - sums[ends - lists.counts]).astype("i8")
