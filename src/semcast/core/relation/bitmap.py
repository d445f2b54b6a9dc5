"""Relation `bitmap`: the n-th bit of a message names the n-th preceding one [SRM §3.2].

The index is the held messages as bits, so the question is a shift and an and [SRM §5.3].
"""

from collections import deque
from collections.abc import Sequence

from semcast.core.relation.protocols import (
    Annotation,
    Annotator,
    RelationSettings,
    SemanticIndex,
    distances,
)
from semcast.terms.errors import LocalProtocolError
from semcast.terms.ids import Seq
from semcast.terms.messages import DataMessage, Update


class BitmapAnnotator(Annotator):
    """k-bitmaps: bit n names the n-th preceding message; closure by shift and or [SRM §3.2]."""

    def __init__(self, settings: RelationSettings, base: Seq = 0) -> None:
        self.k = settings.k
        self.base = base
        self.mask = (1 << self.k) - 1
        self.recent: deque[int] = deque(maxlen=self.k)  # newest first

    def annotate(self, seq: Seq, item: int | None, update: Update) -> Annotation:
        bits = 0
        for obsolete, n in distances(seq, update, self.base).items():
            if n > self.k:
                raise LocalProtocolError(
                    f"obsoletes: message {obsolete} is {n} messages back; "
                    f"the bitmap reaches k = {self.k}"
                )
            bits |= 1 << (n - 1) | self.recent[n - 1] << n
        bits &= self.mask
        covers = bits.to_bytes((bits.bit_length() + 7) // 8, "little")
        return item, covers, update.never_purge

    def remember(self, seq: Seq, annotation: Annotation) -> None:
        covers = annotation[1]
        assert isinstance(covers, bytes)
        self.recent.appendleft(int.from_bytes(covers, "little"))


class BitmapIndex(SemanticIndex):
    """What is held as one integer: bit i stands for message `top` - i.

    Wide enough for what is held: messages above *safe* are not purged, so the newest lies within
    a buffer's length of one that becomes safe, and that one reaches back by k.  Where many were
    skipped it may lie further; then less is purged.
    """

    def __init__(self, settings: RelationSettings) -> None:
        self.width = settings.k + settings.buffer
        self.bits = 0
        self.top: Seq = 0

    def add(self, message: DataMessage) -> None:
        shift = message.seq - self.top
        older = self.bits << shift & (1 << self.width) - 1 if shift < self.width else 0
        self.bits = older | 1
        self.top = message.seq

    def remove(self, message: DataMessage) -> None:
        place = self.top - message.seq
        if place < self.width:
            self.bits &= ~(1 << place)

    def obsoleted_by(self, message: DataMessage) -> Sequence[Seq]:
        bits, newest = int.from_bytes(message.covers, "little"), message.seq - 1
        # A kept message is not in `bits`, so `top` may lie on either side of it.
        if newest > self.top:
            bits, newest = bits >> newest - self.top & self.bits, self.top
        else:
            bits &= self.bits >> self.top - newest
        found = []
        while bits:
            lowest = bits & -bits
            found.append(newest + 1 - lowest.bit_length())
            bits ^= lowest
        return found
