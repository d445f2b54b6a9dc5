"""A network of routers and links: what a wide area does to gossip and loggers [RPB §7.1].

A datagram goes hop by hop along the shortest path, a multicast along the tree of shortest paths
from its source; every direction of a link has a bandwidth, a queue of `queue_packets` and a count
of what it carried.  `loss` is that of each link and takes any datagram, so that a multicast lost
near its source is lost for everybody behind: what neighbours lack is alike, which is why the
thesis finds that asking near ones is slow.
Repairs leave a node at most `repairs_per_s`, in order; the others wait.  Other datagrams are
not counted there.
Routes: nodes with one link go through it; between the others all shortest paths are kept.
"""

import heapq
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import Any, NamedTuple, TypeAlias

from semcast.faults import UDP_IP_BYTES, Cut, is_cut
from semcast.sim.clock import VirtualClock, rng_stream
from semcast.sim.network import Receive, TrafficCount
from semcast.sim.topology import Topology
from semcast.terms.ids import EVERYONE
from semcast.terms.limits import check_finite, check_positive, check_range
from semcast.wire import encode


class LinkConditions(NamedTuple):
    """What every link and node of a network is like; the thesis's, but for the loss."""

    loss: float = 0.0
    bandwidth_bps: float = 100e6
    queue_packets: int = 50
    repairs_per_s: float = 1000.0


class DirectedLink:
    """One direction of a link.  `leaves` holds when each queued packet will have left."""

    __slots__ = ("bytes", "leaves", "packets", "s", "source", "target")

    def __init__(self, source: int, target: int, latency_s: float) -> None:
        self.source = source
        self.target = target
        self.s = latency_s
        self.leaves: deque[float] = deque()
        self.bytes = self.packets = 0

    def __repr__(self) -> str:
        name = type(self).__name__
        return f"{name}({self.source} to {self.target}, packets={self.packets}, bytes={self.bytes})"


Path: TypeAlias = tuple[DirectedLink, ...]
Tree: TypeAlias = list[Path]  # of each node, the wires to those behind it


class _Packet:
    """A datagram on its way: a unicast has a `path` and how much of it lies behind, a multicast
    the `tree` that all its copies follow."""

    __slots__ = ("datagram", "hops", "path", "size", "source", "tree")

    def __init__(self, source: int, datagram: Any, size: int) -> None:
        self.source = source
        self.datagram = datagram
        self.size = size
        self.path: Path = ()
        self.hops = 0
        self.tree: Tree | None = None


class RoutedNetwork:
    """A network of `size` processes over a topology: process i stands on node members[i].

    `repairs_in(audience, datagram)` says how many repairs a datagram carries.
    """

    def __init__(
        self,
        topology: Topology,
        conditions: LinkConditions,
        repairs_in: Callable[[Sequence[int], Any], int],
    ) -> None:
        check_range("loss", conditions.loss, 0, 1)
        check_positive("bandwidth_bps", conditions.bandwidth_bps)
        check_finite("queue_packets", conditions.queue_packets)
        check_positive("repairs_per_s", conditions.repairs_per_s)
        self.size = len(topology.members)
        self.topology = topology
        self.dropped: Counter[str] = Counter()
        self.traffic: dict[tuple[int, str], TrafficCount] = {}
        self.repairs: Counter[int] = Counter()  # by rank, as they leave
        self._loss = conditions.loss
        self._s_per_byte = 8 / conditions.bandwidth_bps
        self._queue = conditions.queue_packets
        self._s_per_repair = 1 / conditions.repairs_per_s
        self._repairs_in = repairs_in
        self._served_until = [0.0] * self.size
        self._cuts: list[Cut] = []
        self._rank_at = {node: rank for rank, node in enumerate(topology.members)}
        self._routes = Routes(topology)

    @property
    def directed_links(self) -> list[DirectedLink]:
        """Both directions of every link, one after the other, in the topology's order."""
        return self._routes.directed_links

    def connect(self, clock: VirtualClock, seed: int, receivers: Sequence[Receive]) -> None:
        """Called once by the simulation: where datagrams go, and by which clock."""
        self._clock = clock
        self._random = rng_stream(seed, "routed").random
        self._receivers = receivers

    def cut(self, cuts: Iterable[Cut]) -> None:
        """What arrives across a cut while it lasts is dropped."""
        self._cuts.extend(cuts)

    def heal(self) -> None:
        """End all cuts and loss for good; latency, bandwidth and service limits stay."""
        self._cuts.clear()
        self._loss = 0.0

    def send(self, source: int, sends: Sequence[tuple[Sequence[int], Any]]) -> None:
        """Carry out one handler's sends."""
        for to, datagram in sends:
            size = len(encode(datagram)) + UDP_IP_BYTES
            self._account(source, to, datagram, size)
            for each in (to,) if to is EVERYONE else [(rank,) for rank in to]:
                repairs = self._repairs_in(each, datagram)
                if repairs:
                    self._serve(source, each, datagram, size, repairs)
                else:
                    self._dispatch(source, each, datagram, size)

    def _account(self, source: int, to: Sequence[int], datagram: Any, size: int) -> None:
        key = (source, type(datagram).__name__)
        traffic = self.traffic.get(key)
        if traffic is None:
            traffic = self.traffic[key] = TrafficCount()
        traffic.note(to, size, self.size - 1)

    def _serve(
        self, source: int, to: Sequence[int], datagram: Any, size: int, repairs: int
    ) -> None:
        """Let repairs leave one after the other, each taking its share of a second."""
        now = self._clock.now
        starts = max(self._served_until[source], now)
        self._served_until[source] = starts + repairs * self._s_per_repair
        self.repairs[source] += repairs
        last = starts + (repairs - 1) * self._s_per_repair
        self._clock.at(last, self._dispatch, (source, to, datagram, size))

    def _dispatch(self, source: int, to: Sequence[int], datagram: Any, size: int) -> None:
        packet = _Packet(source, datagram, size)
        node = self.topology.members[source]
        if to is not EVERYONE:
            packet.path = self._routes.path(node, self.topology.members[to[0]])
            self._enter(packet, packet.path[0])
            return
        packet.tree = self._routes.tree(node)
        only = self._routes.only[node]
        if only is None:
            self._spread(packet, packet.tree[node])
        else:
            self._enter(packet, only)

    def _spread(self, packet: _Packet, wires: Path) -> None:
        origin = self.topology.members[packet.source]
        for wire in wires:
            if wire.target != origin:
                self._enter(packet, wire)

    def _enter(self, packet: _Packet, wire: DirectedLink) -> None:
        """Wait for the link, cross it, or be dropped."""
        now = self._clock.now
        leaves = wire.leaves
        while leaves and leaves[0] <= now:
            leaves.popleft()
        if len(leaves) > self._queue:  # one is being sent, the others wait
            self.dropped["queue"] += 1
            return
        left = (leaves[-1] if leaves else now) + packet.size * self._s_per_byte
        leaves.append(left)
        wire.packets += 1
        wire.bytes += packet.size
        if self._loss and self._random() < self._loss:
            self.dropped["loss"] += 1
            return
        self._clock.at(left + wire.s, self._arrive, (packet, wire.target))

    def _arrive(self, packet: _Packet, node: int) -> None:
        if packet.tree is None:
            packet.hops += 1
            if packet.hops < len(packet.path):
                self._enter(packet, packet.path[packet.hops])
                return
        else:
            self._spread(packet, packet.tree[node])
        rank = self._rank_at.get(node)
        if rank is None:
            return
        if self._cuts and is_cut(self._cuts, packet.source, rank, self._clock.now):
            self.dropped["cut"] += 1
            return
        self._receivers[rank](packet.source, packet.datagram)


class Routes:
    """Shortest paths by latency, then by the lower node; found when first needed."""

    def __init__(self, topology: Topology) -> None:
        self._neighbours = topology.neighbours()
        self._members = frozenset(topology.members)
        self.directed_links: list[DirectedLink] = []
        self._between: dict[tuple[int, int], DirectedLink] = {}
        for cable in topology.links:
            for a, b in ((cable.a, cable.b), (cable.b, cable.a)):
                wire = DirectedLink(a, b, cable.latency_ms / 1000)
                self.directed_links.append(wire)
                self._between[a, b] = wire
        self.only: list[DirectedLink | None] = [
            self._between[node, ends[0][0]] if len(ends) == 1 else None
            for node, ends in enumerate(self._neighbours)
        ]
        self._toward: dict[int, dict[int, int]] = {}
        self._trees: dict[int, Tree] = {}
        self._paths: dict[tuple[int, int], Path] = {}

    def path(self, source: int, destination: int) -> Path:
        """The wires from one node to another."""
        first, last = self.only[source], self.only[destination]
        start = source if first is None else first.target
        if first is not None and start == destination:
            return (first,)
        gate = destination if last is None else last.target
        between = self._paths.get((start, gate))
        if between is None:
            between = self._paths[start, gate] = self._find(start, gate)
        begin = () if first is None else (first,)
        end = () if last is None else (self._between[gate, destination],)
        return begin + between + end

    def _find(self, node: int, gate: int) -> Path:
        toward = self._toward.get(gate)
        if toward is None:
            toward = self._toward[gate] = self._nearer(gate)
        found = []
        while node != gate:
            found.append(self._between[node, toward[node]])
            node = toward[node]
        return tuple(found)

    def tree(self, source: int) -> Tree:
        """Of each node, the wires to those behind it that lead to members.

        Sources behind one router share its tree, which leads to each of them.
        """
        only = self.only[source]
        root = source if only is None else only.target
        if root not in self._trees:
            self._trees[root] = self._grow(root)
        return self._trees[root]

    def _grow(self, root: int) -> Tree:
        nearer = self._nearer(root)
        wanted: set[int] = set()
        for member in self._members:
            node = member
            while node != root and node not in wanted:
                wanted.add(node)
                node = self._parent(node, nearer)
        children: list[list[DirectedLink]] = [[] for _ in self._neighbours]
        for node in sorted(wanted):
            parent = self._parent(node, nearer)
            children[parent].append(self._between[parent, node])
        return [tuple(wires) for wires in children]

    def _parent(self, node: int, nearer: dict[int, int]) -> int:
        only = self.only[node]
        return nearer[node] if only is None else only.target

    def _nearer(self, root: int) -> dict[int, int]:
        """Of each node with several links, its neighbour on the way to `root`."""
        distance = {root: 0.0}
        nearer: dict[int, int] = {}
        waiting = [(0.0, root)]
        while waiting:
            far, node = heapq.heappop(waiting)
            if far > distance[node]:
                continue
            for other, latency_s in self._neighbours[node]:
                through = far + latency_s
                if self.only[other] is None and through < distance.get(other, inf):
                    distance[other] = through
                    nearer[other] = node
                    heapq.heappush(waiting, (through, other))
        return nearer
