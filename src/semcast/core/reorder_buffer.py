"""Messages of one stream that came ahead of a gap, and where they lie.

What is missing is found by the runs of what is here, not by its messages: under loss there are a
few gaps in thousands of messages.
"""

from bisect import bisect_right
from collections.abc import Iterator

from semcast import kernel
from semcast.core.span_set import SpanSet
from semcast.terms.ids import Seq
from semcast.terms.messages import DataMessage


class ReorderBuffer:
    """Lives as long as the stream.  Invariant: `spans` has the numbers of `messages`."""

    __slots__ = ("messages", "spans")

    def __init__(self) -> None:
        self.messages: dict[Seq, DataMessage] = {}
        self.spans = SpanSet()

    def __repr__(self) -> str:
        return f"ReorderBuffer({self.spans})"

    def __len__(self) -> int:
        return len(self.messages)

    def __contains__(self, seq: Seq) -> bool:
        return seq in self.messages

    def __iter__(self) -> Iterator[Seq]:
        return iter(self.messages)

    @property
    def last(self) -> Seq:
        """The highest number, 0 if there is none."""
        return self.spans.lasts[-1] if self.messages else 0

    def add(self, run: kernel.Run) -> None:
        """Keep messages that lie next to each other."""
        first, last = run.first, run.first + run.count - 1
        self.messages.update(zip(range(first, last + 1), run.messages(), strict=True))
        self.spans.add(first, last)

    def run(self, first: Seq, last: Seq) -> kernel.Run:
        """The run that begins with number `first`, which is here, and ends by `last`."""
        place = bisect_right(self.spans.firsts, first) - 1
        numbers = range(first, min(last, self.spans.lasts[place]) + 1)
        return kernel.runs_of([self.messages[seq] for seq in numbers])[0]

    def pop(self, seq: Seq) -> DataMessage:
        """Let one go."""
        self.spans.remove(seq, seq)
        return self.messages.pop(seq)

    def remove_run(self, first: Seq, last: Seq) -> None:
        """Let messages go that lie next to each other."""
        self.spans.remove(first, last)
        for seq in range(first, last + 1):
            del self.messages[seq]

    def next_after(self, seq: Seq) -> Seq | None:
        """The first number beyond one that is not here."""
        place = bisect_right(self.spans.firsts, seq)
        return self.spans.firsts[place] if place < len(self.spans.firsts) else None
