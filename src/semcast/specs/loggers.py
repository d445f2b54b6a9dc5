"""What loggers promise to subscribers and to senders.

A subscriber joins with a vector time: it is owed every message that its sender multicast after the
number named there [RPB §5.3].  It is settled about a message once it delivered it, or was told why
it never will (a `skip` with a reason), or was told that it is obsolete and got, or was told of the
loss of, what makes it so.  Numbers go on when a sender recovers, and what a process did in an
earlier life counts.

Rule: Reliable Multicast [RPB §2.1], with crashes [RPB §6.1]; stability-oriented collection
[RPB §5.2]; a logger acknowledges what it has on stable storage [RPB §3.2].
Departs: only what was acknowledged is owed, since a sender may crash before any logger has it; it
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

    delivered: set[Seq]
    lost: set[Seq]  # skipped, with the reason why it will not come
    obsolete: set[Seq]  # skipped as obsolete


class ReliableDelivery:
    """At the end of a complete run every subscriber is settled about every acknowledged message
    after its vector.  Who is down or has left is owed nothing."""

    __slots__ = (
        "_acknowledged",
        "_down",
        "_known",
        "_ledger",
        "_multicast",
        "_relation",
        "_subscribed",
    )

    def __init__(self, ledger: ViolationLog, relation: str) -> None:
        self._ledger = ledger
        self._relation = ObsolescenceRelation(relation)
        self._multicast: defaultdict[Rank, dict[Seq, Event]] = defaultdict(dict)
        self._acknowledged: defaultdict[Rank, dict[Seq, Event]] = defaultdict(dict)
        self._subscribed: dict[Rank, dict[Rank, Seq]] = {}
        self._down: set[Rank] = set()
        self._known: defaultdict[tuple[Rank, Rank], StreamKnowledge]
        self._known = defaultdict(
            lambda: StreamKnowledge(set(), set(), set())
        )  # by subscriber and sender

    def handlers(self) -> Mapping[str, EventHandler]:
        """The events it learns from."""
        return {
            MULTICAST: self.on_multicast,
            ACKNOWLEDGE: self.on_acknowledge,
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

    def on_acknowledge(self, event: Event) -> None:
        """From now on it is owed."""
        self._acknowledged[event.sender].setdefault(event.seq, event)

    def on_deliver(self, event: Event) -> None:
        """Settled."""
        self._known[event.pid, event.sender].delivered.add(event.seq)

    def on_skip(self, event: Event) -> None:
        """Told that it will not come, or that it is obsolete."""
        known = self._known[event.pid, event.sender]
        (known.obsolete if event.by_seq else known.lost).add(event.seq)

    def on_join(self, event: Event) -> None:
        """A new subscription; one that the process had before is over."""
        self._subscribed[event.pid] = join_vector(event)

    def on_leave(self, event: Event) -> None:
        """It is owed nothing any more."""
        self._subscribed.pop(leaving_pid(event), None)

    def on_crash(self, event: Event) -> None:
        """Down; the subscription lasts."""
        self._down.add(event.pid)

    def on_recover(self, event: Event) -> None:
        """Up again."""
        self._down.discard(event.pid)

    def on_end(self) -> None:
        """Judge each subscriber and stream."""
        for pid in sorted(self._subscribed.keys() - self._down):
            after = self._subscribed[pid]
            for sender, acknowledged in sorted(self._acknowledged.items()):
                known = self._known[pid, sender]
                settled = known.delivered | known.lost
                missing = set(self._relation.unsatisfied(sender, settled))
                for seq in sorted(acknowledged):
                    if seq <= after.get(sender, 0) or seq in settled:
                        continue
                    if seq in missing or seq not in known.obsolete:
                        self._report(pid, acknowledged[seq], seq in known.obsolete)

    def _report(self, pid: Rank, acknowledged: Event, obsolete: bool) -> None:
        sender, seq = acknowledged.sender, acknowledged.seq
        why = (
            "was notified that it is obsolete and received nothing newer"
            if obsolete
            else "was not notified"
        )
        what = f"subscriber {pid} is owed {sender}:{seq}, did not deliver it and {why}"
        sent = self._multicast[sender].get(seq)
        self._ledger.add("reliable_delivery", what, sent, acknowledged)


class CollectionSafety:
    """A logger reclaims a message only when every subscriber that is owed it has it, or by age.

    That includes who joins later with a vector before it.
    """

    __slots__ = ("_has", "_ledger", "_multicast", "_reclaimed", "_subscribed")

    def __init__(self, ledger: ViolationLog) -> None:
        self._ledger = ledger
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

    __slots__ = ("_appended", "_copies", "_ledger", "_relation")

    def __init__(self, ledger: ViolationLog, relation: str, copies: int) -> None:
        self._ledger = ledger
        self._relation = ObsolescenceRelation(relation)
        self._copies = copies
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
