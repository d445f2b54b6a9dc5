"""Claims of "Semantically Reliable Broadcast", each quoted by section."""

from collections.abc import Iterator, Sequence
from itertools import count, repeat

import pytest

from semcast.core.member import Member
from semcast.core.recipe import Recipe
from semcast.faults import Constant, Failpoint, FailpointCrash, Fault, Link, OneWayCut
from semcast.sim.application import Consumer, Producer
from semcast.sim.clock import rng_stream
from semcast.sim.network import Network
from semcast.sim.simulation import Simulation, once
from semcast.specs.monitors import Monitors
from semcast.terms.effects import Effects
from semcast.terms.events import Event
from semcast.terms.messages import Data, Update, WindowEmpty

A, B = 1, 2


def simulate(
    recipe: Recipe,
    updates: Iterator[Update],
    *,
    until: float,
    rate: float = 100.0,
    faults: Sequence[Fault] = (),
    slow: dict[int, float] | None = None,
) -> tuple[list[Event], Monitors]:
    """One sender, rank 0, over links of one millisecond."""
    monitors = Monitors(recipe.protocol, recipe.order, recipe.relation, recipe.f, recipe.members)
    simulation = Simulation(
        once(
            [Member(recipe, rank, rng_stream(1, "member", rank)) for rank in range(recipe.members)]
        ),
        Network(recipe.members, Link(latency=Constant(0.001))),
        seed=1,
        producers={0: Producer(repeat(1 / rate), updates)},
        consumers={pid: Consumer(service, 1) for pid, service in (slow or {}).items()},
        faults=faults,
        recording=True,
        observers=[monitors.on_event],
    )
    simulation.run(until)
    return simulation.trace, monitors


def delivered(trace: list[Event], pid: int) -> list[int]:
    return [event.seq for event in trace if event.kind == "deliver" and event.pid == pid]


def endless_chain() -> Iterator[Update]:
    """m1 and m2 are unrelated; m1 ⊏ m3 ⊏ m4 ⊏ … never ends."""
    yield Update(item=A)
    yield Update()
    for _ in count():
        yield Update(item=A)


def test_nobody_waits_for_ever_behind_an_endless_chain() -> None:
    """§2.2: "since m_i belongs to an infinite sequence, it may never arrive at q. Therefore, the
    protocol must incorporate some mechanism to ensure that q is informed about the purging"."""
    recipe = Recipe(members=3, f=1, buffer=4, congested_at=0.0)
    cut = OneWayCut(0.0, 0.5, 0, 1)  # q = 1 hears nothing of m1 and m2 while the chain grows
    trace, monitors = simulate(recipe, endless_chain(), until=1.0, faults=[cut])
    skipped = [e for e in trace if e.kind == "skip" and e.pid == 1 and e.seq == 1]
    assert skipped, "m1 was purged, and q was told so"
    assert 2 in delivered(trace, 1), "m2 was delivered although the chain goes on"
    assert not monitors.violations


@pytest.mark.parametrize("keep", [0.0, 0.5, 1.0])
def test_what_is_purged_for_is_safe_before_the_purger_crashes(keep: float) -> None:
    """§2.2: "m1 was purged before ensuring the delivery of m3. […] violation of FIFO Completeness
    could be avoided if purging of m1 was delayed until m3 was known to be safe"."""
    recipe = Recipe(members=3, f=1, buffer=4, congested_at=0.0)
    faults = [
        OneWayCut(0.0, 1.0, 0, 1),
        FailpointCrash(Failpoint(0, "purge", "retransmission", 1, keep), announced_after_s=0.05),
    ]
    trace, monitors = simulate(recipe, endless_chain(), until=3.0, faults=faults)
    assert any(event.kind == "crash" for event in trace)
    monitors.on_end(frozenset({1, 2}), complete=True)
    assert not monitors.violations


def test_at_most_f_votes_make_nothing_safe() -> None:
    """§2.2: "guaranteed to be eventually delivered as soon as it has been received by f+1"."""
    recipe = Recipe(members=3, f=1, buffer=8, congested_at=0.0)
    cuts = [OneWayCut(0.0, 2.0, 0, 1), OneWayCut(0.0, 2.0, 0, 2)]  # the sender alone has anything
    trace, _ = simulate(recipe, endless_chain(), until=1.0, faults=cuts)
    assert not [e for e in trace if e.kind == "purge" and e.note == "retransmission"]
    assert len([e for e in trace if e.kind == "multicast"]) == 8, "and the buffer is full"


def test_an_empty_window_is_told() -> None:
    """§2.5: "if there are no further messages to send, a message indicating that the window is
    empty needs to be explicitly sent"."""
    recipe = Recipe(members=2)
    sender, receiver = (Member(recipe, rank, rng_stream(1, rank)) for rank in range(2))
    out = Effects(recording=False)
    sender.submit([Update(payload=b"lost")], 0.0, out)
    out.send.clear()  # the only datagram is lost, and nothing follows it
    sender.on_time(1.0, out)
    (notice,) = [d for _, d in out.send if isinstance(d, WindowEmpty)]
    asks, repair = Effects(recording=False), Effects(recording=False)
    receiver.on_datagrams(0, (notice,), 1.0, asks)
    receiver.on_time(1.1, asks)
    ((_, nack),) = [(to, d) for to, d in asks.send if type(d).__name__ == "Nack"]
    sender.on_datagrams(1, (nack,), 1.1, repair)
    data = [d for _, d in repair.send if isinstance(d, Data)]
    assert [m.payload for d in data for m in d.messages] == [b"lost"]


def test_a_message_crosses_the_network_once() -> None:
    """§2.5: "Using both optimizations simultaneously, a message can be transmitted only once"."""
    recipe = Recipe(members=5)
    network = Network(5, Link(latency=Constant(0.001)), accounting=True)
    simulation = Simulation(
        once([Member(recipe, rank, rng_stream(1, rank)) for rank in range(5)]),
        network,
        seed=1,
        producers={0: Producer(repeat(0.01), endless_chain(), count_max=100)},
    )
    simulation.run(3.0)
    data = {
        pid: traffic.sends for (pid, kind), traffic in network.traffic.items() if kind == "Data"
    }
    assert data == {0: 100}


def test_the_state_of_survivors_is_a_state_of_the_sender() -> None:
    """§3.1: "the state is the same as the state of the sender at the moment in time when it
    broadcast the last message delivered"."""
    recipe = Recipe(members=4, f=1, buffer=8, congested_at=0.0)
    rng = rng_stream(7, "items")
    sent: list[tuple[int, int]] = []

    def updates() -> Iterator[Update]:
        for value in count():
            sent.append((rng.randrange(5), value))
            yield Update(item=sent[-1][0], payload=value.to_bytes(4, "big"))

    trace, _ = simulate(
        recipe,
        updates(),
        rate=300.0,
        until=4.0,
        slow={3: 0.01},
        faults=[FailpointCrash(Failpoint(0, "multicast", None, 150, 0.4), announced_after_s=0.1)],
    )
    for pid in (1, 2, 3):
        got = [e for e in trace if e.kind == "deliver" and e.pid == pid]
        state = {e.message.item: e.message.payload for e in got if e.message}
        last = got[-1].seq
        expected = {item: value.to_bytes(4, "big") for item, value in sent[:last]}
        assert state == expected
    assert len(delivered(trace, 3)) < len(delivered(trace, 1)), "the slow one was spared some"
