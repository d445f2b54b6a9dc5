"""A passage and the modelled network agree on every datagram of a seed."""

from collections import Counter
from random import Random

import pytest

from semcast.faults import Constant, Exponential, Link, Passage, Uniform
from semcast.sim import Clock, Network
from semcast.sim.network import UDP_IP_BYTES
from semcast.terms.messages import Data, Message
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
SENDS = [
    (number * 0.0003, Data((Message(0, number, payload=bytes(size)),)))
    for number, size in enumerate([100, 900, 10, 400] * 100, start=1)
]


@pytest.mark.parametrize("link", LINKS.values(), ids=LINKS)
def test_same_seed_same_fate_as_in_the_simulator(link):
    clock, network = Clock(), Network(2, link)
    simulated: list[tuple[float, int]] = []
    network.connect(
        clock, 7, [None, lambda _, data: simulated.append((clock.now, data.messages[0].seq))]
    )
    for when, data in SENDS:
        clock.at(when, network.send, (0, [(1, data)]))
    clock.run(99.0)

    passage, dropped = Passage(link, Random("7/network/0/1")), Counter()
    carried = [
        (arrives, data.messages[0].seq)
        for when, data in SENDS
        for arrives in passage.carry(len(encode(data)) + UDP_IP_BYTES, when, dropped)
    ]
    assert sorted(carried) == sorted(simulated)
    assert dropped == network.dropped


def test_healing_ends_the_faults_and_keeps_what_a_network_is():
    faulty = Link(latency=Constant(0.5), loss=0.5, duplicate=0.5, reorder=0.5, bandwidth_bps=8.0)
    passage, dropped = Passage(faulty, Random(1)), Counter()
    passage.carry(1, 0.0, dropped)
    passage.heal()
    assert [passage.carry(1, 0.0, dropped) for _ in range(3)] == [[2.5], [3.5], [4.5]]
