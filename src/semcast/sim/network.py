"""The modelled network: n × n links [SRB §3.2].

Every ordered pair of members has a `Link`.  A datagram is dropped by a cut or a full queue,
then lost, doubled or held back as the link says; each link that has anything to draw draws from
its own stream.  Members share memory, so the very object travels unless `through_bytes` sends
it through the codec; `fingerprint` checks that nobody changed it on the way.  Nothing is paid
for what is off: sizes are computed only where a bandwidth or `accounting` needs them.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any, TypeAlias

from semcast.faults import Constant, Cut, LeakyBucket, Link
from semcast.sim.clock import Clock, stream
from semcast.terms.errors import ConfigError, LocalProtocolError
from semcast.terms.messages import EVERYONE, Datagram
from semcast.wire import decode, encode

UDP_IP_BYTES = 28
NO_CHANCE = Random(0)  # of links on which nothing is drawn

Receive: TypeAlias = Callable[[int, Datagram], None]


class Traffic:
    """What one process sent of one datagram type.

    A multicast is one send and as many copies as it has destinations: `bytes` is what leaves a
    sender that has IP multicast, `copied_bytes` what leaves one that has not.
    """

    __slots__ = ("bytes", "copied_bytes", "copies", "sends")

    def __init__(self) -> None:
        self.sends = self.copies = self.bytes = self.copied_bytes = 0

    def __repr__(self) -> str:
        return (
            f"Traffic(sends={self.sends}, copies={self.copies}, bytes={self.bytes}, "
            f"copied_bytes={self.copied_bytes})"
        )


class _Path:
    """A link between two members in use.  `plain_s` is its latency when there is nothing else."""

    __slots__ = ("arrive", "bucket", "destination", "link", "plain_s", "rng", "source")

    def __init__(
        self, source: int, destination: int, link: Link, bucket: LeakyBucket | None
    ) -> None:
        self.source = source
        self.destination = destination
        self.bucket = bucket
        self.arrive: Callable[[int, Any], None]
        self.rng = NO_CHANCE
        self.use(link)

    def use(self, link: Link) -> None:
        """Change what the link does; what waits in its bucket stays there."""
        self.link = link
        latency = link.latency
        is_plain = self.bucket is None and not (link.loss or link.duplicate or link.reorder)
        self.plain_s = latency.s if is_plain and isinstance(latency, Constant) else -1.0


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
        through_bytes: bool = False,
        fingerprint: bool = False,
        accounting: bool = False,
    ) -> None:
        self.size = size
        self.dropped: Counter[str] = Counter()
        self.traffic: dict[tuple[int, str], Traffic] = {}
        self._through_bytes = through_bytes
        self._fingerprint = fingerprint and not through_bytes
        self._accounting = accounting
        self._cuts: list[Cut] = []
        self._blocked: frozenset[tuple[int, int]] = frozenset()
        self._paths = self._lay(default or Link(), links or {}, links_into or {}, aggregate)
        self._fans = [tuple(row.values()) for row in self._paths]
        has_buckets = any(path.bucket for fan in self._fans for path in fan)
        self._encodes = has_buckets or accounting or through_bytes or fingerprint

    def _lay(
        self,
        default: Link,
        links: Mapping[tuple[int, int], Link],
        links_into: Mapping[int, Link],
        aggregate: bool,
    ) -> list[dict[int, _Path]]:
        ranks = range(self.size)
        for source, destination in links:
            if source not in ranks or destination not in ranks or source == destination:
                raise ConfigError(
                    f"links: {(source, destination)} is not a pair of two ranks below {self.size}"
                )
        for destination in links_into:
            if destination not in ranks:
                raise ConfigError(f"links_into: {destination} is not a rank below {self.size}")
        shared = {d: links_into.get(d, default).bucket() for d in ranks} if aggregate else {}
        rows: list[dict[int, _Path]] = []
        for s in ranks:
            row = {}
            for d in ranks:
                if s == d:
                    continue
                link = links.get((s, d)) or links_into.get(d, default)
                own = (s, d) in links or not aggregate
                row[d] = _Path(s, d, link, link.bucket() if own else shared[d])
            rows.append(row)
        return rows

    def connect(self, clock: Clock, seed: int, receivers: Sequence[Receive]) -> None:
        """Called once by the simulation: where datagrams go, and by which clock."""
        self._clock = clock
        for fan in self._fans:
            for path in fan:
                receive = receivers[path.destination]
                if self._through_bytes:
                    path.arrive = partial(_arrive_as_bytes, receive)
                elif self._fingerprint:
                    path.arrive = partial(_arrive_unchanged, receive)
                else:
                    path.arrive = receive
                if path.link.is_random:  # A generator takes 2.5 KB; 256 members have 65,280 links.
                    path.rng = stream(seed, "network", path.source, path.destination)

    def cut(self, cuts: Iterable[Cut]) -> None:
        """Apply partitions and one-way cuts at their times."""
        for cut in cuts:
            self._cuts.append(cut)
            self._clock.at(max(cut.start, self._clock.now), self._reroute)
            self._clock.at(max(cut.end, self._clock.now), self._reroute)

    def heal(self) -> None:
        """End all cuts, loss, duplication and reordering for good; latency and bandwidth stay."""
        self._cuts.clear()
        self._reroute()
        for fan in self._fans:
            for path in fan:
                path.use(path.link.healed())

    def _reroute(self) -> None:
        now = self._clock.now
        active = [cut for cut in self._cuts if cut.start <= now < cut.end]
        self._blocked = frozenset(
            (path.source, path.destination)
            for fan in self._fans
            for path in fan
            if any(cut.cuts(path.source, path.destination) for cut in active)
        )

    def send(self, source: int, sends: Sequence[tuple[int, Datagram]]) -> None:
        """Carry out one handler's sends."""
        encoded: Datagram | None = None  # one datagram to many ranks is encoded once
        carried: Any
        size = 0
        for rank, datagram in sends:
            if not self._encodes:
                carried = datagram
            elif datagram is not encoded:
                encoded = datagram
                carried, size = self._prepare(datagram)
            if self._accounting:
                self._account(source, rank, datagram, size)
            if rank == EVERYONE:
                for path in self._fans[source]:
                    self._transmit(path, carried, size)
            else:
                self._transmit(self._paths[source][rank], carried, size)

    def _prepare(self, datagram: Datagram) -> tuple[Any, int]:
        """What travels in place of the datagram, and its size with UDP and IP headers."""
        data = encode(datagram)
        size = len(data) + UDP_IP_BYTES
        if self._through_bytes:
            return data, size
        return ((datagram, data) if self._fingerprint else datagram), size

    def _account(self, source: int, rank: int, datagram: Datagram, size: int) -> None:
        key = (source, type(datagram).__name__)
        traffic = self.traffic.get(key)
        if traffic is None:
            traffic = self.traffic[key] = Traffic()
        copies = len(self._fans[source]) if rank == EVERYONE else 1
        traffic.sends += 1
        traffic.copies += copies
        traffic.bytes += size
        traffic.copied_bytes += size * copies

    def _transmit(self, path: _Path, carried: Any, size: int) -> None:
        if self._blocked and (path.source, path.destination) in self._blocked:
            self.dropped["cut"] += 1
            return
        clock = self._clock
        if path.plain_s >= 0:
            clock.at(clock.now + path.plain_s, path.arrive, (path.source, carried))
            return
        leaves = clock.now
        if path.bucket is not None:
            admitted = path.bucket.admit(size, leaves)
            if admitted is None:
                self.dropped["queue"] += 1
                return
            leaves = admitted
        link, rng = path.link, path.rng
        if link.loss and rng.random() < link.loss:
            self.dropped["loss"] += 1
            return
        copies = 2 if link.duplicate and rng.random() < link.duplicate else 1
        for _ in range(copies):
            arrives = leaves + link.latency.draw(rng)
            if link.reorder and rng.random() < link.reorder:
                arrives += link.reorder_s * rng.random()
            clock.at(arrives, path.arrive, (path.source, carried))


def _arrive_as_bytes(receive: Receive, source: int, data: bytes) -> None:
    receive(source, decode(data))


def _arrive_unchanged(receive: Receive, source: int, carried: tuple[Datagram, bytes]) -> None:
    datagram, at_send = carried
    if encode(datagram) != at_send:
        raise LocalProtocolError(
            f"{type(datagram).__name__} of {source} changed between send and delivery"
        )
    receive(source, datagram)
