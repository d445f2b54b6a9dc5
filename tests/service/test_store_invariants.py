"""Invariants of the servers at every step of simulated runs, looked up inside them [VSD fig. 8]."""

import pytest

from semcast.families.store.scenarios import SCENARIOS
from semcast.sim import run as carrying_out
from semcast.sim.swarm import draw, mutated

SEEDS = range(200, 212)


def watched(case, check, monkeypatch):
    """Carry out a case; `check` gets the replicas of the servers that are up, after each event."""
    simulations = []
    original = carrying_out.simulate

    def simulate(*args):
        simulations.append(original(*args))
        return simulations[-1]

    monkeypatch.setattr(carrying_out, "simulate", simulate)

    def look(event):
        if simulations:
            servers = simulations[0].processes[: case.more.servers]
            check([each.machine.replica for each in servers if each.is_up])

    return carrying_out.run(case, look)


def check(replicas):
    for one in replicas:
        assert one.executed <= one.safe <= one.log.length, one  # I1
        assert one.log.base <= one.safe, one
    for one in replicas:
        for other in replicas:
            agree(one, other)


def agree(one, other):
    """I2, and more: what is safe at both is the same."""
    index = min(one.safe, other.safe)
    if index < max(one.log.base, other.log.base):
        return  # Somebody has dropped it.
    assert one.log.boundary(index)[0] == other.log.boundary(index)[0] or is_inside(one, other)
    if one.log.boundary(index) == (index, one.log.boundary(index)[1]):
        assert one.log.boundary(index) == other.log.boundary(index), (one, other)


def is_inside(one, other):
    """The place is inside a batch, or at the end of one of the histories."""
    return min(one.log.length, other.log.length) <= min(one.safe, other.safe)


@pytest.mark.parametrize("seed", SEEDS)
def test_invariants_hold_at_every_step(seed, monkeypatch):
    assert not watched(draw("replicated-data", seed), check, monkeypatch).violations


def test_they_hold_while_components_part_and_merge(monkeypatch):
    assert not watched(SCENARIOS["parted-and-merged"], check, monkeypatch).violations


def test_a_longer_history_of_a_lower_level_does_not_win(monkeypatch):
    """If it did, what was safe would be dropped; the invariants notice."""
    with mutated("longer-log-wins"), pytest.raises(AssertionError):
        watched(SCENARIOS["long-minority"], check, monkeypatch)
