"""A run of stations in a group with views: the network between them and the turns of their lives.

Same arguments, same seed: the same trace, byte for byte.  Faults stop at `heal`: whoever is down
recovers, but for those who never come back.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from semcast.faults import ClockJump, Failpoint, OneWayCut, Partition, Pause
from semcast.sim.clock import Clock, stream
from semcast.sim.network import Network, Receive
from semcast.sim.views.lives import Arrival, Departure, Founding, Isolation, Outage, Stumble, Turn
from semcast.sim.views.station import Station
from semcast.wire import VIEW_CODEC, encode


class ViewSimulation:
    """One run, from time 0, of a station for each node of the network.

    `station(pid, clock, network, rng=…, failpoints=…, on_crash=…)` makes one.  Those who do not
    arrive later start at once.  With `through_bytes` every datagram is read from its bytes.
    """

    def __init__(
        self,
        station: Callable[..., Station],
        network: Network,
        *,
        seed: int,
        turns: Iterable[Turn] = (),
        through_bytes: bool = False,
    ) -> None:
        self.clock = Clock()
        self.network = network
        self._is_healed = False
        self._gone: set[int] = set()
        self._turns = tuple(turns)
        self._stumbles = {turn.point: turn for turn in self._turns if isinstance(turn, Stumble)}
        isolations = {turn.point: turn.for_s for turn in self._turns if isinstance(turn, Isolation)}
        self.stations = [
            station(
                pid,
                self.clock,
                network,
                rng=stream(seed, "station", pid),
                failpoints=[point for point in self._stumbles if point.pid == pid],
                isolations={at: for_s for at, for_s in isolations.items() if at.pid == pid},
                on_crash=self._stumble,
            )
            for pid in range(network.size)
        ]
        self._begin(seed, through_bytes)

    @property
    def now(self) -> float:
        return self.clock.now

    @property
    def up(self) -> list[Station]:
        """The processes that are, or want to be, members."""
        return [station for station in self.stations if station.is_up]

    def run(self, until: float) -> None:
        """Let everything happen that is due up to and at `until` seconds."""
        self.clock.run(until)

    def heal(self) -> None:
        """End all faults for good."""
        self._is_healed = True
        self.network.heal()
        for station in self.stations:
            station.heal()
            if station.is_down and station.pid not in self._gone:
                station.recover()

    def _begin(self, seed: int, through_bytes: bool) -> None:
        receivers: list[Any] = [station.receive for station in self.stations]
        if through_bytes:
            receivers = [partial(_read, receive) for receive in receivers]
        self.network.connect(self.clock, seed, receivers)
        self.network.cut(t for t in self._turns if isinstance(t, Partition | OneWayCut))
        arrivals = {turn.pid: turn.at for turn in self._turns if isinstance(turn, Arrival)}
        for station in self.stations:
            self.clock.at(arrivals.get(station.pid, 0.0), station.arrive)
        for turn in self._turns:
            self._schedule(turn)

    def _schedule(self, turn: Turn) -> None:
        if isinstance(turn, Pause):
            station = self.stations[turn.pid]
            self._at(turn.start, station.pause)
            self._at(turn.end, station.resume)
        elif isinstance(turn, ClockJump):
            self._at(turn.at, self.stations[turn.pid].jump, turn.by_s)
        elif isinstance(turn, Outage):
            self._at(turn.at, self._go_down, turn.pid, turn)
        elif isinstance(turn, Departure):
            self._at(turn.at, self.stations[turn.pid].leave)
        elif isinstance(turn, Founding):
            self._at(turn.at, self._found, turn)

    def _at(self, when: float, happens: Callable[..., None], *args: Any) -> None:
        self.clock.at(when, self._unless_healed, (happens, args))

    def _unless_healed(self, happens: Callable[..., None], args: tuple[Any, ...]) -> None:
        if not self._is_healed:
            happens(*args)

    def _found(self, turn: Founding) -> None:
        stations = [self.stations[pid] for pid in turn.pids]
        founders = tuple(station.next_life for station in stations)
        for station in stations:
            station.found(founders, turn.lineage)

    def _stumble(self, pid: int, point: Failpoint) -> None:
        self._go_down(pid, self._stumbles[point])

    def _go_down(self, pid: int, outage: Outage | Stumble) -> None:
        station = self.stations[pid]
        if not station.is_up:
            return
        station.crash()
        if outage.back_after_s is None:
            self._gone.add(pid)
        else:
            self.clock.at(self.now + outage.back_after_s, station.recover)


def _read(receive: Receive, source: int, datagram: Any) -> None:
    receive(source, VIEW_CODEC.decode(encode(datagram)))  # type: ignore[arg-type]
