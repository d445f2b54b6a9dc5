"""What happens to a participant in its life, as values: it goes down, out of reach, in and out.

A period holds at its start and no longer at its end.  Nothing here outlives `heal`, but for who is
said never to come back.
"""

from typing import TypeAlias

import msgspec

from semcast.faults import Failpoint, OneWayCut, Partition, Pause
from semcast.faults.limits import finite, interval, within


class Outage(msgspec.Struct, frozen=True, tag="outage"):
    """Crash `pid` at `at`; it recovers that long after, or never."""

    pid: int
    at: float
    back_after_s: float | None = None
    loses_disk: bool = False

    def __post_init__(self) -> None:
        within("pid", self.pid, 0)
        finite("at", self.at)
        if self.back_after_s is not None:
            finite("back_after_s", self.back_after_s)


class Stumble(msgspec.Struct, frozen=True, tag="stumble"):
    """An outage that begins at a place in the protocol instead of a moment."""

    point: Failpoint
    back_after_s: float | None = None
    loses_disk: bool = False


class Absence(msgspec.Struct, frozen=True, tag="absence"):
    """`pid` is disconnected, and says so or does not."""

    pid: int
    start: float
    end: float
    announced: bool = True

    def __post_init__(self) -> None:
        within("pid", self.pid, 0)
        interval(self.start, self.end)


class Arrival(msgspec.Struct, frozen=True, tag="arrival"):
    """`pid` starts, and joins, only at `at`."""

    pid: int
    at: float


class Departure(msgspec.Struct, frozen=True, tag="departure"):
    """`pid` leaves for good at `at`."""

    pid: int
    at: float


Turn: TypeAlias = Partition | OneWayCut | Pause | Outage | Stumble | Absence | Arrival | Departure
