"""The obsolescence relation, as a specification: what m ⊏ m' means, from multicasts alone.

An annotation on m' states the *direct* relation; the relation of the properties is its
transitive closure, a strict partial order within one sender's stream.  A message is satisfied
where it was delivered, or where one that directly obsoletes it is satisfied; one sweep from the
newest message to the oldest therefore decides all of a stream, in time linear in its annotations.
Under total order items have a newest message whoever sent it: the one at the last place.

Rule: [SRB §2.1], [SRM §3.2]; over places [SRM §4.4].
Rejected: materialising the closure, which is quadratic for one hot item.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Final, Protocol, TypeAlias

from semcast.terms.errors import one_of
from semcast.terms.ids import Rank, Seq
from semcast.terms.messages import Message

Direct: TypeAlias = Callable[[Message, Message], bool]
Id: TypeAlias = tuple[tuple[Rank, int], Seq]  # the life of the sender, and the number
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


class AmongSenders(Protocol):
    """The relation over what several senders multicast; a sender is a life."""

    def on_multicast(self, name: Id, message: Message) -> None:
        """Learn a message; the first one under a name counts."""
        ...

    def on_place(self, name: Id, position: int) -> None:
        """Learn the place of a message in the total order; the first one told counts."""
        ...

    def unsatisfied(self, delivered: Collection[Id]) -> set[Id]:
        """The messages m for which no m' ⊒ m is in `delivered`."""
        ...


class ByStream:
    """Each sender's stream has its own relation; places mean nothing."""

    __slots__ = ("_name", "_streams")

    def __init__(self, name: str) -> None:
        self._name = name
        self._streams: dict[tuple[Rank, int], Obsolescence] = {}

    def on_multicast(self, name: Id, message: Message) -> None:
        """Learn a message."""
        sender, _ = name
        self._streams.setdefault(sender, Obsolescence(self._name)).on_multicast(message)

    def on_place(self, name: Id, position: int) -> None:
        """No message of another sender is newer."""

    def unsatisfied(self, delivered: Collection[Id]) -> set[Id]:
        """Stream by stream."""
        by_sender: dict[tuple[Rank, int], set[Seq]] = {sender: set() for sender in self._streams}
        for sender, seq in delivered:
            if sender in by_sender:
                by_sender[sender].add(seq)
        return {
            (sender, seq)
            for sender, seqs in by_sender.items()
            for seq in self._streams[sender].unsatisfied(sender[0], seqs)
        }


class ByPlace:
    """Items over one total order: a message makes every earlier one of its item obsolete.

    One that never had a place, since it was purged when it waited for it, would have had it before
    its sender's next one of the item.
    """

    __slots__ = ("_messages", "_place")

    def __init__(self) -> None:
        self._messages: dict[Id, Message] = {}
        self._place: dict[Id, int] = {}

    def on_multicast(self, name: Id, message: Message) -> None:
        """Learn a message."""
        self._messages.setdefault(name, message)

    def on_place(self, name: Id, position: int) -> None:
        """Learn a place."""
        self._place.setdefault(name, position)

    def unsatisfied(self, delivered: Collection[Id]) -> set[Id]:
        """From the last place to the first."""
        missing: set[Id] = set()
        settled: set[int | None] = set()
        for place, _, name in sorted(self._places(), reverse=True):
            m = self._messages[name]
            is_newer = place > 0 and m.item in settled and not m.keep
            if name in delivered or is_newer:
                if m.item is not None:
                    settled.add(m.item)
            else:
                missing.add(name)
        return missing

    def _places(self) -> Iterator[tuple[int, Seq, Id]]:
        """Each message with its place, or that of the next one that has, or 0."""
        following: dict[tuple[tuple[Rank, int], int | None], int] = {}
        for name in sorted(self._messages, reverse=True):
            sender, seq = name
            line = sender, self._messages[name].item
            if name in self._place:
                following[line] = self._place[name]
            yield following.get(line, 0), seq, name


def among_senders(relation: str, order: str) -> AmongSenders:
    """The relation by which the members of a view may leave messages out."""
    is_by_place = order == "total" and relation.partition(":")[0] == "item"
    return ByPlace() if is_by_place else ByStream(relation)


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
