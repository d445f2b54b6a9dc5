"""What becomes of every datagram of a seed: on a link alone and in the simulated network."""

from collections import Counter
from random import Random

import pytest

from semcast.faults import (
    UDP_IP_BYTES,
    Constant,
    Exponential,
    Link,
    Links,
    LinkState,
    OneWayCut,
    Partition,
    Uniform,
)
from semcast.sim import Network, VirtualClock
from semcast.terms.messages import Data, DataMessage
from semcast.wire import encode

LINKS = {
    "plain": Link(),
    "loss": Link(loss=0.2),
    "duplicates": Link(duplicate=0.2, latency=Uniform(0.001, 0.02)),
    "reordering": Link(reorder=0.3, reorder_s=0.5),
    "bandwidth": Link(bandwidth_bps=8e6, queue_bytes=3000),
    "everything": Link(
        latency=Exponential(0.01),
        loss=0.1,
        duplicate=0.1,
        reorder=0.1,
        bandwidth_bps=8e6,
        queue_bytes=3000,
    ),
}
SIZES = list(enumerate([100, 900, 10, 400] * 100, start=1))
GAP_S = 0.0003
SENDS = [(number * GAP_S, Data((DataMessage(0, number, payload=bytes(b)),))) for number, b in SIZES]
PINNED = {
    "plain": (24.46, {}),
    "loss": (19.7259, {"loss": 79}),
    "duplicates": (33.55231588788194, {}),
    "reordering": (56.62279405486292, {}),
    "bandwidth": (16.17228, {"queue": 132}),
    "everything": (17.51894333473493, {"loss": 33, "queue": 132}),
}


@pytest.mark.parametrize("name", LINKS)
def test_the_draws_of_a_seed_never_move(name):
    """Sums of all arrivals, recorded once: another order of draws would change them."""
    state, dropped = LinkState(LINKS[name], Random("7/network/0/1")), Counter()
    total = sum(sum(state.transmit(size, number * GAP_S, dropped)) for number, size in SIZES)
    assert (pytest.approx(total), dropped) == PINNED[name]


@pytest.mark.parametrize("link", LINKS.values(), ids=LINKS)
def test_same_seed_same_fate_as_in_the_simulator(link):
    clock, network = VirtualClock(), Network(2, link)
    simulated: list[tuple[float, int]] = []
    network.connect(
        clock, 7, [None, lambda _, data: simulated.append((clock.now, data.messages[0].seq))]
    )
    for when, data in SENDS:
        clock.at(when, network.send, (0, [((1,), data)]))
    clock.run(99.0)

    state, dropped = LinkState(link, Random("7/network/0/1")), Counter()
    carried = [
        (arrives, data.messages[0].seq)
        for when, data in SENDS
        for arrives in state.transmit(len(encode(data)) + UDP_IP_BYTES, when, dropped)
    ]
    assert sorted(carried) == sorted(simulated)
    assert dropped == network.dropped


def test_healing_ends_the_faults_and_keeps_what_a_network_is():
    faulty = Link(latency=Constant(0.5), loss=0.5, duplicate=0.5, reorder=0.5, bandwidth_bps=8.0)
    state, dropped = LinkState(faulty, Random(1)), Counter()
    state.transmit(1, 0.0, dropped)
    state.use(faulty.without_faults())
    assert [state.transmit(1, 0.0, dropped) for _ in range(3)] == [(2.5,), (3.5,), (4.5,)]


def test_a_cut_holds_from_its_start_until_its_end_and_never_after_healing():
    links, dropped = Links(3, Link(latency=Constant(0.5), loss=1.0)), Counter()
    links.draw_from(1)
    cuts = [Partition(1.0, 3.0, ((0,),)), OneWayCut(2.0, 4.0, source=1, destination=2)]
    assert links.cut(cuts) == [1.0, 3.0, 2.0, 4.0]

    def cut_at(now):
        links.reroute(now)
        return {(source, destination) for source, destination, state in links if state.is_cut}

    partition = {(0, 1), (0, 2), (1, 0), (2, 0)}
    assert cut_at(0.9) == set()
    assert cut_at(1.0) == partition
    assert cut_at(2.0) == {*partition, (1, 2)}
    assert cut_at(3.0) == {(1, 2)}
    assert links.rows[1][2].transmit(1, 3.0, dropped) == ()
    assert dropped == {"cut": 1}
    links.heal()
    assert cut_at(3.0) == set()
    assert links.rows[1][2].transmit(1, 3.0, dropped) == (3.5,)
