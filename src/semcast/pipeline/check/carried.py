"""What judges carry from a block to the next older one."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from semcast.pipeline.check.block import NEVER, Firsts, Places
from semcast.pipeline.check.records import Record


class Earliest:
    """At each process, the earliest of its events from some message on.

    The place of such an event among the process's own is what order is judged by, its time what
    other processes' claims are.
    """

    def __init__(self, n: int) -> None:
        self._place: Places = np.full(n, NEVER)
        self._ts: Places = np.full(n, NEVER)
        self._record: list[Record | None] = [None] * n

    def places(self, firsts: Firsts) -> Places:
        """By row and pid, where it stands; the row after the last is of the newer blocks."""
        return np.minimum(firsts.least_place, self._place)

    def times(self, firsts: Firsts) -> Places:
        """The same, its time."""
        return np.minimum(firsts.least_ts, self._ts)

    def record(self, firsts: Firsts, row: int, pid: int) -> Record | None:
        """The event itself."""
        here = firsts.place[row:, pid]
        if len(here) and here.min() < self._place[pid]:
            return firsts.record(row + int(here.argmin()), pid)
        return self._record[pid]

    def carry(self, firsts: Firsts) -> None:
        """Take the events of this block over to the older ones."""
        self._ts = np.minimum(self._ts, firsts.least_ts[0])
        for pid in np.flatnonzero(firsts.least_place[0] < self._place).tolist():
            self._place[pid] = firsts.least_place[0, pid]
            self._record[pid] = firsts.record(int(firsts.place[:, pid].argmin()), pid)


class PerItem:
    """A value for each item and process, `empty` for items that were not met yet."""

    def __init__(self, n: int, empty: Any, dtype: Any) -> None:
        self._empty = empty
        self._ids: dict[int, int] = {}
        self.values: NDArray[Any] = np.full((64, n), empty, dtype)

    def rows(self, items: NDArray[np.int64]) -> NDArray[np.int64]:
        """Which rows of `values` are theirs."""
        ids, met = self._ids, np.unique(items, return_inverse=True)
        rows = np.array([ids.setdefault(item, len(ids)) for item in met[0].tolist()], np.int64)
        if len(ids) > len(self.values):
            more = np.full((len(ids), self.values.shape[1]), self._empty, self.values.dtype)
            self.values = np.concatenate((self.values, more))
        return rows[met[1]] if len(items) else rows
