"""What happens to a process in a group with views, as values.

Beside what happens to participants: a process can be cut off at a place in the protocol, so that
what it does there is known to few or to nobody, and it lives on.
"""

from typing import TypeAlias

import msgspec

from semcast.faults import ClockJump, Failpoint, OneWayCut, Partition, Pause
from semcast.faults.limits import finite, positive, within
from semcast.sim.pubsub.lives import Arrival, Departure, Outage, Stumble

__all__ = ["Arrival", "Departure", "Founding", "Isolation", "Outage", "Stumble", "Turn"]


class Isolation(msgspec.Struct, frozen=True, tag="isolation"):
    """The process neither sends nor hears for `for_s`, from the handler at `point` on; of what
    that handler sends the failpoint's share still leaves."""

    point: Failpoint
    for_s: float

    def __post_init__(self) -> None:
        positive("for_s", self.for_s)


class Founding(msgspec.Struct, frozen=True, tag="founding"):
    """At `at`, the processes `pids` found a group of their own, of another lineage; those that run
    are killed first."""

    pids: tuple[int, ...]
    at: float
    lineage: int

    def __post_init__(self) -> None:
        finite("at", self.at)
        within("lineage", self.lineage, 2)  # 1 is that of the first founders.


Turn: TypeAlias = (
    Partition
    | OneWayCut
    | Pause
    | ClockJump
    | Outage
    | Stumble
    | Isolation
    | Arrival
    | Departure
    | Founding
)
