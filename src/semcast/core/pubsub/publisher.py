"""The sending side: numbers, first transmission, and holding on until loggers have it.

Guarantees: no two messages of a process have one number, in all of its lives [RPB §3.1, Property
3.1]: numbers come from blocks that are reserved on disk before one of them leaves [RPB §6.2].  A
message is held until `copies` loggers keep it [Property 3.2]; loggers alone can hold a publisher
up, subscribers never.
"""

from collections import deque
from collections.abc import Sequence

from semcast.core.outbox import split_into_datagrams
from semcast.core.pubsub.heartbeats import HeartbeatTimer
from semcast.core.pubsub.join_protocol import INC_SHIFT
from semcast.core.pubsub.publisher_recovery import PublisherRecovery
from semcast.core.pubsub.recipe import PubsubRecipe
from semcast.core.pubsub.storage import RestoredState, Storage
from semcast.core.relation import make_annotator
from semcast.core.span_set import SpanSet
from semcast.kernel import NAME_MAX, ItemLabels, size_of
from semcast.terms.declared import declare
from semcast.terms.effects import Effects
from semcast.terms.errors import BufferFull, LocalProtocolError
from semcast.terms.events import ACKNOWLEDGE, MULTICAST, Event
from semcast.terms.ids import EVERYONE, NEVER, Rank, Seq, Span
from semcast.terms.messages import DataMessage, Update
from semcast.terms.outputs import ROOM
from semcast.terms.pubsub import (
    STREAMS_MAX,
    Publication,
    ReservedBlock,
    StreamSpans,
    StreamStatus,
)

RESENDS_MAX = 1 << 8  # messages to one logger at a time


class Publisher:
    """One life.  Invariant: last <= `reserved` on disk; `unacknowledged` is in order of numbers."""

    def __init__(
        self,
        recipe: PubsubRecipe,
        pid: Rank,
        storage: Storage,
        left: RestoredState,
        now: float,
        *,
        lost_disk: bool,
    ) -> None:
        after = left.reserved
        self.recipe = recipe
        self.pid = pid
        self.storage = storage
        self.annotator = make_annotator(recipe.annotation)
        self.labels = ItemLabels()
        self.heartbeats = HeartbeatTimer(recipe, pid)
        self.place = {logger: 1 << n for n, logger in enumerate(recipe.logger_pids)}
        self.last: Seq = after  # numbered, though perhaps not sent
        self.sent: Seq = after
        self.reserved: Seq = after  # durably
        self.reserving: Seq = after
        self.tickets: deque[tuple[int, Seq]] = deque()
        self.resolved = left.settled  # What lies above, up to `after`, is the census's business.
        self.recovery = PublisherRecovery(recipe, pid, left.settled + 1, after, now)
        self.first_own = after + 1  # of this life
        self.waiting: deque[tuple[DataMessage, Update]] = deque()  # for a block
        self.unacknowledged: dict[
            Seq, tuple[DataMessage, int, float]
        ] = {}  # by whom kept, sent when
        self.unread_own: list[DataMessage] = []  # sent, and not yet taken here
        self.logger_inc: dict[Rank, int] = {}  # from which life on a logger's word counts
        self.held_bytes = 0
        self.is_refusing = False
        self.lost_disk = lost_disk  # whether the disk that knew its numbers is gone
        self.retry_at = NEVER
        self.heartbeats.on_published(after, now)

    def __repr__(self) -> str:
        held = list(self.unacknowledged)
        return f"Publisher({self.pid}, sent={self.sent}, last={self.last}, held={held})"

    @property
    def deadline(self) -> float:
        """When a heartbeat, a retransmission or a question is due."""
        return min(self.heartbeats.deadline, self.retry_at, self.recovery.deadline)

    def multicast(self, updates: Sequence[Update], now: float, out: Effects) -> int:
        """Number and send what there is room for; how many, from the front."""
        if self.pid >= STREAMS_MAX:
            raise LocalProtocolError(
                f"publish: process {self.pid} cannot publish; the processes 0 to "
                f"{STREAMS_MAX - 1} can"
            )
        accepted = 0
        try:
            for update in updates:
                if not self._accept(update):
                    self.is_refusing = True
                    break
                accepted += 1
        finally:
            self._send(now, out)
            self._reserve(out)
        if not accepted and updates and self.recipe.overflow == "error":
            raise BufferFull(
                f"buffer full: {len(self.unacknowledged)} messages are not yet acknowledged by "
                f"{self.recipe.copies} loggers; wait, or check the loggers"
            )
        return accepted

    def _accept(self, update: Update) -> bool:
        seq = self.last + 1
        item, name = self.labels.identify(update)
        annotation = self.annotator.annotate(seq, item, update)
        message = DataMessage(self.pid, seq, *annotation, (), update.payload, name)
        size = size_of(message)
        self._check(message, size)
        held = len(self.unacknowledged) + len(self.waiting)
        if self.lost_disk:
            return False
        full = held >= self.recipe.buffer or self.held_bytes + size > self.recipe.buffer_bytes
        if full and held:
            return False
        self.last = seq
        self.annotator.remember(seq, annotation)
        self.waiting.append((message, update))
        self.held_bytes += size
        return True

    def _check(self, message: DataMessage, size: int) -> None:
        bytes_max = self.recipe.message_bytes
        if size > bytes_max:
            raise LocalProtocolError(f"payload: message has {size} bytes, maximum is {bytes_max}")
        if len(message.name) > NAME_MAX:
            raise LocalProtocolError(
                f"item: name has {len(message.name)} characters, maximum is {NAME_MAX}"
            )

    def _reserve(self, out: Effects) -> None:
        """Keep half a block ahead, so that no message waits for the disk but the first."""
        block = self.recipe.block
        if self.last > self.reserving - block // 2 and self.last >= self.first_own:
            self.reserving = max(self.reserving, self.last) + block
            ticket = self.storage.write(ReservedBlock(self.reserving, self.resolved_upto), out)
            self.tickets.append((ticket, self.reserving))

    @property
    def resolved_upto(self) -> Seq:
        """Up to here every number is acknowledged, or known to be nobody's."""
        if not self.recovery.is_done:
            return self.resolved
        first = next(iter(self.unacknowledged), self.sent + 1)
        return first - 1

    def resume(self, last: Seq, settled: Seq, now: float, out: Effects) -> None:
        """Number on after a lost disk, beyond whatever was used.

        What was acknowledged is known to loggers, up to `last`; at most `buffer` messages more
        were under way.
        """
        after = last + self.recipe.buffer if last else 0
        self.lost_disk = False
        self.last = self.sent = self.reserved = self.reserving = after
        self.storage.write(ReservedBlock(after, settled), out)
        self.resolved, self.first_own = settled, after + 1
        self.recovery = PublisherRecovery(self.recipe, self.pid, settled + 1, after, now)
        self.heartbeats.on_published(after, now)
        out.outputs.append(ROOM)

    def on_persisted(self, now: float, out: Effects) -> None:
        """A block may have become usable."""
        before = self.reserved
        while self.tickets and self.tickets[0][0] <= self.storage.durable:
            self.reserved = self.tickets.popleft()[1]
        if self.reserved > before:
            self._send(now, out)

    def take_unread(self) -> tuple[DataMessage, ...]:
        """What was sent since last asked: this process hears of it here."""
        fresh = tuple(self.unread_own)
        if fresh:
            self.unread_own.clear()
        return fresh

    def _send(self, now: float, out: Effects) -> None:
        sent: list[DataMessage] = []
        while self.waiting and self.waiting[0][0].seq <= self.reserved:
            message, update = self.waiting.popleft()
            sent.append(message)
            if self.place:
                self.unacknowledged[message.seq] = (message, 0, now)
            else:
                self.held_bytes -= size_of(message)
            if out.events is not None:
                event = Event(MULTICAST, self.pid, self.pid, message.seq, message)
                declare(event, self.labels.identify(update)[0], update)
                out.events.append(event)
        if not sent:
            return
        self.sent = sent[-1].seq
        self.unread_own += sent
        for batch in split_into_datagrams(sent, self.recipe.datagram_bytes):
            out.send.append((EVERYONE, Publication(batch)))
        self.heartbeats.on_published(self.sent, now)
        if self.retry_at == NEVER and self.place:
            self.retry_at = now + self.recipe.retry_s
        if not self.place and self.is_refusing:
            self.is_refusing = False
            out.outputs.append(ROOM)

    def on_ack(
        self, logger: Rank, inc: int, spans: Sequence[Span], now: float, out: Effects
    ) -> None:
        """A logger keeps these, or kept them in a life whose disk was lost [RPB §3.1, §5.2]."""
        bit = self.place.get(logger)
        if bit is None or inc < self.logger_inc.get(logger, 0):
            return
        self.recovery.on_ack(logger, spans, now)
        for first, last in spans:
            if last - first < len(self.unacknowledged):
                seqs = [seq for seq in range(first, last + 1) if seq in self.unacknowledged]
            else:
                seqs = [seq for seq in self.unacknowledged if first <= seq <= last]
            for seq in seqs:
                self._count(seq, bit, out)
        if not self.unacknowledged:
            self.retry_at = NEVER

    def on_claims(
        self,
        logger: Rank,
        freshness: int,
        streams: Sequence[StreamStatus],
        now: float,
        out: Effects,
    ) -> None:
        """What a logger says that it keeps of all streams, of this one above all [RPB §5.2]."""
        for heard in streams:
            if heard.sender == self.pid:
                self.on_ack(logger, freshness >> INC_SHIFT, ((1, heard.frontier),), now, out)

    def _count(self, seq: Seq, bit: int, out: Effects) -> None:
        message, kept_by, when = self.unacknowledged[seq]
        kept_by |= bit
        if kept_by.bit_count() < self.recipe.copies:
            self.unacknowledged[seq] = (message, kept_by, when)
            return
        del self.unacknowledged[seq]
        self.held_bytes -= size_of(message)
        if out.events is not None:
            out.events.append(Event(ACKNOWLEDGE, self.pid, self.pid, seq))
        if self.is_refusing:
            self.is_refusing = False
            out.outputs.append(ROOM)

    def on_disk_lost(self, logger: Rank, inc: int) -> None:
        """What this logger acknowledged before its life `inc` it keeps no longer."""
        bit = self.place.get(logger, 0)
        if not bit or inc <= self.logger_inc.get(logger, 0):
            return
        self.logger_inc[logger] = inc
        for seq, (message, kept_by, when) in self.unacknowledged.items():
            self.unacknowledged[seq] = (message, kept_by & ~bit, when)

    def find(self, part: StreamSpans, limit: int) -> list[DataMessage]:
        """What is held of the messages named."""
        wanted = SpanSet(part.spans)
        held = self.unacknowledged.items()
        return [message for seq, (message, _, _) in held if seq in wanted][:limit]

    def no_longer_held(self, first: Seq, last: Seq) -> list[Span]:
        """Of these numbers, those that were used or settled and are not held any more."""
        first = first if self.recovery.is_done else max(first, self.first_own)
        spans = (
            SpanSet([(first, min(last, self.sent))]) if first <= min(last, self.sent) else SpanSet()
        )
        for seq in self.unacknowledged:
            if first <= seq <= last:
                spans.remove(seq, seq)
        return list(spans)

    def on_time(self, now: float, out: Effects) -> None:
        """Send a heartbeat, and send again what loggers lack [RPB §3.1]."""
        self.heartbeats.on_time(now, out)
        self.recovery.on_time(now, out)
        if now < self.retry_at:
            return
        self.retry_at = now + self.recipe.retry_s
        patience_s = self.recipe.retry_s * 0.5
        for logger, bit in self.place.items():
            if logger == self.pid:
                continue
            lacked = [
                message
                for message, kept_by, when in self.unacknowledged.values()
                if not kept_by & bit and when + patience_s <= now
            ][:RESENDS_MAX]
            for batch in split_into_datagrams(lacked, self.recipe.datagram_bytes):
                out.send.append(((logger,), Publication(batch)))
