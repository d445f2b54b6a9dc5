"""A run: members, the network between them, applications above them and faults around them.

Same members, same arguments, same seed: the same trace, byte for byte, in every Python process.
With a `Processor` that measures, repeatability needs its recorded costs [SRM §5.4].  Faults stop
at `heal`, after which whatever still should happen must: first safety, then liveness.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random

from semcast.faults import Crash, Failpoint, Fault, OneWayCut, Partition, Pause
from semcast.faults.limits import within
from semcast.sim.clock import Clock, Processor, stream
from semcast.sim.network import Network
from semcast.sim.process import Consumer, Observer, Process, Producer, Ranked
from semcast.terms.errors import ConfigError
from semcast.terms.events import Event
from semcast.terms.messages import Message


class Simulation:
    """One run, from time 0.

    `members[i]` has rank i.  Who is not in `consumers` is always ready; who is not in `producers`
    sends nothing of its own.  Network, consumers and producers serve one run only.
    `recording` keeps every event in `trace`; `observers` see each one as it happens, in the
    order of the whole system.
    `on_deliver(pid, messages, now)` sees what reaches applications, recording or not.

        sim = Simulation(members, Network(3, Link(loss=0.1)), seed=7, recording=True)
        sim.run(until=10.0)
        sim.heal()
        sim.run(until=20.0)
    """

    def __init__(
        self,
        members: Sequence[Ranked],
        network: Network,
        *,
        seed: int,
        consumers: Mapping[int, Consumer] | None = None,
        producers: Mapping[int, Producer] | None = None,
        faults: Iterable[Fault] = (),
        recording: bool = False,
        observers: Iterable[Observer] = (),
        on_deliver: Callable[[int, Sequence[Message], float], None] | None = None,
        processor: Processor | None = None,
        socket_datagrams_max: int = 256,
    ) -> None:
        self.seed = seed
        self.clock = Clock()
        self.network = network
        self.trace: list[Event] = []
        seen_by = [*([self.trace.append] if recording else []), *observers]
        self._check(members, faults := list(faults), socket_datagrams_max)
        self.processes = [
            Process(
                member,
                self.clock,
                network,
                rng=self.random("process", member.rank),
                consumer=(consumers or {}).get(member.rank) or Consumer(),
                producer=(producers or {}).get(member.rank),
                failpoints=[f for f in faults if isinstance(f, Failpoint) and f.pid == member.rank],
                processor=processor,
                socket_datagrams_max=socket_datagrams_max,
                observers=seen_by,
                on_deliver=on_deliver,
                on_crash=self._announce,
            )
            for member in members
        ]
        self._is_healed = False
        self._begin(faults)

    @property
    def now(self) -> float:
        return self.clock.now

    def random(self, *purpose: object) -> Random:
        """The generator of one purpose, derived from the seed."""
        return stream(self.seed, *purpose)

    def run(self, until: float) -> None:
        """Let everything happen that is due up to and at `until` seconds."""
        self.clock.run(until)

    def crash(self, pid: int, announced_after_s: float | None = None) -> None:
        """Crash a process now; the others are told after that long, or never."""
        self.processes[pid].crash(announced_after_s)

    def forget(self, pid: int) -> None:
        """Announce to every other process, now, that `pid` has crashed."""
        for process in self.processes:
            if process.pid != pid:
                process.forget(pid)

    def heal(self) -> None:
        """End all faults for good: cuts, loss, pauses, and crashes that have not happened yet."""
        self._is_healed = True
        self.network.heal()
        for process in self.processes:
            process.heal()

    def _check(self, members: Sequence[Ranked], faults: Sequence[Fault], socket: int) -> None:
        size = self.network.size
        if [member.rank for member in members] != list(range(size)):
            raise ConfigError(f"members: ranks must be 0 to {size - 1} in order, one per node")
        within("socket_datagrams_max", socket, 1)
        for fault in faults:
            if isinstance(fault, (Pause, Crash, Failpoint)) and fault.pid >= size:
                raise ConfigError(f"pid: {fault.pid} is not a rank below {size}")

    def _begin(self, faults: Sequence[Fault]) -> None:
        self.network.connect(self.clock, self.seed, [one.receive for one in self.processes])
        self.network.cut(fault for fault in faults if isinstance(fault, (Partition, OneWayCut)))
        for fault in faults:
            if isinstance(fault, Pause):
                self.clock.at(fault.start, self._pause, (fault,))
            elif isinstance(fault, Crash):
                self.clock.at(fault.at, self._crash, (fault,))
        for process in self.processes:
            self.clock.at(0.0, process.start)

    def _pause(self, pause: Pause) -> None:
        if not self._is_healed:
            self.processes[pause.pid].pause()
            self.clock.at(pause.end, self._resume, (pause,))

    def _resume(self, pause: Pause) -> None:
        if not self._is_healed:  # else it has been resumed
            self.processes[pause.pid].resume()

    def _crash(self, crash: Crash) -> None:
        if not self._is_healed:
            self.crash(crash.pid, crash.announced_after_s)

    def _announce(self, pid: int, after_s: float | None) -> None:
        if after_s is not None:
            self.clock.at(self.now + after_s, self.forget, (pid,))
