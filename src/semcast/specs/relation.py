"""The obsolescence relation, as a specification: what m ⊏ m' means, from what was declared alone.

An application declares of m' an item, or a list of its earlier messages; or it ends a request,
which makes the updates of earlier requests to the same items obsolete.  The annotation that the
protocol makes of it is not looked at: it is what is judged.  The relation is the transitive
closure, a strict partial order within one sender's stream, without what may never be purged.
A message is satisfied where it was delivered, or where one that directly obsoletes it is
satisfied; so one sweep from the newest message down decides a stream.  Under total order items have
a newest message whoever sent it: the one at the last place.

Rule: [SRB §2.1], [SRM §3.2]; updates and *fin* [SVS §5.2]; over places [SRM §4.4].
Rejected: materialising the closure, which is quadratic for one hot item.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Final, Protocol, TypeAlias

import msgspec

from semcast.terms.declared import Declared
from semcast.terms.errors import unknown_value
from semcast.terms.ids import Rank, Seq
from semcast.terms.messages import DataMessage
from semcast.terms.relations import REQUESTS, base_name, facts_of, is_by_place

MessageId: TypeAlias = tuple[tuple[Rank, int], Seq]  # the life of the sender, and the number
Stream: TypeAlias = Rank | tuple[Rank, int]  # a sender, or one life of it


class Known(msgspec.Struct, frozen=True, gc=False):
    """A message of a stream.  `obsoletes` are the numbers that it lists; a *fin* ends a request
    that began with the number `since` and has updated `items`."""

    seq: Seq
    item: int | None
    keep: bool
    obsoletes: frozenset[Seq]
    items: frozenset[int] = frozenset()
    since: Seq = 0


Direct: TypeAlias = Callable[[Known, Known], bool]
ClosureSweep: TypeAlias = Callable[[Iterable[Known], Collection[Seq]], list[Seq]]

_NO_MESSAGES: Final[dict[Seq, Known]] = {}
_NOTHING: Final[frozenset[Seq]] = frozenset()


class ObsolescenceRelation:
    """The relation over one run's multicasts.  Learns a message once, those of a sender in the
    order of their numbers; never forgets one."""

    __slots__ = ("_direct", "_has_requests", "_messages", "_requests", "_sweep", "name")

    def __init__(self, name: str) -> None:
        """`name` may carry a parameter of the implementation ("bitmap:32"), which is ignored."""
        self.name = base_name(name)
        if self.name not in MEANINGS:
            raise unknown_value("relation", name, MEANINGS)
        self._direct, self._sweep = MEANINGS[self.name]
        self._has_requests = facts_of(self.name).replaces == REQUESTS
        self._messages: dict[Stream, dict[Seq, Known]] = {}
        self._requests: dict[Stream, tuple[Seq, set[int]]] = {}  # the open ones

    def on_multicast(self, declared: Declared, sender: Stream | None = None) -> None:
        """Learn a message, of a life if `sender` says so; the first one under a number counts."""
        sender, seq = declared.sender if sender is None else sender, declared.seq
        stream = self._messages.setdefault(sender, {})
        if seq in stream:
            return
        if self._has_requests:
            stream[seq] = self._in_request(declared, sender)
        else:
            listed = frozenset(declared.obsoletes) if declared.obsoletes else _NOTHING
            stream[seq] = Known(seq, declared.item, declared.keep, listed)

    def _in_request(self, declared: Declared, sender: Stream) -> Known:
        """A message with an item updates it; one without ends the request."""
        seq, item, keep = declared.seq, declared.item, declared.keep
        since, items = self._requests.setdefault(sender, (seq, set()))
        if item is not None:
            items.add(item)
            return Known(seq, item, keep, _NOTHING)
        del self._requests[sender]
        return Known(seq, None, keep, _NOTHING, frozenset(items), since)

    def known(self, sender: Stream, seq: Seq) -> Known | None:
        """What was declared of a message, if it was multicast."""
        return self._messages.get(sender, _NO_MESSAGES).get(seq)

    def directly(self, sender: Stream, seq: Seq, by_seq: Seq) -> bool:
        """Whether what was declared of `by_seq` itself makes `seq` obsolete."""
        stream = self._messages.get(sender, _NO_MESSAGES)
        old, new = stream.get(seq), stream.get(by_seq)
        if old is None or new is None or seq >= by_seq or old.keep:
            return False
        return self._direct(old, new)

    def obsoletes(self, sender: Stream, seq: Seq, by_seq: Seq) -> bool:
        """m ⊏ m' in the transitive closure."""
        if self.directly(sender, seq, by_seq):
            return True
        if self._direct is not _listed:
            return False
        stream = self._messages.get(sender, _NO_MESSAGES)
        return seq in stream and not stream[seq].keep and self._reaches(stream, seq, by_seq)

    def unsatisfied(self, sender: Stream, delivered: Collection[Seq]) -> tuple[Seq, ...]:
        """The sender's messages m for which no m' ⊒ m is in `delivered`, oldest first."""
        stream = self._messages.get(sender, _NO_MESSAGES)
        if len(delivered) == len(stream) and all(seq in delivered for seq in stream):
            return ()
        missing = self._sweep((stream[seq] for seq in sorted(stream, reverse=True)), delivered)
        missing.reverse()
        return tuple(missing)

    def _reaches(self, stream: dict[Seq, Known], seq: Seq, by_seq: Seq) -> bool:
        """Walk down from `by_seq` over messages newer than `seq`, each visited once."""
        todo, seen = [by_seq], {by_seq}
        while todo:
            new = stream.get(todo.pop())
            for older in new.obsoletes if new is not None else ():
                if older == seq:
                    return True
                if seq < older < by_seq and older not in seen:
                    seen.add(older)
                    todo.append(older)
        return False


class ViewRelation(Protocol):
    """The relation over what several senders multicast; a sender is a life."""

    def on_multicast(self, name: MessageId, declared: Declared) -> None:
        """Learn a message; the first one under a name counts."""
        ...

    def on_position(self, name: MessageId, position: int) -> None:
        """Learn the place of a message in the total order; the first one told counts."""
        ...

    def unsatisfied(self, delivered: Collection[MessageId]) -> set[MessageId]:
        """The messages m for which no m' ⊒ m is in `delivered`."""
        ...


class StreamRelation:
    """Each sender's stream has its own relation; places mean nothing."""

    __slots__ = ("_name", "_streams")

    def __init__(self, name: str) -> None:
        self._name = name
        self._streams: dict[tuple[Rank, int], ObsolescenceRelation] = {}

    def on_multicast(self, name: MessageId, declared: Declared) -> None:
        """Learn a message."""
        sender, _ = name
        self._streams.setdefault(sender, ObsolescenceRelation(self._name)).on_multicast(declared)

    def on_position(self, name: MessageId, position: int) -> None:
        """No message of another sender is newer."""

    def unsatisfied(self, delivered: Collection[MessageId]) -> set[MessageId]:
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


class PositionRelation:
    """Items over one total order: a message makes every earlier one of its item obsolete.

    One that never had a place, since it was purged when it waited for it, would have had it before
    its sender's next one of the item.
    """

    __slots__ = ("_messages", "_place")

    def __init__(self) -> None:
        self._messages: dict[MessageId, Declared] = {}
        self._place: dict[MessageId, int] = {}

    def on_multicast(self, name: MessageId, declared: Declared) -> None:
        """Learn a message."""
        self._messages.setdefault(name, declared)

    def on_position(self, name: MessageId, position: int) -> None:
        """Learn a place."""
        self._place.setdefault(name, position)

    def unsatisfied(self, delivered: Collection[MessageId]) -> set[MessageId]:
        """From the last place to the first."""
        missing: set[MessageId] = set()
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

    def _places(self) -> Iterator[tuple[int, Seq, MessageId]]:
        """Each message with its place, or that of the next one that has, or 0."""
        following: dict[tuple[tuple[Rank, int], int | None], int] = {}
        for name in sorted(self._messages, reverse=True):
            sender, seq = name
            line = sender, self._messages[name].item
            if name in self._place:
                following[line] = self._place[name]
            yield following.get(line, 0), seq, name


def make_view_relation(relation: str, order: str) -> ViewRelation:
    """The relation by which the members of a view may leave messages out."""
    return PositionRelation() if is_by_place(order, relation) else StreamRelation(relation)


def as_carried(message: DataMessage) -> Declared:
    """A message of which was declared what it carries, as where nobody annotates."""
    obsoletes = tuple(message.seq - distance for distance in distances(message))
    return Declared(message.sender, message.seq, message.item, message.never_purge, obsoletes)


def distances(message: DataMessage) -> tuple[int, ...]:
    """How far back the messages lie that `message` lists or marks as obsolete."""
    if isinstance(message.covers, tuple):
        return message.covers
    bits, found = int.from_bytes(message.covers, "little"), []
    while bits:
        lowest = bits & -bits
        found.append(lowest.bit_length())  # The n-th bit, counted from 1. [SRM §3.2]
        bits ^= lowest
    return tuple(found)


def _never(old: Known, new: Known) -> bool:
    return False


def _always(old: Known, new: Known) -> bool:
    return True


def _same_item(old: Known, new: Known) -> bool:
    return old.item is not None and old.item == new.item


def _listed(old: Known, new: Known) -> bool:
    return old.seq in new.obsoletes


def _updated_again(old: Known, new: Known) -> bool:
    return old.seq < new.since and old.item in new.items


def _sweep_none(newest_first: Iterable[Known], delivered: Collection[Seq]) -> list[Seq]:
    return [m.seq for m in newest_first if m.seq not in delivered]


def _sweep_items(newest_first: Iterable[Known], delivered: Collection[Seq]) -> list[Seq]:
    missing, settled = [], set()
    for m in newest_first:
        if m.seq in delivered or (not m.keep and m.item in settled):
            if m.item is not None:
                settled.add(m.item)
        else:
            missing.append(m.seq)
    return missing


def _sweep_all(newest_first: Iterable[Known], delivered: Collection[Seq]) -> list[Seq]:
    missing, settled = [], False
    for m in newest_first:
        if m.seq in delivered or (settled and not m.keep):
            settled = True
        else:
            missing.append(m.seq)
    return missing


def _sweep_lists(newest_first: Iterable[Known], delivered: Collection[Seq]) -> list[Seq]:
    missing: list[Seq] = []
    settled: set[Seq] = set()
    for m in newest_first:
        if m.seq in delivered or m.seq in settled:
            settled.update(m.obsoletes)
        if m.seq not in delivered and (m.keep or m.seq not in settled):
            missing.append(m.seq)
    return missing


def _sweep_requests(newest_first: Iterable[Known], delivered: Collection[Seq]) -> list[Seq]:
    missing: list[Seq] = []
    before: dict[int | None, Seq] = {}  # by item, updates below this number are settled
    for m in newest_first:
        if m.seq in delivered:
            for item in m.items:
                before.setdefault(item, m.since)  # The newest request began last.
        elif m.keep or m.seq >= before.get(m.item, 0):
            missing.append(m.seq)
    return missing


# Direct relation and sweep; only lists differ from their closure.
MEANINGS: Final[dict[str, tuple[Direct, ClosureSweep]]] = {
    "none": (_never, _sweep_none),
    "item": (_same_item, _sweep_items),
    "bitmap": (_listed, _sweep_lists),
    "list": (_listed, _sweep_lists),
    "all": (_always, _sweep_all),
    "update-fin": (_updated_again, _sweep_requests),
}
