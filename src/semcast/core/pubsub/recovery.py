"""Requests missing messages: one bookkeeping for three protocols [RPB §4.3].

Every missing number is in one of two phases.  In the gossip phase members are asked (`rpbcast`) or
their digests are awaited (`pbcast`); in the logger phase a logger is.  `lbrm` has only the second
[RPB §3.3].  A *collected* notice moves a number from the first to the second, and only a number
that is still missing in the first: a late notice must not make a delivered message wanted again.
Age moves it too; otherwise a number that no member holds would stay in the gossip phase.  Under
`pbcast`, which has no logger phase, it is then skipped.
Beyond the thesis [RPB §8]: ask loggers first while they report a low load.
A subscriber asks for no more than it has room for; a logger's log takes everything.
"""

from collections import deque
from collections.abc import Callable
from random import Random
from typing import TypeAlias

from semcast.core.pubsub.recipe import PubsubRecipe
from semcast.core.pubsub.repair_trace import trace_request
from semcast.core.pubsub.seq_tracker import SeqTracker
from semcast.core.pubsub.subscriber_delivery import DECLINED, SubscriberDelivery
from semcast.core.span_set import SpanSet, first_spans
from semcast.terms.effects import Effects
from semcast.terms.events import AGE
from semcast.terms.ids import NEVER, Rank, Seq, Span
from semcast.terms.pubsub import SPANS_MAX, STREAMS_MAX, RepairRequest, StreamSpans

MissingSpan: TypeAlias = tuple[Rank, Seq, Seq]  # sender, first and last number
REQUEST_SEQS_MAX = 1 << 9  # numbers that one request names
REQUEST_SEQS_MIN = 1 << 4  # of each stream, however many there are
BUSY_PERCENT = 50  # percent of a logger's capacity, from which on members are asked first
LOAD_HALF_LIFE_S = 1.0  # after which half of a reported load is believed


class Recovery:
    """Lives as long as the participant.  Invariant: what is missing and not `logger_phase` is in
    the gossip phase; what is `logger_phase` may have come meanwhile."""

    def __init__(
        self,
        recipe: PubsubRecipe,
        pid: Rank,
        tracker: SeqTracker,
        delivery: SubscriberDelivery,
        rng: Random,
        interest: Callable[[Rank, Seq], bool] | None,
    ) -> None:
        self.recipe = recipe
        self.tracker = tracker
        self.delivery = delivery
        self.rng = rng
        self.interest = interest
        self.pid = pid
        self.loggers = [logger for logger in recipe.logger_pids if logger != pid]
        self.is_logger = pid in recipe.logger_pids
        self.pushes = recipe.protocol == "pbcast"
        self.first = "logger" if recipe.protocol == "lbrm" else recipe.recovery_first
        self.limit_s = recipe.rounds * recipe.period_s
        self.logger_phase: dict[Rank, SpanSet] = {}  # the logger phase
        self.gossip_phase: deque[tuple[float, MissingSpan]] = deque()  # the gossip phase, by age
        self.members_now: list[MissingSpan] = []  # to be asked of a member at once
        self.logger_now: list[MissingSpan] = []  # to be asked of a logger at once
        self.asked: tuple[StreamSpans, ...] = ()  # of a logger
        self.retry_at = NEVER
        self.load = self.load_at = 0.0

    def __repr__(self) -> str:
        return f"Recovery(first={self.first}, logged={self.logger_phase}, load={self.load:.0f})"

    @property
    def deadline(self) -> float:
        """When something is to be asked again, or too old."""
        return (
            min(self.retry_at, self.gossip_phase[0][0] + self.limit_s)
            if self.gossip_phase
            else self.retry_at
        )

    def reset(self) -> None:
        """Nothing is wanted any more."""
        self.logger_phase.clear()
        self.gossip_phase.clear()
        self.members_now.clear()
        self.logger_now.clear()
        self.asked = ()
        self.retry_at = NEVER

    def poll(self, now: float) -> None:
        """Take what was detected into its first phase."""
        detected = self.tracker.detected
        to_logger = self.first == "logger" or (self.first == "adaptive" and not self._is_busy(now))
        for sender, first, last in detected:
            if to_logger:
                self._pass_on(sender, first, last, now)
                continue
            self.gossip_phase.append((now, (sender, first, last)))
            if not self.pushes:
                self.members_now.append((sender, first, last))
        detected.clear()

    def _is_busy(self, now: float) -> bool:
        """Whether loggers had much to do; a report fades, so that they are tried again."""
        faded = self.load * float(0.5 ** ((now - self.load_at) / LOAD_HALF_LIFE_S))
        return faded >= BUSY_PERCENT

    def on_collected(self, parts: tuple[StreamSpans, ...], now: float) -> None:
        """A member had these and keeps them no longer [RPB §4.3]."""
        if self.pushes:
            return
        for part in parts:
            if part.sender in self.tracker.gaps:
                for first, last in part.spans:
                    self._pass_on(part.sender, first, last, now)

    def _pass_on(self, sender: Rank, first: Seq, last: Seq, now: float) -> None:
        """To the logger phase, what is still missing in the gossip phase."""
        for a, b in self._in_gossip(sender, first, last):
            self.logger_phase.setdefault(sender, SpanSet()).add(a, b)
            self.logger_now.append((sender, a, b))
            self.retry_at = min(self.retry_at, now + self.recipe.retry_s)

    def _in_gossip(self, sender: Rank, first: Seq, last: Seq) -> list[Span]:
        missing = self.tracker.streams[sender].missing.within(first, last)
        logged = self.logger_phase.get(sender)
        if logged is None:
            return missing
        return [span for a, b in missing for span in logged.outside(a, b)]

    def on_load(self, load: float, now: float) -> None:
        """A logger says how busy it is, in percent."""
        self.load, self.load_at = load, now

    def on_time(self, now: float, out: Effects) -> None:
        """Move on what is too old for gossip, and ask loggers again."""
        while self.gossip_phase and self.gossip_phase[0][0] + self.limit_s <= now:
            _, (sender, first, last) = self.gossip_phase.popleft()
            if self.pushes:
                self.delivery.skip_missing(
                    StreamSpans(sender, ((first, last),)), AGE, self.pid, out
                )
            else:
                self._pass_on(sender, first, last, now)
        if now >= self.retry_at:
            if self._room and any(self._is_open(part) for part in self.asked):
                self.on_load(100.0, now)  # It did not answer in time, for whatever reason.
            self.ask(now, out)

    @property
    def _room(self) -> int:
        """How many messages to ask for at once."""
        return REQUEST_SEQS_MAX if self.is_logger else min(REQUEST_SEQS_MAX, self.delivery.room)

    def on_room(self, now: float) -> None:
        """The application has made room after there was none: ask loggers again now."""
        if self.logger_phase:
            self.retry_at = now

    def on_answer(self, now: float, out: Effects) -> None:
        """A logger answered: if it was all that was asked for, ask for the next."""
        if self.logger_phase and not any(self._is_open(part) for part in self.asked):
            self.ask(now, out)

    def _is_open(self, part: StreamSpans) -> bool:
        stream = self.tracker.streams.get(part.sender)
        return stream is not None and any(stream.missing.within(a, b) for a, b in part.spans)

    def ask(self, now: float, out: Effects) -> None:
        """Ask for the first of what is in the logger phase."""
        self._prune()
        self.logger_now.clear()
        self.asked = self._parts(out, in_gossip=False)
        self.retry_at = now + self.recipe.retry_s if self.logger_phase else NEVER
        self._request(self.asked, out)

    def ask_at_once(self, out: Effects) -> None:
        """Ask a logger for what was just passed on to it."""
        parts = self._bundle(self.logger_now, out)
        open_ = tuple(part for part in self.asked if self._is_open(part))
        self.asked = (*open_, *parts)[:STREAMS_MAX]
        self._request(parts, out)

    def _request(self, parts: tuple[StreamSpans, ...], out: Effects) -> None:
        """Ask a logger, another one each time; a logger may have to ask the sender itself."""
        if not parts:
            return
        if self.loggers and not (self.is_logger and self.rng.random() < 0.5):
            logger = self.rng.choice(self.loggers)
            trace_request(self.pid, logger, parts, out)
            out.send.append(((logger,), RepairRequest(parts)))
            return
        for part in parts:
            if part.sender != self.pid:
                trace_request(self.pid, part.sender, (part,), out)
                out.send.append(((part.sender,), RepairRequest((part,))))

    def _prune(self) -> None:
        """Drop from the logger phase what has come meanwhile."""
        for sender, logged in list(self.logger_phase.items()):
            missing = self.tracker.streams[sender].missing
            left = SpanSet(span for a, b in logged for span in missing.within(a, b))
            if left:
                self.logger_phase[sender] = left
            else:
                del self.logger_phase[sender]

    def gossip_missing(self, out: Effects) -> tuple[StreamSpans, ...]:
        """What to ask members for."""
        return self._parts(out, in_gossip=True) if self.tracker.gaps else ()

    def _parts(self, out: Effects, *, in_gossip: bool) -> tuple[StreamSpans, ...]:
        senders, room = self.tracker.gaps if in_gossip else self.logger_phase, self._room
        if not room:
            return ()
        share = max(REQUEST_SEQS_MIN, room // max(1, len(senders)))
        parts: list[StreamSpans] = []
        for sender in list(senders)[:STREAMS_MAX]:
            if in_gossip:
                stream = self.tracker.streams[sender]
                spans = first_spans(self._in_gossip(sender, 1, stream.last), share, SPANS_MAX)
            else:
                spans = first_spans(self.logger_phase[sender], share, SPANS_MAX)
            spans = self._interesting(sender, spans, out)
            if spans:
                parts.append(StreamSpans(sender, spans))
        return tuple(parts)

    def take_urgent(self, out: Effects) -> tuple[StreamSpans, ...]:
        """What was just detected, to be asked for at once [RPB §4.1]."""
        return self._bundle(self.members_now, out)

    def _bundle(self, found: list[MissingSpan], out: Effects) -> tuple[StreamSpans, ...]:
        """What is still missing of it, as one request; nothing of it is left to be bundled."""
        spans: dict[Rank, SpanSet] = {}
        for sender, first, last in found:
            for a, b in self.tracker.streams[sender].missing.within(first, last):
                spans.setdefault(sender, SpanSet()).add(a, b)
        found.clear()
        room = self._room
        if not room:
            return ()
        parts: list[StreamSpans] = []
        for sender, ranges in list(spans.items())[:STREAMS_MAX]:
            wanted = self._interesting(sender, first_spans(ranges, room, SPANS_MAX), out)
            if wanted:
                parts.append(StreamSpans(sender, wanted))
        return tuple(parts)

    def _interesting(self, sender: Rank, spans: tuple[Span, ...], out: Effects) -> tuple[Span, ...]:
        """Without what the application does not want, which is skipped [RPB §2.2, §3.3]."""
        if self.interest is None:
            return spans
        wanted = SpanSet()
        for first, last in spans:
            for seq in range(first, last + 1):
                if self.interest(sender, seq):
                    wanted.add(seq, seq)
                else:
                    self.delivery.skip(StreamSpans(sender, ((seq, seq),)), DECLINED, self.pid, out)
        return tuple(wanted)

    def on_digest(self, holds: tuple[StreamSpans, ...], out: Effects) -> tuple[StreamSpans, ...]:
        """What a gossiper holds and this member lacks: to be asked of it [RPB §4]."""
        wanted: list[StreamSpans] = []
        room = self._room
        for part in holds:
            self.tracker.learn_last(part.sender, part.spans[-1][1])
            stream = self.tracker.streams.get(part.sender)
            if stream is None or not stream.missing or not room:
                continue
            spans = [span for a, b in part.spans for span in stream.missing.within(a, b)]
            parts = self._interesting(part.sender, first_spans(spans, room, SPANS_MAX), out)
            if parts:
                wanted.append(StreamSpans(part.sender, parts))
        return tuple(wanted)
