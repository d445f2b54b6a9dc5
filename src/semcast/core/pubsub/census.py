"""What a publisher does about the numbers it may have used before it crashed [RPB §6.2].

Guarantees: no acknowledged message is called a gap.  An acknowledged message is at `copies` of the
L loggers, so L - copies + 1 of them cannot all lack it; what that many do not keep is announced as
nobody's.  Loggers write it down and tell whoever asks.
Departs: the thesis lets the sender call a gap whatever it does not hold itself, which after a crash
includes messages that loggers have.
"""

from collections.abc import Sequence

from semcast.core.pubsub.recipe import PubsubRecipe
from semcast.core.ranges import Ranges
from semcast.terms.effects import Effects
from semcast.terms.ids import EVERYONE, NEVER, Rank, Seq, Span
from semcast.terms.pubsub import SPANS_MAX, Census, Gap, Holds, Part

PORTION = 2 * SPANS_MAX - 1  # numbers asked about at a time: an answer names them all


class CensusTaker:
    """Of one life of a publisher.  Invariant: `gaps` were kept by none of the loggers counted."""

    def __init__(self, recipe: PubsubRecipe, pid: Rank, first: Seq, last: Seq, now: float) -> None:
        self.pid = pid
        self.loggers = recipe.keepers
        self.enough = len(recipe.keepers) - recipe.copies + 1
        self.copies = recipe.copies
        self.retry_s = recipe.retry_s
        self.first = first
        self.last = last
        self.kept: dict[Rank, tuple[Span, ...]] = {}  # as each logger answered
        self.gaps: Ranges | None = None  # None until enough have
        self.told: dict[Rank, Ranges] = {}  # which loggers have written which gaps down
        self.deadline = now if first <= last and recipe.keepers else NEVER

    def __repr__(self) -> str:
        return (
            f"CensusTaker({self.span} of {self.last}, answered={list(self.kept)}, gaps={self.gaps})"
        )

    @property
    def span(self) -> Span:
        """What is asked about now."""
        return self.first, min(self.last, self.first + PORTION - 1)

    @property
    def is_done(self) -> bool:
        """Whether every number is accounted for, durably."""
        return self.deadline == NEVER

    def on_holds(self, logger: Rank, holds: Holds, now: float, out: Effects) -> None:
        """A logger says what it keeps."""
        if self.is_done or self.gaps is not None or holds.span != self.span:
            return
        if logger not in self.loggers or holds.part.sender != self.pid:
            return
        self.kept[logger] = holds.part.spans
        if len(self.kept) < self.enough:
            return
        self.gaps = Ranges([self.span])
        for spans in self.kept.values():
            for first, last in spans:
                self.gaps.remove(first, last)
        self._announce(EVERYONE, Ranges(), out)
        self._conclude(self.gaps, now)

    def on_ack(self, logger: Rank, spans: Sequence[Span], now: float) -> None:
        """A logger has written gaps down."""
        if self.gaps is not None and logger in self.loggers:
            told = self.told.setdefault(logger, Ranges())
            for first, last in spans:
                told.add(first, last)
            self._conclude(self.gaps, now)

    def _conclude(self, gaps: Ranges, now: float) -> None:
        """Go on to the next portion once `copies` loggers have each gap of this one."""
        for first, last in gaps:
            knowing = sum(not told.outside(first, last) for told in self.told.values())
            if knowing < self.copies:
                return
        self.first = self.span[1] + 1
        self.gaps = None
        self.kept, self.told = {}, {}
        self.deadline = now if self.first <= self.last else NEVER

    def _announce(self, to: Sequence[Rank], told: Ranges, out: Effects) -> None:
        assert self.gaps is not None
        spans = [span for first, last in self.gaps for span in told.outside(first, last)]
        if spans:
            out.send.append((to, Gap(Part(self.pid, tuple(spans[:SPANS_MAX])))))

    def on_time(self, now: float, out: Effects) -> None:
        """Ask, or tell, again."""
        if now < self.deadline:
            return
        self.deadline = now + self.retry_s
        for logger in self.loggers:
            if self.gaps is not None:
                self._announce((logger,), self.told.get(logger, Ranges()), out)
            elif logger not in self.kept:
                out.send.append(((logger,), Census(self.span)))
