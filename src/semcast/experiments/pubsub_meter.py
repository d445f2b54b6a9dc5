"""What EXP-9 measures: when all have a packet, who repaired it, and what else was sent [RPB §7].

Latency is the time from the multicast of a packet until *every* other member has it.  Overhead is
what is neither a packet nor a repair: gossip, requests, acknowledgements, heartbeats, notices.  A
datagram counts once where it leaves its sender, not on each link, and without the headers of UDP
and IP, which would hide what the thesis compares: how much the protocols have to say.
"""

from collections.abc import Iterable, Sequence
from statistics import fmean, pstdev
from typing import NamedTuple

from semcast.experiments.experiment import Row
from semcast.faults import UDP_IP_BYTES
from semcast.sim.routed_network import RoutedNetwork
from semcast.sim.topology import HUB
from semcast.terms.events import DELIVER, MULTICAST, Event
from semcast.terms.ids import EVERYONE
from semcast.terms.pubsub import Publication, PubsubDatagram, Repair

PACKETS = (Publication.__name__, Repair.__name__)
PROFILE_NODES_MAX = 100  # of larger networks only sums are told


def repairs_in(to: Sequence[int], datagram: PubsubDatagram) -> int:
    """Messages that are sent again: on request, or by a publisher to a logger that lacks them."""
    if isinstance(datagram, Repair):
        return len(datagram.messages)
    if isinstance(datagram, Publication) and to is not EVERYONE:
        return len(datagram.messages)
    return 0


class PacketReach:
    """Who has which packet.  A packet is dropped from `waiting` when all have it."""

    def __init__(self, members: int) -> None:
        self.others = members - 1
        self.sent_at: dict[tuple[int, int], int] = {}
        self.waiting: dict[tuple[int, int], int] = {}  # how many still lack it
        self.latencies_ms: list[float] = []

    def on_event(self, event: Event) -> None:
        """Note packets as they leave and arrive."""
        if event.kind == MULTICAST:
            packet = event.sender, event.seq
            self.sent_at[packet] = event.ts_ns
            self.waiting[packet] = self.others
        elif event.kind == DELIVER and event.pid != event.sender:
            packet = event.sender, event.seq
            left = self.waiting[packet] - 1
            if left:
                self.waiting[packet] = left
            else:
                del self.waiting[packet]
                self.latencies_ms.append((event.ts_ns - self.sent_at[packet]) / 1e6)

    def row(self) -> Row:
        """Latency of what reached all, and how many packets did not."""
        found = sorted(self.latencies_ms)
        return {
            "packets": len(self.sent_at),
            "unreliable": len(self.waiting),
            "latency_mean_ms": fmean(found) if found else None,
            "latency_std_ms": pstdev(found) if found else None,
            "latency_p50_ms": _quantile(found, 0.5),
            "latency_p99_ms": _quantile(found, 0.99),
        }


def _quantile(ordered: list[float], share: float) -> float | None:
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else None


class Overhead(NamedTuple):
    """What was sent besides packets and repairs."""

    datagrams: int
    bytes: int

    @classmethod
    def upto_now(cls, network: RoutedNetwork) -> "Overhead":
        """All of it so far."""
        sent = [sent for (_, kind), sent in network.traffic.items() if kind not in PACKETS]
        datagrams = sum(one.sends for one in sent)
        return cls(datagrams, sum(one.bytes for one in sent) - datagrams * UDP_IP_BYTES)

    def row(self, before: "Overhead", seconds: float, members: int) -> Row:
        """What came on top of `before`, in so many seconds."""
        bytes_per_s = (self.bytes - before.bytes) / seconds
        return {
            "overhead_bytes_per_s": bytes_per_s,
            "member_overhead_bytes_per_s": bytes_per_s / members,
            "overhead_datagrams_per_s": (self.datagrams - before.datagrams) / seconds,
        }


def load_row(network: RoutedNetwork) -> Row:
    """Repairs by node and bytes by link, of the whole run; links of the hub by themselves."""
    topology = network.topology
    repairs = [network.repairs[rank] for rank in range(network.size)]
    links = list(_links(network))
    hub = sum(
        size for cable, size in zip(topology.links, links, strict=True) if HUB in (cable.a, cable.b)
    )
    row: Row = {
        "repairs": sum(repairs),
        "load_max": max(repairs),
        "link_mean_mb": fmean(links),
        "link_max_mb": max(links),
        "hub_mb": hub,
        "dropped_queue": network.dropped["queue"],
    }
    if topology.nodes <= PROFILE_NODES_MAX:
        nodes = zip(topology.members, repairs, strict=True)
        row |= {f"load_{node}": count for node, count in nodes}
        row |= {f"link_{place}": size for place, size in enumerate(links)}
    return row


def _links(network: RoutedNetwork) -> Iterable[float]:
    """Megabytes over each link, both directions."""
    wires = network.directed_links
    for forth, back in zip(wires[::2], wires[1::2], strict=True):
        yield (forth.bytes + back.bytes) / 1e6
