"""A deterministic discrete-event simulator that runs machines of any family.

It has a virtual clock, a modelled network, applications, disks and faults.
"""

from semcast.sim.application import Consumer, Producer
from semcast.sim.circumstances import Machines, Observer
from semcast.sim.clock import CpuModel, VirtualClock, rng_stream
from semcast.sim.network import Network, TrafficCount
from semcast.sim.process import SimProcess
from semcast.sim.simulation import Simulation, once

__all__ = [
    "Consumer",
    "CpuModel",
    "Machines",
    "Network",
    "Observer",
    "Producer",
    "SimProcess",
    "Simulation",
    "TrafficCount",
    "VirtualClock",
    "once",
    "rng_stream",
]
