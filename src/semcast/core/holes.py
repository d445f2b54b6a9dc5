"""Ranges of purged messages with a witness each: what a receiver must be told to skip.

Bounded: between two ranges lies a message that is held, so there are never more ranges than
held messages plus one.  Merging keeps the later witness; since *safe* is a frontier, it vouches
for every message that superseded one of the range.
What was purged just now waits to be merged until somebody asks; most of it is forgotten before.
"""

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from semcast.terms.ids import Seq

FRESH_MAX = 1 << 12  # More than so many are merged at once.


class Hole(NamedTuple):
    """Messages `first` to `last` are gone; each was superseded at or before `witness`."""

    first: Seq
    last: Seq
    witness: Seq


class Holes:
    """Disjoint, sorted, never adjacent."""

    __slots__ = ("firsts", "fresh", "holes")

    def __init__(self) -> None:
        self.firsts: list[Seq] = []
        self.holes: list[Hole] = []
        self.fresh: list[tuple[Seq, Seq]] = []  # single messages with their witnesses, not merged

    def __repr__(self) -> str:
        self.merge()
        return f"Holes({', '.join(f'{h.first}-{h.last} by {h.witness}' for h in self.holes)})"

    def __len__(self) -> int:
        self.merge()
        return len(self.holes)

    def note(self, purged: Iterable[tuple[Seq, Seq]]) -> None:
        """Single messages are gone, each by its witness."""
        self.fresh += purged
        if len(self.fresh) > FRESH_MAX:
            self.merge()

    def merge(self) -> None:
        """Give what is fresh its place."""
        if not self.fresh:
            return
        self.fresh.sort()
        (first, latest), *rest = self.fresh
        last, self.fresh = first, []
        for seq, witness in rest:
            if seq > last + 1:
                self.add(first, last, latest)
                first, latest = seq, witness
            last = seq
            if witness > latest:
                latest = witness
        self.add(first, last, latest)

    def at(self, seq: Seq) -> Hole | None:
        """The hole that `seq` lies in."""
        self.merge()
        place = bisect_right(self.firsts, seq) - 1
        if place >= 0 and self.holes[place].last >= seq:
            return self.holes[place]
        return None

    def add(self, first: Seq, last: Seq, witness: Seq) -> None:
        """Merge a range with those it touches."""
        low = bisect_right(self.firsts, first)
        if low and self.holes[low - 1].last >= first - 1:
            low -= 1
        high = low
        while high < len(self.holes) and self.holes[high].first <= last + 1:
            hole = self.holes[high]
            first, last = min(first, hole.first), max(last, hole.last)
            witness = max(witness, hole.witness)
            high += 1
        self.firsts[low:high] = [first]
        self.holes[low:high] = [Hole(first, last, witness)]

    def forget(self, upto: Seq) -> None:
        """Nobody needs to hear of messages up to `upto` any more."""
        if self.fresh:
            self.fresh = [each for each in self.fresh if each[0] > upto]
        cut = bisect_right(self.firsts, upto)
        if cut == 0:
            return
        straddling = self.holes[cut - 1]
        del self.firsts[:cut], self.holes[:cut]
        if straddling.last > upto:
            self.firsts.insert(0, upto + 1)
            self.holes.insert(0, straddling._replace(first=upto + 1))

    def forget_last(self) -> None:
        """Give up the range that lies furthest ahead."""
        self.merge()
        self.firsts.pop()
        self.holes.pop()
