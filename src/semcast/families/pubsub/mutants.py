"""Deliberately broken participants and loggers, each named after its mistake."""

from collections import deque
from collections.abc import Callable
from typing import Any

from semcast.core.pubsub.collector import Collector
from semcast.core.pubsub.gossiper import Gossiper
from semcast.core.pubsub.join_protocol import JoinProtocol
from semcast.core.pubsub.log_resync import LogResync
from semcast.core.pubsub.logger import Logger, LoggerAnswer
from semcast.core.pubsub.logger_role import LoggerRole
from semcast.core.pubsub.message_log import LogStream, MessageLog
from semcast.core.pubsub.publisher import Publisher
from semcast.core.pubsub.publisher_recovery import PublisherRecovery
from semcast.core.pubsub.recovery import Recovery
from semcast.core.pubsub.seq_tracker import SeqTracker
from semcast.core.pubsub.subscriber import Subscriber
from semcast.core.pubsub.subscriber_delivery import SubscriberDelivery
from semcast.families.testing import MutantTable
from semcast.terms.effects import Effects
from semcast.terms.ids import Rank, Seq
from semcast.terms.messages import DataMessage
from semcast.terms.pubsub import DISCONNECTED, LEFT, Gossip, RecoveryReply, StreamSpans, Welcome
from semcast.terms.records import ReadResult

MUTANTS = MutantTable()


@MUTANTS.add(
    "acknowledge-before-persist", Logger, "on_messages", scenario="slow-disk", swarm="lbrm"
)
@MUTANTS.add(
    "acknowledge-before-persist-rpbcast",
    Logger,
    "on_messages",
    scenario="slow-disk-rpbcast",
    swarm="rpbcast",
)
def acknowledge_before_persist(original: Any) -> Callable[..., Any]:
    """A logger that answers first and writes then [RPB §3.2]."""

    def on_messages(self: Logger, messages: tuple[DataMessage, ...], *args: Any) -> None:
        original(self, messages, *args)
        for message in messages:
            self._acknowledge(message.sender, message.seq, message.seq)

    return on_messages


@MUTANTS.add(
    "claim-before-durable", MessageLog, "acked_upto", scenario="slow-disk-rpbcast", swarm="rpbcast"
)
def claim_before_durable(original: Any) -> Callable[..., Any]:
    """A logger gossips that it keeps what is still on its way to the disk."""

    def claimed(self: MessageLog, sender: Rank) -> Seq:
        return self.tracker.streams[sender].frontier

    return claimed


@MUTANTS.add("ignore-the-disconnected", Collector, "collectable", scenario="away", swarm="rpbcast")
def ignore_the_disconnected(original: Any) -> Callable[..., Any]:
    """Who said that it would be away is not waited for."""

    def collectable(self: Collector, sender: Rank, own: Seq) -> Seq:
        return _without(self, DISCONNECTED, lambda: original(self, sender, own))

    return collectable


@MUTANTS.add("wait-for-leavers", Collector, "collectable", scenario="leaver", swarm="rpbcast")
def wait_for_leavers(original: Any) -> Callable[..., Any]:
    """Who left stays in the wait lists, as in [RPB §5.2]."""

    def collectable(self: Collector, sender: Rank, own: Seq) -> Seq:
        left = sum(entry.status == LEFT for entry in self.roster.overrides.values())
        self.roster.owed += left
        try:
            return int(original(self, sender, own))
        finally:
            self.roster.owed -= left

    return collectable


def _without(collector: Collector, status: int, ask: Callable[[], Seq]) -> Seq:
    apart = sum(entry.status == status for entry in collector.roster.overrides.values())
    collector.roster.owed -= apart
    try:
        return ask()
    finally:
        collector.roster.owed += apart


@MUTANTS.add(
    "believe-late-notices", Recovery, "on_collected", scenario="late-notices", swarm="rpbcast"
)
def believe_late_notices(original: Any) -> Callable[..., Any]:
    """A *collected* notice counts even for what has come meanwhile [RPB §4.3]."""

    def on_collected(self: Recovery, parts: tuple[StreamSpans, ...], now: float) -> None:
        for part in parts:
            _want_again(self.tracker, part.sender, part.spans)
        original(self, parts, now)

    return on_collected


def _want_again(tracker: SeqTracker, sender: Rank, spans: tuple[tuple[Seq, Seq], ...]) -> None:
    stream = tracker.streams.get(sender)
    for first, last in spans:
        if stream is not None and stream.start < first <= last <= stream.last:
            stream.missing.add(first, last)
            tracker.gaps[sender] = None


@MUTANTS.add(
    "join-one-too-early", JoinProtocol, "on_welcome", scenario="late-comer", swarm="rpbcast"
)
def join_one_too_early(original: Any) -> Callable[..., Any]:
    """The join time is one message before the sponsors' [RPB §5.3]."""

    def on_welcome(self: JoinProtocol, peer: Rank, welcome: Welcome) -> dict[Rank, Seq] | None:
        times: dict[Rank, Seq] | None = original(self, peer, welcome)
        return None if times is None else {s: max(0, seq - 1) for s, seq in times.items()}

    return on_welcome


@MUTANTS.add("forget-the-last", Subscriber, "reconnect", scenario="away", swarm="rpbcast")
def forget_the_last(original: Any) -> Callable[..., Any]:
    """Who comes back wants the last message again that it had when it went."""

    def reconnect(self: Subscriber, now: float, out: Effects) -> None:
        for sender, stream in self.delivery.tracker.streams.items():
            _want_again(self.delivery.tracker, sender, ((stream.last, stream.last),))
        original(self, now, out)

    return reconnect


@MUTANTS.add(
    "hash-without-numbers", SeqTracker, "signature_without", scenario="lost-end", swarm="rpbcast"
)
def hash_without_numbers(original: Any) -> Callable[..., Any]:
    """The signature says which senders there are, not how far they got [RPB §5.1]."""

    def signature_without(self: SeqTracker, senders: Any) -> int:
        return 0

    return signature_without


@MUTANTS.add("believe-a-bare-signature", Gossiper, "on_gossip", scenario="deaf", swarm="rpbcast")
def believe_a_bare_signature(original: Any) -> Callable[..., Any]:
    """An acknowledgement is derived whether or not the signatures agree [RPB §5.2]."""

    def on_gossip(self: Gossiper, peer: Rank, gossip: Gossip, *args: Any) -> bool:
        original(self, peer, gossip, *args)
        return True

    return on_gossip


@MUTANTS.add(
    "acknowledge-from-gossip-alone",
    LoggerRole,
    "on_full_gossip",
    scenario="logger-phase",
    swarm="rpbcast",
)
def acknowledge_from_gossip_alone(original: Any) -> Callable[..., Any]:
    """What gossip does not ask for is acknowledged, as [RPB §5.2] says: but nobody gossips for what
    a logger was asked for."""

    def on_full_gossip(self: LoggerRole, member: Rank, gossip: Gossip) -> None:
        frontiers = {sender: stream.last for sender, stream in self.log.tracker.streams.items()}
        frontiers |= {heard.sender: heard.last for heard in gossip.streams}
        frontiers |= {part.sender: part.spans[0][0] - 1 for part in gossip.missing}
        self.collector.on_acked(member, gossip.freshness, frontiers.items())

    return on_full_gossip


@MUTANTS.add(
    "gap-without-a-census", PublisherRecovery, "on_reply", scenario="publisher-crash", swarm="lbrm"
)
def gap_without_a_census(original: Any) -> Callable[..., Any]:
    """After a crash whatever the publisher does not hold is called a gap [RPB §6.2]."""

    def on_holds(self: PublisherRecovery, logger: Rank, holds: RecoveryReply, *args: Any) -> None:
        original(self, logger, RecoveryReply(holds.span, StreamSpans(holds.part.sender, ())), *args)

    return on_holds


@MUTANTS.add(
    "count-before-resynchronised", LogResync, "on_time", scenario="disk-lost", swarm="lbrm"
)
def count_before_resynchronised(original: Any) -> Callable[..., Any]:
    """A logger without its disk goes on as if nothing had been on it."""

    def on_time(self: LogResync, now: float, out: Effects) -> None:
        self.log.is_complete = True
        self.deadline = float("inf")

    return on_time


@MUTANTS.add(
    "cursor-before-delivery", Subscriber, "after_input", scenario="cursor-crash", swarm="lbrm"
)
def cursor_before_delivery(original: Any) -> Callable[..., Any]:
    """At least once, but the cursor is written with what it speaks of, not after."""

    def settle(self: Subscriber, now: float, out: Effects) -> None:
        if self.at_least_once:
            self.delivery.save(out)
        original(self, now, out)

    return settle


@MUTANTS.add(
    "number-without-a-block", Publisher, "_reserve", scenario="publisher-crash", swarm="lbrm"
)
def number_without_a_block(original: Any) -> Callable[..., Any]:
    """Numbers are used that no disk has reserved [RPB §6.2]."""

    def reserve(self: Publisher, out: Effects) -> None:
        self.reserved = self.reserving = self.last + 1

    return reserve


@MUTANTS.add("take-twice", SeqTracker, "receive", scenario="doubled", swarm="pbcast")
def take_twice(original: Any) -> Callable[..., Any]:
    """A copy of the last message passes for a new one."""

    def take(self: SeqTracker, sender: Rank, seq: Seq) -> bool:
        stream = self.streams.get(sender)
        newest = stream is not None and stream.start < seq == stream.last
        return bool(original(self, sender, seq)) or newest

    return take


@MUTANTS.add("drop-every-third", SubscriberDelivery, "_hand_over", scenario="lossy", swarm="lbrm")
def drop_every_third(original: Any) -> Callable[..., Any]:
    """Not delivered, and nobody is told."""

    def hand_over(
        self: SubscriberDelivery, message: DataMessage, source: Rank, out: Effects
    ) -> None:
        if message.seq % 3:
            original(self, message, source, out)

    return hand_over


@MUTANTS.add(
    "deliver-at-once", SubscriberDelivery, "__init__", scenario="doubled-in-order", swarm="pbcast"
)
def deliver_at_once(original: Any) -> Callable[..., Any]:
    """Order `fifo` is forgotten."""

    def init(self: SubscriberDelivery, *args: Any) -> None:
        original(self, *args)
        self.in_order = False

    return init


@MUTANTS.add(
    "deliver-unasked", SubscriberDelivery, "_deliver", scenario="slow-subscriber", swarm="lbrm"
)
def deliver_unasked(original: Any) -> Callable[..., Any]:
    """The application gets everything at once, ready or not."""

    def deliver(self: SubscriberDelivery, message: DataMessage, source: Rank, out: Effects) -> None:
        self._pass_on(message, source, out)

    return deliver


@MUTANTS.add(
    "hold-without-a-bound", SubscriberDelivery, "__init__", scenario="slow-subscriber", swarm="lbrm"
)
def hold_without_a_bound(original: Any) -> Callable[..., Any]:
    """However far the application is behind, everything waits for it."""

    def init(self: SubscriberDelivery, *args: Any) -> None:
        original(self, *args)
        self.held_max = 1 << 30

    return init


@MUTANTS.add(
    "refuse-and-forget", SubscriberDelivery, "on_message", scenario="slow-subscriber", swarm="lbrm"
)
def refuse_and_forget(original: Any) -> Callable[..., Any]:
    """What there is no room for counts as received."""

    def on_message(
        self: SubscriberDelivery, message: DataMessage, source: Rank, out: Effects
    ) -> bool:
        if len(self.queue) >= self.held_max:
            return self.tracker.receive(message.sender, message.seq)
        return bool(original(self, message, source, out))

    return on_message


@MUTANTS.add(
    "cursor-beyond-the-queue",
    SubscriberDelivery,
    "save",
    scenario="slow-and-crashing",
    swarm="lbrm",
)
def cursor_beyond_the_queue(original: Any) -> Callable[..., Any]:
    """At least once, but the cursor covers what waits for the application."""

    def save(self: SubscriberDelivery, out: Effects) -> None:
        queue, self.queue = self.queue, deque()
        original(self, out)
        self.queue = queue

    return save


@MUTANTS.add(
    "claim-before-own-delivery", LoggerRole, "acked_upto", scenario="slow-logger", swarm="rpbcast"
)
def claim_before_own_delivery(original: Any) -> Callable[..., Any]:
    """A logger claims, and reclaims, what its own subscriber had no room for yet."""

    def acked_upto(self: LoggerRole, sender: Rank) -> Seq:
        return self.log.acked_upto(sender)

    return acked_upto


@MUTANTS.add(
    "answer-without-payload", LoggerAnswer, "look_up", scenario="small-log-buffer", swarm="lbrm"
)
def answer_without_payload(original: Any) -> Callable[..., Any]:
    """A logger answers with what is left in memory of a message whose payload is on the disk."""

    def look_up(self: LoggerAnswer, volume: LogStream, *args: Any) -> None:
        evicted, volume.evicted = volume.evicted, {}
        original(self, volume, *args)
        volume.evicted = evicted

    return look_up


@MUTANTS.add("ignore-what-was-read", Logger, "on_read", scenario="small-log-buffer", swarm="lbrm")
def ignore_what_was_read(original: Any) -> Callable[..., Any]:
    """A logger has messages read, and gives them to nobody."""

    def on_read(self: Logger, result: ReadResult, now: float, out: Effects) -> None:
        self.reading -= len(result.purpose[2])

    return on_read
