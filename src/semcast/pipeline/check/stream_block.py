"""One block of a stream as its judges see it: a row for each message, a column for each process.

Judges go from the newest block to the oldest.  So what a process did first at or beyond a message
is a running minimum, and what a later message has settled is known before the messages it settles.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from semcast.pipeline.check.event_encoding import EncodedEvents, first_seq
from semcast.pipeline.check.event_fields import (
    CODE,
    FLAG_BITS,
    HAS_ITEM,
    HAS_MESSAGE,
    KEEP,
    KINDS,
    OWN_ITEM,
    OWN_KEEP,
    PURGED_FROM,
)
from semcast.pipeline.check.event_table import NONE, EventRecord, EventTable, concat
from semcast.terms.events import DELIVER, MULTICAST, PURGE
from semcast.traces.errors import BadFile
from semcast.traces.schema import PROCESSES

Places: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]

NEVER: Final = np.iinfo(np.int64).max
ANY_SKEW: Final = 1 << 62  # ns; added to a time of this century it is still less than NEVER


@dataclass(frozen=True, slots=True)
class StreamInfo:
    """Whose messages are judged, in which run, by which rules."""

    run_id: int
    sender: int
    sender_inc: int
    n: int
    f: int
    skew_ns: int
    replaces: str  # what a message makes obsolete: a constant of `terms/relations.py`
    is_replicated: bool
    restarts_streams: bool  # a process that recovers may deliver again what its earlier life did
    owed: Mask  # by pid
    left_at: Places  # by pid; NEVER where nobody went on without it
    judged: frozenset[str]


@dataclass(slots=True)
class ViolationRows:
    """Violations as rows, in the order they were found."""

    rows: list[dict[str, Any]] = field(default_factory=list)

    def add(self, stream: StreamInfo, name: str, what: str, *events: EventRecord | None) -> None:
        """Record a violation; None stands for evidence that the trace does not hold."""
        proof = [_event_dict(stream, one) for one in events if one is not None]
        self.rows.append({"run_id": stream.run_id, "property": name, "what": what, "events": proof})


def _event_dict(stream: StreamInfo, record: EventRecord) -> dict[str, Any]:
    flags, place = record["flags"], record["place"]
    return {
        "pid": record["pid"],
        "inc": place >> 32,
        "n": place & 0xFFFF_FFFF,
        "ts_ns": record["ts"],
        "kind": KINDS[record["kind"]],
        "sender": stream.sender,
        "sender_inc": stream.sender_inc,
        "seq": record["seq"] or None,
        "item": record["item"] if flags & HAS_ITEM else None,
        "by_seq": record["by"] or None,
        "note": PURGED_FROM[flags >> FLAG_BITS],
    }


class FirstEvents:
    """Of each message, the first of some events at each process: where it stands, and itself."""

    def __init__(self, records: EventTable, base: int, size: int, n: int) -> None:
        self.records = records
        self.rows = records["seq"] - base
        self.pids = records["pid"]
        self._shape = size, n
        self._cells = self.rows * n + self.pids
        self.place: Places = self._minimum("place")
        self.is_first: Mask = self.place.reshape(-1)[self._cells] == records["place"]

    def _minimum(self, name: str) -> Places:
        values: Places = np.full(self._shape, NEVER)
        np.minimum.at(values.reshape(-1), self._cells, self.records[name])
        return values

    @cached_property
    def ts(self) -> Places:
        """By row and pid, the least time."""
        return self._minimum("ts")

    @cached_property
    def least_place(self) -> Places:
        """By row and pid, the least place from there on; NEVER in the row after the last."""
        return _least_from(self.place)

    @cached_property
    def least_ts(self) -> Places:
        """The same, the least time."""
        return _least_from(self.ts)

    @cached_property
    def is_overtaken(self) -> Mask:
        """By record, whether one of a later message stands before it."""
        rest = self.least_place.reshape(-1)[self._cells + self._shape[1]]
        result: Mask = self.records["place"] > rest
        return result

    @property
    def place_before(self) -> Places:
        """By record, where the first of the message before stands; what the lowest row has there
        means nothing."""
        places: Places = self.place.reshape(-1)[self._cells - self._shape[1]]
        return places

    @property
    def happened(self) -> Mask:
        """Which of them did."""
        happened: Mask = self.place != NEVER
        return happened

    @cached_property
    def _index(self) -> Places:
        index = np.zeros(self._shape, np.int64)
        index.reshape(-1)[self._cells[self.is_first]] = np.flatnonzero(self.is_first)
        return index

    def record(self, row: int, pid: int) -> EventRecord | None:
        """The event itself."""
        return self.records[int(self._index[row, pid])] if self.place[row, pid] != NEVER else None


def _least_from(values: Places) -> Places:
    minima = np.full((len(values) + 1, values.shape[1]), NEVER)
    np.minimum.accumulate(values[::-1], out=minima[-2::-1])
    return minima


def scatter_min(values: Places, rows: Any, columns: Any, by: Places) -> None:
    """Lower each of these cells to the least that `by` has for it."""
    np.minimum.at(values.reshape(-1), rows * values.shape[1] + columns, np.ascontiguousarray(by))


class StreamBlock:
    """The messages from `base` on, as far as the records speak of them; `parts` are rows of
    `packing.PACKED`."""

    def __init__(self, stream: StreamInfo, parts: Iterable[Mapping[str, Any]]) -> None:
        self.stream, self.n = stream, stream.n
        by_kind: dict[int, list[Mapping[str, Any]]] = {}
        for part in parts:
            by_kind.setdefault(part["kind"], []).append(part)
        for some in by_kind.values():
            some.sort(key=lambda part: first_seq(part["records"]))  # Tasks end in any order.
        self._records = {code: _records(code, some) for code, some in by_kind.items()}
        lists = (part["lists"] for part in by_kind.get(CODE[MULTICAST], ()))
        self._lists = np.frombuffer(b"".join(lists), "i4")
        anchors = [
            records["by" if code == CODE[PURGE] else "seq"]
            for code, records in self._records.items()
        ]
        self.base = min(int(anchor.min()) for anchor in anchors)
        self.size = max(int(anchor.max()) for anchor in anchors) - self.base + 1
        for records in self._records.values():
            pids = records["pid"]
            _ensure_known(stream, min(int(pids.min()), stream.sender))
            _ensure_known(stream, max(int(pids.max()), stream.sender))

    def of(self, *kinds: str) -> EventTable:
        """The records of these kinds."""
        return concat([self._records.get(CODE[kind], NONE) for kind in kinds])

    def firsts(self, records: EventTable) -> FirstEvents:
        """Their first occurrences."""
        return FirstEvents(records, self.base, self.size, self.n)

    @cached_property
    def deliveries(self) -> FirstEvents:
        """Who delivered what, first."""
        return self.firsts(self.of(DELIVER))

    @cached_property
    def lives(self) -> Mapping[int, FirstEvents]:
        """The same by life, where each begins anew; else all lives of a process are one."""
        if not self.stream.restarts_streams:
            return {0: self.deliveries}
        records = self.of(DELIVER)
        life = records["place"] >> 32
        return {int(one): self.firsts(records[life == one]) for one in np.unique(life)}

    @cached_property
    def messages(self) -> "BlockMessages":
        """What was multicast."""
        return BlockMessages(self)

    @cached_property
    def covers(self) -> Mapping[int, Sequence[int]]:
        """By number, the distances that a message declares obsolete, where it lists any."""
        multicasts = self.of(MULTICAST)  # The only ones that list any.
        counts = multicasts["covers"]
        ends = np.cumsum(counts, dtype=np.int64)
        return {
            int(multicasts["seq"][i]): self._lists[ends[i] - counts[i] : ends[i]].tolist()
            for i in np.flatnonzero(counts)[::-1]  # Of two the first counts.
        }


def _records(code: int, parts: Sequence[Mapping[str, Any]]) -> EventTable:
    cells = EncodedEvents([part["records"] for part in parts])

    def column(name: str) -> Any:
        return np.full(cells.size, code, np.int16) if name == "kind" else cells.column(name)

    return EventTable(cells.size, column)


def _ensure_known(stream: StreamInfo, pid: int) -> None:
    if not 0 <= pid < stream.n:
        raise BadFile(f"{PROCESSES}: run {stream.run_id} has events of process {pid}, not listed")


class BlockMessages:
    """The first multicast under each number, which is what the number means."""

    def __init__(self, block: StreamBlock) -> None:
        records = block.of(MULTICAST)
        if (records["seq"][1:] <= records["seq"][:-1]).any():
            records = records[np.lexsort((records["place"], records["ts"], records["seq"]))]
        self.all = records  # by number, then by time
        self.records = records[has_message(records)]
        numbers = self.records["seq"]
        if (numbers[1:] == numbers[:-1]).any():
            self.records = self.records[np.append(True, numbers[1:] != numbers[:-1])]
        self.base, self.size = block.base, block.size
        self.rows = self.records["seq"] - block.base
        self._index = np.full(block.size, -1)
        self._index[self.rows] = np.arange(len(self.rows))

    def known(self, rows: NDArray[np.int64]) -> Mask:
        """Whether these were multicast."""
        return self._index[rows] >= 0

    def at(self, rows: NDArray[np.int64]) -> EventTable:
        """The multicasts of known messages."""
        return self.records[self._index[rows]]

    def index(self, seqs: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where known messages stand in `records`."""
        return self._index[seqs - self.base]

    def get(self, seq: int) -> EventRecord | None:
        """The multicast of a number, if it is in this block."""
        row = seq - self.base
        if not 0 <= row < self.size or self._index[row] < 0:
            return None
        return self.records[int(self._index[row])]


def happened_before(
    stream: StreamInfo, pids: Any, places: Places, times: Places, effects: EventTable
) -> Mask:
    """Whether causes, given by pid, place and time, came before effects, as far as clocks can
    tell: at one process by its own order, between two by time within the skew."""
    by_clocks = times <= effects["ts"] + stream.skew_ns
    result: Mask = np.where(pids == effects["pid"], places < effects["place"], by_clocks)
    return result


def has_message(records: EventTable) -> Mask:
    """Whether it is known what was multicast or delivered."""
    result: Mask = records["flags"] & HAS_MESSAGE != 0
    return result


def has_item(records: EventTable) -> Mask:
    """Whether a message is about an item."""
    result: Mask = records["flags"] & HAS_ITEM != 0
    return result


def declares_item(multicasts: EventTable) -> Mask:
    """Whether the application declared an item."""
    result: Mask = multicasts["flags"] & OWN_ITEM != 0
    return result


def declares_keep(multicasts: EventTable) -> Mask:
    """Whether the application declared that a message may never be purged."""
    result: Mask = multicasts["flags"] & OWN_KEEP != 0
    return result


def is_kept(records: EventTable) -> Mask:
    """Whether no later message makes it obsolete."""
    result: Mask = records["flags"] & KEEP != 0
    return result
