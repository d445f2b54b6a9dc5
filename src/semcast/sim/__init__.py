"""A deterministic discrete-event simulator that runs machines of any family.

It has a virtual clock, a modelled network, applications, disks and faults.
"""

from semcast.sim.application import Consumer, Producer
from semcast.sim.circumstances import Machines, Observer
from semcast.sim.clock import Clock, Processor, stream
from semcast.sim.network import Network, Traffic
from semcast.sim.process import Process
from semcast.sim.simulation import Simulation, once

__all__ = [
    "Clock",
    "Consumer",
    "Machines",
    "Network",
    "Observer",
    "Process",
    "Processor",
    "Producer",
    "Simulation",
    "Traffic",
    "once",
    "stream",
]
