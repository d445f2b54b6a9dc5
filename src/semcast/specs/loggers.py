"""The promises of loggers to subscribers and to senders.

A subscriber joins with a vector time: it is owed every message that its sender multicast after the
number named there [RPB §5.3].  It is settled about a message once it delivered or declined it; or
a notice said that it is obsolete, and the newer message was delivered or reported lost; or a notice
said that it will not come, and the trace shows why: a logger collected it by age, or no disk holds
it any more.  Numbers continue when a sender recovers, and deliveries of earlier lives count.

Rule: Reliable Multicast [RPB §2.1], with crashes [RPB §6.1]; stability-oriented collection
[RPB §5.2]; a logger acknowledges what it has on stable storage [RPB §3.2].
Departs: what its sender took with it when it crashed, before it was acknowledged, is not owed; it
counts as acknowledged when `copies` loggers have it.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from semcast.specs.history import EventHandler
from semcast.specs.relation import ObsolescenceRelation
from semcast.specs.violations import ViolationLog
from semcast.terms.declared import declared_by
from semcast.terms.events import (
    ACKNOWLEDGE,
    AGE,
    APPEND,
    CRASH,
    DELIVER,
    DISK,
    INTEREST,
    JOIN,
    LEAVE,
    MULTICAST,
    RECEIVE,
    RECLAIM,
    RECOVER,
    SKIP,
    Event,
)
from semcast.terms.ids import Rank, Seq


def join_vector(join: Event) -> dict[Rank, Seq]:
    """The last number of each sender that the subscriber is not owed."""
    pairs = (pair.split(":") for pair in join.note.split())
    return {int(sender): int(seq) for sender, seq in pairs}


def leaving_pid(event: Event) -> Rank:
    """Of whom a `leave` speaks: of who said it, or of who was excluded."""
    return event.pid if event.peer < 0 else event.peer


class StreamKnowledge(NamedTuple):
    """What one subscriber knows of one sender's stream."""

    resolved: set[Seq]  # delivered or declined
    lost: dict[Seq, Event]  # skipped, because it will not come
    obsolete: set[Seq]  # skipped as obsolete


class ReliableDelivery:
    """At the end of a complete run every subscriber is settled about every message after its
    vector.  Who is down or has left is owed nothing.

    What it goes by is either at one process or at any time, so clocks do not matter.
    """

    __slots__ = (
        *("_acknowledged", "_aged", "_crashed", "_disks", "_down", "_known", "_ledger"),
        *("_multicast", "_relation", "_subscribed", "checked"),
    )

    def __init__(self, ledger: ViolationLog, relation: str) -> None:
        self._ledger = ledger
        self._relation = ObsolescenceRelation(relation)
        self.checked = 0  # pairs of a subscriber and a message that it is owed
        self._multicast: defaultdict[Rank, dict[Seq, Event]] = defaultdict(dict)
        self._acknowledged: defaultdict[Rank, set[Seq]] = defaultdict(set)
        self._crashed: dict[Rank, int] = {}  # the last incarnation that crashed
        self._aged: dict[Rank, Seq] = {}  # by sender, how far some logger collected by age
        self._disks: defaultdict[Rank, defaultdict[Rank, set[Seq]]]  # by logger and sender
        self._disks = defaultdict(lambda: defaultdict(set))
        self._subscribed: dict[Rank, dict[Rank, Seq]] = {}
        self._down: set[Rank] = set()
        self._known: defaultdict[tuple[Rank, Rank], StreamKnowledge]
        self._known = defaultdict(
            lambda: StreamKnowledge(set(), {}, set())
        )  # by subscriber and sender

    def handlers(self) -> Mapping[str, EventHandler]:
        """The events it learns from."""
        return {
            MULTICAST: self.on_multicast,
            APPEND: self.on_append,
            ACKNOWLEDGE: self.on_acknowledge,
            RECLAIM: self.on_reclaim,
            DELIVER: self.on_deliver,
            SKIP: self.on_skip,
            JOIN: self.on_join,
            LEAVE: self.on_leave,
            CRASH: self.on_crash,
            RECOVER: self.on_recover,
        }

    def on_multicast(self, event: Event) -> None:
        """Learn a message and its place in the relation."""
        if event.message is not None and event.seq not in self._multicast[event.sender]:
            self._multicast[event.sender][event.seq] = event
            self._relation.on_multicast(declared_by(event))

    def on_append(self, event: Event) -> None:
        """One more disk holds it."""
        self._disks[event.pid][event.sender].add(event.seq)

    def on_acknowledge(self, event: Event) -> None:
        """It is owed even if its sender crashes."""
        self._acknowledged[event.sender].add(event.seq)

    def on_reclaim(self, event: Event) -> None:
        """What is collected by age may be missed; by stability, `collection_safety` judges."""
        if event.note == AGE:
            self._aged[event.sender] = max(event.seq, self._aged.get(event.sender, 0))

    def on_deliver(self, event: Event) -> None:
        """Settled."""
        self._known[event.pid, event.sender].resolved.add(event.seq)

    def on_skip(self, event: Event) -> None:
        """Declined, told that it is obsolete, or told that it will not come."""
        known = self._known[event.pid, event.sender]
        if event.by_seq:
            known.obsolete.add(event.seq)
        elif event.note == INTEREST:
            known.resolved.add(event.seq)
        else:
            known.lost.setdefault(event.seq, event)

    def on_join(self, event: Event) -> None:
        """A new subscription; one that the process had before is over."""
        self._subscribed[event.pid] = join_vector(event)

    def on_leave(self, event: Event) -> None:
        """It is owed nothing any more."""
        self._subscribed.pop(leaving_pid(event), None)

    def on_crash(self, event: Event) -> None:
        """Down; the subscription lasts, but a lost disk holds nothing any more."""
        self._down.add(event.pid)
        self._crashed[event.pid] = max(event.inc, self._crashed.get(event.pid, 0))
        if event.note == DISK:
            self._disks.pop(event.pid, None)

    def on_recover(self, event: Event) -> None:
        """Up again."""
        self._down.discard(event.pid)

    def on_end(self) -> None:
        """Judge each subscriber and stream."""
        for sender, sent in sorted(self._multicast.items()):
            owed, gone = self._owed(sender), self._gone(sender)
            for pid in sorted(self._subscribed.keys() - self._down):
                after, known = self._subscribed[pid].get(sender, 0), self._known[pid, sender]
                settled = known.resolved | (known.lost.keys() & gone)
                missing = set(self._relation.unsatisfied(sender, settled))
                mine = [seq for seq in owed if seq > after]
                self.checked += len(mine)
                for seq in mine:
                    is_obsolete = seq in known.obsolete and seq not in missing
                    if seq not in settled and not is_obsolete:
                        self._report(pid, sent[seq], known)

    def _owed(self, sender: Rank) -> list[Seq]:
        """Its messages without those that it took with it when it crashed."""
        crashed, promised = self._crashed.get(sender, 0), self._acknowledged[sender]
        sent = sorted(self._multicast[sender].items())
        return [seq for seq, event in sent if seq in promised or event.inc > crashed]

    def _gone(self, sender: Rank) -> set[Seq]:
        """Its messages that nobody can get any more: collected by age, or acknowledged and on no
        disk."""
        held = set().union(*(streams[sender] for streams in self._disks.values()))
        aged, promised = self._aged.get(sender, 0), self._acknowledged[sender]
        return {
            seq
            for seq in self._multicast[sender]
            if seq <= aged or (seq in promised and seq not in held)
        }

    def _report(self, pid: Rank, sent: Event, known: StreamKnowledge) -> None:
        sender, seq = sent.sender, sent.seq
        skip = known.lost.get(seq)
        why = "was not notified"
        if skip is not None:
            why = (
                f"was notified that it will not come ({skip.note or 'no reason'}), but no logger "
                "collected it by age and no disk that held it was lost"
            )
        elif seq in known.obsolete:
            why = "was notified that it is obsolete and received nothing newer"
        what = f"subscriber {pid} is owed {sender}:{seq}, did not deliver it and {why}"
        self._ledger.add("reliable_delivery", what, sent, skip)


class CollectionSafety:
    """A logger reclaims a message only when every subscriber that is owed it has it, or by age.

    That includes who joins later with a vector before it.
    """

    __slots__ = ("_has", "_ledger", "_multicast", "_reclaimed", "_subscribed", "checked")

    def __init__(self, ledger: ViolationLog) -> None:
        self._ledger = ledger
        # Pairs of a subscriber and a message that it is owed and that was reclaimed.
        self.checked = 0
        self._multicast: defaultdict[Rank, list[Seq]] = defaultdict(list)
        self._has: defaultdict[tuple[Rank, Rank], set[Seq]] = defaultdict(set)
        # By subscriber and sender: after its vector, it has everything up to this number.
        self._subscribed: dict[Rank, dict[Rank, Seq]] = {}
        self._reclaimed: dict[Rank, Event] = {}  # by sender, the furthest

    def handlers(self) -> Mapping[str, EventHandler]:
        """The events it judges or learns from."""
        return {
            MULTICAST: self.on_multicast,
            **dict.fromkeys((RECEIVE, DELIVER, SKIP), self.on_receive),
            JOIN: self.on_join,
            LEAVE: self.on_leave,
            RECLAIM: self.on_reclaim,
        }

    def on_multicast(self, event: Event) -> None:
        """Learn which numbers are messages."""
        self._multicast[event.sender].append(event.seq)

    def on_receive(self, event: Event) -> None:
        """The process has it, or knows that it will not come."""
        self._has[event.pid, event.sender].add(event.seq)

    def on_join(self, event: Event) -> None:
        """What follows the vector must not have been reclaimed."""
        self._subscribed[event.pid] = join_vector(event)
        for sender, reclaim in self._reclaimed.items():
            lacking = self._lacking(event.pid, sender, reclaim.seq)
            if lacking:
                self._report(reclaim, event.pid, lacking, reclaim, event)

    def on_leave(self, event: Event) -> None:
        """Nobody waits for it any more."""
        self._subscribed.pop(leaving_pid(event), None)

    def on_reclaim(self, event: Event) -> None:
        """Everything of the sender up to the number, at every subscriber."""
        if event.note == AGE:
            return
        furthest = self._reclaimed.get(event.sender)
        if furthest is None or furthest.seq < event.seq:
            self._reclaimed[event.sender] = event
        for pid in self._subscribed:
            lacking = self._lacking(pid, event.sender, event.seq)
            if lacking:
                self._report(event, pid, lacking, event)

    def _lacking(self, pid: Rank, sender: Rank, seq: Seq) -> Seq:
        """The first message up to `seq` that the subscriber is owed and does not have, or 0."""
        whole, sent = self._subscribed[pid], self._multicast[sender]
        has = self._has[pid, sender]
        for place in range(bisect_right(sent, whole.get(sender, 0)), bisect_right(sent, seq)):
            self.checked += 1
            if sent[place] not in has:
                return sent[place]
        whole[sender] = max(whole.get(sender, 0), seq)
        return 0

    def _report(self, reclaim: Event, pid: Rank, seq: Seq, *events: Event) -> None:
        what = (
            f"logger {reclaim.pid} reclaimed up to {reclaim.sender}:{reclaim.seq}, but subscriber "
            f"{pid} is owed {reclaim.sender}:{seq} and does not have it"
        )
        self._ledger.add("collection_safety", what, *events)


class Durability:
    """What is acknowledged is on the stable storage of `copies` loggers, which no crash took.

    A logger that was told of m only when it was obsolete keeps what makes it so instead.
    """

    __slots__ = ("_appended", "_copies", "_ledger", "_relation", "checked")

    def __init__(self, ledger: ViolationLog, relation: str, copies: int) -> None:
        self._ledger = ledger
        self._relation = ObsolescenceRelation(relation)
        self._copies = copies
        self.checked = 0  # acknowledgements
        self._appended: defaultdict[Rank, dict[tuple[Rank, Seq], Event]] = defaultdict(dict)

    def handlers(self) -> Mapping[str, EventHandler]:
        """The events it judges or learns from."""
        return {
            MULTICAST: self.on_multicast,
            APPEND: self.on_append,
            CRASH: self.on_crash,
            ACKNOWLEDGE: self.on_acknowledge,
        }

    def on_multicast(self, event: Event) -> None:
        """Learn its place in the relation."""
        if event.message is not None:
            self._relation.on_multicast(declared_by(event))

    def on_append(self, event: Event) -> None:
        """One copy."""
        self._appended[event.pid][event.sender, event.seq] = event

    def on_crash(self, event: Event) -> None:
        """A lost disk takes its copies with it."""
        if event.note == DISK:
            self._appended[event.pid].clear()

    def on_acknowledge(self, event: Event) -> None:
        """Count the copies."""
        self.checked += 1
        message = event.sender, event.seq
        copies = sum(
            message in held or self._is_superseded(*message, held)
            for held in self._appended.values()
        )
        if copies < self._copies:
            what = (
                f"process {event.pid} acknowledged {event.sender}:{event.seq} with "
                f"{copies} of {self._copies} copies on stable storage"
            )
            self._ledger.add("durability", what, event)

    def _is_superseded(
        self, sender: Rank, seq: Seq, held: Mapping[tuple[Rank, Seq], Event]
    ) -> bool:
        return any(
            of == sender and by > seq and self._relation.obsoletes(sender, seq, by)
            for of, by in held
        )
