"""Whom to gossip with.

Uniform, or the likelier the nearer: the weight of a peer falls linearly or quadratically from the
own place to a little beyond the longest round trip measured [RPB §4.2, §7.5].  A peer that was
never measured counts as the mean.  A logger is drawn as often as if selection were uniform: what
it may collect depends on everybody's gossip, and one that was slow once would be shunned for ever.
Idea: draw a peer, then accept it by its weight; no table over the group is kept, so a group of ten
thousand costs nothing at each of its members.
"""

from random import Random

from semcast.core.pubsub.membership import Roster
from semcast.core.pubsub.recipe import PubsubRecipe
from semcast.terms.ids import Rank

DRAWS_MAX = 32
CEILING = 1.1  # times the longest round trip: the farthest peer is drawn now and then
MEASURED_MAX = 1 << 10  # peers whose round trip is remembered


class Selection:
    """Lives as long as the participant."""

    def __init__(self, recipe: PubsubRecipe, roster: Roster, rng: Random) -> None:
        self.roster = roster
        self.loggers = frozenset(recipe.keepers)
        self.rng = rng
        self.power = {"uniform": 0, "linear": 1, "quadratic": 2}[recipe.selection]
        self.trips: dict[Rank, float] = {}
        self.asked: dict[Rank, float] = {}  # peers that owe an answer, and since when
        self.longest = 0.0
        self.total = 0.0

    def __repr__(self) -> str:
        return f"Selection(power={self.power}, measured={len(self.trips)})"

    def draw(self) -> Rank | None:
        """A member other than this one that is thought to be reachable; None if there is none."""
        peer: Rank | None = None
        for _ in range(DRAWS_MAX):
            peer = self.roster.draw(self.rng)
            if peer is None or not self.power or not self.longest or peer in self.loggers:
                return peer
            trip = self.trips.get(peer, self.total / len(self.trips))
            nearness = 1 - trip / (CEILING * self.longest)
            if self.rng.random() < nearness**self.power:
                return peer
        return peer

    def wants_probe(self, peer: Rank) -> bool:
        """Whether it is worth an answer just to measure the round trip."""
        return bool(self.power) and peer not in self.trips and len(self.trips) < MEASURED_MAX

    def on_asked(self, peer: Rank, now: float) -> None:
        """Something that may be answered went to a peer."""
        if self.power:
            self.asked[peer] = now

    def on_answer(self, peer: Rank, now: float) -> None:
        """A peer answered."""
        since = self.asked.pop(peer, None) if self.power else None
        if since is None or (peer not in self.trips and len(self.trips) >= MEASURED_MAX):
            return
        before = self.trips.get(peer)
        trip = now - since if before is None else before + (now - since - before) / 8
        self.total += trip - (before or 0.0)
        self.trips[peer] = trip
        self.longest = max(self.longest, trip)
