"""How soon gossip has told everybody: rounds until all members have a message.

In a round every member contacts one other; under pull it takes the message from who has it, under
push it gives it.  Everything is computed as the probability of *missing* it, which stays exact
where one minus a probability would round to zero.

Rule: [RPB §4.2] the Markov chain and the recurrence.  A member's pick is uniform over all members;
who picks itself wastes the round.
Departs: three slips of the text.  The chain has p(i, j) = 0 for j < i (printed "i < j"); C(i, i)
never helps, and a row of C may sum to less than 1, the rest being contacts that are lost; the
probability that all have it is P^(n − n0), so the error is 1 − P^(n − n0) and falls as P rises.
Also, uniform push needs n states as pull does, not 2^n: who has the message hits members that
lack it as balls hit boxes.
"""

from collections.abc import Iterator
from itertools import islice
from math import expm1, log, log1p
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from semcast.terms.errors import ConfigError, unknown_value

Floats: TypeAlias = NDArray[np.float64]

MODES = ("pull", "push")
CHAIN_MEMBERS_MAX = 1000  # the chain is a square matrix
ROUNDS_MAX = 10_000


def uniform(members: int) -> Floats:
    """C(i, j) = 1/n: everybody is picked with the same probability, oneself too."""
    return np.full((members, members), 1 / members)


def recurrence(contact: ArrayLike, initially: ArrayLike, mode: str) -> Iterator[float]:
    """The error after 0, 1, 2, … rounds for any contact matrix, members taken as independent.

    `contact[i][j]` is the probability that i picks j; `initially[i]` that i has the message.
    """
    picks = np.array(contact, dtype=np.float64)
    lacks = 1 - np.array(initially, dtype=np.float64)
    _require_contacts(picks, lacks)
    _require_mode(mode)
    np.fill_diagonal(picks, 0.0)
    in_vain = 1 - picks.sum(axis=1)
    while True:
        yield _not_all(lacks)
        if mode == "pull":
            misses = in_vain + picks @ lacks
        else:
            has = (1 - lacks)[:, np.newaxis]
            misses = np.prod(1 - has * picks, axis=0)
        lacks = lacks * misses  # [RPB §4.2.2]


def uniform_recurrence(members: int, reached: int, mode: str) -> Iterator[float]:
    """The same for a uniform pick, where all who lack the message are alike: any group size."""
    _require_group(members, reached)
    _require_mode(mode)
    others = members - reached
    lacks = 1.0
    while True:
        yield -expm1(others * log1p(-lacks)) if lacks < 1 else float(others > 0)
        if mode == "pull":
            lacks *= (1 + max(others - 1, 0) * lacks) / members
        else:
            others_push = (others - 1) * log1p(-(1 - lacks) / members) if others else 0.0
            lacks *= (1 - 1 / members) ** reached * float(np.exp(others_push))


def markov_chain(members: int, reached: int, mode: str) -> Iterator[float]:
    """The error after 0, 1, 2, … rounds of a uniform pick, exactly."""
    step = transitions(members, mode)
    _require_group(members, reached)
    state = np.zeros(members)
    state[reached - 1] = 1.0
    while True:
        yield min(float(state[:-1].sum()), 1.0)
        state = state @ step  # [RPB §4.2.1]


def expected_rounds(members: int, reached: int, mode: str) -> float:
    """The mean number of rounds until all have it, exactly."""
    step = transitions(members, mode)
    _require_group(members, reached)
    if reached == members:
        return 0.0
    unfinished = np.eye(members - 1) - step[:-1, :-1]
    return float(np.linalg.solve(unfinished, np.ones(members - 1))[reached - 1])


def transitions(members: int, mode: str) -> Floats:
    """p(i, j), in row i − 1 and column j − 1: one round takes i members with the message to j."""
    _require_group(members, 1)
    _require_mode(mode)
    if members > CHAIN_MEMBERS_MAX:
        raise ConfigError(
            f"members: {members} is more than {CHAIN_MEMBERS_MAX}, the maximum of the exact chain; "
            "use the recurrence"
        )
    return _pull_steps(members) if mode == "pull" else _push_steps(members)


def rounds_for(errors: Iterator[float], error: float) -> int:
    """After how many rounds the error is at most `error`."""
    if not 0 < error < 1:
        raise ConfigError(f"error: {error!r} is not between 0 and 1")
    for rounds, left in enumerate(islice(errors, ROUNDS_MAX)):
        if left <= error * (1 + 1e-9):  # an error of 1/100 that was rounded is reached
            return rounds
    raise ConfigError(f"error: {error:g} is not reached within {ROUNDS_MAX} rounds")


def thesis_bound(members: int, reached: int, error: float) -> float:
    """Rounds that the thesis says suffice for uniform pull [RPB §4.2.2].

    Its two lemmas are false, 1 − P(k) ≤ e^−k above half the group (n0 = 51 of 100: 0.49 after a
    round, not 0.37) and P(k) ≥ (n0/n) e^(k − 1) below it (a round hardly more than doubles P).
    The bound is generous all the same, because the recurrence squares what is lacking in every
    late round; for the exact chain it does not always suffice (one holder of 10).
    """
    _require_group(members, reached)
    if reached == members:
        return 0.0
    if 2 * reached > members:
        return -log(error / (members - reached))
    return 1 - log(2 * reached * error / (members * (members - reached)))


def _not_all(lacks: Floats) -> float:
    """One minus the product of what each has."""
    if np.any(lacks >= 1):
        return 1.0
    return float(-np.expm1(np.log1p(-lacks).sum()))


def _pull_steps(n: int) -> Floats:
    """Who lacks the message picks a holder with probability i/n: a binomial for each i."""
    log_factorial = np.concatenate(([0.0], np.cumsum(np.log(np.arange(1, n + 1)))))
    i, j = np.mgrid[1 : n + 1, 1 : n + 1]
    gained, left = np.maximum(j - i, 0), n - j
    ways = log_factorial[n - i] - log_factorial[gained] - log_factorial[left]
    in_vain = np.log1p(-np.minimum(i, n - 1) / n)  # i = n has nobody left to fail
    steps = np.where(j >= i, np.exp(ways + gained * np.log(i / n) + left * in_vain), 0.0)
    return np.asarray(steps / steps.sum(axis=1, keepdims=True))  # logarithms round


def _push_steps(n: int) -> Floats:
    """i holders push one after the other; each hits a member that lacks it, or does not."""
    holders = np.arange(1, n + 1)[:, np.newaxis]
    informed = np.arange(n)  # who did not have it before this round
    fresh = np.clip(n - holders - informed, 0, None) / n
    counts = np.zeros((n, n))
    counts[:, 0] = 1.0
    for pushed in range(n):
        row = counts[pushed:]  # i > pushed
        hit = row * fresh[pushed:]
        row -= hit
        row[:, 1:] += hit[:, :-1]
    steps = np.zeros((n, n))
    for i in range(1, n + 1):
        steps[i - 1, i - 1 :] = counts[i - 1, : n - i + 1]
    return steps


def _require_mode(mode: str) -> None:
    if mode not in MODES:
        raise unknown_value("mode", mode, MODES)


def _require_group(members: int, reached: int) -> None:
    if members < 2:
        raise ConfigError(f"members: {members} is not at least 2")
    if not 1 <= reached <= members:
        raise ConfigError(f"reached: {reached} is not within 1..{members}, the members")


def _require_contacts(contact: Floats, lacks: Floats) -> None:
    size = len(lacks)
    if contact.shape != (size, size):
        raise ConfigError(f"contact: shape {contact.shape} must be {size} × {size}")
    if np.any(contact < 0) or np.any(contact.sum(axis=1) > 1 + 1e-9):
        raise ConfigError("contact: each row must hold probabilities that sum to at most 1")
    if np.any(lacks < 0) or np.any(lacks > 1):
        raise ConfigError("initially: every value must be a probability, 0 to 1")
