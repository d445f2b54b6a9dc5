"""What a participant has more if it is a logger: log, collector, resynchronisation."""

from collections.abc import Iterable

from semcast.core.pubsub.collector import Collector
from semcast.core.pubsub.log_resync import LogResync
from semcast.core.pubsub.logger import Logger
from semcast.core.pubsub.member_table import MemberTable
from semcast.core.pubsub.message_log import MessageLog
from semcast.core.pubsub.publisher import Publisher
from semcast.core.pubsub.storage import RestoredState
from semcast.terms.effects import Effects
from semcast.terms.ids import Rank, Seq
from semcast.terms.pubsub import Gossip, Record, StatusList, StreamSpans, Synchronised


class LoggerRole:
    """One life of a logger.  It counts from the start, unless it lost what an earlier life kept."""

    def __init__(
        self,
        publisher: Publisher,
        roster: MemberTable,
        records: Iterable[Record],
        left: RestoredState,
        now: float,
    ) -> None:
        recipe, pid, storage = publisher.recipe, publisher.pid, publisher.storage
        self.storage = storage
        self.roster = roster
        self.log = MessageLog(recipe, pid, storage)
        for record in records:
            self.log.restore(record, now)
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
            self.logger.collect(out)

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

    def take_dropped(self) -> list[StreamSpans]:
        """What will not come any more."""
        dropped, self.log.dropped = self.log.dropped, []
        return dropped
