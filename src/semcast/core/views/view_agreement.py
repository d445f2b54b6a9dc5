"""What comes after a view: one decision, by a majority of its members.

Guarantees: two coordinators never decide differently (ballots) [SVS §2].  What is decided was
accepted by a majority, and who accepts holds every stream up to the cut: so the survivors can get
it all from each other, whoever crashes, and install the view with the same messages [SVS §4.2].
Idea: a promise freezes the frontier and reports it.  The cut is the highest frontier reported, by
stream.  A quorum reports, and what was purged was purged for a message that the frontiers of
n - q + 1 members had reached: the cut goes at least that far.
What is fetched for a cut stays out of the application's sight until the decision; another ballot
may cut shorter.
Rejected: exchange first and decide afterwards, a round more; a decision before the exchange, which
a crash of the only holder would leave impossible.
"""

from collections.abc import Callable
from random import Random

from semcast.core.member import Member
from semcast.core.views.recipe import ViewRecipe, quorum
from semcast.terms.effects import Effects
from semcast.terms.ids import NEVER, BallotNumber, Rank
from semcast.terms.views import (
    Accepted,
    BallotRejected,
    Decided,
    Prepare,
    Promise,
    Propose,
    ViewDatagram,
    ViewProposal,
)


class ViewAgreement:
    """One per view.  Invariant: accepted_ballot <= promised; a coordinator's ballots are its own,
    ballot % members == rank."""

    def __init__(self, recipe: ViewRecipe, member: Member, rng: Random) -> None:
        self.recipe = recipe
        self.member = member
        self.rng = rng
        self.members = len(member.view.members)
        self.quorum = quorum(self.members)
        self.is_stateful = True
        self.promised: BallotNumber = 0
        self.accepted_ballot: BallotNumber = 0
        self.accepted: ViewProposal | None = None
        # Accepted once everything up to its cut is here.
        self.pending_proposal: Propose | None = None
        self.asked_by: Rank = 0
        self.decided: ViewProposal | None = None
        self.ballot: BallotNumber = 0  # its own, while it coordinates
        self.promises: dict[Rank, Promise] = {}
        self.accepts: set[Rank] = set()
        self.proposed: Propose | None = None
        self.since = 0.0  # when the phase of the own ballot began
        self.retry_at = NEVER
        self.backoff_until = -NEVER  # to somebody else's ballot

    def __repr__(self) -> str:
        return (
            f"ViewAgreement(promised={self.promised}, accepted={self.accepted_ballot}, "
            f"ballot={self.ballot}, promises={sorted(self.promises)}, "
            f"accepts={sorted(self.accepts)}, decided={self.decided})"
        )

    @property
    def is_under_way(self) -> bool:
        """Whether somebody has begun, and nothing is decided."""
        return self.promised > 0 and self.decided is None

    def start(self, now: float, out: Effects) -> None:
        """Coordinate, under a ballot above every one that was seen."""
        rank = self.member.rank
        self.ballot = (self.promised // self.members + 1) * self.members + rank
        self.promises, self.accepts, self.proposed = {}, set(), None
        self.since = now
        self._ask(now, out)
        self.on_prepare(rank, Prepare(self.member.view.id, self.ballot), now, out)

    def give_up(self, now: float) -> None:
        """Somebody has a higher ballot: let it try."""
        self.ballot = 0
        self.retry_at = NEVER
        self.backoff_until = now + self.recipe.patience_s * (0.25 + 0.75 * self.rng.random())

    def _ask(self, now: float, out: Effects) -> None:
        """Ask those who have not answered, again and again."""
        view = self.member.view
        question = self.proposed or Prepare(view.id, self.ballot)
        answered = self.promises if self.proposed is None else self.accepts
        asked = [
            life.pid
            for rank, life in enumerate(view.members)
            if rank != self.member.rank and rank not in answered
        ]
        if asked:
            out.send.append((asked, question))
        self.retry_at = now + self.recipe.retry_s

    def on_prepare(self, source: Rank, prepare: Prepare, now: float, out: Effects) -> None:
        """Stop, and say how far every stream was passed."""
        if self._is_late(source, prepare.ballot, now, out):
            return
        member = self.member
        member.stop(now, out)
        promise = Promise(
            member.view.id,
            prepare.ballot,
            tuple(member.frontier),
            member.last,
            self.is_stateful,
            self.accepted_ballot,
            self.accepted,
        )
        self._answer(source, promise, now, out)

    def _is_late(self, source: Rank, ballot: BallotNumber, now: float, out: Effects) -> bool:
        if self.decided is not None:
            self._answer(source, self.decision, now, out)
            return True
        if ballot < self.promised:
            self._answer(source, BallotRejected(self.member.view.id, self.promised), now, out)
            return True
        if ballot > self.promised:
            self.promised, self.pending_proposal = ballot, None
            if ballot != self.ballot:
                self.give_up(now)
        return False

    @property
    def decision(self) -> Decided:
        """What to tell those who do not know."""
        assert self.decided is not None
        return Decided(self.member.view.id, self.decided, self.member.rank)

    def on_promise(self, source: Rank, promise: Promise) -> None:
        """A member has stopped; `poll` proposes once all that are awaited have."""
        if promise.ballot == self.ballot and self.proposed is None:
            self.promises[source] = promise

    def poll(
        self,
        is_awaited: Callable[[Rank], bool],
        compose: Callable[[dict[Rank, Promise]], ViewProposal],
        now: float,
        out: Effects,
    ) -> None:
        """A coordinator goes on if it can; with patience for those that it has not given up."""
        if not self.ballot or self.decided is not None:
            return
        over = now - self.since >= self.recipe.patience_s
        if self.proposed is None and self._may_propose:
            missing = [r for r in range(self.members) if r not in self.promises and is_awaited(r)]
            if over or not missing:
                self._propose(compose, now, out)
                return
        elif self.proposed is not None and over:
            self.start(now, out)
            return
        if now >= self.retry_at:
            self._ask(now, out)

    @property
    def _may_propose(self) -> bool:
        """A quorum has stopped, and one of them has the application's state."""
        promises = self.promises.values()
        return len(promises) >= self.quorum and any(p.has_state or p.accepted for p in promises)

    def _propose(
        self, compose: Callable[[dict[Rank, Promise]], ViewProposal], now: float, out: Effects
    ) -> None:
        """What a member accepted before must be proposed again; else the choice is free."""
        best = max(self.promises, key=lambda rank: self.promises[rank].accepted_ballot)
        bound = self.promises[best].accepted
        if bound is not None:
            proposal, holders = bound, (best,) * self.members
        else:
            proposal = compose(self.promises)
            holders = tuple(
                max(self.promises, key=lambda rank: self.promises[rank].frontier[sender])
                for sender in range(self.members)
            )
        self.proposed = Propose(self.member.view.id, self.ballot, proposal, holders)
        self.since = now
        self._ask(now, out)
        self.on_propose(self.member.rank, self.proposed, now, out)

    def on_propose(self, source: Rank, propose: Propose, now: float, out: Effects) -> None:
        """Get what is missing up to the cut; accept once it is here."""
        if self._is_late(source, propose.ballot, now, out):
            return
        if propose.ballot == self.accepted_ballot:
            self._answer(source, Accepted(self.member.view.id, propose.ballot), now, out)
            return
        self.member.stop(now, out)
        if self.pending_proposal is None or self.pending_proposal.ballot != propose.ballot:
            self.pending_proposal, self.asked_by = propose, source
            self.member.fetch(propose.proposal.cut, propose.holders, now, out)
        self.on_progress(now, out)

    def on_progress(self, now: float, out: Effects) -> None:
        """Something came: perhaps it was the last that was missing."""
        wanted = self.pending_proposal
        if wanted is not None and self.decided is None and self.member.ending.is_complete:
            self.pending_proposal = None
            self.accepted_ballot, self.accepted = wanted.ballot, wanted.proposal
            accepted = Accepted(self.member.view.id, wanted.ballot)
            self._answer(self.asked_by, accepted, now, out)

    def on_accepted(self, source: Rank, accepted: Accepted, now: float, out: Effects) -> None:
        """A majority decides."""
        if accepted.ballot != self.ballot or self.proposed is None or self.decided is not None:
            return
        self.accepts.add(source)
        if len(self.accepts) >= self.quorum:
            holder = min(self.accepts)
            proposal = self.proposed.proposal
            decided = Decided(self.member.view.id, proposal, holder)
            informed = {life.pid for life in (*self.member.view.members, *proposal.next.members)}
            out.send.append(
                (sorted(informed - {self.member.view.members[self.member.rank].pid}), decided)
            )
            self.on_decided(decided, now, out)

    def on_refused(self, refused: BallotRejected, now: float) -> None:
        """A higher ballot was promised."""
        if self.ballot and refused.promised > self.ballot:
            self.promised = max(self.promised, refused.promised)
            self.give_up(now)

    def on_decided(self, decided: Decided, now: float, out: Effects) -> None:
        """It is settled; what is missing up to the cut has to come first."""
        sources = (decided.holder,) * self.members
        if self.decided is None:
            self.decided = decided.proposal
            self.ballot, self.retry_at = 0, NEVER
            self.member.stop(now, out)
            self.member.fetch(decided.proposal.cut, sources, now, out)
        elif not self.is_complete and self.member.ending.holders != sources:
            self.member.fetch(self.decided.cut, sources, now, out)  # The first may have left.

    @property
    def is_complete(self) -> bool:
        """Whether the view is decided and everything is here that is to be delivered before."""
        return self.decided is not None and self.member.ending.is_complete

    def _answer(self, rank: Rank, answer: ViewDatagram, now: float, out: Effects) -> None:
        if rank != self.member.rank:
            out.send.append(((self.member.view.members[rank].pid,), answer))
        elif isinstance(answer, Promise) and answer.ballot == self.ballot:
            self.promises[rank] = answer
        elif isinstance(answer, Accepted):
            self.on_accepted(rank, answer, now, out)
