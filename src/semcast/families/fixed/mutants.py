"""Deliberately broken protocols: what the monitors and the swarm must catch.

Each mutant replaces one method for one run and is named after the mistake.  They exist only
here: nothing in the API leads to them.  A mutant that survives is a missing test.
"""

from collections.abc import Callable
from typing import Any

from semcast.core.member import Member
from semcast.core.member_buffers import MemberBuffers
from semcast.core.order.fifo import FifoQueue
from semcast.core.order.item import ItemQueue
from semcast.core.purging_buffer import PurgingBuffer
from semcast.core.receiver import Receiver
from semcast.core.repair_requester import RepairRequester
from semcast.core.retransmission_store import RetransmissionStore
from semcast.core.stability import QuorumDetector
from semcast.families.testing import MutantTable
from semcast.kernel import Run, run_of, runs_of
from semcast.terms.effects import Effects
from semcast.terms.ids import Rank, Seq
from semcast.terms.messages import DataMessage, PurgeNotice

MUTANTS = MutantTable()


@MUTANTS.add(
    "lose-predecessors", MemberBuffers, "_deliver", scenario="causal-relay", swarm="causal"
)
@MUTANTS.add("canary", MemberBuffers, "_deliver", scenario="slow-member", swarm="s-rm")
def drop_deliveries(original: Any) -> Callable[..., Any]:
    """The canary: every third message is not delivered, and nobody is told."""

    def deliver(self: MemberBuffers, run: Run, out: Effects) -> None:
        remaining = [message for message in run.messages() if message.seq % 3]
        self.ready -= run.count - len(remaining)
        for part in runs_of(remaining):
            original(self, part, out)

    return deliver


@MUTANTS.add(
    "purge-before-safe", RetransmissionStore, "purge", scenario="slow-member", swarm="s-rm"
)
def purge_before_safe(original: Any) -> Callable[..., Any]:
    """The naive implementation of SRB §2.2: purge as soon as something newer is here."""

    def purge(self: RetransmissionStore, sender: Rank) -> list[tuple[DataMessage, Seq]]:
        stored = self.stream(sender)
        stored.safe = max([stored.safe, *stored.buffer.held])
        return original(self, sender)  # type: ignore[no-any-return]

    return purge


@MUTANTS.add("heard-counts-as-reached", Member, "__init__", scenario="purge-crash", swarm="s-rm")
def heard_counts_as_reached(original: Any) -> Callable[..., Any]:
    """Votes for what was heard of, in order or not."""

    def init(self: Member, *args: Any) -> None:
        original(self, *args)
        self.safety.frontier = self.receiver.known

    return init


@MUTANTS.add("sent-counts-as-held", QuorumDetector, "_vote", scenario="slow-member", swarm="s-rm")
def sent_counts_as_held(original: Any) -> Callable[..., Any]:
    """A sender takes it that everyone holds what it has sent to everyone."""

    def vote(self: QuorumDetector, sender: Rank) -> None:
        if sender == self.rank:
            self.voters[sender] |= self.live
        original(self, sender)

    return vote


@MUTANTS.add("f-votes-suffice", QuorumDetector, "_has_quorum", scenario="slow-member", swarm="s-rm")
def f_votes_suffice(original: Any) -> Callable[..., Any]:
    """Off by one: safe with f votes instead of f + 1."""

    def has_quorum(self: QuorumDetector, voters: int) -> bool:
        if self.quorum is None:
            return bool(original(self, voters))
        return voters.bit_count() >= self.quorum - 1

    return has_quorum


@MUTANTS.add(
    "reclaim-on-majority", QuorumDetector, "_has_quorum", scenario="lost-tail", swarm="s-rm"
)
@MUTANTS.add(
    "reclaim-on-majority-s-sm",
    QuorumDetector,
    "_has_quorum",
    scenario="lost-tail-s-sm",
    swarm="s-sm",
)
def reclaim_on_majority(original: Any) -> Callable[..., Any]:
    """Stable when most have it."""

    def has_quorum(self: QuorumDetector, voters: int) -> bool:
        if self.quorum is not None:
            return bool(original(self, voters))
        return 2 * voters.bit_count() > self.live.bit_count()

    return has_quorum


@MUTANTS.add("skip-without-notice", Receiver, "_keep_ahead", scenario="duplicates", swarm="s-rm")
def skip_without_notice(original: Any) -> Callable[..., Any]:
    """A gap in front of a message that came is taken for a purge [SRB §2.2]."""

    def keep_ahead(self: Receiver, message: DataMessage, source: Rank, out: Effects) -> None:
        sender = message.sender
        first = self.frontier[sender] + 1
        if first < message.seq and not message.after:
            self._skip(PurgeNotice(sender, first, message.seq - 1, message.seq), source, out)
            self._admit(message, source, out)
            self._advance(sender, source, out)
        else:
            original(self, message, source, out)

    return keep_ahead


@MUTANTS.add("forget-purged", RetransmissionStore, "purge", scenario="purge-crash", swarm="s-rm")
def forget_purged(original: Any) -> Callable[..., Any]:
    """Who purges keeps no notice of it."""

    def purge(self: RetransmissionStore, sender: Rank) -> list[tuple[DataMessage, Seq]]:
        purged: list[tuple[DataMessage, Seq]] = original(self, sender)
        for message, _ in purged:
            self.stream(sender).holes.forget(message.seq)
        return purged

    return purge


@MUTANTS.add("resurrect-duplicates", Receiver, "_discard", scenario="duplicates", swarm="s-rm")
def resurrect_duplicates(original: Any) -> Callable[..., Any]:
    """A late copy of a message that was purged here is queued again."""

    def discard(self: Receiver, message: DataMessage, why: str, source: Rank, out: Effects) -> None:
        held = self.buffers.queue.holds(message) or self.buffers.store.holds(message)
        late = why == "duplicate" and message.seq <= self.frontier[message.sender]
        queue = self.buffers.queue
        if late and not held and queue and isinstance(queue, FifoQueue):
            self.buffers.count_held(message)
            queue.push(run_of([message]))
            queue.by_sender[message.sender].index.add(message)
        else:
            original(self, message, why, source, out)

    return discard


@MUTANTS.add("deliver-twice", Receiver, "_discard", scenario="duplicates", swarm="s-rm")
def deliver_twice(original: Any) -> Callable[..., Any]:
    """The duplicate of the newest message passes for the next one."""

    def discard(self: Receiver, message: DataMessage, why: str, source: Rank, out: Effects) -> None:
        newest = why == "duplicate" and message.seq == self.frontier[message.sender]
        if newest and self.buffers.ready > 0 and not self.buffers.queue:
            self.buffers._deliver(run_of([message]), out)
        else:
            original(self, message, why, source, out)

    return discard


@MUTANTS.add(
    "only-the-sender-repairs", RepairRequester, "_target", scenario="sender-crash", swarm="s-rm"
)
def only_the_sender_repairs(original: Any) -> Callable[..., Any]:
    """Nobody else is ever asked."""

    def target(self: RepairRequester, sender: Rank, attempts: int) -> Rank:
        return sender

    return target


@MUTANTS.add("tail-loss-undetected", Receiver, "learn_indirect", scenario="lost-tail", swarm="s-rm")
@MUTANTS.add(
    "tail-loss-undetected-s-sm", Receiver, "learn_indirect", scenario="lost-tail-s-sm", swarm="s-sm"
)
def tail_loss_undetected(original: Any) -> Callable[..., Any]:
    """Gossip and *window empty* are no hints: only a later message shows a gap."""

    def hear(self: Receiver, sender: Rank, seq: Seq) -> None:
        pass

    return hear


@MUTANTS.add("purge-the-newer", FifoQueue, "push", scenario="slow-member", swarm="s-rm")
def purge_the_newer(original: Any) -> Callable[..., Any]:
    """The newcomer goes, the obsolete message stays."""

    def push(self: FifoQueue, run: Run) -> list[tuple[DataMessage, Seq]]:
        purged: list[tuple[DataMessage, Seq]] = []
        for message in run.messages():
            older = self.would_purge(message)
            purged += [(message, older[0].seq)] if older else original(self, run_of([message]))
        return purged

    return push


@MUTANTS.add("purge-the-wrong-item", PurgingBuffer, "purge", scenario="slow-member", swarm="s-rm")
def purge_the_wrong_item(original: Any) -> Callable[..., Any]:
    """One item's update supersedes another's."""

    def purge(self: PurgingBuffer, horizon: Seq) -> list[tuple[DataMessage, Seq]]:
        applied = [by for by in self.unapplied if by.seq <= horizon and by.item is not None]
        purged: list[tuple[DataMessage, Seq]] = original(self, horizon)
        for by in applied if self.by_item is not None else []:
            older = [m for m in self.held.values() if m.seq < by.seq and m.item is not None]
            if by.seq in self.held:
                purged += [(self.remove(m.seq), by.seq) for m in older if not m.never_purge]
        return purged

    return purge


@MUTANTS.add("purge-what-must-stay", PurgingBuffer, "purge", scenario="slow-member", swarm="s-rm")
def purge_what_must_stay(original: Any) -> Callable[..., Any]:
    """ "Never purge" is forgotten."""

    def purge(self: PurgingBuffer, horizon: Seq) -> list[tuple[DataMessage, Seq]]:
        applied = [by for by in self.unapplied if by.seq <= horizon and by.item is not None]
        purged: list[tuple[DataMessage, Seq]] = original(self, horizon)
        for by in applied:
            same = [m for m in self.held.values() if m.never_purge and m.item == by.item]
            purged += [(self.remove(m.seq), by.seq) for m in same if m.seq < by.seq]
        return purged

    return purge


@MUTANTS.add("move-across-kept", ItemQueue, "_place", scenario="in-place", swarm="s-rm")
def move_across_kept(original: Any) -> Callable[..., Any]:
    """Under order `item` a newer value overtakes one that may not be purged."""

    def place(self: ItemQueue, message: DataMessage, purged: list[tuple[DataMessage, Seq]]) -> int:
        self.barrier[message.sender] = 0
        return int(original(self, message, purged))

    return place


@MUTANTS.add("ignore-causality", Receiver, "_is_due", scenario="causal-relay", swarm="causal")
def ignore_causality(original: Any) -> Callable[..., Any]:
    """Predecessors of other senders are not waited for."""

    def is_due(self: Receiver, message: DataMessage) -> bool:
        return True

    return is_due


@MUTANTS.add(
    "early-never-gives-way", Receiver, "_give_way", scenario="early-arrivals", swarm="s-rm"
)
def early_never_gives_way(original: Any) -> Callable[..., Any]:
    """Messages ahead of a gap keep the room that closing it needs: FIFO deadlock."""

    def give_way(self: Receiver, sender: Rank, out: Effects) -> bool:
        return False

    return give_way


@MUTANTS.add("no-reserve", MemberBuffers, "_make_room", scenario="crossed-buffers", swarm="s-rm")
def no_reserve(original: Any) -> Callable[..., Any]:
    """A full buffer admits nothing, even of a sender of whom nothing is held."""

    def make_room(self: MemberBuffers, message: DataMessage, out: Effects) -> bool:
        return self.held_by_sender[message.sender] > 0 and bool(original(self, message, out))

    return make_room
