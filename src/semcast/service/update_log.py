"""The sequence of updates of one server, in the batches in which they were multicast [VSD fig. 6].

Updates are counted from 1.  Those up to `base` were executed and dropped; those behind are here.
A digest tells two histories apart.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple
from zlib import crc32


class LogBatch(NamedTuple):
    """The updates `first`, `first + 1` and so on, as they were multicast; `digest` is that of the
    whole history up to its end."""

    first: int
    updates: int
    payload: bytes
    digest: int

    @property
    def last(self) -> int:
        """The last update of it."""
        return self.first + self.updates - 1


class UpdateLog:
    """Invariant: the batches follow each other without a gap, from `base + 1` to `length`, which is
    how many updates there were, the dropped ones included."""

    __slots__ = ("_batches", "_firsts", "base", "base_digest", "bytes", "length")

    def __init__(self, base: int = 0, digest: int = 0) -> None:
        self.base = self.length = base
        self.base_digest = digest
        self.bytes = 0  # of the batches that are here
        self._batches: list[LogBatch] = []
        self._firsts: list[int] = []

    def __repr__(self) -> str:
        return f"UpdateLog({self.base}..{self.length})"

    @property
    def digest(self) -> int:
        """Of the whole history."""
        return self._batches[-1].digest if self._batches else self.base_digest

    def append(self, payload: bytes, count: int) -> LogBatch:
        """The next batch."""
        batch = LogBatch(self.length + 1, count, payload, crc32(payload, self.digest))
        self.length += count
        self.bytes += len(payload)
        self._batches.append(batch)
        self._firsts.append(batch.first)
        return batch

    def boundary(self, index: int) -> tuple[int, int]:
        """Where the batch after the update `index`, or around it, begins: the last update before
        it, and the digest there."""
        place = bisect_right(self._firsts, index + 1) - 1
        if place < 0 or self._batches[place].last <= index:
            return self.length, self.digest
        if place == 0:
            return self.base, self.base_digest
        before = self._batches[place - 1]
        return before.last, before.digest

    def after(self, index: int) -> Sequence[LogBatch]:
        """The batches behind the update `index`, which ends one of them or the base."""
        return self._batches[bisect_right(self._firsts, index) :]

    def holding(self, index: int) -> LogBatch:
        """The batch with this update."""
        return self._batches[bisect_right(self._firsts, index) - 1]

    def cut(self, index: int) -> None:
        """Forget everything behind the update `index`, which ends a batch or the base."""
        place = bisect_right(self._firsts, index)
        self.bytes -= sum([len(batch.payload) for batch in self._batches[place:]])
        del self._batches[place:], self._firsts[place:]
        self.length = self._batches[-1].last if self._batches else self.base

    def excess(self, bytes_max: int, index: int) -> int:
        """The end of the first batches that have to go to leave at most `bytes_max`, none of them
        behind the update `index`; the base if none has to."""
        left, last = self.bytes, self.base
        for batch in self._batches:
            if left <= bytes_max or batch.last > index:
                break
            left, last = left - len(batch.payload), batch.last
        return last

    def drop(self, index: int) -> None:
        """Forget the batches that end at or before the update `index`: the base moves there."""
        place = bisect_right(self._firsts, index)
        if place and self._batches[place - 1].last > index:
            place -= 1
        if place:
            last = self._batches[place - 1]
            self.base, self.base_digest = last.last, last.digest
            self.bytes -= sum([len(batch.payload) for batch in self._batches[:place]])
            del self._batches[:place], self._firsts[:place]
