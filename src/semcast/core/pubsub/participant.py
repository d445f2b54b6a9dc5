"""One process of a publish/subscribe group: the machines of a recipe, wired together."""

from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any

from semcast.core.pubsub.gossip_buffer import GossipBuffer
from semcast.core.pubsub.gossiper import Gossiper
from semcast.core.pubsub.join_protocol import JOINED, LEAVING, OFFLINE, JoinProtocol
from semcast.core.pubsub.logger_role import LoggerRole
from semcast.core.pubsub.member_table import MemberTable
from semcast.core.pubsub.publisher import Publisher
from semcast.core.pubsub.pubsub_validator import PubsubValidator
from semcast.core.pubsub.recipe import PubsubRecipe
from semcast.core.pubsub.recovery import Recovery
from semcast.core.pubsub.repair_server import RepairServer
from semcast.core.pubsub.storage import RestoredState, Storage
from semcast.core.pubsub.subscriber import Subscriber
from semcast.core.pubsub.subscriber_delivery import UNUSED_BLOCK, SubscriberDelivery
from semcast.core.pubsub.target_selection import TargetSelection
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
from semcast.terms.messages import DataMessage, Update
from semcast.terms.pubsub import (
    Ack,
    Collected,
    Gossip,
    GossipDigest,
    Join,
    LeaveAck,
    LeaveRequest,
    LostSeqs,
    MemberList,
    NotHeld,
    Publication,
    PublisherHeartbeat,
    RecoveryQuery,
    RecoveryReply,
    Repair,
    RepairRequest,
    ResyncRequest,
    StatusList,
    StreamSpans,
    UnusedSeqs,
    Welcome,
)
from semcast.terms.records import NO_RECORDS, ReadResult, Records
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
        records: Records = NO_RECORDS,
        interest: Callable[[Rank, Seq], bool] | None = None,
        unaware_of: Iterable[Rank] = (),
    ) -> None:
        if not 0 <= pid < recipe.members:
            raise ConfigError(f"pid: {pid} is not in 0..{recipe.members - 1}")
        left = RestoredState(records)
        self.recipe, self.pid = recipe, pid
        self.loggers = frozenset(recipe.logger_pids)
        self.validator = PubsubValidator(recipe, pid)
        self.storage = storage = Storage(inc, records.last)
        self.delivery = SubscriberDelivery(recipe, pid, storage)
        self.roster = MemberTable(recipe, pid, unaware_of if pid not in self.loggers else ())
        is_lost = pid in self.loggers and inc > 0 and not left.is_synchronised
        self.publisher = Publisher(recipe, pid, self.storage, left, now, lost_disk=is_lost)
        self.logger_role: LoggerRole | None = None
        if pid in self.loggers:
            own = self.publisher, self.roster, self.delivery
            self.logger_role = LoggerRole(*own, records, left, now)
        account = self.delivery if self.logger_role is None else self.logger_role
        self.tracker = account.tracker
        self.membership = JoinProtocol(recipe, pid, self.roster, self.tracker, storage, rng, inc)
        self.selection = TargetSelection(recipe, self.roster, rng)
        wanted = interest if self.logger_role is None else None
        self.recovery = Recovery(recipe, pid, self.tracker, self.delivery, rng, wanted)
        self.buffer = GossipBuffer(recipe)
        self.gossiper = Gossiper(
            recipe, account, self.roster, self.selection, self.recovery, self.buffer, rng
        )
        self.holder = RepairServer(recipe, self.tracker, self.buffer, self.publisher)
        self.subscriber = Subscriber(
            self.delivery, self.membership, self.recovery, self.gossiper, left, now
        )
        self.deadline = self._next()

    def __repr__(self) -> str:
        return f"Participant({self.pid}, {self.membership}, {self.delivery}, {self.publisher})"

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
        streams, unsettled = self.delivery.tracker.streams, self.publisher.unacknowledged
        return Status(
            phase=MEMBER if self.subscriber.is_open else JOINING,
            sent=self.sent,
            passed=sum(stream.frontier - stream.start for stream in streams.values()),
            queued=self.delivery.waiting,
            held=len(unsettled) + len(self.publisher.waiting),
            held_bytes=self.publisher.held_bytes,
            is_blocked=self.publisher.is_refusing,
            is_drained=not self.tracker.gaps and not unsettled,
            owes_nothing=not unsettled,
        )

    def submit(self, updates: Sequence[Update], now: float, out: Effects) -> int:
        """Publish; returns how many, from the front, were accepted."""
        if self.membership.state == OFFLINE:
            return 0
        try:
            return self.publisher.multicast(updates, now, out)
        finally:
            self._settle(now, out)

    def on_ready(self, count: int, now: float, out: Effects) -> None:
        """The application can take so many more messages, or fewer."""
        was_full = not self.delivery.room
        self.delivery.on_ready(count, out)
        if was_full and self.delivery.room:
            self.recovery.on_room(now)
        if self.logger_role is not None and self.delivery.refused:
            self.logger_role.refill_delivery(now, out)
        self._settle(now, out)

    def _take(
        self, messages: tuple[DataMessage, ...], source: Rank, now: float, out: Effects
    ) -> None:
        if self.logger_role is not None:
            self.logger_role.logger.on_messages(messages, now, out)
        if not self.subscriber.is_open:
            return
        keeps = self.logger_role is None and self.recipe.has_gossip
        for message in messages:
            if self.delivery.on_message(message, source, out) and keeps:
                self.buffer.add(message, now)

    def on_datagrams(
        self, source: Rank, datagrams: Sequence[Any], now: float, out: Effects
    ) -> None:
        """Something came from `source`; what it cannot mean is discarded."""
        for datagram in datagrams if self.membership.state != OFFLINE else ():
            try:
                if self.validator.is_valid(source, datagram):
                    _HANDLERS[type(datagram)](self, source, datagram, now, out)
                    self._settle(now, out)
                elif out.events is not None:
                    out.events.append(Event(DISCARD, self.pid, note="malformed", peer=source))
            except Exception as error:
                out.refused.append(error)

    def _on_repair(self, source: Rank, repair: Repair, now: float, out: Effects) -> None:
        self.selection.on_answer(source, now)
        self.delivery.exempt_witnesses(repair.purged)
        self._take(repair.messages, source, now, out)
        if repair.purged:
            if self.logger_role is not None:
                self.logger_role.logger.on_purged(repair.purged, out)
            if self.subscriber.is_open:
                self.delivery.on_purged(repair.purged, source, out)
        if source in self.loggers:
            self.recovery.on_load(repair.load, now)
            self.recovery.on_answer(now, out)

    def _on_heartbeat(
        self, source: Rank, beat: PublisherHeartbeat, now: float, out: Effects
    ) -> None:
        if self.subscriber.is_open or self.logger_role is not None:
            self.tracker.learn_last(beat.sender, beat.last)

    def _serve(
        self, source: Rank, lacks: tuple[StreamSpans, ...], now: float, out: Effects
    ) -> None:
        if self.logger_role is not None:
            self.logger_role.logger.on_request(source, lacks, now, out)
        else:
            self.holder.on_request(source, lacks, now, out)

    def _on_gossip(self, source: Rank, gossip: Gossip, now: float, out: Effects) -> None:
        if self.membership.state != JOINED:
            return
        before = len(out.send)
        agree = self.gossiper.on_gossip(source, gossip, now, out)
        if source in self.loggers:
            self.publisher.on_claims(source, gossip.freshness, gossip.streams, now, out)
        if self.logger_role is not None and agree and gossip.is_complete:
            self.logger_role.on_full_gossip(source, gossip)
        if gossip.missing:
            self._serve(source, gossip.missing, now, out)
        if gossip.is_probe and len(out.send) == before:
            out.send.append(((source,), Repair(())))

    def _on_digest(self, source: Rank, digest: GossipDigest, now: float, out: Effects) -> None:
        if self.membership.state == JOINED:
            self.gossiper.on_digest(source, digest, out)

    def _on_collected(self, source: Rank, c: Collected, now: float, out: Effects) -> None:
        self.selection.on_answer(source, now)
        self.recovery.on_collected(c.parts, now)

    def _on_lasts(self, source: Rank, lasts: StatusList, now: float, out: Effects) -> None:
        self.selection.on_answer(source, now)
        if self.membership.state != JOINED:
            return
        agree = self.gossiper.on_lasts(source, lasts, now, out)
        if source in self.loggers:
            self.subscriber.on_stream_ends(now)
            self.publisher.on_claims(source, lasts.freshness, lasts.streams, now, out)
        if self.logger_role is not None:
            self.logger_role.on_status_list(source, lasts, agree)

    def _on_members(self, source: Rank, members: MemberList, now: float, out: Effects) -> None:
        if self.membership.state in (JOINED, LEAVING):
            self.gossiper.on_members(source, members, self.membership.merge, out)
        if self.membership.state == LEAVING and members.wants_answer:
            # It gossips no more, so what it has wrong it must ask to be told.
            out.send.extend(((source,), part) for part in self.roster.digest(wants_answer=True))

    @property
    def _counts(self) -> bool:
        return self.logger_role is None or self.logger_role.log.is_complete

    def _on_gap(self, source: Rank, gap: UnusedSeqs, now: float, out: Effects) -> None:
        if self.logger_role is not None:
            self.logger_role.logger.on_gap(gap.part, out)
        if self.subscriber.is_open:
            self.delivery.skip(gap.part, UNUSED_BLOCK, source, out)
        self.recovery.on_answer(now, out)

    def _on_gone(self, source: Rank, gone: LostSeqs, now: float, out: Effects) -> None:
        if self.logger_role is not None:
            self.logger_role.logger.on_lost(gone.part, out)
        if self.subscriber.is_open and (self.logger_role is None or source == self.pid):
            self.delivery.skip_missing(gone.part, AGE, source, out)
        self.recovery.on_answer(now, out)

    def _on_resync(self, source: Rank, resync: ResyncRequest, now: float, out: Effects) -> None:
        if self.logger_role is not None and self.logger_role.log.is_complete:
            out.send.append(((source,), self.gossiper.status_list(wants_answer=False)))
            out.send.extend(((source,), m) for m in self.roster.digest(wants_answer=True))
        elif self.logger_role is not None:
            self.logger_role.resync.on_resync(source)
        self.publisher.on_disk_lost(source, resync.inc)
        if self.publisher.sent:
            out.send.append(((source,), PublisherHeartbeat(self.pid, self.publisher.sent)))

    def _on_census(self, source: Rank, census: RecoveryQuery, now: float, out: Effects) -> None:
        if self.logger_role is not None:
            self.logger_role.logger.on_recovery_query(source, census, out)

    def _on_absent(self, source: Rank, absent: NotHeld, now: float, out: Effects) -> None:
        if self.logger_role is not None:
            self.logger_role.resync.on_not_held(source, absent.part, out)

    def on_time(self, now: float, out: Effects) -> None:
        """Time has passed."""
        if self.membership.state == OFFLINE:
            return
        self.publisher.on_time(now, out)
        self.subscriber.on_time(self.publisher.sent, now, out)
        if now >= self.gossiper.deadline:
            self.holder.demand.on_round()
            self.gossiper.on_time(now, out)
        if now >= self.recovery.deadline:
            self.recovery.on_time(now, out)
        if self.logger_role is not None:
            self.logger_role.on_time(now, out)
        self._settle(now, out)

    def on_persisted(self, ticket: int, now: float, out: Effects) -> None:
        """Everything up to `ticket` is on stable storage."""
        self.storage.on_persisted(ticket)
        self.publisher.on_persisted(now, out)
        self.delivery.on_persisted(out)
        self.membership.on_persisted(self._counts, out)
        if self.logger_role is not None:
            self.logger_role.logger.on_persisted(now, out)
        self._settle(now, out)

    def on_read(self, result: ReadResult, now: float, out: Effects) -> None:
        """A logger's disk has what somebody asked for."""
        assert self.logger_role is not None
        self.logger_role.logger.on_read(result, now, out)
        self._settle(now, out)

    def _settle(self, now: float, out: Effects) -> None:
        """After every input: what follows from it at once, and when to be called next."""
        if own := self.publisher.take_unread():
            self._take(own, self.pid, now, out)
        if self.logger_role is not None:
            self._settle_logger(now, out)
        if self.tracker.detected:
            self.recovery.poll(now)
        if self.recovery.members_now:
            self.gossiper.request_now(now, out)
        if self.recovery.logger_now:
            self.recovery.ask_at_once(out)
        self.subscriber.after_input(now, out)
        self.deadline = NEVER if self.membership.state == OFFLINE else self._next()

    def _settle_logger(self, now: float, out: Effects) -> None:
        """A logger's own subscriber follows the log, and it hears itself."""
        assert self.logger_role is not None
        self.logger_role.after_input(out)
        if self.logger_role.log.is_complete:
            self._on_complete(now, out)
        self.delivery.tracker.detected.clear()
        for part in self.logger_role.take_dropped():
            if self.subscriber.is_open:
                self.delivery.skip(part, AGE, self.pid, out)  # heard of here or not
        while mine := self.logger_role.take_sends_to_itself(out):
            for datagram in mine:
                _HANDLERS[type(datagram)](self, self.pid, datagram, now, out)
            self.logger_role.after_input(out)

    def _on_complete(self, now: float, out: Effects) -> None:
        """The logger counts: it may subscribe, and publish if it did not know its numbers."""
        assert self.logger_role is not None
        if self.subscriber.wants_open:
            self.subscriber.subscribe(self.logger_role.last_seqs, self.publisher.sent, now, out)
        if self.publisher.lost_disk:
            self.publisher.resume(*self.logger_role.known(self.pid), now, out)
        self.logger_role.declare_complete(out)

    def _next(self) -> float:
        first = min(self.publisher.deadline, self.subscriber.deadline, self.recovery.deadline)
        last = NEVER if self.logger_role is None else self.logger_role.deadline
        return min(first, self.gossiper.deadline, last)


_HANDLERS: dict[type, Callable[[Participant, Rank, Any, float, Effects], None]] = {
    Publication: lambda p, source, d, now, out: p._take(d.messages, source, now, out),
    Repair: Participant._on_repair,
    PublisherHeartbeat: Participant._on_heartbeat,
    RepairRequest: lambda p, source, d, now, out: p._serve(source, d.missing, now, out),
    Gossip: Participant._on_gossip,
    GossipDigest: Participant._on_digest,
    Collected: Participant._on_collected,
    StatusList: Participant._on_lasts,
    MemberList: Participant._on_members,
    Join: lambda p, source, d, now, out: p.membership.on_join(source, d, p._counts, out),
    Welcome: lambda p, source, d, now, out: p.subscriber.on_welcome(
        source, d, p.publisher.sent, now, out
    ),
    LeaveRequest: lambda p, source, d, now, out: p.membership.on_leave(source, d, p._counts, out),
    LeaveAck: lambda p, source, d, now, out: p.membership.on_goodbye(source, d),
    Ack: lambda p, source, d, now, out: p.publisher.on_ack(source, d.inc, d.part.spans, now, out),
    RecoveryQuery: Participant._on_census,
    RecoveryReply: lambda p, source, d, now, out: p.publisher.recovery.on_reply(
        source, d, now, out
    ),
    UnusedSeqs: Participant._on_gap,
    LostSeqs: Participant._on_gone,
    ResyncRequest: Participant._on_resync,
    NotHeld: Participant._on_absent,
}
