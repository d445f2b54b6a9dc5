"""Faults that happen at a stated time: cuts, pauses, crashes, clocks that jump, and processes that
come and go.

A period holds at `start` and no longer at `end`.  A cut drops what is sent during it; what is
already on its way arrives.
"""

from collections.abc import Iterable
from math import inf
from typing import TypeAlias

import msgspec

from semcast.terms.errors import ConfigError
from semcast.terms.limits import check_finite, check_interval, check_positive, check_range


class Partition(msgspec.Struct, frozen=True, tag="partition"):
    """Members of different groups do not hear each other; those not named form one more group."""

    start: float
    end: float
    groups: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        check_interval(self.start, self.end)
        named = [pid for group in self.groups for pid in group]
        if len(named) != len(set(named)) or any(pid < 0 for pid in named):
            raise ConfigError(
                f"groups: {self.groups!r} must contain each pid once, and no negative one"
            )

    def cuts(self, source: int, destination: int) -> bool:
        """Whether a datagram from one to the other is dropped while the partition lasts."""
        return self._group(source) != self._group(destination)

    def _group(self, pid: int) -> int:
        return next((i for i, group in enumerate(self.groups) if pid in group), -1)


class OneWayCut(msgspec.Struct, frozen=True, tag="one-way-cut"):
    """`destination` does not hear `source`; the way back is open."""

    start: float
    end: float
    source: int
    destination: int

    def __post_init__(self) -> None:
        check_interval(self.start, self.end)
        check_range("source", self.source, 0)
        check_range("destination", self.destination, 0)

    def cuts(self, source: int, destination: int) -> bool:
        """Whether a datagram from one to the other is dropped while the cut lasts."""
        return source == self.source and destination == self.destination


class Pause(msgspec.Struct, frozen=True, tag="pause"):
    """The process handles nothing; what arrives waits in its socket buffer, which is bounded."""

    pid: int
    start: float
    end: float

    def __post_init__(self) -> None:
        check_range("pid", self.pid, 0)
        check_interval(self.start, self.end)
        if self.end == inf:
            raise ConfigError("end: must be finite; use Crash for a process that never resumes")


class SlowDisk(msgspec.Struct, frozen=True, tag="slow-disk"):
    """No sync of the process ends within the period; the process itself goes on."""

    pid: int
    start: float
    end: float

    def __post_init__(self) -> None:
        check_range("pid", self.pid, 0)
        check_interval(self.start, self.end)
        check_finite("end", self.end)


class Downtime(msgspec.Struct, frozen=True, kw_only=True):
    """How a crash goes on.  The process restarts after `back_after_s`, or never; then the others
    are told after `announced_after_s`, or when faults end.  `loses_disk`: what was written is gone;
    `old_disk`: what was written since some earlier sync is, for protocols that survive it.
    """

    back_after_s: float | None = None
    loses_disk: bool = False
    announced_after_s: float | None = None
    old_disk: bool = False

    def __post_init__(self) -> None:
        if self.loses_disk and self.old_disk:
            raise ConfigError("old_disk: a disk that is lost has no earlier state")
        if self.back_after_s is not None:
            check_finite("back_after_s", self.back_after_s)
        if self.announced_after_s is not None:
            check_finite("announced_after_s", self.announced_after_s)


class Crash(Downtime, frozen=True, tag="crash"):
    """The process `pid` stops at `at`."""

    pid: int
    at: float

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("pid", self.pid, 0)
        check_finite("at", self.at)


class ClockJump(msgspec.Struct, frozen=True, tag="clock-jump"):
    """The clock that the process reads goes forward by `by_s` at once; other clocks do not."""

    pid: int
    at: float
    by_s: float

    def __post_init__(self) -> None:
        check_range("pid", self.pid, 0)
        check_finite("at", self.at)
        check_positive("by_s", self.by_s)


class Disconnection(msgspec.Struct, frozen=True, tag="absence"):
    """The process is out of reach: it neither sends nor receives.  If `announced`, it tells the
    group when it goes and when it is back."""

    pid: int
    start: float
    end: float
    announced: bool = True

    def __post_init__(self) -> None:
        check_range("pid", self.pid, 0)
        check_interval(self.start, self.end)


class LateJoin(msgspec.Struct, frozen=True, tag="arrival"):
    """The process starts only at `at`."""

    pid: int
    at: float


class LeaveAt(msgspec.Struct, frozen=True, tag="departure"):
    """The process leaves for good at `at`."""

    pid: int
    at: float


class Founding(msgspec.Struct, frozen=True, tag="founding"):
    """At `at`, the processes `pids` found a group of their own, of another lineage; those that run
    are killed first."""

    pids: tuple[int, ...]
    at: float
    lineage: int

    def __post_init__(self) -> None:
        check_finite("at", self.at)
        check_range("lineage", self.lineage, 2)  # 1 is that of the first founders.


Cut: TypeAlias = Partition | OneWayCut


def is_cut(cuts: Iterable[Cut], source: int, destination: int, now: float) -> bool:
    """Whether any of `cuts` holds at `now` between the two, in this direction."""
    return any(cut.start <= now < cut.end and cut.cuts(source, destination) for cut in cuts)
