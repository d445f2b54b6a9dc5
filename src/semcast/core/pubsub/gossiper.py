"""Periodic exchange with one other member: what is lacked, what is known, who takes part.

Pull (`rpbcast`): negative gossip with two signatures; whoever disagrees answers with its list, and
both merge [RPB §4.1, §5.1, §5.3].  Push (`pbcast`): a digest of what is held [RPB §7.4].
An acknowledgement is derived only from a complete account, of a member that the logger knows in
this life, with the same membership: a bare signature proves neither [RPB §5.2].
Variable rate: while nothing is lacked, active or in doubt, the period doubles up to its maximum.
"""

from collections.abc import Callable, Iterable
from random import Random
from typing import Protocol

from semcast.core.pubsub.gossip_buffer import GossipBuffer
from semcast.core.pubsub.member_table import MemberTable
from semcast.core.pubsub.recipe import PubsubRecipe
from semcast.core.pubsub.recovery import Recovery
from semcast.core.pubsub.repair_trace import trace_request
from semcast.core.pubsub.seq_tracker import SeqTracker
from semcast.core.pubsub.target_selection import TargetSelection
from semcast.terms.effects import Effects
from semcast.terms.ids import NEVER, Rank, Seq
from semcast.terms.pubsub import (
    STREAMS_MAX,
    Gossip,
    GossipDigest,
    MemberEntry,
    MemberList,
    RepairRequest,
    StatusList,
    StreamStatus,
)


class AckSource(Protocol):
    """What a member may say that it has: a subscriber's delivery, or a logger's log as well."""

    @property
    def tracker(self) -> SeqTracker:
        """What it has of every stream."""

    @property
    def is_complete(self) -> bool:
        """Whether it may be taken for an acknowledgement at all."""

    def acked_upto(self, sender: Rank) -> Seq:
        """Up to where it will never ask again."""

    def not_fully_acked(self) -> dict[Rank, None]:
        """The streams that it does not claim up to their last number."""


class Gossiper:
    """Lives as long as the participant.  Invariant: `deadline` is NEVER while it is no member."""

    def __init__(
        self,
        recipe: PubsubRecipe,
        account: AckSource,
        roster: MemberTable,
        selection: TargetSelection,
        recovery: Recovery,
        buffer: GossipBuffer,
        rng: Random,
    ) -> None:
        self.recipe = recipe
        self.account = account
        self.tracker = account.tracker
        self.roster = roster
        self.selection = selection
        self.recovery = recovery
        self.buffer = buffer
        self.rng = rng
        self.loggers = frozenset(recipe.logger_pids)
        self.is_logger = roster.pid in self.loggers
        self.pushes = recipe.protocol == "pbcast"
        self.period_s = recipe.period_s
        self.deadline = NEVER

    def __repr__(self) -> str:
        return f"Gossiper(period={self.period_s}, deadline={self.deadline})"

    def start(self, now: float) -> None:
        """The participant is a member from here on."""
        if self.recipe.has_gossip:
            self.deadline = now + self.recipe.period_s * self.rng.random()

    def stop(self) -> None:
        """The participant is no member, or out of reach."""
        self.deadline = NEVER

    def gossip_fast(self, now: float) -> None:
        """Something is amiss: back to the shortest period."""
        self.period_s = self.recipe.period_s
        if self.deadline != NEVER:
            self.deadline = min(self.deadline, now + self.period_s)

    def on_time(self, now: float, out: Effects) -> None:
        """One round."""
        if now < self.deadline:
            return
        self.tracker.on_round()
        self.buffer.on_time(now)
        is_busy = bool(self.tracker.active or self.tracker.gaps)
        self.period_s = min(
            self.recipe.period_s if is_busy else 2 * self.period_s, self.recipe.period_max_s
        )
        self.deadline = now + self.period_s
        peer = self.selection.pick()
        if peer is None:
            return
        self.selection.on_asked(peer, now)
        if self.pushes:
            holds = self.buffer.digest(STREAMS_MAX)
            out.send.append(((peer,), GossipDigest(self.roster.signature, holds)))
        else:
            out.send.append(((peer,), self._compose(peer, out)))

    def request_now(self, now: float, out: Effects) -> None:
        """Ask somebody for what was just found missing [RPB §4.1]."""
        lacks = self.recovery.take_urgent(out)
        peer = self.selection.pick() if lacks and self.deadline != NEVER else None
        if peer is not None:
            self.selection.on_asked(peer, now)
            trace_request(self.recovery.pid, peer, lacks, out)
            out.send.append(((peer,), RepairRequest(lacks)))
            self.gossip_fast(now)

    def _compose(self, peer: Rank, out: Effects) -> Gossip:
        tracker, account = self.tracker, self.account
        lacks = self.recovery.gossip_missing(out)
        trace_request(self.recovery.pid, peer, lacks, out)
        probe = self.selection.needs_rtt_probe(peer)
        fresh, members = self.roster.fresh, self.roster.signature
        if peer not in self.loggers:
            own = (self._heard(peer),) if self.is_logger and peer in tracker.streams else ()
            heard = tracker.signature_without(tracker.active)
            return Gossip(fresh, members, heard, lacks, own, False, probe)
        listed = dict.fromkeys([*tracker.active, *account.not_fully_acked()])
        streams = tuple(self._heard(sender) for sender in listed)
        heard = tracker.signature_without(listed)
        return Gossip(fresh, members, heard, lacks, streams, account.is_complete, probe)

    def _heard(self, sender: Rank) -> StreamStatus:
        return self.tracker.status_of(sender, self.account.acked_upto(sender))

    def status_list(self, *, wants_answer: bool) -> StatusList:
        """Everything that is known of every stream."""
        streams = tuple(self._heard(sender) for sender in self.tracker.streams)
        is_whole = self.account.is_complete
        return StatusList(self.roster.fresh, self.roster.signature, streams, wants_answer, is_whole)

    def on_gossip(self, peer: Rank, gossip: Gossip, now: float, out: Effects) -> bool:
        """Compare and merge; whether both signatures agree."""
        tracker = self.tracker
        for heard in gossip.streams:
            tracker.learn_last(heard.sender, heard.last)
        agree = self._compare_members(peer, gossip.members, out)
        listed: Iterable[Rank] = tracker.active
        if self.is_logger:
            listed = [heard.sender for heard in gossip.streams]
        if gossip.heard != tracker.signature_without(listed):
            out.send.append(((peer,), self.status_list(wants_answer=True)))
            self.gossip_fast(now)
            agree = False
        return agree

    def on_digest(self, peer: Rank, digest: GossipDigest, out: Effects) -> None:
        """Ask the gossiper for what it has and this member lacks."""
        self._compare_members(peer, digest.members, out)
        wanted = self.recovery.on_digest(digest.holds, out)
        if wanted:
            trace_request(self.recovery.pid, peer, wanted, out)
            out.send.append(((peer,), RepairRequest(wanted)))

    def _compare_members(self, peer: Rank, signature: int, out: Effects) -> bool:
        if signature == self.roster.signature:
            return True
        for members in self.roster.digest(wants_answer=True):
            out.send.append(((peer,), members))
        return False

    def on_lasts(self, peer: Rank, lasts: StatusList, now: float, out: Effects) -> bool:
        """Merge a list; whether the membership agrees, so that it counts."""
        for heard in lasts.streams:
            if self.tracker.learn_last(heard.sender, heard.last):
                self.gossip_fast(now)
        is_logged = self.is_logger or peer in self.loggers  # It counts, or is waited for.
        if lasts.wants_answer and (is_logged or self._is_behind(lasts)):
            out.send.append(((peer,), self.status_list(wants_answer=False)))
        return lasts.members == self.roster.signature

    def _is_behind(self, lasts: StatusList) -> bool:
        last_of = {heard.sender: heard.last for heard in lasts.streams}
        return any(last_of.get(s, 0) < stream.last for s, stream in self.tracker.streams.items())

    def on_members(
        self,
        peer: Rank,
        members: MemberList,
        merge: Callable[[MemberEntry, Effects], None],
        out: Effects,
    ) -> None:
        """Merge what a peer knows, and tell it what it does not [RPB §5.3]."""
        for entry in members.entries:
            merge(entry, out)
        if not members.wants_answer:
            return
        fresher = self.roster.newer_entries(members)
        if fresher:
            out.send.append(((peer,), MemberList(members.first, members.last, fresher, False)))
        if peer in self.loggers and members.last == self.recipe.members - 1 and not self.pushes:
            out.send.append(((peer,), self.status_list(wants_answer=False)))  # Now it counts.
