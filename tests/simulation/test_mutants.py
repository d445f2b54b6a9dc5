"""Every deliberately broken protocol is caught: by its scenario, and by the swarm."""

import pytest

from semcast.core.member_buffers import MemberBuffers
from semcast.sim.run import run
from semcast.sim.swarm import mutants, mutated, run_seed, scenarios
from semcast.terms.errors import ConfigError

CANARY = "canary"
MUTANTS = mutants()
SEEDS_MAX = 300


def test_the_canary_dies() -> None:
    """If this passes for a protocol that drops messages, the net has a hole."""
    assert run_seed("s-rm", CANARY, 3).violations
    assert not run_seed("s-rm", None, 3).violations


def test_there_are_enough_of_them() -> None:
    assert len(MUTANTS) - 1 >= 12
    assert {mutant.scenario for mutant in MUTANTS.values()} <= scenarios().keys()


@pytest.mark.parametrize("name", MUTANTS)
def test_its_scenario_catches_it(name: str) -> None:
    """By a property, not by falling over."""
    with mutated(name):
        outcome = run(scenarios()[MUTANTS[name].scenario])
    assert outcome.violations


@pytest.mark.parametrize("name", MUTANTS)
def test_seeds_with_failpoints_catch_it(name: str) -> None:
    failpoints = range(1, 2 * SEEDS_MAX, 2)  # the odd seeds crash members inside handlers
    protocol = MUTANTS[name].protocol
    assert any(run_seed(protocol, name, seed).violations for seed in failpoints)


def test_a_mutant_lasts_for_one_run() -> None:
    original = MemberBuffers._deliver
    with mutated(CANARY):
        assert MemberBuffers._deliver is not original
    assert MemberBuffers._deliver is original


def test_an_unknown_mutant_is_a_clear_error() -> None:
    with (
        pytest.raises(ConfigError, match="mutant: unknown value 'x'; allowed: canary, "),
        mutated("x"),
    ):
        pass
