"""The modelled network on its own: no members, only a clock and ears."""

import pytest

from semcast.faults import UDP_IP_BYTES, Constant, Exponential, Link, OneWayCut, Partition, Uniform
from semcast.sim import Network, VirtualClock
from semcast.sim import network as network_module
from semcast.terms.errors import ConfigError, LocalProtocolError
from semcast.terms.ids import EVERYONE
from semcast.terms.messages import Data, Datagram, DataMessage, Excluded, Nack
from semcast.wire import GROUP_CODEC, encode

BIG = Data((DataMessage(0, 1, payload=b"x" * 1000),))
BIG_BYTES = len(encode(BIG)) + UDP_IP_BYTES
SMALL = Excluded(1)


class Ears:
    """Hears everything that arrives anywhere."""

    def __init__(self, network: Network, seed: int = 1) -> None:
        self.clock = VirtualClock()
        self.heard: list[tuple[float, int, int, Datagram]] = []
        self.network = network
        network.connect(self.clock, seed, [self.ear(rank) for rank in range(network.size)])

    def ear(self, rank: int):
        return lambda source, datagram: self.heard.append((self.clock.now, source, rank, datagram))

    def send(self, source: int, rank: int, datagram: Datagram, times: int = 1) -> None:
        to = EVERYONE if rank is EVERYONE else (rank,)
        self.network.send(source, [(to, datagram)] * times)

    def times(self, destination: int) -> list[float]:
        return [when for when, _, rank, _ in self.heard if rank == destination]


def test_a_multicast_reaches_everyone_but_its_sender():
    ears = Ears(Network(4, Link(latency=Constant(0.5))))
    ears.send(1, EVERYONE, SMALL)
    ears.clock.run(1.0)
    assert ears.heard == [(0.5, 1, 0, SMALL), (0.5, 1, 2, SMALL), (0.5, 1, 3, SMALL)]


def test_nobody_sends_to_itself_or_to_a_stranger():
    ears = Ears(Network(3))
    for rank in (0, 3, -2):
        with pytest.raises(KeyError):
            ears.send(0, rank, SMALL)


def test_the_most_specific_link_wins():
    ears = Ears(
        Network(
            3,
            Link(latency=Constant(1.0)),
            links_into={2: Link(latency=Constant(2.0))},
            links={(0, 2): Link(latency=Constant(3.0))},
        )
    )
    for source, destination in ((0, 1), (1, 2), (0, 2)):
        ears.send(source, destination, SMALL)
    ears.clock.run(9.0)
    assert [(when, s, d) for when, s, d, _ in ears.heard] == [(1, 0, 1), (2, 1, 2), (3, 0, 2)]


@pytest.mark.parametrize(
    "where", [{"links": {(0, 0): Link()}}, {"links": {(0, 3): Link()}}, {"links_into": {3: Link()}}]
)
def test_an_override_of_no_link_is_refused(where):
    with pytest.raises(ConfigError, match="below 3"):
        Network(3, **where)


def test_bandwidth_spaces_datagrams_by_their_wire_size():
    bandwidth = 8e6  # one byte per microsecond
    ears = Ears(Network(3, Link(latency=Constant(0.1), bandwidth_bps=bandwidth)))
    ears.send(0, 1, BIG, times=3)
    ears.send(2, 1, BIG)  # a link of its own
    ears.clock.run(1.0)
    one = BIG_BYTES * 1e-6
    assert ears.times(1) == pytest.approx([0.1 + one, 0.1 + one, 0.1 + 2 * one, 0.1 + 3 * one])


def test_aggregate_bandwidth_is_shared_by_all_links_into_a_node():
    link = Link(latency=Constant(0.0), bandwidth_bps=8e6)
    ears = Ears(Network(3, Link(latency=Constant(0.0)), links_into={1: link}, aggregate=True))
    for source in (0, 2):
        ears.send(source, 1, BIG, times=2)
    ears.send(0, 2, BIG)
    ears.clock.run(1.0)
    one = BIG_BYTES * 1e-6
    assert ears.times(1) == pytest.approx([one, 2 * one, 3 * one, 4 * one])
    assert ears.times(2) == [0.0]


def test_a_full_queue_drops():
    ears = Ears(Network(2, Link(bandwidth_bps=8e6, queue_bytes=2 * BIG_BYTES)))
    ears.send(0, 1, BIG, times=10)
    ears.clock.run(1.0)
    assert len(ears.heard) == 3  # one on the wire and two behind it
    assert ears.network.dropped == {"queue": 7}


def test_loss_and_duplication_happen_as_often_as_stated():
    ears = Ears(Network(2, Link(loss=0.2, duplicate=0.1)))
    ears.send(0, 1, SMALL, times=20_000)
    ears.clock.run(1.0)
    assert ears.network.dropped["loss"] == pytest.approx(4_000, abs=5 * 57)
    survivors = 20_000 - ears.network.dropped["loss"]
    assert len(ears.heard) - survivors == pytest.approx(1_600, abs=5 * 38)


def test_reordering_holds_back_the_stated_share_and_no_longer_than_stated():
    ears = Ears(Network(2, Link(latency=Constant(1.0), reorder=0.25, reorder_s=0.5)))
    ears.send(0, 1, SMALL, times=10_000)
    ears.clock.run(9.0)
    late = [when for when in ears.times(1) if when > 1.0]
    assert len(late) == pytest.approx(2_500, abs=5 * 43)
    assert 1.0 < min(late) < 1.01
    assert 1.49 < max(late) <= 1.5


def test_a_fault_on_one_link_shifts_no_draw_of_another():
    def times(network: Network) -> list[float]:
        ears = Ears(network, seed=5)
        ears.send(0, EVERYONE, SMALL, times=50)
        ears.clock.run(99.0)
        return ears.times(2)

    default = Link(latency=Exponential(0.1))
    lossy = {(0, 1): Link(latency=Uniform(0.0, 1.0), loss=0.5)}
    assert times(Network(3, default)) == times(Network(3, default, links=lossy))


def test_links_lose_independently():
    ears = Ears(Network(3, Link(loss=0.5)))
    for i in range(200):
        ears.send(0, EVERYONE, Excluded(i))
    ears.clock.run(1.0)
    got = [{d.member for _, _, rank, d in ears.heard if rank == who} for who in (1, 2)]
    assert len(got[0] & got[1]) == pytest.approx(50, abs=30)


def test_a_partition_drops_what_is_sent_during_it():
    ears = Ears(Network(3, Link(latency=Constant(0.5))))
    ears.network.cut([Partition(1.0, 2.0, ((0,), (1, 2)))])
    for when in (0.75, 1.0, 1.5, 2.0):
        ears.clock.at(when, ears.send, (0, 1, SMALL))
        ears.clock.at(when, ears.send, (2, 1, SMALL))
    ears.clock.run(5.0)
    from_0 = [when for when, source, _, _ in ears.heard if source == 0]
    from_2 = [when for when, source, _, _ in ears.heard if source == 2]
    assert from_0 == [1.25, 2.5]  # the first was on its way when the cut began
    assert from_2 == [1.25, 1.5, 2.0, 2.5]
    assert ears.network.dropped == {"cut": 2}


def test_overlapping_cuts_end_one_by_one():
    ears = Ears(Network(2, Link(latency=Constant(0.0))))
    ears.network.cut([Partition(0.0, 2.0, ((0,),)), OneWayCut(1.0, 3.0, source=0, destination=1)])
    for when in (2.5, 3.5):
        ears.clock.at(when, ears.send, (0, 1, SMALL))
        ears.clock.at(when, ears.send, (1, 0, SMALL))
    ears.clock.run(5.0)
    assert [(when, source) for when, source, _, _ in ears.heard] == [(2.5, 1), (3.5, 0), (3.5, 1)]


def test_healing_ends_every_fault():
    ears = Ears(Network(2, Link(latency=Constant(0.5), loss=1.0)))
    ears.network.cut([Partition(0.0, 9.0, ((0,),)), Partition(2.0, 9.0, ((0,),))])
    ears.clock.run(1.0)
    ears.network.heal()
    ears.clock.at(3.0, ears.send, (0, 1, SMALL))
    ears.clock.run(4.0)
    assert ears.times(1) == [3.5]


def test_by_default_the_very_object_travels_and_nothing_is_encoded(monkeypatch):
    monkeypatch.setattr(network_module, "encode", None)
    ears = Ears(Network(2))
    ears.send(0, 1, BIG)
    ears.clock.run(1.0)
    assert ears.heard[0][3] is BIG


def test_through_bytes_an_equal_datagram_arrives():
    ears = Ears(Network(2, through_bytes=GROUP_CODEC))
    ears.send(0, 1, BIG)
    ears.clock.run(1.0)
    assert ears.heard[0][3] == BIG
    assert ears.heard[0][3] is not BIG


def test_a_datagram_that_changes_on_its_way_is_caught():
    payload = bytearray(b"before")
    for change in (False, True):
        ears = Ears(Network(2, fingerprint=True))
        ears.send(0, 1, Data((DataMessage(0, 1, payload=payload),)))  # type: ignore[arg-type]
        if change:
            payload[:] = b"after!"
            with pytest.raises(LocalProtocolError, match="Data of 0 changed between send"):
                ears.clock.run(1.0)
        else:
            ears.clock.run(1.0)
            assert len(ears.heard) == 1


def test_one_datagram_to_many_ranks_is_encoded_once(monkeypatch):
    calls = []
    monkeypatch.setattr(network_module, "encode", lambda d: calls.append(d) or encode(d))
    ears = Ears(Network(4, accounting=True))
    ears.network.send(0, [((1, 2), BIG), (EVERYONE, SMALL)])
    assert calls == [BIG, SMALL]


def test_traffic_is_counted_per_sender_and_type():
    ears = Ears(Network(4, Link(loss=1.0), accounting=True))
    nack = Nack(0, ((1, 2),), 2, 1)
    ears.network.send(0, [(EVERYONE, BIG), ((1,), BIG), ((2,), nack)])
    ears.network.send(3, [((0,), nack)])
    nack_bytes = len(encode(nack)) + UDP_IP_BYTES
    counted = {
        key: (t.sends, t.copies, t.bytes, t.copied_bytes) for key, t in ears.network.traffic.items()
    }
    assert counted == {
        (0, "Data"): (2, 4, 2 * BIG_BYTES, 4 * BIG_BYTES),
        (0, "Nack"): (1, 1, nack_bytes, nack_bytes),
        (3, "Nack"): (1, 1, nack_bytes, nack_bytes),
    }
