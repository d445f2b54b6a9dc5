"""What of an event is judged, and how it is made of the columns of a file."""

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from semcast.terms.declared import DECLARES
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
PURGED_FROM: Final = (None, DELIVERY, RETRANSMISSION)
HAS_MESSAGE: Final = 1
HAS_ITEM: Final = 2
KEEP: Final = 4
CARRIED: Final = HAS_MESSAGE | HAS_ITEM | KEEP  # what must arrive as it was multicast
OWN_ITEM: Final = 8  # The application declared an item,
OWN_KEEP: Final = 16  # and that the message may never be purged.
FLAG_BITS: Final = 5  # above them: the place in PURGED_FROM

_PLACE: Final = ("run_id", "pid", "inc", "n", "ts_ns", "sender", "sender_inc", "seq")
_MESSAGE: Final = ("item", "digest", "covers", "attrs")
_MORE: Final = {MULTICAST: (*_MESSAGE, "declared"), DELIVER: _MESSAGE, PURGE: ("by_seq", "attrs")}
_SPREAD: Final = np.uint64(0x9E37_79B9_7F4A_7C15)

Columns = Mapping[str, Any]


class DistanceLists(NamedTuple):
    """The distances that each of some messages lists: how many, and all of them in a row."""

    counts: Any
    values: Any

    def ordered(self, order: Any) -> "DistanceLists":
        """The same for the messages in another order."""
        if not len(self.values):
            return self
        counts = self.counts[order]
        first = (np.cumsum(self.counts) - self.counts)[order]
        shift = np.repeat(first - (np.cumsum(counts) - counts), counts)
        return DistanceLists(counts, self.values[shift + np.arange(len(shift))])


def columns_of(kind: str) -> tuple[str, ...]:
    """The columns of a trace that a record of this kind is made of."""
    return (*_PLACE, *_MORE.get(kind, ()))


def fields_of(kind: str, columns: Columns) -> tuple[dict[str, Any], DistanceLists]:
    """The fields that events of this kind fill, as columns, and what the multicasts list."""
    size = len(columns["n"])
    place = (numbers(columns["inc"]).astype("i8") << 32) + numbers(columns["n"])
    fields = {
        "pid": numbers(columns["pid"]),
        "seq": numbers(columns["seq"]),
        "place": place,
        "ts": numbers(columns["ts_ns"]),
    }
    lists = DistanceLists(np.zeros(size, "i4"), np.zeros(0, "i4"))
    if kind == PURGE:
        fields |= {"by": numbers(columns["by_seq"]), "flags": _where(columns["attrs"])}
    elif kind in _MORE:
        covers = _lists(columns["covers"], size)
        fields |= _message(columns, covers)
        if kind == MULTICAST:
            lists = _declared(columns["declared"], fields["seq"])
            fields |= _own(fields, columns["attrs"])
            fields["covers"] = lists.counts
    return fields, lists


def numbers(column: Any) -> Any:
    """A column of whole numbers; 0 where it has none."""
    if column.null_count == len(column):
        return np.zeros(len(column), "i8")
    return (pc.fill_null(column, 0) if column.null_count else column).to_numpy()


def _where(attrs: Any) -> Any:
    flags = np.zeros(len(attrs), "i2")
    rows, values = _attribute(attrs, "where")
    for place, name in enumerate(PURGED_FROM):
        if name:
            flags[rows[_is(values, name)]] = place << FLAG_BITS
    return flags


def _message(columns: Columns, covers: DistanceLists) -> dict[str, Any]:
    item, digest, attrs = columns["item"], columns["digest"], columns["attrs"]
    flags, content = np.zeros(len(item), "i2"), numbers(digest)
    for column, flag in ((digest, HAS_MESSAGE), (item, HAS_ITEM)):
        flags |= column.is_valid().to_numpy(zero_copy_only=False).astype("i2") * np.int16(flag)
    rows, values = _attribute(attrs, "never_purge")
    flags[rows[_is(values, "1")]] |= KEEP
    if len(covers.values):
        content = content ^ _mixed(covers)
    rows, values = _attribute(attrs, "deps")
    if len(rows):
        content = content.copy()
        content[rows] ^= np.array([_hashed(text) for text in values.to_pylist()], "i8")
    return {"flags": flags, "item": numbers(item), "content": content}


def _own(fields: Columns, attrs: Any) -> dict[str, Any]:
    """The item that was declared, and the flags with what was declared; as the message has them,
    unless an attribute says otherwise."""
    flags, item = fields["flags"], fields["item"]
    flags = flags | (flags & HAS_ITEM) * (OWN_ITEM // HAS_ITEM)
    flags |= (flags & KEEP) * (OWN_KEEP // KEEP)
    rows, values = _attribute(attrs, "declares")
    for row, text in zip(rows.tolist(), values.to_pylist(), strict=True):
        declared = DECLARES.fullmatch(text)
        if declared is not None and text.startswith("item"):
            item = item.copy()
            item[row] = int(declared[1] or 0)
            flags[row] = flags[row] & ~OWN_ITEM | OWN_ITEM * (declared[1] is not None)
        if declared is not None and declared[2] is not None:
            flags[row] = flags[row] & ~OWN_KEEP | OWN_KEEP * (declared[2] == "1")
    return {"flags": flags, "own_item": item}


def _declared(declared: Any, seqs: Any) -> DistanceLists:
    """How far back the messages lie that each declares obsolete."""
    if declared.null_count == len(seqs):
        return DistanceLists(np.zeros(len(seqs), "i4"), np.zeros(0, "i4"))
    counts = numbers(pc.list_value_length(declared)).astype("i4")
    back = np.repeat(seqs, counts) - numbers(declared.flatten())
    return DistanceLists(counts, back.astype("i4"))


def _hashed(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little", signed=True)


def _attribute(attrs: Any, name: str) -> tuple[Any, Any]:
    """Which rows have the attribute, and its values there."""
    if attrs.null_count == len(attrs):
        return np.zeros(0, "i8"), pa.nulls(0, pa.string())
    ends = attrs.offsets.to_numpy()
    keys, values = (each[ends[0] : ends[-1]] for each in (attrs.keys, attrs.items))
    is_it = _is(keys, name)
    rows = np.repeat(np.arange(len(attrs)), np.diff(ends))
    return rows[is_it], values.filter(is_it)


def _is(texts: Any, text: str) -> Any:
    return pc.fill_null(pc.equal(texts, text), False).to_numpy(zero_copy_only=False)


def _lists(covers: Any, size: int) -> DistanceLists:
    if covers.null_count == size:
        return DistanceLists(np.zeros(size, "i4"), np.zeros(0, "i4"))
    counts = numbers(pc.list_value_length(covers)).astype("i4")
    return DistanceLists(counts, numbers(covers.flatten()).astype("i4"))


def _mixed(lists: DistanceLists) -> Any:
    """A number for each list; that of an empty one is 0."""
    ends = np.cumsum(lists.counts)
    within = np.arange(len(lists.values)) - np.repeat(ends - lists.counts, lists.counts)
    spread = (lists.values.astype("u8") + within.astype("u8") * 31 + 1) * _SPREAD
    sums = np.append(np.uint64(0), np.cumsum(spread ^ (spread >> np.uint64(29))))
    return (sums[ends] - sums[ends - lists.counts]).astype("i8")
