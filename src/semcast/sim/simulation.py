"""A run: processes, the network between them, applications above them and faults around them.

Same arguments, same seed: the same trace, byte for byte, in every Python process.  With a
`CpuModel` that measures, repeatability needs its recorded costs [SRM §5.4].  Faults stop at
`heal`, after which whatever still should happen must: first safety, then liveness.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from typing import Any

from semcast.families.testing import Habits
from semcast.faults import (
    ClockJump,
    Crash,
    Disconnection,
    Downtime,
    Failpoint,
    FailpointCrash,
    Fault,
    Founding,
    Isolation,
    LateJoin,
    LeaveAt,
    OneWayCut,
    Partition,
    Pause,
    SlowDisk,
)
from semcast.sim.application import Application, Consumer, OnDeliver, OnInstall, Producer
from semcast.sim.circumstances import BatchObserver, Circumstances, Machines, Observer
from semcast.sim.clock import CpuModel, VirtualClock, rng_stream
from semcast.sim.network import DatagramCarrier, NetworkModel, Receive, Sends
from semcast.sim.process import SimProcess
from semcast.specs.channel import UnreliableChannel
from semcast.terms.errors import ConfigError
from semcast.terms.events import Event
from semcast.terms.ids import EVERYONE, Incarnation
from semcast.terms.limits import check_range
from semcast.terms.machine import ForgetMember, FoundGroup, Machine
from semcast.terms.records import Records
from semcast.wire import encode


def once(machines: Sequence[Machine]) -> Machines:
    """Machines that exist already, each for the one incarnation of a process, and that are told of
    crashes."""

    def born(life: Incarnation, now: float, records: Records) -> Machine:
        if life.pid >= len(machines) or life.inc > 1:
            raise ConfigError(f"machines: there is none for incarnation {life.inc} of {life.pid}")
        return machines[life.pid]

    return Machines(born=born, announce=ForgetMember)


class Simulation:
    """One run, from time 0, of a process for each node of the network.

    Who is not in `consumers` is always ready; who is not in `producers` sends nothing of its own.
    Network, consumers and producers serve one run only.  `recording` keeps every event in `trace`;
    `on_events` sees those of a handler at once, `observers` see each, as they happen, in the order
    of the whole system.  `processors` charges single processes for their time.  `channel` is told,
    and judges, every datagram.

        sim = Simulation(once(members), Network(3, Link(loss=0.1)), seed=7, recording=True)
        sim.run(until=10.0)
        sim.heal()
        sim.run(until=20.0)
    """

    def __init__(
        self,
        machines: Machines,
        network: NetworkModel,
        *,
        seed: int,
        consumers: Mapping[int, Consumer] | None = None,
        producers: Mapping[int, Producer] | None = None,
        habits: Habits | None = None,
        faults: Iterable[Fault] = (),
        recording: bool = False,
        on_events: BatchObserver | None = None,
        observers: Iterable[Observer] = (),
        on_deliver: OnDeliver | None = None,
        on_install: OnInstall | None = None,
        channel: UnreliableChannel | None = None,
        processors: Mapping[int, CpuModel] | None = None,
        socket_datagrams_max: int = 256,
        **shared: Any,
    ) -> None:
        """`shared` are those of `process.Circumstances` that all processes share."""
        self.seed = seed
        self.clock = VirtualClock()
        self.network = network
        self.trace: list[Event] = []
        self.gone: set[int] = set()  # who never comes back
        self._machines, self._channel, self._is_healed = machines, channel, False
        self._faults = tuple(faults)
        self._stumbles = {
            each.point: each for each in self._faults if isinstance(each, FailpointCrash)
        }
        self._check(socket_datagrams_max)
        record = self.trace.extend if recording else None
        seen_by = [*filter(None, (record, on_events)), *map(_one_by_one, observers)]
        shared |= {"observers": seen_by, "socket_datagrams_max": socket_datagrams_max}
        carrier = network if channel is None else _CheckedNetwork(network, channel)
        self.processes: list[SimProcess] = []
        for pid in range(network.size):
            rng = self.random("process", pid)
            consumer = (consumers or {}).get(pid) or Consumer()
            producer = (producers or {}).get(pid)
            above = Application(consumer, producer, habits or Habits(), rng, on_deliver, on_install)
            around = self._surroundings(pid, rng, (processors or {}).get(pid), shared)
            self.processes.append(SimProcess(pid, machines, self.clock, carrier, above, around))
        self._begin()

    def _surroundings(
        self, pid: int, rng: Random, processor: CpuModel | None, shared: dict[str, Any]
    ) -> Circumstances:
        mine = [each for each in self._faults if isinstance(each, FailpointCrash | Isolation)]
        mine = [each for each in mine if each.pid == pid]
        return Circumstances(
            rng=rng,
            failpoints=[each.point for each in mine if isinstance(each, FailpointCrash)],
            isolations={each.point: each.for_s for each in mine if isinstance(each, Isolation)},
            processor=processor,
            on_stumble=self._stumble,
            **shared,
        )

    @property
    def now(self) -> float:
        return self.clock.now

    @property
    def up(self) -> list[SimProcess]:
        """The processes that run."""
        return [process for process in self.processes if process.is_up]

    def random(self, *purpose: object) -> Random:
        """The generator of one purpose, derived from the seed."""
        return rng_stream(self.seed, *purpose)

    def run(self, until: float) -> None:
        """Let everything happen that is due up to and at `until` seconds."""
        self.clock.run(until)

    def announce(self, pid: int) -> None:
        """Tell every other process, now, that `pid` has crashed."""
        if self._machines.announce is None:
            return
        for process in self.processes:
            if process.pid != pid:
                process.enter(process.machine.on_command, self._machines.announce(pid))

    def crash(self, pid: int, downtime: Downtime | None = None) -> None:
        """Crash a process now; by default it never restarts."""
        process, downtime = self.processes[pid], downtime or Downtime()
        if not process.is_up:
            return
        process.crash(downtime)
        if downtime.back_after_s is not None:
            self.clock.at(self.now + downtime.back_after_s, process.recover)
            return
        self.gone.add(pid)
        if downtime.announced_after_s is not None:
            self.clock.at(self.now + downtime.announced_after_s, self.announce, (pid,))

    def heal(self) -> None:
        """End all faults for good: cuts, loss, pauses, and crashes that have not happened yet.
        Who is down restarts, but for those who never come back."""
        self._is_healed = True
        self.network.heal()
        if self._channel is not None:
            self._channel.be_fair()
        for process in self.processes:
            process.heal()
            if process.is_down and process.pid not in self.gone:
                process.recover()

    def _check(self, socket: int) -> None:
        check_range("socket_datagrams_max", socket, 1)
        size = self.network.size
        for fault in self._faults:
            pids = fault.pids if isinstance(fault, Founding) else (getattr(fault, "pid", 0),)
            for pid in pids:
                if pid >= size:
                    raise ConfigError(f"pid: {pid} is not a process below {size}")

    def _begin(self) -> None:
        receivers: list[Receive] = [process.receive for process in self.processes]
        if self._channel is not None:
            each = enumerate(receivers)
            receivers = [_telling(self._channel, pid, receive) for pid, receive in each]
        self.network.connect(self.clock, self.seed, receivers)
        self.network.cut(each for each in self._faults if isinstance(each, Partition | OneWayCut))
        arrivals = {each.pid: each.at for each in self._faults if isinstance(each, LateJoin)}
        for process in self.processes:
            self.clock.at(arrivals.get(process.pid, 0.0), process.start)
        for fault in self._faults:
            self._schedule(fault)

    def _schedule(self, fault: Fault) -> None:
        if isinstance(fault, Founding):
            self._at(fault.at, self._found, fault)
            return
        if isinstance(fault, Partition | OneWayCut | FailpointCrash | Isolation | LateJoin):
            return
        process = self.processes[fault.pid]
        if isinstance(fault, Pause):
            self._at(fault.start, process.pause)
            self._at(fault.end, process.resume)
        elif isinstance(fault, Disconnection):
            self._at(fault.start, process.disconnect, fault.announced)
            self._at(fault.end, process.reconnect)
        elif isinstance(fault, SlowDisk):
            self._at(fault.start, process.slow_disk, fault.end)
        elif isinstance(fault, ClockJump):
            self._at(fault.at, process.jump, fault.by_s)
        elif isinstance(fault, Crash):
            self._at(fault.at, self.crash, fault.pid, fault)
        elif isinstance(fault, LeaveAt):
            self._at(fault.at, process.leave)

    def _at(self, when: float, happens: Callable[..., None], *args: Any) -> None:
        self.clock.at(when, self._unless_healed, (happens, args))

    def _unless_healed(self, happens: Callable[..., None], args: tuple[Any, ...]) -> None:
        if not self._is_healed:
            happens(*args)

    def _found(self, founding: Founding) -> None:
        processes = [self.processes[pid] for pid in founding.pids]
        command = FoundGroup(tuple(each.next_life for each in processes), founding.lineage)
        for process in processes:
            process.found((command,))

    def _stumble(self, pid: int, point: Failpoint) -> None:
        self.crash(pid, self._stumbles[point])


def _one_by_one(observe: Observer) -> BatchObserver:
    def see(events: Sequence[Event]) -> None:
        for event in events:
            observe(event)

    return see


class _CheckedNetwork:
    """A network whose every datagram is shown to the channel's automaton."""

    def __init__(self, network: DatagramCarrier, channel: UnreliableChannel) -> None:
        self.size, self.dropped = network.size, network.dropped
        self._network, self._channel = network, channel

    def send(self, source: int, sends: Sends) -> None:
        """Show, then send."""
        for to, datagram in sends:
            data = encode(datagram)
            if to is EVERYONE:
                self._channel.multisend(source, data)
                continue
            for pid in to:
                self._channel.unisend(source, pid, data)
        self._network.send(source, sends)


def _telling(channel: UnreliableChannel, pid: int, receive: Receive) -> Receive:
    def tell(source: int, datagram: Any) -> None:
        channel.receive(pid, source, encode(datagram))
        receive(source, datagram)

    return tell
