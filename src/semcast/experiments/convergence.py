"""EXP-8: after how many rounds of gossip all members have a message [RPB §4.2, fig. 4-2].

Three answers: the recurrence, with which the thesis drew its figure; the exact Markov chain; and
`runs` simulated gossips, whose (1 − error) quantile is taken where at least `TAIL` of them lie
beyond it.  `reached` members have the message at first.  After `rounds` rounds,
`probability` is that all have it, by each of the three.
The simulation draws contacts, as the model speaks of rounds and not of clocks; the protocols
themselves run in EXP-9.
"""

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from semcast.experiments.experiment import Experiment, Parameters, Row, Value
from semcast.experiments.figure import Curve, Figure, Panel
from semcast.terms.errors import ConfigError

if TYPE_CHECKING:
    from semcast.models.gossip import Floats

TAIL = 100

DEFAULTS: dict[str, Value] = {
    "mode": "pull",
    "members": 100,
    "reached": 1,
    "error": 1e-6,
    "rounds": 10,
    "runs": 20_000,
}


def run(p: Parameters, seed: int, trace: str | None) -> Row:
    """One point of figure 4-2."""
    from semcast.models import gossip as model  # numpy is an extra, and slow to import

    if trace is not None:
        raise ConfigError(
            "trace: convergence runs no protocol, so there is nothing to record; remove it"
        )
    group = (p.whole("members", at_least=2), p.whole("reached"), p.text("mode"))
    error, rounds = p.number("error"), p.whole("rounds", at_least=0)
    row: Row = {
        "rounds_recurrence": model.rounds_for(model.uniform_recurrence(*group), error),
        "rounds_exact": model.rounds_for(model.markov_chain(*group), error),
        "rounds_expected": model.expected_rounds(*group),
        "rounds_bound": model.thesis_bound(group[0], group[1], error),
        "probability_recurrence": 1 - _nth(model.uniform_recurrence(*group), rounds),
        "probability_exact": 1 - _nth(model.markov_chain(*group), rounds),
    }
    return {**row, **_simulated(group, error, rounds, p.whole("runs"), seed), "violations": 0}


def _nth(errors: Iterator[float], rounds: int) -> float:
    return next(islice(errors, rounds, None))


def _simulated(group: tuple[int, int, str], error: float, rounds: int, runs: int, seed: int) -> Row:
    ended = sample(*group, runs, seed)
    beyond = int(error * runs)
    return {
        "rounds_simulated": int(sorted(ended)[-beyond - 1]) if beyond >= TAIL else None,
        "probability_simulated": float((ended <= rounds).mean()),
    }


def sample(members: int, reached: int, mode: str, runs: int, seed: int) -> "Floats":
    """How many rounds each of `runs` gossips took, contact by contact."""
    import numpy as np

    draw = np.random.default_rng(seed)
    has = np.zeros((runs, members), dtype=bool)
    has[:, :reached] = True
    ended = np.zeros(runs)
    going = np.arange(runs if reached < members else 0)
    rounds = 0
    while going.size:
        rounds += 1
        picked = draw.integers(members, size=(going.size, members))
        mine = has[going]
        if mode == "pull":
            mine |= np.take_along_axis(mine, picked, axis=1)
        else:
            informed = picked[mine]
            mine[np.nonzero(mine)[0], informed] = True
        has[going] = mine
        done = mine.all(axis=1)
        ended[going[done]] = rounds
        going = going[~done]
    return ended


CONVERGENCE = Experiment(
    "convergence",
    "rounds of gossip until all members have a message: recurrence, Markov chain, simulation",
    "RPB fig. 4-2",
    DEFAULTS,
    run,
    answer="Gossip brings a message to all members in {rounds_expected} rounds on average.",
)

_REACHED = (1, 2, 3, 5, 8, 12, 20, 30, 40, 51, 60, 70, 80, 90, 95, 99)
_ROUNDS = tuple(range(4, 25))
_MODES = ("pull", "push")


def _by_reached(mode: str, y: str, error: float, style: str) -> Curve:
    fixed: dict[str, Value] = {"mode": mode, "error": error}
    return Curve(mode, "convergence", "reached", _REACHED, y, fixed, style)


def _by_rounds(mode: str, y: str, style: str) -> Curve:
    return Curve(mode, "convergence", "rounds", _ROUNDS, y, {"mode": mode, "error": 1e-2}, style)


FIGURES = (
    Figure(
        "convergence",
        "Rounds of gossip until all of 100 members have a message",
        "RPB fig. 4-2",
        (
            Panel(
                "(4-2) error 1e-6",
                "members that have it at first",
                "rounds",
                tuple(
                    _by_reached(mode, f"rounds_{by}", 1e-6, style)
                    for mode in _MODES
                    for by, style in (("recurrence", "recurrence"), ("exact", "model"))
                ),
            ),
            Panel(
                "error 1e-2, which can be sampled",
                "members that have it at first",
                "rounds",
                tuple(
                    _by_reached(mode, f"rounds_{by}", 1e-2, style)
                    for mode in _MODES
                    for by, style in (
                        ("recurrence", "recurrence"),
                        ("simulated", "simulation"),
                        ("exact", "model"),
                    )
                ),
            ),
            Panel(
                "from one holder",
                "rounds",
                "probability that all have it",
                tuple(
                    _by_rounds(mode, f"probability_{by}", style)
                    for mode in _MODES
                    for by, style in (
                        ("recurrence", "recurrence"),
                        ("simulated", "simulation"),
                        ("exact", "model"),
                    )
                ),
            ),
        ),
        note="The model is the exact chain. The recurrence takes members as independent; from few "
        "holders they are not, since the first rounds of all depend on the same holder.",
    ),
)
