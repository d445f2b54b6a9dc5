"""How the machines of a simulated run are made, and what a process has to live with."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final, TypeAlias

from semcast.families.testing import class_name
from semcast.faults import Constant, Failpoint, Latency
from semcast.sim.clock import CpuModel
from semcast.terms.errors import RemoteProtocolError
from semcast.terms.events import Event
from semcast.terms.ids import Incarnation
from semcast.terms.machine import Command, Machine
from semcast.terms.records import Records

NO_WAIT: Final = Constant(0.0)

Observer: TypeAlias = Callable[[Event], None]
BatchObserver: TypeAlias = Callable[[Sequence[Event]], None]
"""Sees all events of a handler at once."""
MakeMachine: TypeAlias = Callable[[Incarnation, float, Records], Machine]
"""(incarnation, now, records on its disk) → its machine."""


@dataclass(frozen=True, kw_only=True)
class Machines:
    """How the machines of a run are made.

    An incarnation begins with the commands `begins(it)`.  `record` is the type of what machines
    persist, None if nobody has a disk.  `kinds` are the names that a failpoint may call a datagram
    by.  `announce` is the command that tells a machine of somebody's crash, if it needs that.
    """

    born: MakeMachine
    begins: Callable[[Incarnation], Sequence[Command]] = lambda _: ()
    record: Any = None
    kinds: Callable[[Any], Iterable[str]] = class_name
    announce: Callable[[int], Command] | None = None


@dataclass(frozen=True, kw_only=True)
class Circumstances:
    """What a process has to live with, and who looks on.

    `isolations` has, by failpoint, how long the process is out of reach.  With `idle_s` the machine
    is told so long after the application sent that the loop has turned.  `on_stumble` is called at
    a failpoint that crashes; a datagram that no correct peer sends goes to `on_error`, and is
    raised if there is none.
    """

    rng: Random
    failpoints: Sequence[Failpoint] = ()
    isolations: Mapping[Failpoint, float]
    sync: Latency = NO_WAIT
    processor: CpuModel | None = None
    socket_datagrams_max: int = 256
    idle_s: float | None = None
    observers: Sequence[BatchObserver] = ()
    on_error: Callable[[Incarnation, int, RemoteProtocolError], None] | None = None
    on_stumble: Callable[[int, Failpoint], None]
