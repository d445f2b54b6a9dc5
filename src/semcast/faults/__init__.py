"""Loss, delay, cuts, pauses and crashes as values, and the rules of links.

The simulated network and the live relay apply the same rules, each by its own clock.
"""

from typing import TypeAlias

from semcast.faults.failpoint import (
    Failpoint,
    FailpointCrash,
    FailpointSet,
    Isolation,
    truncate_effects,
)
from semcast.faults.latency import Constant, Exponential, Latency, LogNormal, Uniform
from semcast.faults.link import UDP_IP_BYTES, LeakyBucket, Link, LinkState
from semcast.faults.links import Links
from semcast.faults.schedule import (
    ClockJump,
    Crash,
    Cut,
    Disconnection,
    Downtime,
    Founding,
    LateJoin,
    LeaveAt,
    OneWayCut,
    Partition,
    Pause,
    SlowDisk,
    is_cut,
)
from semcast.faults.stops import Stops

Fault: TypeAlias = (
    Partition
    | OneWayCut
    | Pause
    | SlowDisk
    | ClockJump
    | Crash
    | FailpointCrash
    | Isolation
    | Disconnection
    | LateJoin
    | LeaveAt
    | Founding
)

__all__ = [
    "UDP_IP_BYTES",
    "ClockJump",
    "Constant",
    "Crash",
    "Cut",
    "Disconnection",
    "Downtime",
    "Exponential",
    "Failpoint",
    "FailpointCrash",
    "FailpointSet",
    "Fault",
    "Founding",
    "Isolation",
    "LateJoin",
    "Latency",
    "LeakyBucket",
    "LeaveAt",
    "Link",
    "LinkState",
    "Links",
    "LogNormal",
    "OneWayCut",
    "Partition",
    "Pause",
    "SlowDisk",
    "Stops",
    "Uniform",
    "is_cut",
    "truncate_effects",
]
