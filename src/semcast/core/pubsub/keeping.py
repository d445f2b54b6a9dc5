"""What a participant has more if it is a logger: log, collector, resynchronisation."""

from collections.abc import Iterable

from semcast.core.pubsub.collector import Collector
from semcast.core.pubsub.log import Log
from semcast.core.pubsub.logger import Logger
from semcast.core.pubsub.membership import Roster
from semcast.core.pubsub.publisher import Publisher
from semcast.core.pubsub.resync import Resynchronisation
from semcast.core.pubsub.storage import Restored
from semcast.terms.effects import Effects
from semcast.terms.ids import Rank, Seq
from semcast.terms.pubsub import Gossip, Lasts, Part, Record, Synchronised


class Keeping:
    """One life of a logger.  It counts from the start, unless it lost what an earlier life kept."""

    def __init__(
        self,
        publisher: Publisher,
        roster: Roster,
        records: Iterable[Record],
        left: Restored,
        now: float,
    ) -> None:
        recipe, pid, storage = publisher.recipe, publisher.pid, publisher.storage
        self.storage = storage
        self.roster = roster
        self.log = Log(recipe, pid, storage)
        for record in records:
            self.log.restore(record, now)
        self.log.on_restored(now)
        for entry in left.entries:
            roster.merge(entry)
        self.log.is_complete = not publisher.is_lost
        self.is_declared = left.is_synchronised  # that it counts, on the disk
        self.collector = Collector(roster)
        for sender in self.log.tracker.streams:
            self.collector.on_own(sender)
        self.logger = Logger(recipe, storage, publisher, self.log, self.collector)
        self.resync = Resynchronisation(recipe, pid, self.log, now)
        self.round_s = recipe.period_s
        self.round_at = now

    def __repr__(self) -> str:
        return f"Keeping({self.logger}, {self.resync})"

    @property
    def lasts(self) -> dict[Rank, Seq]:
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

    def on_whole(self, member: Rank, gossip: Gossip) -> None:
        """Gossip that accounts for every stream: those not listed are here to the last."""
        frontiers = {sender: stream.last for sender, stream in self.log.tracker.streams.items()}
        for heard in gossip.streams:
            frontiers[heard.sender] = heard.frontier
        self.collector.on_claims(member, gossip.fresh, frontiers.items())

    def on_lasts(self, peer: Rank, lasts: Lasts, agree: bool) -> None:
        """A full list, after the membership was merged."""
        if lasts.is_whole:
            self.resync.on_lasts(peer, lasts.streams)
        if agree:
            claims = [(heard.sender, heard.frontier) for heard in lasts.streams]
            self.collector.on_claims(peer, lasts.fresh, claims)

    def on_time(self, now: float, out: Effects) -> None:
        """Once a period: reclaim, and count requests anew."""
        self.logger.on_time(now, out)
        self.resync.on_time(now, out)
        if now >= self.round_at:
            self.round_at = now + self.round_s
            self.logger.demand.on_round()
            self.logger.collect(out)

    def settle(self, out: Effects) -> None:
        """After every input."""
        if self.log.restored:
            self.log.tell_restored(out)
        self.logger.send_acks(out)
        self.resync.poll()

    def declare(self, out: Effects) -> None:
        """Write down that it counts; whatever else a new beginning needs was written before."""
        if not self.is_declared:
            self.is_declared = True
            self.storage.write(Synchronised(), out)

    def take_dropped(self) -> list[Part]:
        """What will not come any more."""
        dropped, self.log.dropped = self.log.dropped, []
        return dropped
