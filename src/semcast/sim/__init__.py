"""A deterministic discrete-event simulator that drives members: virtual clock, modelled network."""

from semcast.sim.clock import Clock, Processor, stream
from semcast.sim.network import Network, Traffic
from semcast.sim.process import Consumer, Observer, Process, Producer, Ranked
from semcast.sim.simulation import Simulation

__all__ = [
    "Clock",
    "Consumer",
    "Network",
    "Observer",
    "Process",
    "Processor",
    "Producer",
    "Ranked",
    "Simulation",
    "Traffic",
    "stream",
]
