"""Whom to gossip with.

Uniform, or the likelier the nearer.  *linear* and *quadratic* are the thesis's: the weight of a
peer falls from the own place to a little beyond the longest round trip measured [RPB §4.2, §7.5].
*inverse* is 1/RTTᵖ, p = `selection_power`, which one far peer does not flatten.  A peer that was
never measured counts as the mean.  A logger is drawn as often as if selection were uniform: what
it may collect depends on everybody's gossip, and one that was slow once would be shunned for ever.
Idea: draw a peer, then accept it by its weight; no table over the group is kept, so a group of ten
thousand costs nothing at each of its members.  A drawn logger is accepted with the mean weight of
all peers.
"""

from math import inf, pow
from random import Random

from semcast.core.pubsub.member_table import MemberTable
from semcast.core.pubsub.recipe import PubsubRecipe
from semcast.terms.ids import Rank

DRAWS_MAX = 256
TRIP_MIN_S = 1e-6  # Nearer than this is the same place.
RTT_MARGIN = 1.1  # times the longest round trip: the farthest peer is drawn now and then
MEASURED_MAX = 1 << 10  # peers whose round trip is remembered


class TargetSelection:
    """Lives as long as the participant."""

    def __init__(self, recipe: PubsubRecipe, roster: MemberTable, rng: Random) -> None:
        self.roster = roster
        self.loggers = frozenset(recipe.logger_pids)
        self.rng = rng
        self.is_inverse = recipe.selection == "inverse"
        self.power = {"uniform": 0.0, "linear": 1.0, "quadratic": 2.0}.get(
            recipe.selection, recipe.selection_power
        )
        self.round_trips: dict[Rank, float] = {}
        self.asked: dict[Rank, float] = {}  # peers that owe an answer, and since when
        self.rtt_max = 0.0
        self.shortest = inf
        self.total = 0.0

    def __repr__(self) -> str:
        return f"TargetSelection(power={self.power}, measured={len(self.round_trips)})"

    def pick(self) -> Rank | None:
        """A member other than this one that is thought to be reachable; None if there is none."""
        peer: Rank | None = None
        for _ in range(DRAWS_MAX):
            peer = self.roster.random_peer(self.rng)
            if peer is None or not self.power or not self.rtt_max:
                return peer
            judged = self._stand_in(peer)
            if judged in self.loggers or self.rng.random() < self._weight(judged):
                return peer
        return peer

    def _stand_in(self, peer: Rank) -> Rank:
        """The peer itself; for a logger any other member, or a logger if no other is in reach."""
        for _ in range(DRAWS_MAX):
            if peer not in self.loggers:
                break
            other = self.roster.random_peer(self.rng)
            peer = peer if other is None else other
        return peer

    def _weight(self, peer: Rank) -> float:
        """How likely a peer that was drawn is accepted."""
        trip = self.round_trips.get(peer, self.total / len(self.round_trips))
        if self.is_inverse:
            return pow(min(1.0, self.shortest / max(trip, TRIP_MIN_S)), self.power)
        return pow(1 - trip / (RTT_MARGIN * self.rtt_max), self.power)

    def needs_rtt_probe(self, peer: Rank) -> bool:
        """Whether it is worth an answer just to measure the round trip."""
        return (
            bool(self.power)
            and peer not in self.round_trips
            and len(self.round_trips) < MEASURED_MAX
        )

    def on_asked(self, peer: Rank, now: float) -> None:
        """Something that may be answered went to a peer."""
        if self.power:
            self.asked[peer] = now

    def on_answer(self, peer: Rank, now: float) -> None:
        """A peer answered."""
        since = self.asked.pop(peer, None) if self.power else None
        if since is None or (
            peer not in self.round_trips and len(self.round_trips) >= MEASURED_MAX
        ):
            return
        before = self.round_trips.get(peer)
        trip = now - since if before is None else before + (now - since - before) / 8
        self.total += trip - (before or 0.0)
        self.round_trips[peer] = trip
        self.rtt_max = max(self.rtt_max, trip)
        self.shortest = min(self.shortest, max(trip, TRIP_MIN_S))
