"""The semantic index of a buffer: which messages it holds does a new one make obsolete?

Guarantees: the answer costs work proportional to what is obsolete, not to what is held.
Idea: one index per sender, since the relation lives within one stream.  A bitmap index is the
held messages as bits, so the question is a shift and an and [SRM §5.3].  Messages that may not
be purged are never indexed.
"""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import takewhile
from typing import Protocol

from semcast.core.recipe import Recipe
from semcast.terms.ids import Seq
from semcast.terms.messages import Message


class Index(Protocol):
    """What one buffer holds of one sender and may purge."""

    def add(self, message: Message) -> None: ...

    def remove(self, message: Message) -> None: ...

    def obsoleted_by(self, message: Message) -> Sequence[Seq]: ...


def index(recipe: Recipe) -> Index:
    """An empty index for the recipe's relation."""
    if recipe.relation == "item":
        return ItemIndex()
    if recipe.relation == "bitmap":
        return BitmapIndex(recipe.k + recipe.buffer)
    if recipe.relation == "all":
        return AllIndex()
    if recipe.relation == "none":
        return NoIndex()
    return ListIndex()


class NoIndex:
    """The empty relation: plain reliability."""

    def add(self, message: Message) -> None:
        pass

    def remove(self, message: Message) -> None:
        pass

    def obsoleted_by(self, message: Message) -> Sequence[Seq]:
        return ()


class ItemIndex:
    """Per item, what is held, oldest first.  No horizon."""

    __slots__ = ("held",)

    def __init__(self) -> None:
        self.held: dict[int, list[Seq]] = {}

    def add(self, message: Message) -> None:
        if message.item is not None:
            self.held.setdefault(message.item, []).append(message.seq)

    def remove(self, message: Message) -> None:
        if message.item is not None:
            held = self.held[message.item]
            held.remove(message.seq)
            if not held:
                del self.held[message.item]

    def obsoleted_by(self, message: Message) -> Sequence[Seq]:
        held = self.held.get(message.item) if message.item is not None else None
        return held[: bisect_left(held, message.seq)] if held else ()


class BitmapIndex:
    """What is held as one integer: bit i stands for message `top` - i.

    Wide enough for what is held: messages above *safe* are not purged, so the newest lies within
    a buffer's length of one that becomes safe, and that one reaches back by k.  Where many were
    skipped it may lie further; then less is purged.
    """

    __slots__ = ("bits", "top", "width")

    def __init__(self, width: int) -> None:
        self.width = width
        self.bits = 0
        self.top: Seq = 0

    def add(self, message: Message) -> None:
        shift = message.seq - self.top
        older = self.bits << shift & (1 << self.width) - 1 if shift < self.width else 0
        self.bits = older | 1
        self.top = message.seq

    def remove(self, message: Message) -> None:
        place = self.top - message.seq
        if place < self.width:
            self.bits &= ~(1 << place)

    def obsoleted_by(self, message: Message) -> Sequence[Seq]:
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


class ListIndex:
    """Explicit distances, looked up one by one."""

    __slots__ = ("held",)

    def __init__(self) -> None:
        self.held: set[Seq] = set()

    def add(self, message: Message) -> None:
        self.held.add(message.seq)

    def remove(self, message: Message) -> None:
        self.held.remove(message.seq)

    def obsoleted_by(self, message: Message) -> Sequence[Seq]:
        return [message.seq - n for n in message.covers if message.seq - n in self.held]


class AllIndex:
    """Every message obsoletes all before it: a stubborn channel [SRM §3.1]."""

    __slots__ = ("held",)

    def __init__(self) -> None:
        self.held: dict[Seq, None] = {}  # in order of arrival, which is that of the stream

    def add(self, message: Message) -> None:
        self.held[message.seq] = None

    def remove(self, message: Message) -> None:
        del self.held[message.seq]

    def obsoleted_by(self, message: Message) -> Sequence[Seq]:
        return list(takewhile(lambda seq: seq < message.seq, self.held))
