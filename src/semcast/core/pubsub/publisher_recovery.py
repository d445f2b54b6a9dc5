"""What a publisher does about the numbers it may have used before it crashed [RPB §6.2].

Guarantees: no acknowledged message is called a gap.  An acknowledged message is at `copies` of the
L loggers, so L - copies + 1 of them cannot all lack it; what that many do not keep is announced as
nobody's.  Loggers write it down and tell whoever asks.
Departs: the thesis lets the sender call a gap whatever it does not hold itself, which after a crash
includes messages that loggers have.
"""

from collections.abc import Sequence

from semcast.core.pubsub.recipe import PubsubRecipe
from semcast.core.span_set import SpanSet
from semcast.terms.effects import Effects
from semcast.terms.ids import EVERYONE, NEVER, Rank, Seq, Span
from semcast.terms.pubsub import SPANS_MAX, RecoveryQuery, RecoveryReply, StreamSpans, UnusedSeqs

QUERY_SEQS_MAX = 2 * SPANS_MAX - 1  # numbers asked about at a time: an answer names them all


class PublisherRecovery:
    """Of one life of a publisher.  Invariant: `gaps` were kept by none of the loggers counted."""

    def __init__(self, recipe: PubsubRecipe, pid: Rank, first: Seq, last: Seq, now: float) -> None:
        self.pid = pid
        self.loggers = recipe.logger_pids
        self.enough = len(recipe.logger_pids) - recipe.copies + 1
        self.copies = recipe.copies
        self.retry_s = recipe.retry_s
        self.first = first
        self.last = last
        self.stored: dict[Rank, tuple[Span, ...]] = {}  # as each logger answered
        self.gaps: SpanSet | None = None  # None until enough have
        self.gap_acks: dict[Rank, SpanSet] = {}  # which loggers have written which gaps down
        self.deadline = now if first <= last and recipe.logger_pids else NEVER

    def __repr__(self) -> str:
        return (
            f"PublisherRecovery({self.span} of {self.last}, answered={list(self.stored)}, "
            f"gaps={self.gaps})"
        )

    @property
    def span(self) -> Span:
        """What is asked about now."""
        return self.first, min(self.last, self.first + QUERY_SEQS_MAX - 1)

    @property
    def is_done(self) -> bool:
        """Whether every number is accounted for, durably."""
        return self.deadline == NEVER

    def on_reply(self, logger: Rank, holds: RecoveryReply, now: float, out: Effects) -> None:
        """A logger says what it keeps."""
        if self.is_done or self.gaps is not None or holds.span != self.span:
            return
        if logger not in self.loggers or holds.part.sender != self.pid:
            return
        self.stored[logger] = holds.part.spans
        if len(self.stored) < self.enough:
            return
        self.gaps = SpanSet([self.span])
        for spans in self.stored.values():
            for first, last in spans:
                self.gaps.remove(first, last)
        self._announce(EVERYONE, SpanSet(), out)
        self._conclude(self.gaps, now)

    def on_ack(self, logger: Rank, spans: Sequence[Span], now: float) -> None:
        """A logger has written gaps down."""
        if self.gaps is not None and logger in self.loggers:
            acknowledged = self.gap_acks.setdefault(logger, SpanSet())
            for first, last in spans:
                acknowledged.add(first, last)
            self._conclude(self.gaps, now)

    def _conclude(self, gaps: SpanSet, now: float) -> None:
        """Go on to the next portion once `copies` loggers have each gap of this one."""
        for first, last in gaps:
            knowing = sum(
                not acknowledged.outside(first, last) for acknowledged in self.gap_acks.values()
            )
            if knowing < self.copies:
                return
        self.first = self.span[1] + 1
        self.gaps = None
        self.stored, self.gap_acks = {}, {}
        self.deadline = now if self.first <= self.last else NEVER

    def _announce(self, to: Sequence[Rank], acknowledged: SpanSet, out: Effects) -> None:
        assert self.gaps is not None
        spans = [span for first, last in self.gaps for span in acknowledged.outside(first, last)]
        if spans:
            out.send.append((to, UnusedSeqs(StreamSpans(self.pid, tuple(spans[:SPANS_MAX])))))

    def on_time(self, now: float, out: Effects) -> None:
        """Ask, or tell, again."""
        if now < self.deadline:
            return
        self.deadline = now + self.retry_s
        for logger in self.loggers:
            if self.gaps is not None:
                self._announce((logger,), self.gap_acks.get(logger, SpanSet()), out)
            elif logger not in self.stored:
                out.send.append(((logger,), RecoveryQuery(self.span)))
