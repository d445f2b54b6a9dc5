"""What a logger keeps: messages, and for every number that has none the reason.

Guarantees: of each number up to a stream's frontier the log has the message, or the newer message
that makes it obsolete and is itself here, or knows that it is a gap, reclaimed, or lost.
`acked_upto` counts only what is durable.  Purging follows the topic: retain="latest" drops m once a
newer m' is durable here, a number of seconds once it has been for that long.
Idea: messages enter the index of what is obsolete when the durable frontier passes them, so the
index sees a stream in order whatever came late.
"""

from collections import deque

from msgspec.structs import replace

from semcast.core.pubsub.recipe import PubsubRecipe
from semcast.core.pubsub.seq_tracker import SeqTracker
from semcast.core.pubsub.storage import Storage
from semcast.core.relation import make_index
from semcast.core.span_set import SpanSet
from semcast.terms.effects import Effects
from semcast.terms.events import APPEND, PURGE, RETRANSMISSION, Event
from semcast.terms.ids import Rank, Seq, Span
from semcast.terms.messages import DataMessage
from semcast.terms.pubsub import (
    SPANS_MAX,
    Appended,
    Reclaimed,
    Record,
    ResolvedSeqs,
    StreamSpans,
    Superseded,
)


class LogStream:
    """One sender's part of the log.  Invariant: the end of each chain in `superseded_by` is in
    `messages`."""

    __slots__ = (
        "evicted",
        "floor",
        "gaps",
        "index",
        "indexed",
        "lost",
        "messages",
        "pending",
        "seen",
        "superseded_by",
    )

    def __init__(self, recipe: PubsubRecipe) -> None:
        self.messages: dict[Seq, DataMessage] = {}
        self.evicted: dict[Seq, int] = {}  # those without payload, and their numbers on the disk
        self.pending = SpanSet()  # not yet durable
        self.superseded_by: dict[Seq, Seq] = {}  # purged, and the message it was purged for
        self.gaps = SpanSet()
        self.lost = SpanSet()
        self.floor: Seq = 0  # up to here everything was reclaimed
        self.index = make_index(recipe.annotation)
        self.indexed: dict[Seq, None] = {}
        self.seen: Seq = 0  # up to here messages have entered the index

    def __repr__(self) -> str:
        return f"LogStream({self.floor} < {len(self.messages)} messages, gaps={self.gaps})"

    def held(self, first: Seq, last: Seq) -> list[Seq]:
        """The numbers of the messages in a span, in order."""
        if last - first < len(self.messages):
            return [seq for seq in range(first, last + 1) if seq in self.messages]
        return sorted(seq for seq in self.messages if first <= seq <= last)

    def drop(self, seq: Seq) -> DataMessage | None:
        """Keep a message no longer."""
        self.evicted.pop(seq, None)
        return self.messages.pop(seq, None)

    def witness(self, seq: Seq) -> DataMessage | None:
        """The message that made a purged one obsolete, or the one that did so to that."""
        end = seq
        while end in self.superseded_by:
            end = self.superseded_by[end]
        while seq in self.superseded_by and self.superseded_by[seq] != end:
            self.superseded_by[seq], seq = end, self.superseded_by[seq]
        return self.messages.get(end)


class MessageLog:
    """One life of a logger's log.  Invariant: `tracker` says what was taken, durable or not."""

    def __init__(self, recipe: PubsubRecipe, pid: Rank, storage: Storage) -> None:
        self.recipe = recipe
        self.pid = pid
        self.storage = storage
        self.tracker = SeqTracker()
        self.volumes: dict[Rank, LogStream] = {}
        self.tickets: deque[tuple[int, Rank, Seq, Seq]] = deque()
        self.arrivals: deque[tuple[float, Rank, Seq]] = deque()  # oldest first
        self.cached: deque[tuple[int, Rank, Seq]] = deque()  # with payload, by number on the disk
        self.obsolete: deque[tuple[float, Rank, Seq, Seq]] = deque()  # when to purge what for what
        self.dropped: list[
            StreamSpans
        ] = []  # what will not come, for this process's own subscriber
        self.restored: list[tuple[Rank, Seq]] = []  # and not yet told
        self.is_complete = True  # False while it does not count [see resynchronisation]

    def __repr__(self) -> str:
        return f"MessageLog({self.volumes})"

    def stream(self, sender: Rank) -> LogStream:
        """The part of `sender`, begun when needed."""
        volume = self.volumes.get(sender)
        if volume is None:
            volume = self.volumes[sender] = LogStream(self.recipe)
        return volume

    def acked_upto(self, sender: Rank) -> Seq:
        """Up to where everything is durable; nothing, while the log does not count."""
        if not self.is_complete:
            return 0
        frontier = self.tracker.streams[sender].frontier
        volume = self.volumes.get(sender)
        pending = volume.pending.firsts if volume is not None else ()
        return min(frontier, pending[0] - 1) if pending else frontier

    def not_fully_acked(self) -> dict[Rank, None]:
        """The streams of which something is missing or not yet durable."""
        if not self.is_complete:
            return dict.fromkeys(self.tracker.streams)
        return self.tracker.gaps | {s: None for s, v in self.volumes.items() if v.pending}

    def restore(self, number: int, record: Record, now: float) -> None:
        """Take back what an earlier life wrote."""
        if isinstance(record, Appended):
            if self.tracker.receive(record.message.sender, record.message.seq):
                self._keep(record.message, number, now)
                self._evict()
        elif isinstance(record, Superseded):
            volume = self.stream(record.sender)
            volume.drop(record.seq)
            volume.superseded_by[record.seq] = record.by
            self.tracker.resolve(record.sender, record.seq, record.seq)
        elif isinstance(record, ResolvedSeqs):
            volume = self.stream(record.part.sender)
            for first, last in record.part.spans:
                (volume.lost if record.is_lost else volume.gaps).add(first, last)
                self.tracker.resolve(record.part.sender, first, last)
        elif isinstance(record, Reclaimed):
            self.stream(record.sender)
            self.reclaim(record.sender, record.upto)

    def on_restored(self, now: float) -> None:
        """All records were taken back: see anew what is obsolete."""
        for sender, volume in self.volumes.items():
            self.restored += [(sender, seq) for seq in volume.messages]
            self._index(sender, now)

    def report_restored(self, out: Effects) -> None:
        """Say what this life begins with: the one before may not have lived to say it."""
        if out.events is not None:
            out.events += [Event(APPEND, self.pid, sender, seq) for sender, seq in self.restored]
        self.restored.clear()

    def append(self, message: DataMessage, now: float, out: Effects) -> bool:
        """Keep a message that is new here; whether it was."""
        if not self.tracker.receive(message.sender, message.seq):
            return False
        spans = [(message.seq, message.seq)]
        number = self._write(Appended(message), message.sender, spans, out)
        self._keep(message, number, now)
        return True

    def _write(self, record: Record, sender: Rank, spans: list[Span], out: Effects) -> int:
        ticket = self.storage.write(record, out)
        pending = self.stream(sender).pending
        for first, last in spans:
            pending.add(first, last)
            self.tickets.append((ticket, sender, first, last))
        return ticket

    def _keep(self, message: DataMessage, number: int, now: float) -> None:
        self.stream(message.sender).messages[message.seq] = message
        self.cached.append((number, message.sender, message.seq))
        if self.recipe.age_s is not None:
            self.arrivals.append((now, message.sender, message.seq))

    def _evict(self) -> None:
        """Leave the payloads of the oldest messages to the disk."""
        cached = self.cached
        while len(cached) > self.recipe.log_buffer and cached[0][0] <= self.storage.durable:
            number, sender, seq = cached.popleft()
            volume = self.volumes[sender]
            message = volume.messages.get(seq)
            if message is not None:  # else it was purged or reclaimed meanwhile
                volume.messages[seq] = replace(message, payload=b"")
                volume.evicted[seq] = number

    def is_durable(self, sender: Rank, seq: Seq) -> bool:
        """Whether this number needs nothing more here."""
        volume = self.volumes.get(sender)
        return self.tracker.has(sender, seq) and volume is not None and seq not in volume.pending

    def resolve(self, part: StreamSpans, out: Effects, *, is_lost: bool) -> None:
        """Write down that no message will come for some numbers."""
        volume = self.stream(part.sender)
        spans = [
            span
            for first, last in part.spans
            for span in self.tracker.resolve(part.sender, first, last)
        ]
        for first, last in spans:
            (volume.lost if is_lost else volume.gaps).add(first, last)
        if is_lost and spans:
            self.dropped.append(StreamSpans(part.sender, tuple(spans)))
        for cut in range(0, len(spans), SPANS_MAX):
            some = spans[cut : cut + SPANS_MAX]
            self._write(
                ResolvedSeqs(StreamSpans(part.sender, tuple(some)), is_lost), part.sender, some, out
            )

    def supersede(self, sender: Rank, seq: Seq, by: Seq, out: Effects) -> None:
        """Another logger purged a message that was missing here, and its witness is here."""
        if self.tracker.has(sender, by) and self.tracker.resolve(sender, seq, seq):
            self.stream(sender).superseded_by[seq] = by
            self._write(Superseded(sender, seq, by), sender, [(seq, seq)], out)

    def on_persisted(self, now: float, out: Effects) -> list[tuple[Rank, Seq, Seq]]:
        """Some of it is durable: which numbers."""
        done: list[tuple[Rank, Seq, Seq]] = []
        while self.tickets and self.tickets[0][0] <= self.storage.durable:
            _, sender, first, last = self.tickets.popleft()
            volume = self.volumes[sender]
            volume.pending.remove(first, last)
            done.append((sender, first, last))
            if out.events is not None and first in volume.messages:
                out.events.append(Event(APPEND, self.pid, sender, first))
        for sender in dict.fromkeys(sender for sender, _, _ in done):
            self._index(sender, now)
        self.purge(now, out)
        self._evict()
        return done

    def _index(self, sender: Rank, now: float) -> None:
        """Let what the durable frontier has passed make older messages obsolete."""
        after_s = self.recipe.purges_after_s
        if after_s is None:
            return
        due = now + after_s
        volume = self.volumes[sender]
        frontier = self.acked_upto(sender)
        for seq in volume.held(volume.seen + 1, frontier):
            message = volume.messages[seq]
            for old in volume.index.obsoleted_by(message):
                volume.index.remove(volume.messages[old])
                del volume.indexed[old]
                self.obsolete.append((due, sender, old, seq))
            if not message.never_purge:
                volume.index.add(message)
                volume.indexed[seq] = None
        volume.seen = max(volume.seen, frontier)

    def purge(self, now: float, out: Effects) -> None:
        """Drop what has been obsolete for long enough."""
        while self.obsolete and self.obsolete[0][0] <= now:
            _, sender, seq, by = self.obsolete.popleft()
            volume = self.volumes[sender]
            if volume.drop(seq) is None:
                continue  # It was reclaimed meanwhile.
            volume.superseded_by[seq] = by
            self.storage.write(Superseded(sender, seq, by), out)
            if out.events is not None:
                out.events.append(Event(PURGE, self.pid, sender, seq, None, by, RETRANSMISSION))

    def reclaim(self, sender: Rank, upto: Seq) -> bool:
        """Drop everything of a stream up to here; whether there was something new to drop."""
        volume = self.volumes.get(sender)
        if volume is None or upto <= volume.floor:
            return False
        for seq in volume.held(volume.floor + 1, upto):
            message = volume.drop(seq)
            if message is not None and seq in volume.indexed:
                del volume.indexed[seq]
                volume.index.remove(message)
        for seq in [seq for seq in volume.superseded_by if seq <= upto]:
            del volume.superseded_by[seq]
        volume.gaps.remove(1, upto)
        volume.lost.remove(1, upto)
        volume.floor = upto
        spans = self.tracker.resolve(sender, 1, upto)
        if spans:
            self.dropped.append(StreamSpans(sender, tuple(spans)))
        return True
