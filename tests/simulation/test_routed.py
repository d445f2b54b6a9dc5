"""A routed network: paths, trees, queues, loss on links, the service limit of nodes."""

from dataclasses import dataclass
from itertools import pairwise

import pytest

from semcast.faults import Partition
from semcast.sim import routed_network
from semcast.sim.clock import VirtualClock
from semcast.sim.routed_network import LinkConditions, RoutedNetwork, Routes
from semcast.sim.topology import Topology, TopologyLink, tiers
from semcast.terms.errors import ConfigError
from semcast.terms.ids import EVERYONE

BYTE_S = 8 / 100e6


@dataclass(frozen=True)
class Parcel:
    name: str
    repairs: int = 0


@pytest.fixture(autouse=True)
def sizes(monkeypatch):
    """A parcel has as many bytes as make 1,000 with its headers."""
    monkeypatch.setattr(
        routed_network, "encode", lambda parcel: bytes(1000 - routed_network.UDP_IP_BYTES)
    )


class Run:
    """A network that notes what arrives: (rank, source, name, time)."""

    def __init__(self, topology, seed=1, **conditions):
        self.clock = VirtualClock()
        self.network = RoutedNetwork(
            topology, LinkConditions(**conditions), lambda rank, p: p.repairs
        )
        self.arrived = []
        receivers = [self._receiver(rank) for rank in range(self.network.size)]
        self.network.connect(self.clock, seed, receivers)

    def _receiver(self, rank):
        return lambda source, p: self.arrived.append((rank, source, p.name, self.clock.now))

    def send(self, source, rank, *parcels):
        to = EVERYONE if rank is EVERYONE else (rank,)
        self.network.send(source, [(to, parcel) for parcel in parcels])

    def times(self):
        return [time for *_, time in self.arrived]

    def wire(self, a, b):
        [found] = [w for w in self.network.directed_links if (w.source, w.target) == (a, b)]
        return found


def topology(nodes, members, *links):
    return Topology(nodes, members, tuple(TopologyLink(*link) for link in links))


# 0 is the hub; 3 and 4 stand behind router 1, 5 behind router 2.
STAR = topology(6, (3, 4, 5), (0, 1, 10), (0, 2, 20), (1, 3, 1), (1, 4, 2), (2, 5, 3))


def test_unicast_takes_the_shortest_path():
    triangle = topology(5, (3, 4), (0, 1, 1), (1, 2, 1), (0, 2, 5), (0, 3, 1), (2, 4, 1))
    run = Run(triangle)
    run.send(0, 1, Parcel("a"))
    run.clock.run(1)
    assert run.arrived == [(1, 0, "a", pytest.approx(0.004 + 4 * 1000 * BYTE_S))]
    assert run.wire(0, 2).packets == 0
    assert run.wire(0, 1).packets == run.wire(1, 2).packets == 1


def test_multicast_crosses_each_link_of_the_tree_once():
    run = Run(STAR)
    run.send(0, EVERYONE, Parcel("a"))
    run.clock.run(1)
    assert {(rank, name) for rank, _, name, _ in run.arrived} == {(1, "a"), (2, "a")}
    used = {(w.source, w.target): w.packets for w in run.network.directed_links if w.packets}
    assert used == {(3, 1): 1, (1, 4): 1, (1, 0): 1, (0, 2): 1, (2, 5): 1}
    assert run.wire(1, 0).bytes == 1000


@pytest.mark.parametrize("source", range(18))
def test_multicast_arrives_when_unicast_would(source):
    run = Run(tiers())
    run.send(source, EVERYONE, Parcel("a"))
    run.clock.run(1)
    arrived = {rank: time for rank, _, _, time in run.arrived}
    assert set(arrived) == set(range(18)) - {source}
    for rank, time in arrived.items():
        start = run.clock.now
        run.send(source, rank, Parcel("b"))
        run.clock.run(start + 1)
        assert run.arrived[-1] == (rank, source, "b", pytest.approx(start + time))


def test_two_members_on_one_link():
    run = Run(topology(2, (0, 1), (0, 1, 1)))
    run.send(0, EVERYONE, Parcel("a"))
    run.send(1, 0, Parcel("b"))
    run.clock.run(1)
    assert [(rank, name) for rank, _, name, _ in run.arrived] == [(1, "a"), (0, "b")]


def test_a_member_that_routes_forwards_and_receives():
    run = Run(topology(3, (0, 1, 2), (0, 1, 1), (1, 2, 1)))
    run.send(0, EVERYONE, Parcel("a"))
    run.send(1, EVERYONE, Parcel("b"))
    run.clock.run(1)
    heard = {(rank, name) for rank, _, name, _ in run.arrived}
    assert heard == {(1, "a"), (2, "a"), (0, "b"), (2, "b")}


def test_a_link_sends_one_after_the_other_and_drops_beyond_its_queue():
    run = Run(STAR, queue_packets=50)
    run.send(0, 1, *(Parcel(str(n)) for n in range(60)))
    run.clock.run(1)
    assert [name for _, _, name, _ in run.arrived] == [str(n) for n in range(51)]
    assert run.network.dropped["queue"] == 9
    assert all(b - a == pytest.approx(1000 * BYTE_S) for a, b in pairwise(run.times()))


def test_directions_of_a_link_do_not_hinder_each_other():
    run = Run(topology(2, (0, 1), (0, 1, 1)))
    run.send(0, 1, Parcel("a"))
    run.send(1, 0, Parcel("b"))
    run.clock.run(1)
    assert run.times()[0] == run.times()[1]


def test_a_loss_near_the_source_is_a_loss_for_all_behind():
    run = Run(STAR, loss=0.3, seed=5)
    for n in range(2000):
        run.send(2, EVERYONE, Parcel(str(n)))
        run.clock.run(run.clock.now + 0.1)
    got = [{name for rank, _, name, _ in run.arrived if rank == r} for r in (0, 1)]
    whole = 0.7**3  # 5-2-0-1, then a link of one's own
    assert len(got[0] | got[1]) / 2000 == pytest.approx(whole * (1 - 0.3**2), abs=0.03)
    assert len(got[0] & got[1]) / 2000 == pytest.approx(whole * 0.7**2, abs=0.03)


def test_repairs_leave_in_order_at_the_service_limit_and_nothing_else_waits():
    run = Run(STAR, repairs_per_s=100)
    run.send(0, 1, *(Parcel(f"repair {n}", 1) for n in range(3)), Parcel("bundle", 2), Parcel("x"))
    run.clock.run(1)
    assert [name for _, _, name, _ in run.arrived] == [
        "x", "repair 0", "repair 1", "repair 2", "bundle",
    ]  # fmt: skip
    first, second, third, bundle = run.times()[1:]
    assert second - first == pytest.approx(0.01, abs=1e-3)
    assert third - second == pytest.approx(0.01)
    assert bundle - third == pytest.approx(0.02)
    assert run.network.repairs == {0: 5}


def test_an_idle_node_serves_at_once():
    run = Run(STAR, repairs_per_s=1)
    run.clock.run(5)
    run.send(0, 1, Parcel("repair", 1))
    run.clock.run(6)
    assert run.times() == [pytest.approx(5.003, abs=1e-3)]


def test_traffic_is_counted_by_source_and_type():
    run = Run(STAR)
    run.send(0, EVERYONE, Parcel("a"))
    run.send(0, 1, Parcel("b"))
    traffic = run.network.traffic[0, "Parcel"]
    assert (traffic.sends, traffic.copies, traffic.bytes) == (2, 3, 2000)


def test_cuts_and_loss_end_with_heal():
    lossy, split = Run(STAR, loss=1.0), Run(STAR)
    split.network.cut([Partition(0.0, 9.0, ((0,), (1, 2)))])
    for run, why in ((lossy, "loss"), (split, "cut")):
        run.send(0, 1, Parcel("gone"))
        run.clock.run(1)
        assert run.network.dropped == {why: 1}
        run.network.heal()
        run.send(0, 1, Parcel("through"))
        run.clock.run(2)
        assert [name for _, _, name, _ in run.arrived] == ["through"]


def test_the_same_seed_loses_the_same():
    def heard(seed):
        run = Run(tiers(), loss=0.1, seed=seed)
        for n in range(50):
            run.send(n % 18, EVERYONE, Parcel(str(n)))
        run.clock.run(1)
        return run.arrived

    assert heard(1) == heard(1) != heard(2)


def test_routes_of_a_large_group_are_kept_for_routers_only():
    routes = Routes(tiers(1000))
    for member in tiers(1000).members[::7]:
        routes.tree(member)
    assert len(routes._trees) <= 64


@pytest.mark.parametrize(
    ("conditions", "message"),
    [
        ({"loss": 1.5}, "loss: 1.5 is not within 0..1"),
        ({"bandwidth_bps": 0}, "bandwidth_bps: 0 is not a finite number above 0"),
        ({"queue_packets": -1}, "queue_packets: -1 is not"),
        ({"repairs_per_s": 0}, "repairs_per_s: 0 is not a finite number above 0"),
    ],
)
def test_impossible_conditions_are_refused(conditions, message):
    with pytest.raises(ConfigError) as refusal:
        Run(STAR, **conditions)
    assert message in str(refusal.value)
