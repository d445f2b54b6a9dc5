"""Traffic of a multi-player game that replicates its state in rounds.

Published and kept [SRM §7.1]: 30 rounds a second; in each one reliable message (a creation, a
destruction or what else happened) and updates of 52 bytes; on average 42.33 items active and
1.39 of them modified, so 41.8 % of the messages, and few more, never become obsolete.

Not published, assumed here; the numbers are fields of `Game`:
- Most items last (players, weapons).  Eight of these are modified, the n-th busiest with a
  probability proportional to n^-skew in each round: two of three related pairs within 10.
- Some items come and go (bullets): a Poisson population, at most one birth or death a round.
- A destruction makes the item's last update obsolete, or every bullet would leave one that never
  becomes so, more of them than 41.88 % has room for.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from random import Random
from typing import Final, NamedTuple

from semcast.terms.errors import ConfigError
from semcast.terms.items import item_tag
from semcast.terms.messages import Update
from semcast.workloads.payloads import numbered_payload

ROUNDS_RECORDED: Final = 11_696  # the length of the published session [SRM §7.1]


class Round(NamedTuple):
    """One round: its number from 0, the items active in it, its messages in sending order."""

    number: int
    active: int
    updates: tuple[Update, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Game:
    """The parameters of a session; the defaults reproduce the published averages.

    `passing_mean` items come and go on average, born in a share `birth_share` of the rounds
    (which makes them live passing_mean / birth_share rounds); `passing_modified` is the share of
    all modifications that falls on them.  Of the `lasting` items `lasting_modified` are modified
    at all, with skew `skew`.
    """

    rounds_per_s: float = 30.0
    modified_mean: float = 1.39
    lasting: int = 40
    lasting_modified: int = 8
    skew: float = 1.5
    passing_mean: float = 2.33
    passing_modified: float = 0.1
    birth_share: float = 0.1
    update_bytes: int = 52
    reliable_bytes: tuple[int, int] = (8, 31)  # the least and the most

    def __post_init__(self) -> None:
        # Above 0.2 the one reliable message a round is too little for the deaths it must carry.
        _require(0 < self.birth_share <= 0.2, "birth_share", self.birth_share, "up to 0.2")
        _require(self.rounds_per_s > 0, "rounds_per_s", self.rounds_per_s, "above 0")
        _require(self.passing_mean > 0, "passing_mean", self.passing_mean, "above 0")
        _require(self.lasting >= 1, "lasting", self.lasting, "1 or more")
        some = self.lasting_modified
        _require(1 <= some <= self.lasting, "lasting_modified", some, f"1 to {self.lasting}")
        _require(self.skew >= 0, "skew", self.skew, "0 or more")
        share = self.passing_modified
        _require(0 <= share <= 1, "passing_modified", share, "0 to 1")
        _require(self.update_bytes >= 0, "update_bytes", self.update_bytes, "0 or more")
        minimum, maximum = self.reliable_bytes
        _require(
            0 <= minimum <= maximum, "reliable_bytes", minimum, "the minimum, then the maximum"
        )
        _require(self.modified_mean >= 0, "modified_mean", self.modified_mean, "0 or more")
        busiest = max(self.lasting_probabilities()[0], self.passing_probability())
        _require(
            busiest <= 1,
            "modified_mean",
            self.modified_mean,
            f"so low that no item changes more than once a round (now {busiest:.3g})",
        )

    def lasting_probabilities(self) -> tuple[float, ...]:
        """For each lasting item that is ever modified: the probability of it in a round."""
        weights = [rank**-self.skew for rank in range(1, self.lasting_modified + 1)]
        scale = self.modified_mean * (1 - self.passing_modified) / sum(weights)
        return tuple(weight * scale for weight in weights)

    def passing_probability(self) -> float:
        """The probability that a given passing item is modified in a round."""
        return self.modified_mean * self.passing_modified / self.passing_mean

    def rounds(self, rng: Random) -> Iterator[Round]:
        """An endless session, stationary from its first round."""
        return _Session(self, rng).rounds()

    def messages(self, rng: Random) -> Iterator[tuple[int, Update]]:
        """The same session message by message, each with the number of its round."""
        return ((play.number, sent) for play in self.rounds(rng) for sent in play.updates)

    def arrivals(self, numbers: Iterable[int]) -> Iterator[float]:
        """Gaps for messages of the given rounds: those of a round go together at its start."""
        latest = 0
        for number in numbers:
            yield (number - latest) / self.rounds_per_s
            latest = number


class _Session:
    """One run of a game.  Invariant: the tag of a destroyed item is never used again."""

    def __init__(self, game: Game, rng: Random) -> None:
        self.game = game
        self.rng = rng
        self.numbers = count()
        self.born = count()
        self.passing: list[int] = [self._newborn() for _ in range(_poisson(game.passing_mean, rng))]
        self.lasting = [
            (item_tag(f"lasting-{place}"), probability)
            for place, probability in enumerate(game.lasting_probabilities())
        ]

    def rounds(self) -> Iterator[Round]:
        for number in count():
            # First, so that an item is created before it is updated and silent once destroyed.
            reliable = self._reliable()
            updates = tuple(self._updates())
            yield Round(number, self.game.lasting + len(self.passing), (reliable, *updates))

    def _reliable(self) -> Update:
        """Perhaps create or destroy an item; say what happened in the round."""
        game, rng = self.game, self.rng
        destroyed = None
        if rng.random() < game.birth_share:
            self.passing.append(self._newborn())
        else:
            # Births b against deaths (1 − b)·rate·n balance at a Poisson population of the
            # wanted mean exactly, at most one of them a round.
            rate = game.birth_share / (1 - game.birth_share) / game.passing_mean
            if rng.random() < rate * len(self.passing):
                destroyed = self.passing.pop(rng.randrange(len(self.passing)))
        payload = numbered_payload(next(self.numbers), rng.randint(*game.reliable_bytes))
        return Update(payload=payload, item=destroyed, never_purge=True)

    def _updates(self) -> Iterator[Update]:
        """Each active item at most once, in the order of the server's list of items."""
        game, random = self.game, self.rng.random
        chance = game.passing_probability()
        modified = [tag for tag, probability in self.lasting if random() < probability]
        modified += [tag for tag in self.passing if random() < chance]
        for tag in modified:
            yield Update(payload=numbered_payload(next(self.numbers), game.update_bytes), item=tag)

    def _newborn(self) -> int:
        return item_tag(f"passing-{next(self.born)}")


def _poisson(mean: float, rng: Random) -> int:
    """How many arrive within one unit of time at rate `mean`."""
    arrivals, elapsed = 0, rng.expovariate(mean)
    while elapsed <= 1:
        arrivals += 1
        elapsed += rng.expovariate(mean)
    return arrivals


def _require(holds: bool, field: str, value: float, allowed: str) -> None:
    if not (holds and math.isfinite(value)):
        raise ConfigError(f"{field}: {value:g} is not allowed, must be {allowed}")
