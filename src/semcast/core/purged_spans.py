"""Ranges of purged messages with a witness each, which tell a receiver what to skip.

Bounded: between two ranges lies a message that is held, so there are never more ranges than
held messages plus one.  Merging keeps the later witness.  *Safe* covers all earlier numbers, so a
safe later witness proves every superseding message safe.
Ranges that were purged just now are merged at the next lookup; most are forgotten before.
"""

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from semcast.terms.ids import Seq

UNMERGED_MAX = 1 << 12  # More than so many are merged at once.


class PurgedSpan(NamedTuple):
    """Messages `first` to `last` are gone; each was superseded at or before `witness`."""

    first: Seq
    last: Seq
    witness: Seq


class PurgedSpans:
    """Disjoint, sorted, never adjacent."""

    __slots__ = ("firsts", "holes", "unmerged")

    def __init__(self) -> None:
        self.firsts: list[Seq] = []
        self.holes: list[PurgedSpan] = []
        self.unmerged: list[
            tuple[Seq, Seq]
        ] = []  # single messages with their witnesses, not merged

    def __repr__(self) -> str:
        self.merge()
        return f"PurgedSpans({', '.join(f'{h.first}-{h.last} by {h.witness}' for h in self.holes)})"

    def __len__(self) -> int:
        self.merge()
        return len(self.holes)

    def add_singles(self, purged: Iterable[tuple[Seq, Seq]]) -> None:
        """Single messages are gone, each by its witness."""
        self.unmerged += purged
        if len(self.unmerged) > UNMERGED_MAX:
            self.merge()

    def merge(self) -> None:
        """Give what is fresh its place."""
        if not self.unmerged:
            return
        self.unmerged.sort()
        (first, latest), *rest = self.unmerged
        last, self.unmerged = first, []
        for seq, witness in rest:
            if seq > last + 1:
                self.add(first, last, latest)
                first, latest = seq, witness
            last = seq
            if witness > latest:
                latest = witness
        self.add(first, last, latest)

    def find(self, seq: Seq) -> PurgedSpan | None:
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
        self.holes[low:high] = [PurgedSpan(first, last, witness)]

    def forget(self, upto: Seq) -> None:
        """Nobody needs to hear of messages up to `upto` any more."""
        if self.unmerged:
            self.unmerged = [each for each in self.unmerged if each[0] > upto]
        cut = bisect_right(self.firsts, upto)
        if cut == 0:
            return
        straddling = self.holes[cut - 1]
        del self.firsts[:cut], self.holes[:cut]
        if straddling.last > upto:
            self.firsts.insert(0, upto + 1)
            self.holes.insert(0, straddling._replace(first=upto + 1))

    def drop_furthest(self) -> None:
        """Give up the range that lies furthest ahead."""
        self.merge()
        self.firsts.pop()
        self.holes.pop()
