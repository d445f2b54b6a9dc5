"""The obsolescence relation, as a specification: what m ⊏ m' means, from multicasts alone.

An annotation on m' states the *direct* relation; the relation of the properties is its
transitive closure, a strict partial order within one sender's stream.  A message is satisfied
where it was delivered, or where one that directly obsoletes it is satisfied; one sweep from the
newest message to the oldest therefore decides all of a stream, in time linear in its annotations.

Rule: [SRB §2.1], [SRM §3.2].
Rejected: materialising the closure, which is quadratic for one hot item.
"""

from collections.abc import Callable, Collection, Iterable
from typing import Final, TypeAlias

from semcast.terms.errors import one_of
from semcast.terms.messages import Message, Rank, Seq

Direct: TypeAlias = Callable[[Message, Message], bool]
Sweep: TypeAlias = Callable[[Iterable[Message], Collection[Seq]], list[Seq]]

_NO_MESSAGES: Final[dict[Seq, Message]] = {}


class Obsolescence:
    """The relation over one run's multicasts.  Learns a message once; never forgets one."""

    __slots__ = ("_covers", "_direct", "_messages", "_sweep", "name")

    def __init__(self, name: str) -> None:
        """`name` may carry a parameter of the implementation ("bitmap:32"), which is ignored."""
        self.name = name.partition(":")[0]
        if self.name not in _RELATIONS:
            raise one_of("relation", name, RELATIONS)
        self._direct, self._sweep, self._covers = _RELATIONS[self.name]
        self._messages: dict[Rank, dict[Seq, Message]] = {}

    def on_multicast(self, message: Message) -> None:
        """Learn a message; the first one under a sequence number counts."""
        self._messages.setdefault(message.sender, {}).setdefault(message.seq, message)

    def directly(self, sender: Rank, seq: Seq, by_seq: Seq) -> bool:
        """Whether the annotation of `by_seq` itself makes `seq` obsolete."""
        stream = self._messages.get(sender, _NO_MESSAGES)
        old, new = stream.get(seq), stream.get(by_seq)
        if old is None or new is None or seq >= by_seq or old.keep:
            return False
        return self._direct(old, new)

    def obsoletes(self, sender: Rank, seq: Seq, by_seq: Seq) -> bool:
        """m ⊏ m' in the transitive closure."""
        if self.directly(sender, seq, by_seq):
            return True
        if self._covers is None:
            return False
        return self._reaches(self._messages.get(sender, _NO_MESSAGES), seq, by_seq)

    def unsatisfied(self, sender: Rank, delivered: Collection[Seq]) -> tuple[Seq, ...]:
        """The sender's messages m for which no m' ⊒ m is in `delivered`, oldest first."""
        stream = self._messages.get(sender, _NO_MESSAGES)
        if len(delivered) == len(stream) and all(seq in delivered for seq in stream):
            return ()
        missing = self._sweep((stream[seq] for seq in sorted(stream, reverse=True)), delivered)
        missing.reverse()
        return tuple(missing)

    def _reaches(self, stream: dict[Seq, Message], seq: Seq, by_seq: Seq) -> bool:
        """Walk down from `by_seq` over messages newer than `seq`, each visited once."""
        todo, seen = [by_seq], {by_seq}
        while todo:
            new = stream.get(todo.pop())
            if new is None or type(new.covers) is not self._covers:
                continue
            for distance in distances(new):
                older = new.seq - distance
                old = stream.get(older)
                if older < seq or older in seen or old is None or old.keep:
                    continue
                if older == seq:
                    return True
                seen.add(older)
                todo.append(older)
        return False


def distances(message: Message) -> tuple[int, ...]:
    """How far back the messages lie that `message` lists or marks as obsolete."""
    if isinstance(message.covers, tuple):
        return message.covers
    bits, found = int.from_bytes(message.covers, "little"), []
    while bits:
        lowest = bits & -bits
        found.append(lowest.bit_length())  # The n-th bit, counted from 1. [SRM §3.2]
        bits ^= lowest
    return tuple(found)


def _never(old: Message, new: Message) -> bool:
    return False


def _always(old: Message, new: Message) -> bool:
    return True


def _same_item(old: Message, new: Message) -> bool:
    return old.item is not None and old.item == new.item


def _marked(old: Message, new: Message) -> bool:
    index = new.seq - old.seq - 1
    covers = new.covers
    if not isinstance(covers, bytes) or index >> 3 >= len(covers):
        return False
    return bool(covers[index >> 3] >> (index & 7) & 1)


def _listed(old: Message, new: Message) -> bool:
    return isinstance(new.covers, tuple) and new.seq - old.seq in new.covers


def _sweep_none(newest_first: Iterable[Message], delivered: Collection[Seq]) -> list[Seq]:
    return [m.seq for m in newest_first if m.seq not in delivered]


def _sweep_items(newest_first: Iterable[Message], delivered: Collection[Seq]) -> list[Seq]:
    missing, settled = [], set()
    for m in newest_first:
        if m.seq in delivered or (not m.keep and m.item in settled):
            if m.item is not None:
                settled.add(m.item)
        else:
            missing.append(m.seq)
    return missing


def _sweep_all(newest_first: Iterable[Message], delivered: Collection[Seq]) -> list[Seq]:
    missing, settled = [], False
    for m in newest_first:
        if m.seq in delivered or (settled and not m.keep):
            settled = True
        else:
            missing.append(m.seq)
    return missing


def _sweep_lists(newest_first: Iterable[Message], delivered: Collection[Seq]) -> list[Seq]:
    missing: list[Seq] = []
    settled: set[Seq] = set()
    for m in newest_first:
        if m.seq in delivered or (not m.keep and m.seq in settled):
            if isinstance(m.covers, tuple):
                settled.update(m.seq - distance for distance in m.covers)
        else:
            missing.append(m.seq)
    return missing


def _sweep_bitmaps(newest_first: Iterable[Message], delivered: Collection[Seq]) -> list[Seq]:
    """One bitmap slides down the stream: shift and "or" close the relation [SRM §3.2]."""
    missing: list[Seq] = []
    settled, newer = 0, 0  # Bit n of `settled`, counted from 1: the n-th message before `newer`.
    for m in newest_first:
        marked = settled >> (newer - m.seq - 1) & 1 if newer else 0
        settled >>= newer - m.seq if newer else 0
        newer = m.seq
        if m.seq in delivered or (marked and not m.keep):
            if isinstance(m.covers, bytes):
                settled |= int.from_bytes(m.covers, "little")
        else:
            missing.append(m.seq)
    return missing


# Direct relation, sweep, and the annotation to walk (None: the relation is its own closure).
_RELATIONS: Final[dict[str, tuple[Direct, Sweep, type | None]]] = {
    "none": (_never, _sweep_none, None),
    "item": (_same_item, _sweep_items, None),
    "bitmap": (_marked, _sweep_bitmaps, bytes),
    "list": (_listed, _sweep_lists, tuple),
    "all": (_always, _sweep_all, None),
    "update-fin": (_listed, _sweep_lists, tuple),
}
RELATIONS: Final = tuple(_RELATIONS)
