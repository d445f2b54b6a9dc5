"""A wide-area network as nodes and links: a hub, wide-area, metropolitan and access links.

The thesis drew its thirty nodes with a generator of tier hierarchies and lost their latencies
with the figure [RPB §7.1]; `tiers` draws one like it from a seed: twelve routers, eighteen members
at the fringe, each on a link of its own.  The number of routers grows with the square
root of the members.
A file holds the same as JSON: how many nodes, which of them are members, and the links.
"""

from collections import deque
from collections.abc import Iterator
from math import isfinite
from pathlib import Path
from random import Random
from typing import NamedTuple

import msgspec

from semcast.sim.clock import rng_stream
from semcast.terms.errors import ConfigError

HUB = 0
WIDE_MS = (8.0, 20.0)
METRO_MS = (2.0, 8.0)
ACCESS_MS = (0.5, 2.0)
NODES_MAX = 100_000
SAMPLED = 32  # members from which distances are averaged
DEFAULT_SEED = 4  # as in the thesis, node 14 is the remotest member, four links from the hub


class TopologyLink(msgspec.Struct, frozen=True, array_like=True):
    """A link between two nodes, the same in both directions."""

    a: int
    b: int
    latency_ms: float


class Topology(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Nodes are 0 to `nodes` − 1; the rank of a member is its place in `members`.

    Every node is connected, or it is refused.
    """

    nodes: int
    members: tuple[int, ...]
    links: tuple[TopologyLink, ...]

    def __post_init__(self) -> None:
        if not 2 <= self.nodes <= NODES_MAX:
            raise ConfigError(f"topology: nodes: {self.nodes} is not within 2..{NODES_MAX}")
        pairs = set()
        for cable in self.links:
            _check(cable, self.nodes)
            pairs.add(frozenset((cable.a, cable.b)))
        if len(pairs) < len(self.links):
            raise ConfigError("topology: links: two of them join the same nodes")
        if not self.members or len(set(self.members)) < len(self.members):
            raise ConfigError("topology: members: must name at least one node, and none twice")
        for node in self.members:
            if not 0 <= node < self.nodes:
                raise ConfigError(f"topology: member {node} is not a node below {self.nodes}")
        unconnected = set(range(self.nodes)) - set(self.hops_from(self.members[0]))
        if unconnected:
            raise ConfigError(f"topology: node {min(unconnected)} is not connected to the others")

    def neighbours(self) -> list[list[tuple[int, float]]]:
        """Of each node, in the order of the links: the node at the other end, seconds to it."""
        found: list[list[tuple[int, float]]] = [[] for _ in range(self.nodes)]
        for cable in self.links:
            found[cable.a].append((cable.b, cable.latency_ms / 1000))
            found[cable.b].append((cable.a, cable.latency_ms / 1000))
        return found

    def hops_from(self, start: int) -> dict[int, int]:
        """How many links away every node is that can be reached."""
        neighbours = self.neighbours()
        hops = {start: 0}
        waiting = deque([start])
        while waiting:
            node = waiting.popleft()
            for other, _ in neighbours[node]:
                if other not in hops:
                    hops[other] = hops[node] + 1
                    waiting.append(other)
        return hops

    @property
    def mean_hops(self) -> float:
        """How many links lie between two members, on average; of a large group, of a sample."""
        sample = self.members[:: len(self.members) // SAMPLED + 1]
        total = 0
        for start in sample:
            hops = self.hops_from(start)
            total += sum(hops[member] for member in self.members)
        return total / (len(sample) * max(len(self.members) - 1, 1))

    @property
    def farthest_member(self) -> int:
        """The rank of the member most links away from node 0, where a logger hurts most."""
        hops = self.hops_from(HUB)
        return max(range(len(self.members)), key=lambda rank: hops[self.members[rank]])


def _check(cable: TopologyLink, nodes: int) -> None:
    name = f"topology: link {cable.a}-{cable.b}"
    for end in (cable.a, cable.b):
        if not 0 <= end < nodes:
            raise ConfigError(f"{name}: {end} is not a node below {nodes}")
    if cable.a == cable.b:
        raise ConfigError(f"{name}: joins a node to itself")
    if not (isfinite(cable.latency_ms) and cable.latency_ms >= 0):
        raise ConfigError(f"{name}: a latency of {cable.latency_ms:g} ms is not 0 or more")


class _Tiers(NamedTuple):
    """How many routers of each kind a group of a size gets, besides the hub."""

    wide: int
    metro: int


def tiers(members: int = 18, seed: int = DEFAULT_SEED) -> Topology:
    """A tier hierarchy drawn from a seed; the routers have the lowest numbers, the hub is 0."""
    if members < 2:
        raise ConfigError(f"members: {members} is not at least 2")
    metro = max(round(2 * members**0.5), 3)
    sizes = _Tiers(max(round(metro**0.5), 2), metro)
    if members < metro:
        sizes = _Tiers(2, members)
    rng = rng_stream(seed, "topology")
    links = list(_links(sizes, members, rng))
    routers = 1 + sizes.wide + sizes.metro
    nodes = routers + members
    return Topology(nodes, tuple(range(routers, nodes)), tuple(links))


def _links(sizes: _Tiers, members: int, rng: Random) -> Iterator[TopologyLink]:
    """Every node hangs on one of the tier above it, some metropolitan ones on each other."""
    first_metro = 1 + sizes.wide
    first_member = first_metro + sizes.metro
    for node in range(1, first_metro):
        yield TopologyLink(HUB, node, _latency(rng, WIDE_MS))
    parents: set[int] = set()
    for place, node in enumerate(range(first_metro, first_member)):
        parent = 1 + place if place < sizes.wide else rng.randrange(1, node)
        parents.add(parent)
        yield TopologyLink(parent, node, _latency(rng, METRO_MS))
    leaves = [node for node in range(first_metro, first_member) if node not in parents]
    for place in range(members):
        # No router without somebody behind it.
        drawn = rng.randrange(first_metro, first_member)
        router = leaves[place] if place < len(leaves) else drawn
        yield TopologyLink(router, first_member + place, _latency(rng, ACCESS_MS))


def _latency(rng: Random, between_ms: tuple[float, float]) -> float:
    return round(rng.uniform(*between_ms), 1)


def load(path: str | Path) -> Topology:
    """A topology from a file."""
    try:
        return msgspec.json.decode(Path(path).read_bytes(), type=Topology)
    except OSError as error:
        raise ConfigError(f"topology: {path}: {error.strerror or error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        what = str(error).removeprefix("topology: ")
        raise ConfigError(f"topology: {path}: {what}") from error


def save(topology: Topology, path: str | Path) -> None:
    """Write a topology to a file that `load` reads, a link on each line."""
    links = ",\n  ".join(f"[{c.a}, {c.b}, {c.latency_ms}]" for c in topology.links)
    members = ", ".join(map(str, topology.members))
    Path(path).write_text(
        f'{{"nodes": {topology.nodes},\n "members": [{members}],\n "links": [\n  {links}\n ]}}\n'
    )
