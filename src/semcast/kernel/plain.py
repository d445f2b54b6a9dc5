"""The loops over messages that every message passes: what is worth compiling.

Plain Python that also compiles; compiling changes nothing but the speed.  For the compiler, loop
variables are declared, and what is counted here is a `cython.Py_ssize_t`, an `int` to everybody
else; numbers that come from messages stay Python's, which do not overflow.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from semcast.kernel.packing import ItemLabels, label_of, pack_run  # noqa: F401 (compiled, all is one module)
from semcast.kernel.reader import NAME_MAX, MessageReader, Number  # noqa: F401
from semcast.kernel.run import (  # noqa: F401
    HEADER_BYTES,
    Run,
    _size,
    concat_runs,
    parse_run,
    run_of,
    runs_of,
    size_of,
    sizes_of,
)
from semcast.terms.messages import DataMessage, Update

if TYPE_CHECKING:
    import cython


def fields(message: DataMessage, update: Update) -> tuple[Any, ...]:
    """All of them in order: whether the compiled kernel knows where they lie."""
    return (
        message.sender,
        message.seq,
        message.item,
        message.covers,
        message.never_purge,
        message.after,
        message.payload,
        message.name,
        update.payload,
        update.item,
        update.never_purge,
        update.obsoletes,
    )


def payload_bytes(messages: Sequence[DataMessage]) -> int:
    """What is held when these are."""
    if isinstance(messages, Run):
        return messages.payload_bytes
    size: cython.Py_ssize_t = 0
    message: DataMessage
    for message in messages:
        size += len(message.payload)
    return size


def later_than(messages: Sequence[DataMessage], seq: int) -> Sequence[DataMessage]:
    """Of messages of one stream in order, those after number `seq`."""
    if isinstance(messages, Run):
        return messages[min(max(0, seq + 1 - messages.first), messages.count) :]
    return [message for message in messages if message.seq > seq]


def with_item(messages: Sequence[DataMessage]) -> list[Any]:
    """Those that have an item."""
    return [message for message in messages if message.item is not None]


def build_run(
    rank: Number,
    seq: Number,
    updates: Sequence[Update],
    labels: ItemLabels,
    count_max: Number,
    payload_max: Number,
    size_max: Number,
) -> tuple[Run | None, int]:
    """What `pack_run` makes, of messages: in plain Python that is faster."""
    messages = []
    payloads: cython.Py_ssize_t = 0
    size: cython.Py_ssize_t = 0
    for each in updates[:count_max]:
        if type(each) is not Update:
            break
        payload, item = each.payload, each.item
        label = labels.label(item)
        if type(payload) is not bytes or each.obsoletes or label is None:
            break
        needs: cython.Py_ssize_t = len(payload) + HEADER_BYTES + label[3]
        payloads += len(payload)
        if needs > size_max or payloads > payload_max or label[3] > NAME_MAX:
            break
        size += needs
        seq += 1
        name = item if type(item) is str else ""
        messages.append(DataMessage(rank, seq, label[0], b"", each.never_purge, (), payload, name))
    return (run_of(messages), size) if messages else (None, 0)


def take_fitting(
    held: Mapping[int, Any], seq: int, last: int, room: int, is_empty: bool
) -> tuple[list[Any], int]:
    """Held messages from `seq` to `last` that lie next to each other and fit, and their size.

    Into an empty datagram goes at least one, however large.
    """
    messages: list[Any] = []
    size: cython.Py_ssize_t = 0
    while seq <= last and size < room:
        message: DataMessage | None = held.get(seq)
        if message is None:
            break
        needs: cython.Py_ssize_t = _size(
            message.payload, message.name, message.covers, message.after
        )
        if size + needs > room and (messages or not is_empty):
            break
        messages.append(message)
        size += needs
        seq += 1
    return messages, size


def pop_range(held: dict[int, Any], first: int, last: int) -> list[Any]:
    """Take out what is held from `first`, the lowest, to `last`; keys stand in their order."""
    if last - first > 2 * len(held):
        return [held.pop(seq) for seq in list(takewhile(lambda seq: seq <= last, held))]
    removed = []
    for seq in range(first, last + 1):
        message = held.pop(seq, None)
        if message is not None:
            removed.append(message)
    return removed


def drop_upto(unapplied: deque[Any], horizon: int) -> None:
    """Take messages up to `horizon` from the front."""
    while unapplied:
        message: DataMessage = unapplied[0]
        if message.seq > horizon:
            break
        unapplied.popleft()


def index_tagged(
    unapplied: deque[Any], after: int, held: Mapping[int, Any], by_item: dict[int, list[int]]
) -> None:
    """Enter, under their items, the numbers after `after` of what is held and may be purged."""
    late = []
    message: DataMessage
    for message in reversed(unapplied):
        if message.seq <= after:
            break
        late.append(message)
    for message in reversed(late):
        seq, item = message.seq, message.item
        if item is None or message.never_purge or seq not in held:
            continue
        known = by_item.get(item)
        if known is None:
            by_item[item] = [seq]
        else:
            known.append(seq)


def unindex_tagged(gone: Sequence[DataMessage], upto: int, by_item: dict[int, list[int]]) -> None:
    """Strike out again what is gone and was entered, numbers up to `upto`."""
    message: DataMessage
    for message in gone:
        seq, item = message.seq, message.item
        if item is None or message.never_purge or seq > upto:
            continue
        known = by_item[item]
        if len(known) == 1:
            del by_item[item]
        else:
            known.remove(seq)


def purge_tagged(
    unapplied: deque[Any], horizon: int, held: dict[int, Any], by_item: dict[int, list[int]]
) -> list[tuple[Any, int]]:
    """Let messages up to `horizon` purge what is held of their items: pairs (purged, by)."""
    purged = []
    while unapplied:
        message: DataMessage = unapplied[0]
        by, item = message.seq, message.item
        if by > horizon:
            break
        unapplied.popleft()
        if item is None or by not in held:
            continue
        known = by_item.get(item)
        if known is None:
            continue
        count: cython.Py_ssize_t = 0
        for seq in known:
            if seq >= by:
                break
            count += 1
            purged.append((held.pop(seq), by))
        if count == len(known):
            del by_item[item]
        elif count:
            del known[:count]
    return purged


def payload_total(letters: Sequence[Any]) -> int:
    """The payload of what the application gets."""
    size: cython.Py_ssize_t = 0
    for letter in letters:
        size += len(letter.payload)
    return size
