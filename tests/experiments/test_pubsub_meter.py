"""What EXP-9 measures, by hand."""

import pytest

from semcast.experiments.pubsub_meter import Overhead, PacketReach, load_row, repairs_in
from semcast.sim.clock import VirtualClock
from semcast.sim.routed_network import LinkConditions, RoutedNetwork
from semcast.sim.topology import tiers
from semcast.terms.events import DELIVER, MULTICAST, RECEIVE, Event
from semcast.terms.ids import EVERYONE
from semcast.terms.messages import DataMessage
from semcast.terms.pubsub import Publication, PublisherHeartbeat, Repair, RepairRequest

MS = 1_000_000
PACKET = DataMessage(2, 1, payload=bytes(1000))


def happen(reach, kind, pid, seq, at_ms):
    reach.on_event(Event(kind, pid, 0, seq, ts_ns=at_ms * MS))


def test_latency_counts_until_the_last_member_has_it():
    reach = PacketReach(3)
    happen(reach, MULTICAST, 0, 1, 10)
    happen(reach, DELIVER, 0, 1, 10)  # its own
    happen(reach, DELIVER, 1, 1, 15)
    happen(reach, RECEIVE, 2, 1, 16)
    assert reach.row()["latency_mean_ms"] is None
    happen(reach, DELIVER, 2, 1, 40)
    happen(reach, MULTICAST, 0, 2, 50)
    happen(reach, DELIVER, 2, 2, 55)
    happen(reach, MULTICAST, 0, 3, 60)
    happen(reach, DELIVER, 2, 3, 65)
    happen(reach, DELIVER, 1, 3, 70)
    row = reach.row()
    assert (row["packets"], row["unreliable"]) == (3, 1)
    assert row["latency_mean_ms"] == (30 + 10) / 2
    assert row["latency_std_ms"] == 10
    assert (row["latency_p50_ms"], row["latency_p99_ms"]) == (30, 30)


@pytest.mark.parametrize(
    ("audience", "datagram", "repairs"),
    [
        (EVERYONE, Publication((PACKET,)), 0),
        ((3,), Publication((PACKET,)), 1),
        ((3,), Repair((PACKET, PACKET)), 2),
        (EVERYONE, Repair((PACKET,)), 1),
        ((3,), RepairRequest(()), 0),
    ],
)
def test_what_is_sent_again_is_a_repair(audience, datagram, repairs):
    assert repairs_in(audience, datagram) == repairs


def test_overhead_is_neither_packet_nor_repair_and_load_is_repairs():
    network = RoutedNetwork(tiers(), LinkConditions(), repairs_in)
    clock = VirtualClock()
    network.connect(clock, 1, [lambda source, datagram: None] * 18)
    network.send(2, [(EVERYONE, Publication((PACKET,))), ((5,), Repair((PACKET,)))])
    before = Overhead.upto_now(network)
    assert before == (0, 0)
    network.send(2, [(EVERYONE, PublisherHeartbeat(2, 1)), ((5,), RepairRequest(()))])
    clock.run(1)
    row = Overhead.upto_now(network).row(before, 2.0, 18)
    assert row["overhead_datagrams_per_s"] == 1
    assert 3 < row["overhead_bytes_per_s"] < 10
    assert row["member_overhead_bytes_per_s"] == row["overhead_bytes_per_s"] / 18
    load = load_row(network)
    assert load["load_14"] == load["load_max"] == load["repairs"] == 1
    assert load["load_12"] == 0
    assert load["link_13"] > load["link_12"] > 0, "the link of node 14 carried the repair, too"
    assert load["hub_mb"] == pytest.approx(sum(load[f"link_{n}"] for n in range(3)))


def test_large_networks_tell_sums_only():
    network = RoutedNetwork(tiers(200), LinkConditions(), repairs_in)
    assert not [key for key in load_row(network) if key.startswith("load_1")]
