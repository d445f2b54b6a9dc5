"""Loss, delay, cuts, pauses and crashes as values, and the rules of links.

The simulated network and the live relay apply the same rules, each by its own clock.
"""

from typing import TypeAlias

from semcast.faults.failpoint import Failpoint, Tripwire, cut_short
from semcast.faults.latency import Constant, Exponential, Latency, LogNormal, Uniform
from semcast.faults.link import UDP_IP_BYTES, LeakyBucket, Link, LinkState
from semcast.faults.links import Links
from semcast.faults.schedule import ClockJump, Crash, Cut, OneWayCut, Partition, Pause, is_cut

Fault: TypeAlias = Partition | OneWayCut | Pause | Crash | Failpoint

__all__ = [
    "UDP_IP_BYTES",
    "ClockJump",
    "Constant",
    "Crash",
    "Cut",
    "Exponential",
    "Failpoint",
    "Fault",
    "Latency",
    "LeakyBucket",
    "Link",
    "LinkState",
    "Links",
    "LogNormal",
    "OneWayCut",
    "Partition",
    "Pause",
    "Tripwire",
    "Uniform",
    "cut_short",
    "is_cut",
]
