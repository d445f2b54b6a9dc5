"""Loss, delay, cuts, pauses and crashes as values, and the rules of links.

The simulated network and the live relay apply the same rules, each by its own clock.
"""

from typing import TypeAlias

from semcast.faults.failpoint import Failpoint, Isolation, Stumble, Tripwire, cut_short
from semcast.faults.latency import Constant, Exponential, Latency, LogNormal, Uniform
from semcast.faults.link import UDP_IP_BYTES, LeakyBucket, Link, LinkState
from semcast.faults.links import Links
from semcast.faults.schedule import (
    Absence,
    Arrival,
    ClockJump,
    Crash,
    Cut,
    Departure,
    Downtime,
    Founding,
    OneWayCut,
    Partition,
    Pause,
    is_cut,
)

Fault: TypeAlias = (
    Partition
    | OneWayCut
    | Pause
    | ClockJump
    | Crash
    | Stumble
    | Isolation
    | Absence
    | Arrival
    | Departure
    | Founding
)

__all__ = [
    "UDP_IP_BYTES",
    "Absence",
    "Arrival",
    "ClockJump",
    "Constant",
    "Crash",
    "Cut",
    "Departure",
    "Downtime",
    "Exponential",
    "Failpoint",
    "Fault",
    "Founding",
    "Isolation",
    "Latency",
    "LeakyBucket",
    "Link",
    "LinkState",
    "Links",
    "LogNormal",
    "OneWayCut",
    "Partition",
    "Pause",
    "Stumble",
    "Tripwire",
    "Uniform",
    "cut_short",
    "is_cut",
]
