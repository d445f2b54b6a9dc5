"""How far the group has come in each stream, and what follows from it in one member.

What everyone has is stable: it need not be kept for repair.  What f + 1 have is safe: it may purge
what it makes obsolete [SRM §5.3].  Two detectors find that out; here is what a member does about
it.
"""

from random import Random

from semcast.core.member_buffers import MemberBuffers
from semcast.core.outbox import Outbox
from semcast.core.port import Port
from semcast.core.receiver import Receiver
from semcast.core.recipe import Recipe
from semcast.core.repair_requester import RepairRequester
from semcast.core.stability import QuorumDetector
from semcast.core.trace import Trace
from semcast.terms.effects import Effects
from semcast.terms.events import RECLAIM, SAFE, STABLE
from semcast.terms.ids import Rank, Seq
from semcast.terms.messages import FrontierVote, SafetyGossip, StabilityGossip
from semcast.terms.views import GroupView


class Detection:
    """Lives as long as the member."""

    def __init__(
        self,
        recipe: Recipe,
        rank: Rank,
        view: GroupView,
        buffers: MemberBuffers,
        receiver: Receiver,
        recovery: RepairRequester,
        outbox: Outbox,
        trace: Trace,
        rng: Random,
        port: Port,
    ) -> None:
        self.rank = rank
        self.replicated = recipe.replicated
        self.buffers, self.receiver = buffers, receiver
        self.recovery, self.outbox, self.trace = recovery, outbox, trace
        frontier, members, fanout = receiver.frontier, recipe.members, recipe.fanout
        how = (recipe.gossip_after, recipe.direct_gossip, view.seq_bases, port)
        self.stability = QuorumDetector(
            rank, members, None, frontier, rng, recipe.period_s, fanout, StabilityGossip, *how
        )
        quorum, period_s = recipe.f + 1, recipe.safety_period_s
        self.safety = QuorumDetector(
            rank, members, quorum, frontier, rng, period_s, fanout, SafetyGossip, *how
        )
        self.needs_safety = recipe.needs_safety
        self.safety.enabled = recipe.needs_safety and recipe.safety_always

    def __repr__(self) -> str:
        return f"Detection({self.stability}, {self.safety})"

    def on_stability(self, source: Rank, g: StabilityGossip, now: float, out: Effects) -> None:
        """A peer tells who has come how far."""
        self._take_hints(source, g.votes, out)
        if advanced := self.stability.on_gossip(source, g.votes, now):
            self._on_stable(advanced, out)

    def on_safety(self, source: Rank, g: SafetyGossip, now: float, out: Effects) -> None:
        """The same, of what f + 1 have."""
        self._take_hints(source, g.votes, out)
        if advanced := self.safety.on_gossip(source, g.votes, now):
            self._on_safe(advanced, out)

    def on_known_safe(self, source: Rank, safe: Seq, out: Effects) -> None:
        """A sender tells how far its own stream is safe."""
        if advanced := self.safety.on_agreed(source, safe):
            self._on_safe(advanced, out)

    def _take_hints(self, source: Rank, ballots: tuple[FrontierVote, ...], out: Effects) -> None:
        """Gossip tells where streams end and who holds them [SRM §5.3]."""
        for ballot in ballots:
            sender, frontier = ballot.sender, ballot.frontier
            furthest = frontier
            if ballot.candidate > frontier:
                furthest = max(frontier, self.stability.reached(ballot))
            if furthest > self.receiver.known[sender]:
                self.receiver.learn_indirect(sender, furthest)
            self.recovery.on_peer_frontier(source, sender, frontier)
            if sender == self.rank:
                self._on_claim(source, frontier, out)

    def _on_claim(self, source: Rank, frontier: Seq, out: Effects) -> None:
        """A peer has come so far in the own stream."""
        self.outbox.on_peer_frontier(source, frontier)
        if self.needs_safety and self.safety.on_peer_frontier(source, frontier):
            self._on_safe([self.rank], out)
        if self.stability.on_peer_frontier(source, frontier):
            self._on_stable([self.rank], out)

    def _on_stable(self, streams: list[Rank], out: Effects) -> None:
        for sender in streams:
            stable = self.stability.agreed[sender]
            self._record(STABLE, sender, stable, out)
            if sender == self.rank:
                if self.stability.direct and self.outbox.peers:
                    # Before anything is sent into the room that it makes.
                    self.stability.announce(self.outbox.audience, out)
                self.outbox.on_stable(stable)
            if self.replicated or sender == self.rank:
                self.buffers.on_stable(sender, stable, out)
                self._record(RECLAIM, sender, stable, out)

    def _on_safe(self, streams: list[Rank], out: Effects) -> None:
        for sender in streams:
            safe = self.safety.agreed[sender]
            self._record(SAFE, sender, safe, out)
            self.buffers.on_safe(sender, safe, out)

    def _record(self, kind: str, sender: Rank, seq: Seq, out: Effects) -> None:
        if out.events is not None:
            self.trace.advanced(kind, sender, seq, self.buffers.messages, out)

    def on_time(self, now: float, out: Effects) -> None:
        """Time has passed."""
        if now >= self.stability.deadline and (advanced := self.stability.on_time(now, out)):
            self._on_stable(advanced, out)
        if now >= self.safety.deadline and (advanced := self.safety.on_time(now, out)):
            self._on_safe(advanced, out)

    def forget(self, member: Rank, out: Effects) -> None:
        """The group goes on without a member."""
        if not self.replicated:
            self.stability.close(member)
        self._on_safe(self.safety.forget(member), out)
        self._on_stable(self.stability.forget(member), out)
