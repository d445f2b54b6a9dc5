"""What a participant has more if it is a logger: log, collector, resynchronisation."""

from typing import Any

from semcast.core.pubsub.collector import Collector
from semcast.core.pubsub.log_resync import LogResync
from semcast.core.pubsub.logger import Logger
from semcast.core.pubsub.member_table import MemberTable
from semcast.core.pubsub.message_log import MessageLog
from semcast.core.pubsub.publisher import Publisher
from semcast.core.pubsub.seq_tracker import SeqTracker
from semcast.core.pubsub.storage import RestoredState
from semcast.core.pubsub.subscriber_delivery import SubscriberDelivery
from semcast.core.span_set import first_spans
from semcast.terms.effects import Effects
from semcast.terms.ids import Rank, Seq
from semcast.terms.pubsub import (
    SPANS_MAX,
    Gossip,
    StatusList,
    StreamSpans,
    Synchronised,
)
from semcast.terms.records import Records


class LoggerRole:
    """One life of a logger.  It counts from the start, unless it lost what an earlier life kept.

    `delivery` is that of the same process: it gets from the log what it had no room for at first.
    What both have is claimed, so all loggers keep a message until then; an `Ack` speaks of the log
    alone, so no publisher waits for a subscriber.
    """

    def __init__(
        self,
        publisher: Publisher,
        roster: MemberTable,
        delivery: SubscriberDelivery,
        records: Records,
        left: RestoredState,
        now: float,
    ) -> None:
        recipe, pid, storage = publisher.recipe, publisher.pid, publisher.storage
        self.storage = storage
        self.roster = roster
        self.delivery = delivery
        self.log = MessageLog(recipe, pid, storage)
        for number, record in records.numbered():
            self.log.restore(number, record, now)
        self.log.on_restored(now)
        for entry in left.entries:
            roster.merge(entry)
        self.log.is_complete = not publisher.lost_disk
        self.is_declared = left.is_synchronised  # that it counts, on the disk
        self.collector = Collector(roster)
        for sender in self.log.tracker.streams:
            self.collector.on_own_progress(sender)
        self.logger = Logger(recipe, storage, publisher, self.log, self.collector)
        self.resync = LogResync(recipe, pid, self.log, now)
        self.round_s = recipe.period_s
        self.round_at = now

    def __repr__(self) -> str:
        return f"LoggerRole({self.logger}, {self.resync})"

    @property
    def tracker(self) -> SeqTracker:
        """What the log has of every stream."""
        return self.log.tracker

    @property
    def is_complete(self) -> bool:
        """Whether the logger counts."""
        return self.log.is_complete

    def acked_upto(self, sender: Rank) -> Seq:
        """Up to where the log has everything on disk, and the own subscriber has it, too."""
        logged, stream = self.log.acked_upto(sender), self.delivery.tracker.streams.get(sender)
        return logged if stream is None else min(logged, stream.frontier)

    def not_fully_acked(self) -> dict[Rank, None]:
        """The streams that it does not claim up to their last number."""
        return self.log.not_fully_acked() | self.delivery.tracker.gaps

    @property
    def last_seqs(self) -> dict[Rank, Seq]:
        """Where every stream ends, as far as the log knows."""
        return {sender: stream.last for sender, stream in self.log.tracker.streams.items()}

    def known(self, sender: Rank) -> tuple[Seq, Seq]:
        """The last number of a stream, and up to where nothing is missing."""
        stream = self.log.tracker.streams.get(sender)
        return (stream.last, stream.frontier) if stream is not None else (0, 0)

    @property
    def deadline(self) -> float:
        """When something is due."""
        return min(self.logger.deadline, self.resync.deadline, self.round_at)

    def on_full_gossip(self, member: Rank, gossip: Gossip) -> None:
        """Gossip that accounts for every stream: those not listed are here to the last."""
        frontiers = {sender: stream.last for sender, stream in self.log.tracker.streams.items()}
        for heard in gossip.streams:
            frontiers[heard.sender] = heard.frontier
        self.collector.on_acked(member, gossip.freshness, frontiers.items())

    def on_status_list(self, peer: Rank, lasts: StatusList, agree: bool) -> None:
        """A full list, after the membership was merged."""
        if lasts.is_complete:
            self.resync.on_status_list(peer, lasts.streams)
        if agree:
            claims = [(heard.sender, heard.frontier) for heard in lasts.streams]
            self.collector.on_acked(peer, lasts.freshness, claims)

    def on_time(self, now: float, out: Effects) -> None:
        """Once a period: reclaim, and count requests anew."""
        self.logger.on_time(now, out)
        self.resync.on_time(now, out)
        if now >= self.round_at:
            self.round_at = now + self.round_s
            self.logger.request_counts.on_round()
            self.refill_delivery(now, out)
            self.logger.collect(self.acked_upto, out)

    def refill_delivery(self, now: float, out: Effects) -> None:
        """Ask the log for what the own subscriber had no room for before, and has now."""
        lacks: list[StreamSpans] = []
        for sender in list(self.delivery.refused):
            self.collector.on_own_progress(sender)
            logged = self.log.tracker.streams[sender].missing
            missing = self.delivery.tracker.streams[sender].missing
            logged_spans = [span for a, b in missing for span in logged.outside(a, b)]
            spans = first_spans(logged_spans, self.delivery.room, SPANS_MAX)
            if spans:
                lacks.append(StreamSpans(sender, spans))
            if not logged_spans:
                del self.delivery.refused[sender]
        if lacks:
            self.logger.on_request(self.logger.pid, tuple(lacks), now, out)

    def after_input(self, out: Effects) -> None:
        """After every input."""
        if self.log.restored:
            self.log.report_restored(out)
        self.logger.send_acks(out)
        self.resync.poll()

    def declare_complete(self, out: Effects) -> None:
        """Write down that it counts; whatever else a new beginning needs was written before."""
        if not self.is_declared:
            self.is_declared = True
            self.storage.write(Synchronised(), out)

    def take_sends_to_itself(self, out: Effects) -> list[Any]:
        """The datagrams that this process sent to itself, which no network carries."""
        to_itself = (self.logger.pid,)
        mine = [datagram for to, datagram in out.send if to == to_itself]
        if mine:
            out.send[:] = [entry for entry in out.send if entry[0] != to_itself]
        return mine

    def take_dropped(self) -> list[StreamSpans]:
        """What will not come any more."""
        dropped, self.log.dropped = self.log.dropped, []
        return dropped
