"""From messages in any order to what a subscriber's application is handed.

Guarantees: each message is delivered at most once [RPB §3.3, Property 3.4]; under order `fifo` only
after everything before it in its stream was delivered or skipped.  A number is skipped only for a
stated reason: a gap in the numbers, age, the application's lack of interest, or a newer message
that is here and makes it obsolete.  Across crashes: at most once, the cursor is durable before the
application has the message; at least once, after [RPB §6.2].
Departs: the thesis rejoins from scratch, which hands a message over twice if the new sponsors have
not heard of it.
Bounded: messages ahead of a gap (`fifo`) and messages that wait for the application share `buffer`.
What comes beyond it is not taken, but asked for again once there is room: a slow subscriber holds
up nobody but itself [RPB §1.1].  A message without which a gap cannot be skipped takes the place of
the one that is furthest ahead.  However wide a notice is, it is taken in portions.
"""

from collections import deque
from heapq import heapify, heappop, heappush

from semcast.core.pubsub.recipe import PubsubRecipe
from semcast.core.pubsub.seq_tracker import SeqTracker
from semcast.core.pubsub.storage import Storage
from semcast.kernel import run_of
from semcast.terms.effects import Effects
from semcast.terms.events import DELIVER, DISCARD, RECEIVE, SKIP, Event
from semcast.terms.ids import SEQ_MAX, Rank, Seq
from semcast.terms.messages import DataMessage, PurgeNotice
from semcast.terms.outputs import Delivery, PassedOver
from semcast.terms.pubsub import Cursor, StreamSpans

SKIPS_MAX = 1 << 16  # of a stream, on what one datagram says: each is an event of its own
UNUSED_BLOCK = "block"
DECLINED = "interest"


class SubscriberDelivery:
    """One life of a subscriber.  Invariant: what is held lies above its stream's frontier; nothing
    is queued while the application is ready.  Skips are told at once, deliveries in order."""

    def __init__(self, recipe: PubsubRecipe, pid: Rank, storage: Storage) -> None:
        self.pid = pid
        self.storage = storage
        self.tracker = SeqTracker()
        self.recovery = recipe.recovery
        self.in_order = recipe.order == "fifo"
        self.held_max = recipe.buffer
        self.readiness = 0  # how many more messages the application can take
        self.queue: deque[tuple[DataMessage, Rank]] = deque()  # for it, and from whom they came
        self.refused: dict[Rank, None] = {}  # streams of which there was no room for something
        self.held: dict[Rank, dict[Seq, DataMessage]] = {}
        self.heaps: dict[Rank, list[Seq]] = {}  # the numbers that are held
        self.ahead = 0  # how many are held, over all streams
        self.uncovered: list[tuple[DataMessage, Rank]] = []  # to be delivered after a cursor
        # Once the cursor is durable.
        self.awaiting_cursor: deque[tuple[int, DataMessage, Rank]] = deque()
        self.written: dict[Rank, Seq] = {}  # the cursors as written, and as durable
        self.durable: dict[Rank, Seq] = {}
        self.tickets: deque[tuple[int, Rank, Seq]] = deque()
        self.unsaved: dict[Rank, None] = {}
        self.witnesses: frozenset[tuple[Rank, Seq]] = frozenset()  # to be held though it is full

    def __repr__(self) -> str:
        return f"SubscriberDelivery({self.tracker}, waiting={self.waiting})"

    @property
    def waiting(self) -> int:
        """How many messages wait, for others or for the application."""
        return self.ahead + len(self.queue)

    @property
    def room(self) -> int:
        """How many messages it would take, if nothing were missing before them."""
        if self.queue:
            return max(0, self.held_max - self.waiting)
        return max(self.readiness, self.held_max)

    def on_ready(self, count: int, out: Effects) -> None:
        """The application can take so many more, or fewer."""
        self.readiness += count
        while self.queue and self.readiness > 0:
            self._pass_on(*self.queue.popleft(), out)

    def on_message(self, message: DataMessage, source: Rank, out: Effects) -> bool:
        """Deliver or hold a message that was not here before; whether it was not."""
        sender, seq = message.sender, message.seq
        is_full = self.waiting >= self.held_max
        if is_full and not self._is_needed(sender, seq):
            self.tracker.learn_last(sender, seq)
            self.refused[sender] = None
            self._discard(message, "full", source, out)
            return False
        if not self.tracker.receive(sender, seq):
            self._discard(message, "duplicate", source, out)
            return False
        if not self.in_order:
            self._deliver(message, source, out)
            return True
        stream = self.tracker.streams[sender]
        if stream.frontier < seq:
            if is_full:
                self._make_room(source, out)
            self._hold(message, source, out)
            return True
        self._deliver(message, source, out)
        if sender in self.heaps:
            self._release(sender, source, out)
        return True

    def _is_needed(self, sender: Rank, seq: Seq) -> bool:
        """Whether a message has to be taken even now, so that those that are held can move."""
        if self.queue:
            return False  # They move when the application does.
        return seq == self._next(sender) or (sender, seq) in self.witnesses

    def _make_room(self, source: Rank, out: Effects) -> None:
        """Forget the message that is furthest ahead, and that nothing else waits for."""
        held = [(sender, seq) for sender, messages in self.held.items() for seq in messages]
        others = [each for each in held if each not in self.witnesses]
        if not others:
            return
        sender, seq = max(others, key=lambda each: each[1] - self._next(each[0]))
        message = self.held[sender].pop(seq)
        self.heaps[sender].remove(seq)
        heapify(self.heaps[sender])
        if not self.heaps[sender]:
            del self.heaps[sender], self.held[sender]
        self.ahead -= 1
        self.tracker.forget(sender, seq)
        self.refused[sender] = None
        self._discard(message, "full", source, out)

    def _next(self, sender: Rank) -> Seq:
        stream = self.tracker.streams.get(sender)
        return (stream.frontier if stream is not None else 0) + 1

    def _hold(self, message: DataMessage, source: Rank, out: Effects) -> None:
        sender, seq = message.sender, message.seq
        self.held.setdefault(sender, {})[seq] = message
        heappush(self.heaps.setdefault(sender, []), seq)
        self.ahead += 1
        self._record_receipt(message, source, out)

    def _record_receipt(self, message: DataMessage, source: Rank, out: Effects) -> None:
        if out.events is not None:
            sender, seq, waiting = message.sender, message.seq, self.waiting
            out.events.append(Event(RECEIVE, self.pid, sender, seq, None, 0, "", source, waiting))

    def _release(self, sender: Rank, source: Rank, out: Effects) -> None:
        """Deliver what no longer waits for anything before it."""
        heap, held = self.heaps[sender], self.held[sender]
        frontier = self.tracker.streams[sender].frontier
        while heap and heap[0] <= frontier:
            self.ahead -= 1
            self._deliver(held.pop(heappop(heap)), source, out)
        if not heap:
            del self.heaps[sender], self.held[sender]

    def _deliver(self, message: DataMessage, source: Rank, out: Effects) -> None:
        if self.readiness > 0:
            self._pass_on(message, source, out)
            return
        self.queue.append((message, source))
        self._record_receipt(message, source, out)

    def _pass_on(self, message: DataMessage, source: Rank, out: Effects) -> None:
        """Nothing before it is missing, and the application is ready."""
        sender = message.sender
        self.readiness -= 1
        if self.recovery == "at-most-once" and message.seq > self.durable.get(sender, 0):
            self.uncovered.append((message, source))
            return
        if self.recovery == "at-least-once":
            self.unsaved[sender] = None
        self._hand_over(message, source, out)

    def _hand_over(self, message: DataMessage, source: Rank, out: Effects) -> None:
        out.outputs.append(Delivery(run_of([message])))
        if out.events is not None:
            out.events.append(
                Event(DELIVER, self.pid, message.sender, message.seq, message, 0, "", source)
            )

    def flush(self, out: Effects) -> None:
        """At most once: write down how far the application gets before it gets there."""
        if not self.uncovered:
            return
        highest: dict[Rank, Seq] = {}
        for message, source in self.uncovered:
            sender, seq = message.sender, message.seq
            highest[sender] = max(seq, highest.get(sender, 0))
            self._record_receipt(message, source, out)
        for sender, seq in highest.items():
            if seq > self.written.get(sender, 0):
                self._write(sender, seq, out)
        self.awaiting_cursor.extend(
            (self.storage.last, message, source) for message, source in self.uncovered
        )
        self.uncovered.clear()

    def save(self, out: Effects) -> None:
        """At least once: write down how far the application has got."""
        queued: dict[Rank, Seq] = {}
        for message, _ in self.queue:
            queued[message.sender] = min(message.seq, queued.get(message.sender, message.seq))
        for sender in self.unsaved:
            stream = self.tracker.streams.get(sender)
            if stream is None:
                continue
            upto = min(stream.frontier, queued.get(sender, SEQ_MAX) - 1)
            if upto > self.written.get(sender, stream.start):
                self._write(sender, upto, out)
        self.unsaved.clear()

    def _write(self, sender: Rank, upto: Seq, out: Effects) -> None:
        self.written[sender] = upto
        self.tickets.append((self.storage.write(Cursor(sender, upto), out), sender, upto))

    def on_persisted(self, out: Effects) -> None:
        """Cursors are durable: what waited for them is delivered, or claimed."""
        durable = self.storage.durable
        while self.tickets and self.tickets[0][0] <= durable:
            _, sender, upto = self.tickets.popleft()
            self.durable[sender] = upto
        while self.awaiting_cursor and self.awaiting_cursor[0][0] <= durable:
            _, message, source = self.awaiting_cursor.popleft()
            self._hand_over(message, source, out)

    @property
    def is_complete(self) -> bool:
        """What a subscriber says of itself can always be taken for an acknowledgement."""
        return True

    def acked_upto(self, sender: Rank) -> Seq:
        """Up to where it will never ask again: at least once, not beyond the durable cursor."""
        stream = self.tracker.streams[sender]
        if self.recovery == "at-least-once":
            return min(stream.frontier, self.durable.get(sender, stream.start))
        return stream.frontier

    def not_fully_acked(self) -> dict[Rank, None]:
        """The streams that it does not claim up to their last number."""
        if self.recovery != "at-least-once":
            return self.tracker.gaps
        streams = self.tracker.streams.items()
        return {sender: None for sender, s in streams if self.acked_upto(sender) < s.last}

    def reset(self) -> dict[Rank, Seq]:
        """The subscription is over; the last numbers that it knew of."""
        lasts = {sender: stream.last for sender, stream in self.tracker.streams.items()}
        self.tracker.reset()
        self.held.clear()
        self.heaps.clear()
        self.ahead = 0
        self.queue.clear()
        self.refused.clear()
        self.readiness += len(self.uncovered) + len(self.awaiting_cursor)
        self.uncovered.clear()
        self.awaiting_cursor.clear()
        self.unsaved.clear()
        return lasts

    def exempt_witnesses(self, notices: tuple[PurgeNotice, ...]) -> None:
        """Make room for the messages without which a gap at the frontier cannot be skipped."""
        self.witnesses = frozenset(
            (notice.sender, notice.witness)
            for notice in notices
            if notice.first <= self._next(notice.sender) <= notice.last
        )

    def on_purged(self, notices: tuple[PurgeNotice, ...], source: Rank, out: Effects) -> None:
        """Some messages are obsolete: skip them, if what made them so is here."""
        for notice in notices:
            if self.tracker.has(notice.sender, notice.witness):
                span = (notice.first, min(notice.last, notice.witness - 1))
                self.skip(StreamSpans(notice.sender, (span,)), "", source, out, by=notice.witness)

    def skip(self, part: StreamSpans, reason: str, source: Rank, out: Effects, by: Seq = 0) -> None:
        """Wait for these no longer."""
        sender = part.sender
        stream = self.tracker.open_stream(sender, 0)
        reach = stream.frontier + SKIPS_MAX  # The rest will be told when asked for.
        for first, last in part.spans:
            first, last = max(first, stream.start + 1), min(last, reach)
            for a, b in self.tracker.resolve(sender, first, last):
                out.outputs.append(PassedOver(sender, a, b, reason))
                self._record_skips(sender, range(a, b + 1), by, reason, source, out)
        if sender in self.heaps:
            self._release(sender, source, out)
        if self.recovery == "at-least-once":
            self.unsaved[sender] = None

    def skip_missing(self, part: StreamSpans, reason: str, source: Rank, out: Effects) -> None:
        """Wait no longer for what is missing of these."""
        stream = self.tracker.streams.get(part.sender)
        if stream is not None:
            spans = [span for a, b in part.spans for span in stream.missing.within(a, b)]
            self.skip(StreamSpans(part.sender, tuple(spans)), reason, source, out)

    def _record_skips(
        self, sender: Rank, seqs: range, by: Seq, reason: str, source: Rank, out: Effects
    ) -> None:
        if out.events is not None:
            for seq in seqs:
                out.events.append(Event(SKIP, self.pid, sender, seq, None, by, reason, source))

    def _discard(self, message: DataMessage, reason: str, source: Rank, out: Effects) -> None:
        if out.events is not None:
            sender, seq = message.sender, message.seq
            out.events.append(Event(DISCARD, self.pid, sender, seq, None, 0, reason, source))
