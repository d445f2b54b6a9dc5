"""A process that is stopped again and again, simulated or live."""

from collections.abc import Iterator
from typing import NamedTuple

from semcast.faults.schedule import Pause


class Stops(NamedTuple):
    """Until `until_s` a process is stopped for a `share` of every `slice_s`, at its beginning."""

    share: float
    slice_s: float
    until_s: float

    @property
    def stopped_s(self) -> float:
        """How long it is stopped in a slice."""
        return self.share * self.slice_s

    def pauses(self, pid: int) -> Iterator[Pause]:
        """The same as faults of a process."""
        for place in range(self._slices):
            start = place * self.slice_s
            yield Pause(pid, start, start + self.stopped_s)

    @property
    def _slices(self) -> int:
        return int(self.until_s / self.slice_s) if self.share else 0

    def elapsed_s(self, begin: float, work_s: float) -> float:
        """How long it takes to do work that begins then, and rests while the process is stopped."""
        at = begin
        for place in range(int(begin / self.slice_s), self._slices):
            start = place * self.slice_s
            at = max(at, start + self.stopped_s)
            left_s = max(start + self.slice_s - at, 0.0)
            if work_s <= left_s:
                break
            work_s -= left_s
            at = max(at, start + self.slice_s)
        return at + work_s - begin
