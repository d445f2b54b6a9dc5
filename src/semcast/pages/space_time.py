"""The events of a run as compact columns for a browser.

Each column is a row of small integers: times, local indices and numbers of messages as differences,
processes, streams, items and notes as indices of tables.  The columns are written by byte planes
(all lowest bytes first) and deflated, about 3 bytes per event.  Densities cover the whole run, also
where the run is too long to have all its events in the page.
"""

import zlib
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from semcast.terms.events import (
    ATTRIBUTES,
    CRASH,
    DELIVER,
    DELIVERY,
    INSTALL,
    KIND_MEANINGS,
    PURGE,
    SKIP,
)
from semcast.terms.rules import rule_of
from semcast.traces.arrow import pyarrow
from semcast.traces.recorded_events import CODES

BUCKETS: Final = 400  # of the densities
_INT_MAX: Final = 2**31 - 1
_NOTES: Final = tuple(dict.fromkeys(ATTRIBUTES["note"].names.values()))


@dataclass(frozen=True, slots=True)
class Columns:
    """The events of a run as arrays of equal length, in order of time; `us` since the first."""

    pids: Any  # the processes, sorted
    lane: Any  # index of the process
    us: Any
    kind: Any  # index of CODES
    n: Any
    inc: Any
    streams: Any  # pairs of process and incarnation that messages are of
    stream: Any  # index of its stream + 1, 0 for none
    by_stream: Any
    numbers: Mapping[str, Any]  # seq, by_seq, buffered, view, position
    peer: Any  # lane + 1, 0 for none
    items: Sequence[int]
    item: Any  # index of the item + 1
    notes: Sequence[str]
    note: Any  # index of the note + 1

    def __len__(self) -> int:
        return len(self.us)

    def of_kind(self, *kinds: str) -> Any:
        """Which events are of these kinds."""
        return np.isin(self.kind, [CODES.index(kind) for kind in kinds])

    @property
    def passed_over(self) -> Any:
        """Which events let a process go past a message that a newer one made obsolete."""
        purged = self.of_kind(PURGE)
        if DELIVERY in self.notes:  # A purge for retransmission takes nothing from the process.
            purged &= self.note == self.notes.index(DELIVERY) + 1
        return purged | self.of_kind(SKIP)

    def note_of(self, row: int) -> str:
        """The note of an event."""
        return self.notes[self.note[row] - 1] if self.note[row] else ""

    def place_of(self, pid: int, n: int, inc: int | None = None) -> int:
        """The index of an event, by its process and local index; -1 if it is not there."""
        is_it = (self.n == n) & (self.pids[self.lane] == pid)
        if inc is not None:
            is_it &= self.inc == inc
        found = np.flatnonzero(is_it)
        return int(found[0]) if len(found) else -1


def columns_of(table: Any, pids: Sequence[int]) -> Columns:
    """The columns of a run's table; `pids` are processes that may have no event."""

    def number(name: str, default: int = 0) -> Any:
        return table[name].fill_null(default).to_numpy().astype(np.int64)

    time = np.maximum.accumulate(number("ts_ns"))
    pid, sender, by_sender = number("pid"), number("sender", -1), number("by_sender", -1)
    every = np.unique(np.concatenate([pid, sender[sender >= 0], np.array(pids, dtype=np.int64)]))
    sender_inc = number("sender_inc", 1)
    streams, stream = _streams(sender, sender_inc)
    by_stream = np.where(by_sender >= 0, _places(streams, by_sender, number("by_inc", 1)), 0)
    peer = number("peer", -1)
    lane_of_peer = np.searchsorted(every, peer).clip(0, len(every) - 1)
    items, item = _encoded(table["item"])
    notes, note = _encoded(_note(table["attrs"]))
    return Columns(
        pids=every,
        lane=np.searchsorted(every, pid),
        us=(time - time[0]) // 1000,
        kind=number("kind"),
        n=number("n"),
        inc=number("inc", 1),
        streams=streams,
        stream=stream,
        by_stream=by_stream,
        numbers={name: number(name) for name in ("seq", "by_seq", "buffered", "view", "position")},
        peer=np.where((peer >= 0) & (every[lane_of_peer] == peer), lane_of_peer + 1, 0),
        items=items,
        item=item,
        notes=notes,
        note=note,
    )


def _streams(sender: Any, inc: Any) -> tuple[Any, Any]:
    is_message = sender >= 0
    pairs = np.stack([sender[is_message], inc[is_message]], axis=1)
    if not len(pairs):
        return np.zeros((0, 2), dtype=np.int64), np.zeros(len(sender), dtype=np.int64)
    streams = np.unique(pairs, axis=0)
    return streams, np.where(is_message, _places(streams, sender, inc), 0)


def _places(streams: Any, sender: Any, inc: Any) -> Any:
    """The index of each stream + 1, 0 if there is none."""
    found = np.zeros(len(sender), dtype=np.int64)
    for place, (pid, life) in enumerate(streams.tolist(), start=1):
        found[(sender == pid) & (inc == life)] = place
    return found


def _encoded(column: Any) -> tuple[list[Any], Any]:
    """The distinct values, and of each row the index of its value + 1, 0 for null."""
    encoded = column.combine_chunks().dictionary_encode()
    if hasattr(encoded, "combine_chunks"):
        encoded = encoded.combine_chunks()
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64) + 1
    return encoded.dictionary.to_pylist(), codes


def _note(attributes: Any) -> Any:
    """The note of each event: the entry of `attrs` that its kind names."""
    compute = pyarrow("compute")
    found = [compute.map_lookup(attributes, query_key=name, occurrence="first") for name in _NOTES]
    return compute.coalesce(*found)


def density(columns: Columns) -> Any:
    """By process, messages delivered and passed over in each of BUCKETS parts of the run."""
    bucket = columns.us * BUCKETS // (int(columns.us[-1]) + 1)
    found = np.zeros((len(columns.pids), 2, BUCKETS), dtype=np.int64)
    for which, chosen in enumerate((columns.of_kind(DELIVER), columns.passed_over)):
        np.add.at(found, (columns.lane[chosen], which, bucket[chosen]), 1)
    return found


def packed(columns: Columns, start: int, end: int, protocol: str) -> tuple[dict[str, Any], str]:
    """The events from `start` to `end` as one string, and what a reader needs to decode it."""
    part = slice(start, end)
    lane, us = columns.lane[part], columns.us[part]
    numbers = {name: values[part] for name, values in columns.numbers.items()}
    rules, rule = _rules(columns, part, protocol)
    by = np.where(numbers["by_seq"] > 0, numbers["by_seq"] - numbers["seq"], 0)
    arrays = {
        "dt": np.diff(us, prepend=us[:1]),
        "lane": lane,
        "kind": columns.kind[part],
        "n": _by_lane(columns.n[part], lane),
        "stream": columns.stream[part],
        "seq": _by_lane(numbers["seq"], lane),
        "by": by,
        "peer": columns.peer[part],
        "item": columns.item[part],
        "note": columns.note[part],
        "buffered": numbers["buffered"],
        "rule": rule,
        "density": density(columns).ravel(),
    }
    optional = {"by_stream": columns.by_stream[part]}
    optional |= {name: numbers[name] for name in ("view", "position")}
    arrays |= {name: values for name, values in optional.items() if values.any()}
    described, raw = [], []
    for name, values in arrays.items():
        size, planes = _planes(values)
        described.append((name, size, len(values)))
        raw.append(planes)
    deflate = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    body = deflate.compress(b"".join(raw)) + deflate.flush()
    about = {
        "columns": described,
        "first": int(us[0]),
        "rules": rules,
        "kinds": CODES,
        "meanings": [KIND_MEANINGS[kind] for kind in CODES],
        "buckets": BUCKETS,
    }
    return about, b64encode(body).decode()


def _by_lane(values: Any, lane: Any) -> Any:
    """Differences to the previous value of the same lane."""
    order = np.argsort(lane, kind="stable")
    by_lane, found = values[order], np.empty_like(values)
    difference = np.diff(by_lane, prepend=0)
    starts = np.flatnonzero(np.append(True, np.diff(lane[order]) != 0))
    difference[starts] = by_lane[starts]
    found[order] = difference
    return found


def _planes(values: Any) -> tuple[int, bytes]:
    """Bytes for each value, and the values by byte planes; only four bytes have a sign."""
    values = values.clip(-_INT_MAX, _INT_MAX)
    low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    size = 4 if low < 0 or high > 0xFFFF else 2 if high > 0xFF else 1
    raw = values.astype(f"<{'i' if size == 4 else 'u'}{size}").view(np.uint8)
    return size, raw.reshape(-1, size).T.tobytes()


def _rules(columns: Columns, part: slice, protocol: str) -> tuple[list[tuple[str, str]], Any]:
    """The distinct rules, and of each event the index of its rule."""
    pairs = columns.kind[part] * (len(columns.notes) + 1) + columns.note[part]
    distinct, place = np.unique(pairs, return_inverse=True)
    notes = ("", *columns.notes)
    rules: dict[tuple[str, str], int] = {}
    chosen = []
    for pair in distinct.tolist():
        kind, note = divmod(pair, len(notes))
        rule = rule_of(CODES[kind], notes[note] or "", protocol)
        chosen.append(rules.setdefault((rule.sentence, rule.source), len(rules)))
    return list(rules), np.array(chosen, dtype=np.int64)[place.ravel()]


def views_of(columns: Columns) -> list[int]:
    """When views were first installed."""
    installed = columns.of_kind(INSTALL)
    first: dict[int, int] = {}
    views, times = columns.numbers["view"][installed], columns.us[installed]
    for view, us in zip(views.tolist(), times.tolist(), strict=True):
        first.setdefault(view, us)
    return sorted(first.values())


def crashes_of(columns: Columns) -> list[int | None]:
    """By process, when it first crashed."""
    found: list[int | None] = [None] * len(columns.pids)
    for place in reversed(np.flatnonzero(columns.of_kind(CRASH)).tolist()):
        found[int(columns.lane[place])] = int(columns.us[place])
    return found
