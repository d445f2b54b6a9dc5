"""Stability and safety: how far has everyone, or have f + 1, come in each stream?

Guarantees: `agreed[s]` was reached in stream s by the frontiers of a quorum.  All members make
it *stability*, f + 1 make it *safety* [SRM §5.3].
Idea: members gossip one candidate per stream with the set of those that reached it.  Whoever
reached a higher candidate reached the lower one, so two ballots merge into the lower with both
sets of voters; that is true whatever was lost, repeated or late, and needs no rounds.  A member
behind the candidate lowers it to its own frontier.  A member behind the agreed number sends no
vote, so it does not delay safety.
Departs, if `direct`: in a small group gossip goes to the senders of streams, which learn directly
how far each peer has come, and sometimes to a random member, in case a sender is gone.
A sender announces what is stable before it sends anything else.  If it emptied its own buffer
first, the others would have no room for what it sends next.
Rejected: gossiping everybody's frontier, n entries per stream instead of one.
"""

from collections.abc import Iterable, Mapping, Sequence
from random import Random

from semcast.core.port import Port
from semcast.terms.effects import Effects
from semcast.terms.ids import NEVER, Rank, Seq
from semcast.terms.messages import FrontierVote, SafetyGossip, StabilityGossip

DIRECT_MEMBERS_MAX = 64  # In a group of so many, a sender can hear from everyone in every round;
RANDOM_PEER_EVERY = 8  # in one round of so many, gossip goes to anybody.


class QuorumDetector:
    """Lives as long as the member.  Invariant: each voter's frontier is >= the candidate."""

    def __init__(
        self,
        rank: Rank,
        members: int,
        quorum: int | None,
        frontier: list[Seq],
        rng: Random,
        period_s: float,
        fanout: int,
        gossip: type[StabilityGossip] | type[SafetyGossip],
        gossip_after: int | None = None,
        direct: bool = False,
        bases: Sequence[Seq] = (),
        port: Port | None = None,
    ) -> None:
        self.port = port or Port()
        bases = bases or (0,) * members
        self.rank = rank
        self.quorum = quorum  # None: every member that was not forgotten
        self.live = (1 << members) - 1
        self.frontier = frontier  # shared with the receiver, which alone writes it
        self.rng = rng
        self.period_s = period_s
        self.fanout = fanout
        self.gossip_after = gossip_after  # Gossip is due at once when a frontier has moved so far.
        self.last_gossiped: list[Seq] = list(bases)  # the own frontiers as last gossiped
        self.gossip = gossip
        self.peers = [peer for peer in range(members) if peer != rank]
        self.present = {*self.peers, rank}  # whoever was not forgotten
        self.agreed: list[Seq] = list(bases)
        self.candidate: list[Seq] = [0] * members
        self.voters: list[int] = [0] * members
        # How far each has come in the own stream.
        self.peer_frontier: list[Seq] = [bases[rank]] * members
        self.direct = direct and members <= DIRECT_MEMBERS_MAX
        self.round = 0
        # Peers that the last announcement may not have reached yet.
        self.announced_to: set[Rank] = set()
        self.enabled = True
        self.unagreed: dict[Rank, None] = {}  # streams not agreed up to what is known here
        self.closed: set[Rank] = set()  # streams that nobody can repair: nothing to agree on
        self.to_update: dict[Rank, dict[Rank, None]] = {}  # peers to tell, and of which streams
        self.deadline = NEVER

    def __repr__(self) -> str:
        return (
            f"QuorumDetector(quorum={self.quorum}, agreed={self.agreed}, "
            f"candidate={self.candidate}, voters={[bin(v) for v in self.voters]})"
        )

    def on_frontier(self, sender: Rank, now: float) -> None:
        """The member's own frontier in a stream moved; need not be told while this is disabled."""
        if self.frontier[sender] <= self.agreed[sender]:
            return  # A quorum without this member came here first.
        self.unagreed[sender] = None
        if not self.enabled:
            return
        after = self.gossip_after
        if after is not None and self._ungossiped(sender) >= after:
            self.deadline = min(self.deadline, now)
        elif self.deadline == NEVER:
            self.deadline = now + self.period_s * (0.5 + 0.5 * self.rng.random())

    def _ungossiped(self, sender: Rank) -> int:
        """By how much the own frontier has moved beyond what the others may know."""
        return self.frontier[sender] - max(self.last_gossiped[sender], self.agreed[sender])

    def gossip_now(self, now: float) -> None:
        """Gossip without delay what there is to say."""
        if self.enabled and self.unagreed:
            self.deadline = min(self.deadline, now)

    def enable(self, enabled: bool, streams: Iterable[Rank], now: float) -> None:
        """Switch own initiative on or off; peers that ask are answered all the same.

        Of other streams than these there is nothing to agree on.
        """
        if enabled:
            self.unagreed.update(
                (sender, None)
                for sender in streams
                if self.frontier[sender] > self.agreed[sender] and sender not in self.closed
            )
        if enabled and self.unagreed and self.deadline == NEVER:
            self.deadline = now + self.period_s * self.rng.random()
        self.enabled = enabled

    def on_gossip(self, peer: Rank, ballots: tuple[FrontierVote, ...], now: float) -> list[Rank]:
        """Merge a peer's knowledge; the streams in which agreement advanced.

        Idempotent: loss, duplicates and delay are harmless.
        """
        advanced, mine = [], 1 << self.rank
        for ballot in ballots:
            sender = ballot.sender
            if sender in self.closed:
                continue
            before = self.agreed[sender]
            if self._merge(ballot) or not self.voters[sender] & mine:
                self._vote(sender)
                if self.agreed[sender] > before:
                    advanced.append(sender)
            if sender == self.rank and peer in self.announced_to:
                self.announced_to.remove(peer)
            elif ballot.agreed < self.agreed[sender] or (
                not self.enabled and self._owes_vote(ballot)
            ):
                self.to_update.setdefault(peer, {})[sender] = None
        if (self.to_update or (self.enabled and self.unagreed)) and self.deadline == NEVER:
            self.deadline = now + self.period_s * self.rng.random()
        return advanced

    def on_agreed(self, sender: Rank, agreed: Seq) -> list[Rank]:
        """Somebody says what was agreed; the streams in which that is news."""
        if agreed <= self.agreed[sender]:
            return []
        self._agree(sender, agreed)
        return [sender]

    def on_peer_frontier(self, peer: Rank, frontier: Seq) -> bool:
        """A peer has come so far in the own stream; whether agreement advanced."""
        rank, claimed = self.rank, self.peer_frontier
        if not self.direct or frontier <= claimed[peer] or rank in self.closed:
            return False
        claimed[peer] = frontier
        claimed[rank] = self.frontier[rank]
        voters = 0
        for each in sorted(range(len(claimed)), key=claimed.__getitem__, reverse=True):
            if claimed[each] <= self.agreed[rank]:
                return False
            voters |= 1 << each
            if self._has_quorum(voters):
                self._agree(rank, min(claimed[each], self.frontier[rank]))
                return True
        return False

    def announce(self, audience: Sequence[Rank], out: Effects) -> None:
        """Tell what was agreed on the own stream."""
        self.port.send(audience, self._compose((self.rank,)), out)
        self.announced_to = set(self.peers)

    def reached(self, ballot: FrontierVote) -> Seq:
        """The candidate, if a member that was not forgotten has reached it; else 0."""
        return ballot.candidate if int.from_bytes(ballot.voters, "little") & self.live else 0

    def _owes_vote(self, ballot: FrontierVote) -> bool:
        """Whether a peer lacks a vote that own gossip, switched off, will not bring it."""
        mine = 1 << self.rank
        if not self.voters[ballot.sender] & mine:
            return False
        return not int.from_bytes(ballot.voters, "little") & mine

    def _merge(self, ballot: FrontierVote) -> bool:
        """Take in what a peer knows of a stream; whether that is news."""
        sender, is_news = ballot.sender, False
        if ballot.agreed > self.agreed[sender]:
            self._agree(sender, ballot.agreed)
            is_news = True
        if ballot.candidate <= self.agreed[sender]:
            return is_news
        voters = int.from_bytes(ballot.voters, "little")
        if not voters & self.live:
            return is_news  # Whoever reached it was forgotten; nobody may have it.
        self.unagreed[sender] = None
        candidate, before = self.candidate[sender], self.voters[sender]
        if not candidate or ballot.candidate < candidate:
            self.candidate[sender] = ballot.candidate
            is_news = True
        if voters | before != before:
            self.voters[sender] = voters | before
            is_news = True
        return is_news

    def _vote(self, sender: Rank) -> None:
        """Add the own vote where it is true, and agree while there is a quorum."""
        while True:
            frontier, candidate = self.frontier[sender], self.candidate[sender]
            if frontier > self.agreed[sender]:
                if not candidate or frontier < candidate:
                    candidate = self.candidate[sender] = frontier
                self.voters[sender] |= 1 << self.rank
            if not candidate or not self._has_quorum(self.voters[sender]):
                return
            self._agree(sender, candidate)
            if self.direct and sender in self.peers:
                self.to_update.setdefault(sender, {})[sender] = None  # It counts for itself.

    def _has_quorum(self, voters: int) -> bool:
        if self.quorum is None:
            return voters & self.live == self.live
        return voters.bit_count() >= self.quorum

    def _agree(self, sender: Rank, seq: Seq) -> None:
        self.agreed[sender] = seq
        if self.candidate[sender] <= seq:
            self.candidate[sender] = self.voters[sender] = 0
        if self.frontier[sender] <= seq and not self.candidate[sender]:
            self.unagreed.pop(sender, None)

    def on_time(self, now: float, out: Effects) -> list[Rank]:
        """Gossip if it is time; the streams in which the own vote completed agreement."""
        if now < self.deadline:
            return []
        mine = 1 << self.rank
        # Elsewhere the own vote counts already: whatever came since was counted with it.
        advanced = self._vote_in([s for s in self.unagreed if not self.voters[s] & mine])
        self._send(out)
        busy = self.enabled and self.unagreed
        self.deadline = now + self.period_s if busy else NEVER
        return advanced

    def _vote_in(self, streams: list[Rank]) -> list[Rank]:
        advanced = []
        for sender in streams:
            before = self.agreed[sender]
            self._vote(sender)
            if self.agreed[sender] > before:
                advanced.append(sender)
        return advanced

    def _send(self, out: Effects) -> None:
        behind, self.to_update = self.to_update, {}
        for peer, streams in behind.items():
            about = streams | self.unagreed if self.enabled else streams
            self.port.send((peer,), self._compose(about), out)
        if not (self.enabled and self.unagreed):
            return
        for sender in self.unagreed:
            self.last_gossiped[sender] = self.frontier[sender]
        targets = self._targets(behind)
        if targets:
            self.port.send(targets, self._compose(self.unagreed), out)

    def _targets(self, answered: Mapping[Rank, object]) -> list[Rank]:
        """Whom to tell besides those that are answered anyway."""
        targets = self.peers
        if answered:
            targets = [peer for peer in self.peers if peer not in answered]
        self.round += 1
        if self.direct and self.round % RANDOM_PEER_EVERY and self.unagreed.keys() <= self.present:
            if self.quorum is not None:
                return []  # Gossip of stability makes the same claims.
            return [peer for peer in targets if peer in self.unagreed]
        wanted = max(0, self.fanout - len(answered))
        if len(targets) <= wanted:
            return targets
        if wanted == 1:  # A sample of one draws the same, at three times the cost.
            return [self.rng.choice(targets)]
        return self.rng.sample(targets, wanted)

    def _compose(self, streams: Iterable[Rank]) -> StabilityGossip | SafetyGossip:
        ballots = []
        for sender in streams:
            voters = self.voters[sender]
            ballots.append(
                FrontierVote(
                    sender,
                    self.frontier[sender],
                    self.candidate[sender],
                    voters.to_bytes((voters.bit_length() + 7) // 8, "little"),
                    self.agreed[sender],
                )
            )
        return self.gossip(tuple(ballots))

    def close(self, sender: Rank) -> None:
        """Say and hear no more of a stream."""
        self.closed.add(sender)
        self.candidate[sender] = self.voters[sender] = 0
        self.unagreed.pop(sender, None)

    def forget(self, member: Rank) -> list[Rank]:
        """Go on without a member; the streams in which it had held up agreement."""
        self.live &= ~(1 << member)
        self.to_update.pop(member, None)
        self.peers = [peer for peer in self.peers if peer != member]
        self.present.discard(member)
        for sender in list(self.unagreed):
            if not self.voters[sender] & self.live:
                self.candidate[sender] = self.voters[sender] = 0
                if self.frontier[sender] <= self.agreed[sender]:
                    del self.unagreed[sender]
        return self._vote_in(list(self.unagreed))
