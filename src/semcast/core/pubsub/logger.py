"""A logger: persist, then acknowledge; answer whoever asks; drop what everyone has.

Guarantees: an acknowledgement leaves only after the message is on disk [RPB §3.2].  Reclaims by
stability what every member that is owed has [RPB §5.2], and by age as the fail-safe, which who
still lacks it is told.  A request for a purged message is answered by one datagram with the newest
message of its item and the notice, so nobody holds a notice without the last word.
"""

from collections.abc import Callable, Mapping
from typing import Final

from semcast.core.pubsub.collector import Collector
from semcast.core.pubsub.message_log import LogStream, MessageLog
from semcast.core.pubsub.publisher import Publisher
from semcast.core.pubsub.recipe import PubsubRecipe
from semcast.core.pubsub.repair_sending import (
    ANSWERS_MAX,
    RequestCounter,
    multicast_repair,
    send_repair,
)
from semcast.core.pubsub.storage import Storage
from semcast.core.span_set import SpanSet, spans_of
from semcast.terms.effects import Effects
from semcast.terms.events import AGE, RECLAIM, Event
from semcast.terms.ids import NEVER, Rank, Seq, Span
from semcast.terms.messages import DataMessage, PurgeNotice
from semcast.terms.pubsub import (
    SPANS_MAX,
    Ack,
    Appended,
    LostSeqs,
    NotHeld,
    Reclaimed,
    RecoveryQuery,
    RecoveryReply,
    StreamSpans,
    UnusedSeqs,
)
from semcast.terms.records import ReadRequest, ReadResult

READING_MAX: Final = 4 * ANSWERS_MAX


class LoggerAnswer:
    """What a logger has to say to one part of a request."""

    __slots__ = ("absent", "dropped", "gaps", "messages", "superseded", "unread")

    def __init__(self) -> None:
        self.messages: list[DataMessage] = []
        self.superseded: dict[Seq, tuple[DataMessage, list[Seq]]] = {}  # by witness
        self.gaps = SpanSet()
        self.dropped = SpanSet()
        self.absent = SpanSet()
        self.unread: dict[Seq, int] = {}  # and the record that has the message

    def look_up(self, volume: LogStream, seq: Seq, fetched: Mapping[int, Appended]) -> None:
        """What became of one number; `fetched` has the records that were read for it."""
        message = volume.messages.get(seq) or volume.witness(seq)
        number = None if message is None else volume.evicted.get(message.seq)
        if number is not None:
            if number not in fetched:
                self.unread[seq] = number
                return
            message = fetched[number].message
        if seq <= volume.floor:
            self.dropped.add(seq, seq)
        elif message is not None and message.seq == seq:
            self.messages.append(message)
        elif message is not None:
            self.superseded.setdefault(message.seq, (message, []))[1].append(seq)
        elif seq in volume.gaps:
            self.gaps.add(seq, seq)
        elif seq in volume.lost:
            self.dropped.add(seq, seq)
        else:
            self.absent.add(seq, seq)


class Logger:
    """One life of a logger."""

    def __init__(
        self,
        recipe: PubsubRecipe,
        storage: Storage,
        publisher: Publisher,
        log: MessageLog,
        collector: Collector,
    ) -> None:
        self.recipe = recipe
        self.pid = log.pid
        self.publisher = publisher  # of the same process
        self.storage = storage
        self.log = log
        self.collector = collector
        self.loggers = frozenset(recipe.logger_pids)
        self.request_counts = RequestCounter(recipe.multicast_at)
        self.acks: dict[Rank, SpanSet] = {}  # to be sent when the input has been handled
        self.reading = 0  # numbers that wait for the disk
        self.served = 0  # since `window_at`
        self.window_at = 0.0
        self.rate = 0.0  # repairs a second, in the window before

    def __repr__(self) -> str:
        return f"Logger({self.pid}, {self.log}, {self.collector})"

    @property
    def deadline(self) -> float:
        """When something is too old to be kept."""
        oldest, age_s = self.log.arrivals, self.recipe.age_s
        aged = oldest[0][0] + age_s if oldest and age_s is not None else NEVER
        obsolete = self.log.obsolete
        return min(aged, obsolete[0][0]) if obsolete else aged

    def on_messages(self, messages: tuple[DataMessage, ...], now: float, out: Effects) -> None:
        """Keep what is new, acknowledge again what is durable."""
        for message in messages:
            sender, seq = message.sender, message.seq
            if not self.log.append(message, now, out) and self.log.is_durable(sender, seq):
                self._acknowledge(sender, seq, seq)

    def _acknowledge(self, sender: Rank, first: Seq, last: Seq) -> None:
        self.acks.setdefault(sender, SpanSet()).add(first, last)

    def on_purged(self, notices: tuple[PurgeNotice, ...], out: Effects) -> None:
        """Another logger purged what is missing here."""
        for notice in notices:
            stream = self.log.tracker.streams.get(notice.sender)
            if stream is not None:
                for first, last in stream.missing.within(notice.first, notice.last):
                    for seq in range(first, min(last, first + ANSWERS_MAX) + 1):
                        self.log.supersede(notice.sender, seq, notice.witness, out)

    def on_gap(self, part: StreamSpans, out: Effects) -> None:
        """These numbers are nobody's: write it down, spread it when asked [RPB §6.2]."""
        self.log.resolve(part, out, is_lost=False)
        for first, last in part.spans:
            for a, b in self._durable(part.sender, first, last):
                self._acknowledge(part.sender, a, b)

    def on_lost(self, part: StreamSpans, out: Effects) -> None:
        """Another logger dropped these for good; what is missing here will not come."""
        stream = self.log.tracker.streams.get(part.sender)
        if stream is not None:
            spans = [span for a, b in part.spans for span in stream.missing.within(a, b)]
            self.log.resolve(StreamSpans(part.sender, tuple(spans)), out, is_lost=True)

    def _durable(self, sender: Rank, first: Seq, last: Seq) -> list[Span]:
        """The numbers in a span of which everything there is to know is on disk."""
        stream = self.log.tracker.streams.get(sender)
        if stream is None or first > stream.last:
            return []
        settled = SpanSet([(first, min(last, stream.last))])
        for a, b in stream.missing.within(first, last):
            settled.remove(a, b)
        for a, b in self.log.stream(sender).pending.within(first, last):
            settled.remove(a, b)
        return list(settled)

    def on_persisted(self, now: float, out: Effects) -> None:
        """Persist, then acknowledge [RPB §3.2]."""
        for sender, first, last in self.log.on_persisted(now, out):
            self._acknowledge(sender, first, last)
            self.collector.on_own_progress(sender)
        self.send_acks(out)

    def send_acks(self, out: Effects) -> None:
        """One datagram per sender for all that one input made durable or found to be so."""
        if self.acks and self.log.is_complete:
            for sender, spans in self.acks.items():
                out.send.append(
                    (
                        (sender,),
                        Ack(StreamSpans(sender, tuple(spans)[:SPANS_MAX]), self.storage.inc),
                    )
                )
        self.acks.clear()

    def on_recovery_query(self, peer: Rank, census: RecoveryQuery, out: Effects) -> None:
        """Tell a publisher that crashed what is kept of its stream, once it is on disk: what is
        on its way there must not be called a gap."""
        if self.log.is_complete and not self.log.stream(peer).pending.within(*census.span):
            settled = tuple(self._durable(peer, *census.span))
            out.send.append(
                ((peer,), RecoveryReply(census.span, StreamSpans(peer, settled[:SPANS_MAX])))
            )

    def on_request(
        self, peer: Rank, lacks: tuple[StreamSpans, ...], now: float, out: Effects
    ) -> None:
        """Give what is here of what is asked for."""
        budget = ANSWERS_MAX
        load = self._load(now)
        for part in lacks:
            budget = self._answer(peer, part, budget, load, out)

    def _answer(self, peer: Rank, part: StreamSpans, budget: int, load: int, out: Effects) -> int:
        volume = self.log.volumes.get(part.sender) or LogStream(self.recipe)
        answer = LoggerAnswer()
        for first, last in part.spans:
            if first <= volume.floor:
                answer.dropped.add(first, min(last, volume.floor))
                first = volume.floor + 1
            last = min(last, first + budget - 1)
            for seq in range(first, last + 1):
                answer.look_up(volume, seq, {})
            budget -= max(0, last - first + 1)
        self._send(peer, part.sender, answer, load, out)
        self._read(peer, part.sender, answer.unread, out)
        return budget

    def _read(self, peer: Rank, sender: Rank, unread: Mapping[Seq, int], out: Effects) -> None:
        """Have messages read that are on the disk alone; those beyond the bound are asked for
        again."""
        if not unread or self.reading + len(unread) > READING_MAX:
            return
        self.reading += len(unread)
        numbers = tuple(dict.fromkeys(unread.values()))
        out.read.append(ReadRequest(numbers, (peer, sender, tuple(unread))))

    def on_read(self, result: ReadResult, now: float, out: Effects) -> None:
        """The disk has what a peer asked for; what became obsolete meanwhile is left out."""
        peer, sender, seqs = result.purpose
        self.reading -= len(seqs)
        volume, answer = self.log.stream(sender), LoggerAnswer()
        for seq in seqs:
            answer.look_up(volume, seq, result.records)
        self._send(peer, sender, answer, self._load(now), out)

    def _send(
        self, peer: Rank, sender: Rank, answer: LoggerAnswer, load: int, out: Effects
    ) -> None:
        alone, everyone = answer.messages, list[DataMessage]()
        if peer != self.pid:
            alone, everyone = self.request_counts.split_answers(peer, answer.messages)
        superseded = [
            (message, [PurgeNotice(sender, a, b, message.seq) for a, b in spans_of(seqs)])
            for message, seqs in answer.superseded.values()
        ]
        send_repair(self.pid, (peer,), alone, superseded, self.recipe, load, out)
        multicast_repair(self.pid, everyone, self.recipe, load, out)
        self.served += len(alone) + len(everyone) + len(superseded)
        if answer.gaps:
            out.send.append(
                ((peer,), UnusedSeqs(StreamSpans(sender, tuple(answer.gaps)[:SPANS_MAX])))
            )
        if answer.dropped:
            out.send.append(
                ((peer,), LostSeqs(StreamSpans(sender, tuple(answer.dropped)[:SPANS_MAX])))
            )
        absent = list(answer.absent) if peer in self.loggers else []
        if sender == self.pid:  # It speaks as the publisher too.
            absent = [span for a, b in absent for span in self.publisher.no_longer_held(a, b)]
        if absent:
            out.send.append(((peer,), NotHeld(StreamSpans(sender, tuple(absent[:SPANS_MAX])))))

    def _load(self, now: float) -> int:
        """How busy it is, in percent of the repairs a second that it is made for."""
        elapsed_s = now - self.window_at
        if elapsed_s >= self.recipe.period_s:
            self.rate = self.served / elapsed_s
            self.served, self.window_at = 0, now
        rate = max(self.rate, self.served / self.recipe.period_s)
        return min(100, int(100 * rate / self.recipe.service_max))

    def on_time(self, now: float, out: Effects) -> None:
        """Drop what is too old, or obsolete for long enough."""
        self.log.purge(now, out)
        age_s, arrivals = self.recipe.age_s, self.log.arrivals
        aged: dict[Rank, Seq] = {}
        while age_s is not None and arrivals and arrivals[0][0] + age_s <= now:
            _, sender, seq = arrivals.popleft()
            aged[sender] = max(seq, aged.get(sender, 0))
        for sender, seq in aged.items():
            self._reclaim(sender, seq, AGE, out)

    def collect(self, acked_upto: Callable[[Rank], Seq], out: Effects) -> None:
        """Reclaim what everyone has, this process up to `acked_upto` and the other loggers among
        them [RPB §5.2]."""
        if not self.log.is_complete:
            return
        for sender in self.collector.take_changed(self.log.tracker.streams):
            if sender in self.log.tracker.streams:
                upto = self.collector.collectable(sender, acked_upto(sender))
                self._reclaim(sender, upto, "", out)

    def _reclaim(self, sender: Rank, upto: Seq, reason: str, out: Effects) -> None:
        if self.log.reclaim(sender, upto):
            self.storage.write(Reclaimed(sender, upto), out)
            if out.events is not None:
                out.events.append(Event(RECLAIM, self.pid, sender, upto, None, 0, reason))
