"""A run of stations: the network between them, their disks, and the turns that their lives take.

Same arguments, same seed: the same trace, byte for byte.  Faults stop at `heal`: whoever is out of
reach comes back into it and whoever is down recovers, but for those who never come back.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, cast

from semcast.faults import Cut, Failpoint, Latency, OneWayCut, Partition, Pause
from semcast.sim.clock import Clock, stream
from semcast.sim.network import Receive
from semcast.sim.process import Observer, Producer
from semcast.sim.pubsub.disk import Disk
from semcast.sim.pubsub.lives import Absence, Arrival, Departure, Outage, Stumble, Turn
from semcast.sim.pubsub.station import NO_WAIT, Born, Carrier, Station
from semcast.specs.channel import UnreliableChannel
from semcast.terms.ids import EVERYONE
from semcast.terms.messages import Message
from semcast.wire import PUBSUB_CODEC, encode


class Wires(Carrier, Protocol):
    """A modelled network, full or routed."""

    def connect(self, clock: Clock, seed: int, receivers: Sequence[Receive]) -> None: ...
    def cut(self, cuts: Iterable[Cut]) -> None: ...
    def heal(self) -> None: ...


class PubsubSimulation:
    """One run, from time 0, of a station for each node of the network.

    `born` makes the participant of a station's life, `record` is the type of what it persists
    (None: nobody has a disk).  Who is in `producers` sends, who is `silent` does not subscribe.
    `channel` is told, and judges, every datagram; with `through_bytes` each is read from its bytes.

        sim = PubsubSimulation(born, Network(4, Link(loss=0.1)), record=Record, seed=7)
        sim.run(until=10.0)
        sim.heal()
        sim.run(until=20.0)
    """

    def __init__(
        self,
        born: Born,
        network: Wires,
        *,
        record: Any,
        seed: int,
        sync: Latency = NO_WAIT,
        silent: Collection[int] = (),
        producers: Mapping[int, Producer] | None = None,
        turns: Iterable[Turn] = (),
        observers: Iterable[Observer] = (),
        on_deliver: Callable[[int, Sequence[Message], float], None] | None = None,
        channel: UnreliableChannel | None = None,
        through_bytes: bool = False,
    ) -> None:
        self.clock = Clock()
        self.seed = seed
        self.network = network
        self.channel = channel
        self._through_bytes = through_bytes
        self._is_healed = False
        self._gone: set[int] = set()
        self._turns = tuple(turns)
        self._stumbles = {turn.point: turn for turn in self._turns if isinstance(turn, Stumble)}
        carrier = network if channel is None else _Watched(network, channel)
        watched_by: dict[str, Any] = {"observers": tuple(observers), "on_deliver": on_deliver}
        station: Any = partial(Station, sync=sync, on_crash=self._stumble, **watched_by)
        self.stations: list[Station] = [
            station(
                pid,
                born,
                self.clock,
                carrier,
                subscribes=pid not in silent,
                disk=None if record is None else Disk(record),
                rng=stream(seed, "station", pid),
                producer=(producers or {}).get(pid),
                failpoints=[point for point in self._stumbles if point.pid == pid],
            )
            for pid in range(network.size)
        ]
        self._begin()

    @property
    def now(self) -> float:
        return self.clock.now

    def run(self, until: float) -> None:
        """Let everything happen that is due up to and at `until` seconds."""
        self.clock.run(until)

    def heal(self) -> None:
        """End all faults for good."""
        self._is_healed = True
        self.network.heal()
        if self.channel is not None:
            self.channel.be_fair()
        for station in self.stations:
            station.heal()
            if not station.is_connected:
                station.reconnect()
            if station.is_down and station.pid not in self._gone:
                station.recover()

    def _begin(self) -> None:
        receivers: list[Receive] = [station.receive for station in self.stations]
        if self._through_bytes:
            receivers = [_reading(receive) for receive in receivers]
        if self.channel is not None:
            told = enumerate(receivers)
            receivers = [_telling(self.channel, pid, receive) for pid, receive in told]
        self.network.connect(self.clock, self.seed, receivers)
        self.network.cut(t for t in self._turns if isinstance(t, Partition | OneWayCut))
        arrivals = {turn.pid: turn.at for turn in self._turns if isinstance(turn, Arrival)}
        for station in self.stations:
            self.clock.at(arrivals.get(station.pid, 0.0), station.start)
        for turn in self._turns:
            self._schedule(turn)

    def _schedule(self, turn: Turn) -> None:
        at = self.clock.at
        if isinstance(turn, Pause):
            at(turn.start, self._unless_healed, (self.stations[turn.pid].pause,))
            at(turn.end, self._unless_healed, (self.stations[turn.pid].resume,))
        elif isinstance(turn, Outage):
            at(turn.at, self._unless_healed, (partial(self._go_down, turn.pid, turn),))
        elif isinstance(turn, Absence):
            station = self.stations[turn.pid]
            gone = partial(station.disconnect, announced=turn.announced)
            at(turn.start, self._unless_healed, (gone,))
            at(turn.end, self._unless_healed, (station.reconnect,))
        elif isinstance(turn, Departure):
            at(turn.at, self._unless_healed, (self.stations[turn.pid].leave,))

    def _unless_healed(self, happens: Callable[[], None]) -> None:
        if not self._is_healed:
            happens()

    def _stumble(self, pid: int, point: Failpoint) -> None:
        self._go_down(pid, self._stumbles[point])

    def _go_down(self, pid: int, outage: Outage | Stumble) -> None:
        station = self.stations[pid]
        if station.is_down:
            return
        station.crash(loses_disk=outage.loses_disk)
        if outage.back_after_s is None:
            self._gone.add(pid)
        else:
            self.clock.at(self.now + outage.back_after_s, station.recover)


class _Watched:
    """A network whose every datagram is told to the channel's automaton."""

    def __init__(self, network: Carrier, channel: UnreliableChannel) -> None:
        self.size = network.size
        self._network = network
        self._channel = channel

    def send(self, source: int, sends: Sequence[tuple[Sequence[int], Any]]) -> None:
        """Tell, then send."""
        for to, datagram in sends:
            if to is EVERYONE:
                self._channel.multisend(source, encode(datagram))
                continue
            for pid in to:
                self._channel.unisend(source, pid, encode(datagram))
        self._network.send(source, sends)


def _reading(receive: Receive) -> Receive:
    def read(source: int, datagram: Any) -> None:
        receive(source, cast(Any, PUBSUB_CODEC.decode(encode(datagram))))

    return read


def _telling(channel: UnreliableChannel, pid: int, receive: Receive) -> Receive:
    def tell(source: int, datagram: Any) -> None:
        channel.receive(pid, source, encode(datagram))
        receive(source, datagram)

    return tell
