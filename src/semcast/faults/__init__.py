"""Loss, delay, cuts, pauses and crashes as values.

The simulator applies them to virtual time; whatever else carries datagrams can apply the same.
"""

from typing import TypeAlias

from semcast.faults.bucket import LeakyBucket
from semcast.faults.failpoint import Failpoint, Tripwire, cut_short
from semcast.faults.latency import Constant, Exponential, Latency, LogNormal, Uniform
from semcast.faults.link import Link
from semcast.faults.passage import Passage
from semcast.faults.schedule import ClockJump, Crash, Cut, OneWayCut, Partition, Pause

Fault: TypeAlias = Partition | OneWayCut | Pause | Crash | Failpoint

__all__ = [
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
    "LogNormal",
    "OneWayCut",
    "Partition",
    "Passage",
    "Pause",
    "Tripwire",
    "Uniform",
    "cut_short",
]
