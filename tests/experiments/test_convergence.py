"""EXP-8: rounds of gossip by recurrence, chain and simulation [RPB fig. 4-2]."""

import pytest

from semcast.experiments.convergence import CONVERGENCE, FIGURES, sample
from semcast.experiments.registry import experiment
from semcast.models.gossip import markov_chain
from semcast.terms.errors import ConfigError


def row(seed=1, **given):
    short = {"runs": 2000, "error": 0.05}
    return CONVERGENCE.run(CONVERGENCE.parameters({**short, **given}), seed, None)


@pytest.mark.parametrize("mode", ["pull", "push"])
def test_the_simulation_follows_the_chain_round_by_round(mode):
    ended = sample(30, 2, mode, 4000, seed=1)
    for rounds, error in zip(range(20), markov_chain(30, 2, mode), strict=False):
        assert (ended > rounds).mean() == pytest.approx(error, abs=0.03)


def test_a_point_repeats_with_its_seed():
    assert row(seed=3) == row(seed=3)
    assert row(seed=3)["probability_simulated"] != row(seed=4)["probability_simulated"]


def test_an_error_too_small_to_sample_has_no_simulated_rounds():
    assert row(error=0.01)["rounds_simulated"] is None
    assert row()["rounds_simulated"] == pytest.approx(row()["rounds_exact"], abs=1)


def test_everyone_has_it_before_the_first_round():
    everyone = row(members=20, reached=20)
    assert everyone["rounds_recurrence"] == everyone["rounds_exact"] == 0
    assert everyone["rounds_simulated"] == everyone["rounds_bound"] == 0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"members": 1}, "members: 1 is not a whole number of at least 2"),
        ({"reached": 101}, "reached: 101 is not within 1..100"),
        ({"mode": "shove"}, "mode: unknown value 'shove'; allowed: pull, push"),
        ({"error": 1.0}, "error: 1.0 is not between 0 and 1"),
        ({"runs": 0}, "runs: 0 is not a whole number of at least 1"),
    ],
)
def test_bad_parameters_are_refused_in_one_line(given, message):
    with pytest.raises(ConfigError) as refusal:
        row(**given)
    assert message in str(refusal.value)


def test_a_trace_is_refused():
    with pytest.raises(ConfigError, match="trace: convergence runs no protocol"):
        CONVERGENCE.run(CONVERGENCE.parameters({}), 1, "somewhere")


def test_every_point_of_the_figure_exists():
    keys = row().keys()
    for figure in FIGURES:
        assert {curve.y for panel in figure.panels for curve in panel.curves} <= keys
        for name, given in figure.points():
            experiment(name).parameters(given)
