"""The modelled network: n × n links [SRB §3.2].

`faults.Links` decides when a datagram arrives or that it is dropped; this module gives it sizes
and a clock.  Members share memory, so the very object travels unless `through_bytes` sends it
through a codec; `fingerprint` checks that nobody changed it on the way.  Nothing is paid for
what is off: sizes are computed only where a bandwidth or `accounting` needs them.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TypeAlias

from semcast.faults import UDP_IP_BYTES, Cut, Link, Links, LinkState
from semcast.sim.clock import VirtualClock
from semcast.terms.errors import ConfigError, LocalProtocolError
from semcast.terms.ids import EVERYONE
from semcast.wire import Codec, encode

Receive: TypeAlias = Callable[[int, Any], None]
Sends: TypeAlias = Sequence[tuple[Sequence[int], Any]]


class DatagramCarrier(Protocol):
    """What takes a process's datagrams away; `dropped` counts, by reason, those it lost."""

    dropped: Counter[str]

    @property
    def size(self) -> int: ...
    def send(self, source: int, sends: Sends) -> None: ...


class NetworkModel(DatagramCarrier, Protocol):
    """A modelled network, full or routed."""

    def connect(self, clock: VirtualClock, seed: int, receivers: Sequence[Receive]) -> None: ...
    def cut(self, cuts: Iterable[Cut]) -> None: ...
    def heal(self) -> None: ...


class TrafficCount:
    """What one process sent of one datagram type.

    A multicast is one send and as many copies as it has destinations: `bytes` is what leaves a
    sender that has IP multicast, `copied_bytes` what leaves one that has not.
    """

    __slots__ = ("bytes", "copied_bytes", "copies", "sends")

    def __init__(self) -> None:
        self.sends = self.copies = self.bytes = self.copied_bytes = 0

    def note(self, to: Sequence[int], size: int, others: int) -> None:
        """A datagram was sent to all, who are so many `others`, or to some, each by itself."""
        copies = others if to is EVERYONE else len(to)
        self.sends += len(to)
        self.copies += copies
        self.bytes += size * len(to)
        self.copied_bytes += size * copies

    def __repr__(self) -> str:
        return (
            f"TrafficCount(sends={self.sends}, copies={self.copies}, bytes={self.bytes}, "
            f"copied_bytes={self.copied_bytes})"
        )


class Network:
    """Links between `size` members.

    A pair's link is the one in `links` for it, else the one in `links_into` for its destination,
    else `default`.  With `aggregate`, all links into one destination that are not in `links`
    share one bucket: the bandwidth is that of the destination's access to the network.
    """

    def __init__(
        self,
        size: int,
        default: Link | None = None,
        *,
        links: Mapping[tuple[int, int], Link] | None = None,
        links_into: Mapping[int, Link] | None = None,
        aggregate: bool = False,
        through_bytes: Codec[Any] | None = None,
        fingerprint: bool = False,
        accounting: bool = False,
    ) -> None:
        self.size = size
        self.dropped: Counter[str] = Counter()
        self.traffic: dict[tuple[int, str], TrafficCount] = {}
        self._through_bytes = through_bytes
        self._fingerprint = fingerprint and through_bytes is None
        self._accounting = accounting
        self._links = self._lay(default or Link(), links or {}, links_into or {}, aggregate)
        has_buckets = any(link.bucket for _, _, link in self._links)
        self._encodes = has_buckets or accounting or fingerprint or through_bytes is not None

    def _lay(
        self,
        default: Link,
        links: Mapping[tuple[int, int], Link],
        links_into: Mapping[int, Link],
        aggregate: bool,
    ) -> Links:
        ranks = range(self.size)
        for source, destination in links:
            if source not in ranks or destination not in ranks or source == destination:
                raise ConfigError(
                    f"links: {(source, destination)} is not a pair of two ranks below {self.size}"
                )
        for destination in links_into:
            if destination not in ranks:
                raise ConfigError(f"links_into: {destination} is not a rank below {self.size}")
        laid = Links(self.size, lambda s, d: links.get((s, d)) or links_into.get(d, default))
        if aggregate:
            first: dict[int, LinkState] = {}
            for s, d, link in laid:
                if (s, d) not in links:
                    link.bucket = first.setdefault(d, link).bucket
        return laid

    def connect(self, clock: VirtualClock, seed: int, receivers: Sequence[Receive]) -> None:
        """Called once by the simulation: where datagrams go, and by which clock."""
        self._clock = clock
        self._links.draw_from(seed)
        self._receivers = list(receivers)
        if self._through_bytes is not None:
            self._receivers = [partial(_read, self._through_bytes, each) for each in receivers]
        elif self._fingerprint:
            self._receivers = [partial(_compare, each) for each in receivers]

    def cut(self, cuts: Iterable[Cut]) -> None:
        """Apply partitions and one-way cuts at their times."""
        for when in self._links.cut(cuts):
            self._clock.at(max(when, self._clock.now), self._reroute)

    def heal(self) -> None:
        """End all cuts, loss, duplication and reordering for good; latency and bandwidth stay."""
        self._links.heal()

    def _reroute(self) -> None:
        self._links.reroute(self._clock.now)

    def send(self, source: int, sends: Sends) -> None:
        """Carry out one handler's sends."""
        now, at = self._clock.now, self._clock.at
        row = self._links.rows[source]
        for to, datagram in sends:
            carried, size = self._prepare(datagram) if self._encodes else (datagram, 0)
            if self._accounting:
                self._account(source, to, datagram, size)
            arriving = source, carried
            for destination in row if to is EVERYONE else to:
                link, receive = row[destination], self._receivers[destination]
                if link.plain_s >= 0.0:
                    at(now + link.plain_s, receive, arriving)
                else:
                    for when in link.transmit(size, now, self.dropped):
                        at(when, receive, arriving)

    def _prepare(self, datagram: Any) -> tuple[Any, int]:
        """What travels in place of the datagram, and its size with UDP and IP headers."""
        data = encode(datagram)
        size = len(data) + UDP_IP_BYTES
        if self._through_bytes is not None:
            return data, size
        return ((datagram, data) if self._fingerprint else datagram), size

    def _account(self, source: int, to: Sequence[int], datagram: Any, size: int) -> None:
        key = (source, type(datagram).__name__)
        traffic = self.traffic.get(key)
        if traffic is None:
            traffic = self.traffic[key] = TrafficCount()
        traffic.note(to, size, self.size - 1)


def _read(codec: Codec[Any], receive: Receive, source: int, data: bytes) -> None:
    receive(source, codec.decode(data))


def _compare(receive: Receive, source: int, carried: tuple[Any, bytes]) -> None:
    datagram, at_send = carried
    if encode(datagram) != at_send:
        raise LocalProtocolError(
            f"{type(datagram).__name__} of {source} changed between send and delivery"
        )
    receive(source, datagram)
