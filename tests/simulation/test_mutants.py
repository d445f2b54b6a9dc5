"""Every deliberately broken protocol is caught: by its scenario, and by the swarm."""

import json
import os
from pathlib import Path

import pytest

from semcast.core.member_buffers import MemberBuffers
from semcast.sim.run import run
from semcast.sim.swarm import mutants, mutated, run_seed, scenarios
from semcast.terms.errors import ConfigError

CANARY = "canary"
MUTANTS = mutants()
SEEDS_MAX = 300
CAUGHT = json.loads((Path(__file__).parent / "caught.json").read_text())


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
    """The seed that caught it last is tried first; all are, if the draw has changed since."""
    failpoints = range(1, 2 * SEEDS_MAX, 2)  # the odd seeds crash members inside handlers
    known = [] if os.environ.get("SOAK") else [CAUGHT[name]] if name in CAUGHT else []
    protocol = MUTANTS[name].protocol
    assert any(run_seed(protocol, name, seed).violations for seed in (*known, *failpoints))


def test_the_seeds_that_catch_are_those_of_mutants_and_of_the_swarm() -> None:
    assert CAUGHT.keys() <= MUTANTS.keys()
    assert all(seed in range(1, 2 * SEEDS_MAX, 2) for seed in CAUGHT.values())


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
