"""Sets of sequence numbers as intervals: what is missing is mostly runs.

A set costs memory and work by its runs, not by its numbers, so that a subscriber which was away
for a million messages can say so.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

from semcast.terms.ids import Seq, Span


class SpanSet:
    """Invariant: spans are disjoint, sorted and never adjacent."""

    __slots__ = ("firsts", "lasts")

    def __init__(self, spans: Iterable[Span] = ()) -> None:
        self.firsts: list[Seq] = []
        self.lasts: list[Seq] = []
        for first, last in spans:
            self.add(first, last)

    def __repr__(self) -> str:
        return f"SpanSet({', '.join(f'{a}-{b}' for a, b in self)})"

    def __bool__(self) -> bool:
        return bool(self.firsts)

    def __iter__(self) -> Iterator[Span]:
        return zip(self.firsts, self.lasts, strict=True)

    def __contains__(self, seq: Seq) -> bool:
        place = bisect_right(self.firsts, seq) - 1
        return place >= 0 and self.lasts[place] >= seq

    def add(self, first: Seq, last: Seq) -> None:
        """Unite with a span that is not empty."""
        if self.lasts and first == self.lasts[-1] + 1:  # Mostly it is what comes next.
            self.lasts[-1] = last
            return
        low = bisect_left(self.lasts, first - 1)
        high = bisect_right(self.firsts, last + 1)
        if low < high:
            first, last = min(first, self.firsts[low]), max(last, self.lasts[high - 1])
        self.firsts[low:high] = [first]
        self.lasts[low:high] = [last]

    def remove(self, first: Seq, last: Seq) -> list[Span]:
        """Take a span out; the spans that were there."""
        found = self.within(first, last)
        if not found:
            return found
        low = bisect_left(self.lasts, first)
        high = bisect_right(self.firsts, last)
        left: list[Span] = []
        if self.firsts[low] < first:
            left.append((self.firsts[low], first - 1))
        if self.lasts[high - 1] > last:
            left.append((last + 1, self.lasts[high - 1]))
        self.firsts[low:high] = [a for a, _ in left]
        self.lasts[low:high] = [b for _, b in left]
        return found

    def within(self, first: Seq, last: Seq) -> list[Span]:
        """The part of the set that lies in a span."""
        low = bisect_left(self.lasts, first)
        high = bisect_right(self.firsts, last)
        return [
            (max(first, self.firsts[place]), min(last, self.lasts[place]))
            for place in range(low, high)
        ]

    def outside(self, first: Seq, last: Seq) -> list[Span]:
        """The part of a span that does not lie in the set."""
        found: list[Span] = []
        for a, b in self.within(first, last):
            if first < a:
                found.append((first, a - 1))
            first = b + 1
        if first <= last:
            found.append((first, last))
        return found


def first_spans(spans: Iterable[Span], numbers: int, spans_max: int) -> tuple[Span, ...]:
    """The first spans, up to that many numbers and spans."""
    result: list[Span] = []
    for first, last in spans:
        if numbers <= 0 or len(result) == spans_max:
            break
        last = min(last, first + numbers - 1)
        result.append((first, last))
        numbers -= last - first + 1
    return tuple(result)


def spans_of(seqs: Iterable[Seq]) -> tuple[Span, ...]:
    """Runs of numbers that come in ascending order."""
    spans: list[Span] = []
    for seq in seqs:
        if spans and spans[-1][1] == seq - 1:
            spans[-1] = (spans[-1][0], seq)
        else:
            spans.append((seq, seq))
    return tuple(spans)
