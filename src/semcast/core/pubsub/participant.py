"""One process of a publish/subscribe group: the machines of a recipe, wired together.

A driver calls it as any `Machine`.  The same object runs under the simulator and between real
processes.  No protocol rule is here.
"""

from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any

from semcast.core.pubsub.gossip import Gossiper
from semcast.core.pubsub.gossip_buffer import GossipBuffer
from semcast.core.pubsub.holder import Holder
from semcast.core.pubsub.joining import AWAY, IN, LEAVING, LIFE, Membership
from semcast.core.pubsub.keeping import Keeping
from semcast.core.pubsub.membership import Roster
from semcast.core.pubsub.publisher import Publisher
from semcast.core.pubsub.reception import BLOCK, SubscriberDelivery
from semcast.core.pubsub.recipe import PubsubRecipe
from semcast.core.pubsub.recovery import Recovery
from semcast.core.pubsub.selection import Selection
from semcast.core.pubsub.storage import Restored, Storage
from semcast.core.pubsub.subscriber import Subscriber
from semcast.core.pubsub.vetting import PubsubValidator
from semcast.terms.effects import Effects
from semcast.terms.errors import ConfigError
from semcast.terms.events import AGE, DISCARD, Event
from semcast.terms.ids import NEVER, Rank, Seq
from semcast.terms.machine import (
    Command,
    GoOffline,
    GoOnline,
    JoinGroup,
    LeaveGroup,
    Machine,
    Status,
)
from semcast.terms.messages import Message, Submission
from semcast.terms.pubsub import (
    Absent,
    Ack,
    Census,
    Collected,
    Digest,
    Gap,
    Gone,
    Gossip,
    Heard,
    Holds,
    Join,
    Lasts,
    Leave,
    LeaveAck,
    Members,
    Part,
    Publication,
    PublisherHeartbeat,
    PubsubDatagram,
    Record,
    Repair,
    RepairRequest,
    Resync,
    Welcome,
)
from semcast.terms.views import JOINING, MEMBER


class Participant(Machine):
    """Publisher, subscriber and, if the recipe says so, logger; one life of a process.

    `inc` counts its lives from 0, `records` is what its disk holds.  `interest` says whether a
    missing message is worth recovering [RPB §2.2].  `unaware_of` are founders that it does not
    know of at first.
    """

    def __init__(
        self,
        recipe: PubsubRecipe,
        pid: Rank,
        rng: Random,
        now: float,
        *,
        inc: int = 0,
        records: Iterable[Record] = (),
        interest: Callable[[Rank, Seq], bool] | None = None,
        unaware_of: Iterable[Rank] = (),
    ) -> None:
        if not 0 <= pid < recipe.members:
            raise ConfigError(f"pid: {pid} is not in 0..{recipe.members - 1}")
        records = tuple(records)
        left = Restored(records)
        self.recipe = recipe
        self.pid = pid
        self.loggers = frozenset(recipe.keepers)
        self.vetting = PubsubValidator(recipe, pid)
        self.storage = Storage(inc)
        self.reception = SubscriberDelivery(recipe, pid, self.storage)
        self.roster = Roster(recipe, pid, unaware_of if pid not in self.loggers else ())
        is_lost = pid in self.loggers and inc > 0 and not left.is_synchronised
        self.publisher = Publisher(recipe, pid, self.storage, left, now, is_lost=is_lost)
        self.keeping: Keeping | None = None
        if pid in self.loggers:
            self.keeping = Keeping(self.publisher, self.roster, records, left, now)
        account = self.reception if self.keeping is None else self.keeping.log
        self.tracker = account.tracker
        self.membership = Membership(recipe, pid, self.roster, self.tracker, self.storage, rng, inc)
        self.selection = Selection(recipe, self.roster, rng)
        wanted = interest if self.keeping is None else None
        self.recovery = Recovery(recipe, pid, self.tracker, self.reception, rng, wanted)
        self.buffer = GossipBuffer(recipe)
        self.gossiper = Gossiper(
            recipe, account, self.roster, self.selection, self.recovery, self.buffer, rng
        )
        self.holder = Holder(recipe, self.tracker, self.buffer, self.publisher)
        self.subscriber = Subscriber(
            self.reception, self.membership, self.recovery, self.gossiper, left, now
        )
        self.deadline = self._next()

    def __repr__(self) -> str:
        return f"Participant({self.pid}, {self.membership}, {self.reception}, {self.publisher})"

    @property
    def sent(self) -> Seq:
        """The number of the last message that was published."""
        return self.publisher.sent

    def on_command(self, command: Command, now: float, out: Effects) -> None:
        """Subscribe, unsubscribe, or be out of reach for a while."""
        if isinstance(command, JoinGroup):
            self.subscriber.join(self.sent, now, out)
        elif isinstance(command, LeaveGroup):
            self.subscriber.leave(now, out)
        elif isinstance(command, GoOffline):
            self.subscriber.disconnect(out)
        elif isinstance(command, GoOnline):
            self.subscriber.reconnect(now, out)
        else:
            super().on_command(command, now, out)
        self._settle(now, out)

    def status(self, now: float) -> Status:
        """How it is doing."""
        streams, unsettled = self.reception.tracker.streams, self.publisher.unacknowledged
        return Status(
            phase=MEMBER if self.subscriber.is_open else JOINING,
            sent=self.sent,
            passed=sum(stream.frontier - stream.start for stream in streams.values()),
            queued=self.reception.waiting,
            held=len(unsettled) + len(self.publisher.waiting),
            held_bytes=self.publisher.held_bytes,
            is_blocked=self.publisher.is_refusing,
            is_drained=not self.tracker.gaps and not unsettled,
            owes_nothing=not unsettled,
        )

    def submit(self, submissions: Sequence[Submission], now: float, out: Effects) -> int:
        """Publish; returns how many, from the front, were accepted."""
        if self.membership.state == AWAY:
            return 0
        try:
            return self.publisher.multicast(submissions, now, out)
        finally:
            self._settle(now, out)

    def _take(self, messages: tuple[Message, ...], source: Rank, now: float, out: Effects) -> None:
        if self.keeping is not None:
            self.keeping.logger.on_messages(messages, now, out)
        if not self.subscriber.is_open:
            return
        keeps = self.keeping is None and self.recipe.gossips
        for message in messages:
            if self.reception.on_message(message, source, out) and keeps:
                self.buffer.add(message, now)

    def on_datagram(self, source: Rank, datagram: PubsubDatagram, now: float, out: Effects) -> None:
        """Something came from `source`; what it cannot mean is discarded."""
        if self.membership.state == AWAY:
            return
        if not self.vetting.allows(source, datagram):
            if out.events is not None:
                out.events.append(Event(DISCARD, self.pid, note="malformed", peer=source))
            return
        _HANDLERS[type(datagram)](self, source, datagram, now, out)
        self._settle(now, out)

    def _on_repair(self, source: Rank, repair: Repair, now: float, out: Effects) -> None:
        self.selection.on_answer(source, now)
        self.reception.expect(repair.purged)
        self._take(repair.messages, source, now, out)
        if repair.purged:
            if self.keeping is not None:
                self.keeping.logger.on_purged(repair.purged, out)
            if self.subscriber.is_open:
                self.reception.on_purged(repair.purged, source, out)
        if source in self.loggers:
            self.recovery.on_load(repair.load, now)
            self.recovery.on_answer(now, out)

    def _on_heartbeat(
        self, source: Rank, beat: PublisherHeartbeat, now: float, out: Effects
    ) -> None:
        if self.subscriber.is_open or self.keeping is not None:
            self.tracker.learn(beat.sender, beat.last)

    def _serve(self, source: Rank, lacks: tuple[Part, ...], now: float, out: Effects) -> None:
        if self.keeping is not None:
            self.keeping.logger.on_request(source, lacks, now, out)
        else:
            self.holder.on_request(source, lacks, now, out)

    def _on_gossip(self, source: Rank, gossip: Gossip, now: float, out: Effects) -> None:
        if self.membership.state != IN:
            return
        before = len(out.send)
        agree = self.gossiper.on_gossip(source, gossip, now, out)
        if source in self.loggers:
            self._on_claims(source, gossip.fresh, gossip.streams, now, out)
        if self.keeping is not None and agree and gossip.is_whole:
            self.keeping.on_whole(source, gossip)
        if gossip.lacks:
            self._serve(source, gossip.lacks, now, out)
        if gossip.is_probe and len(out.send) == before:
            out.send.append(((source,), Repair(())))

    def _on_claims(
        self, logger: Rank, fresh: int, streams: tuple[Heard, ...], now: float, out: Effects
    ) -> None:
        """What a logger says that it keeps of this publisher's stream [RPB §5.2]."""
        for heard in streams:
            if heard.sender == self.pid:
                self.publisher.on_ack(logger, fresh >> LIFE, ((1, heard.frontier),), now, out)

    def _on_digest(self, source: Rank, digest: Digest, now: float, out: Effects) -> None:
        if self.membership.state == IN:
            self.gossiper.on_digest(source, digest, out)

    def _on_collected(self, source: Rank, c: Collected, now: float, out: Effects) -> None:
        self.selection.on_answer(source, now)
        self.recovery.on_collected(c.parts, now)

    def _on_lasts(self, source: Rank, lasts: Lasts, now: float, out: Effects) -> None:
        self.selection.on_answer(source, now)
        if self.membership.state != IN:
            return
        agree = self.gossiper.on_lasts(source, lasts, now, out)
        if source in self.loggers:
            self.subscriber.on_home(now)
            self._on_claims(source, lasts.fresh, lasts.streams, now, out)
        if self.keeping is not None:
            self.keeping.on_lasts(source, lasts, agree)

    def _on_members(self, source: Rank, members: Members, now: float, out: Effects) -> None:
        if self.membership.state in (IN, LEAVING):
            self.gossiper.on_members(source, members, self.membership.merge, out)
        if self.membership.state == LEAVING and members.wants_answer:
            # It gossips no more, so what it has wrong it must ask to be told.
            out.send.extend(((source,), part) for part in self.roster.digest(wants_answer=True))

    @property
    def _counts(self) -> bool:
        return self.keeping is None or self.keeping.log.is_complete

    def _on_gap(self, source: Rank, gap: Gap, now: float, out: Effects) -> None:
        if self.keeping is not None:
            self.keeping.logger.on_gap(gap.part, out)
        if self.subscriber.is_open:
            self.reception.skip(gap.part, BLOCK, source, out)
        self.recovery.on_answer(now, out)

    def _on_gone(self, source: Rank, gone: Gone, now: float, out: Effects) -> None:
        if self.keeping is not None:
            self.keeping.logger.on_gone(gone.part, out)
        elif self.subscriber.is_open:
            self.reception.give_up(gone.part, AGE, source, out)
        self.recovery.on_answer(now, out)

    def _on_resync(self, source: Rank, resync: Resync, now: float, out: Effects) -> None:
        if self.keeping is not None and self.keeping.log.is_complete:
            out.send.append(((source,), self.gossiper.lasts(wants_answer=False)))
            out.send.extend(((source,), m) for m in self.roster.digest(wants_answer=True))
        elif self.keeping is not None:
            self.keeping.resync.on_resync(source)
        self.publisher.on_disk_lost(source, resync.inc)
        if self.publisher.sent:
            out.send.append(((source,), PublisherHeartbeat(self.pid, self.publisher.sent)))

    def _on_census(self, source: Rank, census: Census, now: float, out: Effects) -> None:
        if self.keeping is not None:
            self.keeping.logger.on_census(source, census, out)

    def _on_absent(self, source: Rank, absent: Absent, now: float, out: Effects) -> None:
        if self.keeping is not None:
            self.keeping.resync.on_absent(source, absent.part, out)

    def on_time(self, now: float, out: Effects) -> None:
        """Time has passed."""
        if self.membership.state == AWAY:
            return
        self.publisher.on_time(now, out)
        self.subscriber.on_time(self.publisher.sent, now, out)
        if now >= self.gossiper.deadline:
            self.holder.demand.on_round()
            self.gossiper.on_time(now, out)
        if now >= self.recovery.deadline:
            self.recovery.on_time(now, out)
        if self.keeping is not None:
            self.keeping.on_time(now, out)
        self._settle(now, out)

    def on_persisted(self, ticket: int, now: float, out: Effects) -> None:
        """Everything up to `ticket` is on stable storage."""
        self.storage.on_persisted(ticket)
        self.publisher.on_persisted(now, out)
        self.reception.on_persisted(out)
        self.membership.on_persisted(self._counts, out)
        if self.keeping is not None:
            self.keeping.logger.on_persisted(now, out)
        self._settle(now, out)

    def _settle(self, now: float, out: Effects) -> None:
        """After every input: what follows from it at once, and when to be called next."""
        own = self.publisher.take_fresh()
        if own:
            self._take(own, self.pid, now, out)
        if self.keeping is not None:
            self._settle_logger(now, out)
        if self.tracker.detected:
            self.recovery.poll(now)
        if self.recovery.urgent:
            self.gossiper.ask_at_once(now, out)
        if self.recovery.eager:
            self.recovery.ask_at_once(out)
        self.subscriber.settle(now, out)
        self.deadline = NEVER if self.membership.state == AWAY else self._next()

    def _settle_logger(self, now: float, out: Effects) -> None:
        """A logger's own subscriber follows the log, and it hears itself."""
        assert self.keeping is not None
        self.keeping.settle(out)
        if self.keeping.log.is_complete:
            self._on_complete(now, out)
        self.reception.tracker.detected.clear()
        for part in self.keeping.take_dropped():
            if self.subscriber.is_open:
                self.reception.skip(part, AGE, self.pid, out)  # heard of here or not
        while True:
            mine = [datagram for to, datagram in out.send if to == (self.pid,)]
            if not mine:
                return
            out.send[:] = [entry for entry in out.send if entry[0] != (self.pid,)]
            for datagram in mine:
                _HANDLERS[type(datagram)](self, self.pid, datagram, now, out)
            self.keeping.settle(out)

    def _on_complete(self, now: float, out: Effects) -> None:
        """The logger counts: it may subscribe, and publish if it did not know its numbers."""
        assert self.keeping is not None
        if self.subscriber.is_wanted:
            self.subscriber.subscribe(self.keeping.lasts, self.publisher.sent, now, out)
        if self.publisher.is_lost:
            self.publisher.resume(*self.keeping.known(self.pid), now, out)
        self.keeping.declare(out)

    def _next(self) -> float:
        deadlines = (
            self.publisher.deadline,
            self.subscriber.deadline,
            self.gossiper.deadline,
            self.recovery.deadline,
        )
        return min(*deadlines, self.keeping.deadline if self.keeping is not None else NEVER)


_HANDLERS: dict[type, Callable[[Participant, Rank, Any, float, Effects], None]] = {
    Publication: lambda p, source, d, now, out: p._take(d.messages, source, now, out),
    Repair: Participant._on_repair,
    PublisherHeartbeat: Participant._on_heartbeat,
    RepairRequest: lambda p, source, d, now, out: p._serve(source, d.lacks, now, out),
    Gossip: Participant._on_gossip,
    Digest: Participant._on_digest,
    Collected: Participant._on_collected,
    Lasts: Participant._on_lasts,
    Members: Participant._on_members,
    Join: lambda p, source, d, now, out: p.membership.on_join(source, d, p._counts, out),
    Welcome: lambda p, source, d, now, out: p.subscriber.on_welcome(
        source, d, p.publisher.sent, now, out
    ),
    Leave: lambda p, source, d, now, out: p.membership.on_leave(source, d, p._counts, out),
    LeaveAck: lambda p, source, d, now, out: p.membership.on_goodbye(source, d),
    Ack: lambda p, source, d, now, out: p.publisher.on_ack(source, d.inc, d.part.spans, now, out),
    Census: Participant._on_census,
    Holds: lambda p, source, d, now, out: p.publisher.census.on_holds(source, d, now, out),
    Gap: Participant._on_gap,
    Gone: Participant._on_gone,
    Resync: Participant._on_resync,
    Absent: Participant._on_absent,
}
