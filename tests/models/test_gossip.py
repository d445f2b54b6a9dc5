"""Gossip convergence: the chain, the recurrence and the bound, against each other and by hand."""

from itertools import islice, pairwise
from math import ceil, comb

import numpy as np
import pytest

from semcast.models.gossip import (
    CHAIN_MEMBERS_MAX,
    expected_rounds,
    markov_chain,
    recurrence,
    rounds_for,
    thesis_bound,
    transitions,
    uniform,
    uniform_recurrence,
)
from semcast.terms.errors import ConfigError

approx = pytest.approx
MODES = ("pull", "push")


def first(errors, count=12):
    return list(islice(errors, count))


def has(reached, members):
    return [1.0] * reached + [0.0] * (members - reached)


def by_enumeration(members, holders, mode):
    """The distribution of holders after one round, over every combination of picks."""
    counts = np.zeros(members)
    for code in range(members**members):
        picks = [code // members**i % members for i in range(members)]
        if mode == "pull":
            after = {i for i in range(members) if i < holders or picks[i] < holders}
        else:
            after = set(range(holders)) | set(picks[:holders])
        counts[len(after) - 1] += 1
    return counts / counts.sum()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("members", [2, 4])
def test_a_step_of_the_chain_is_what_all_picks_give(mode, members):
    steps = transitions(members, mode)
    for holders in range(1, members + 1):
        assert steps[holders - 1] == approx(by_enumeration(members, holders, mode), abs=1e-12)


@pytest.mark.parametrize("mode", MODES)
def test_steps_are_probabilities_and_nobody_loses_a_message(mode):
    steps = transitions(60, mode)
    assert steps.sum(axis=1) == approx(np.ones(60))
    assert np.all(steps >= 0)
    assert np.all(np.tril(steps, -1) == 0)


def test_a_step_of_pull_is_the_binomial_of_the_thesis():
    n, i, j = 20, 7, 12
    by_hand = comb(n - i, j - i) * ((n - i) / n) ** (n - j) * (i / n) ** (j - i)
    assert transitions(n, "pull")[i - 1, j - 1] == approx(by_hand)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("reached", [1, 5, 29, 30])
def test_the_uniform_recurrence_is_the_general_one_with_equal_picks(mode, reached):
    general = first(recurrence(uniform(30), has(reached, 30), mode))
    assert first(uniform_recurrence(30, reached, mode)) == approx(general, rel=1e-9)


def test_the_uniform_recurrence_is_the_thesis_quadratic():
    n, n0, p = 100, 51, 0.0
    for error in first(uniform_recurrence(n, n0, "pull"), 6):
        assert error == approx(1 - p ** (n - n0), abs=1e-12)
        p = n0 / n + (2 * (n - n0) - 1) / n * p - (n - n0 - 1) / n * p * p


def test_two_members_by_hand():
    """Who lacks it picks the other with probability 1/2, alone or as the only pusher."""
    halves = [0.5**k for k in range(12)]
    for mode in MODES:
        assert first(markov_chain(2, 1, mode)) == approx(halves)
        assert first(uniform_recurrence(2, 1, mode)) == approx(halves)
        assert expected_rounds(2, 1, mode) == approx(2)


def test_any_contact_matrix():
    """Along a line of three, each asking its left neighbour, pull takes exactly two rounds."""
    line = [[0, 0, 0], [1, 0, 0], [0, 1, 0]]
    assert first(recurrence(line, has(1, 3), "pull"), 4) == [1, 1, 0, 0]
    forward = [[0, 1, 0], [0, 0, 1], [0, 0, 0]]
    assert first(recurrence(forward, has(1, 3), "push"), 4) == [1, 1, 0, 0]


def test_contacts_that_are_lost_take_longer():
    lossy = uniform(50) * 0.6
    for mode in MODES:
        whole = rounds_for(recurrence(uniform(50), has(1, 50), mode), 1e-6)
        assert rounds_for(recurrence(lossy, has(1, 50), mode), 1e-6) > whole


def test_the_error_stays_exact_where_one_minus_it_is_one():
    errors = first(markov_chain(100, 90, "pull"), 30)
    assert all(later < earlier for earlier, later in pairwise(errors))
    assert 0 < errors[-1] < 1e-50


@pytest.mark.parametrize("mode", MODES)
def test_expected_rounds_are_the_sum_of_the_errors(mode):
    assert expected_rounds(40, 3, mode) == approx(sum(first(markov_chain(40, 3, mode), 300)))
    assert expected_rounds(40, 40, mode) == 0


def test_the_lemmas_of_the_bound_fail_while_the_bound_is_generous():
    """RPB §4.2.2: P(k) ≥ 1 − e^−k "if n0 > n/2" is false at n0 = 51 of 100."""
    n, n0 = 100, 51
    lacking_after_a_round = 1 - n0 / n
    assert lacking_after_a_round > np.exp(-1)
    for reached in range(1, 100):
        bound = thesis_bound(100, reached, 1e-6)
        assert rounds_for(uniform_recurrence(100, reached, "pull"), 1e-6) <= bound
    assert rounds_for(markov_chain(10, 1, "pull"), 1e-6) == 20 > ceil(thesis_bound(10, 1, 1e-6))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: rounds_for(markov_chain(10, 11, "pull"), 0.1), "reached: 11 is not within 1..10"),
        (lambda: rounds_for(markov_chain(10, 0, "pull"), 0.1), "reached: 0 is not within 1..10"),
        (lambda: first(uniform_recurrence(1, 1, "pull")), "members: 1 is not at least 2"),
        (lambda: transitions(10, "shove"), "mode: unknown value 'shove'; allowed: pull, push"),
        (lambda: transitions(CHAIN_MEMBERS_MAX + 1, "pull"), "members: 1001 is more than"),
        (lambda: rounds_for(markov_chain(10, 1, "pull"), 0.0), "error: 0.0 is not between 0 and 1"),
        (lambda: first(recurrence([[1]], [1, 0], "pull")), "contact: shape"),
        (lambda: first(recurrence(uniform(2) * 3, [1, 0], "pull")), "contact: each row must hold"),
        (lambda: first(recurrence(uniform(2), [2, 0], "pull")), "initially: every value must be"),
        (lambda: rounds_for(recurrence(np.eye(2), [1, 0], "pull"), 0.1), "error: 0.1 is not"),
    ],
)
def test_bad_input_is_one_clear_line(call, message):
    with pytest.raises(ConfigError) as refusal:
        call()
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)
