"""What judges carry from a block to the next older one."""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from semcast.pipeline.check.event_table import EventRecord
from semcast.pipeline.check.stream_block import NEVER, FirstEvents, Mask, Places


class EarliestEvent:
    """At each process, the earliest of its events from some message on.

    The place of such an event among the process's own is what order is judged by, its time what
    other processes' claims are.
    """

    def __init__(self, n: int) -> None:
        self._place: Places = np.full(n, NEVER)
        self._ts: Places = np.full(n, NEVER)
        self._record: list[EventRecord | None] = [None] * n

    def places(self, firsts: FirstEvents, rows: Any, pids: Any) -> Places:
        """Where it stands, by these rows and pids; the row after the last is of newer blocks."""
        places: Places = np.minimum(firsts.least_place[rows, pids], self._place[pids])
        return places

    def times(self, firsts: FirstEvents, rows: Any, pids: Any = slice(None)) -> Places:
        """The same, its time."""
        times: Places = np.minimum(firsts.least_ts[rows, pids], self._ts[pids])
        return times

    def passed(self, firsts: FirstEvents) -> Mask:
        """By record, whether it came after one of a later message."""
        result: Mask = firsts.records["place"] > self._place[firsts.pids]
        return result | firsts.is_overtaken

    def record(self, firsts: FirstEvents, row: int, pid: int) -> EventRecord | None:
        """The event itself."""
        column = firsts.place[row:, pid]
        if len(column) and column.min() < self._place[pid]:
            return firsts.record(row + int(column.argmin()), pid)
        return self._record[pid]

    def update(self, firsts: FirstEvents) -> None:
        """Take the events of this block over to the older ones."""
        self._ts = np.minimum(self._ts, firsts.least_ts[0])
        for pid in np.flatnonzero(firsts.least_place[0] < self._place).tolist():
            self._place[pid] = firsts.least_place[0, pid]
            self._record[pid] = firsts.record(int(firsts.place[:, pid].argmin()), pid)


class PerItemState:
    """A value for each item and process, `empty` for items that were not met yet."""

    def __init__(self, n: int, empty: Any, dtype: Any) -> None:
        self._empty = empty
        self._ids: dict[int, int] = {}
        self.values: NDArray[Any] = np.full((64, n), empty, dtype)

    def encode_items(self, items: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Small numbers that stand for the items, and which rows of `values` are those of each."""
        met = pa.array(items).dictionary_encode()
        ids = self._ids
        rows = [ids.setdefault(item, len(ids)) for item in met.dictionary.to_pylist()]
        if len(ids) > len(self.values):
            more = np.full((len(ids), self.values.shape[1]), self._empty, self.values.dtype)
            self.values = np.concatenate((self.values, more))
        return met.indices.to_numpy(), np.array(rows, np.int64)

    def rows(self, items: NDArray[np.int64]) -> NDArray[np.int64]:
        """Which rows of `values` are theirs."""
        codes, lines = self.encode_items(items)
        rows: NDArray[np.int64] = lines[codes]
        return rows
