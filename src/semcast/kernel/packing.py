"""First transmissions written as what they travel as: the other side of `parse_run`.

`pack_run` makes one run of the updates that an application offers.  It is held, sent and delivered
as it is: no object is made for any message.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from msgspec.msgpack import encode

from semcast.kernel.reader import BIN, FALSE, FIXARRAY, NAME_MAX, TRUE, UNSIGNED, Number
from semcast.kernel.run import HEADER_BYTES, Run
from semcast.terms.errors import LocalProtocolError
from semcast.terms.items import ITEM_MAX, ITEM_MIN, Item, item_tag
from semcast.terms.messages import Update

if TYPE_CHECKING:
    import cython

MESSAGE_OVERHEAD_MAX: Final = 64  # bytes of a message beside payload and name, with some to spare
LABELS_REMEMBERED: Final = 1 << 16  # and as many older ones

# Of an item: its tag, tag and name as they are written, and how many bytes the name has.
ItemLabel: TypeAlias = tuple[int | None, bytes, bytes, int]
NO_LABEL: Final[ItemLabel] = (None, b"\xc0", b"\xa0", 0)


def label_of(item: Item) -> ItemLabel | None:
    """Hash and write an item; None if it is empty, too large, or no valid text."""
    if isinstance(item, int):
        return (item, encode(item), NO_LABEL[2], 0) if ITEM_MIN <= item <= ITEM_MAX else None
    try:
        tag, written = item_tag(item), encode(item)
    except UnicodeEncodeError:
        return None
    named = len(item) if item.isascii() else len(item.encode())
    return (tag, encode(tag), written, named) if item else None


class ItemLabels:
    """The labels of items that a sender met lately: an item is hashed and written once."""

    __slots__ = ("older", "recent")

    def __init__(self) -> None:
        self.recent: dict[Item, ItemLabel] = {}
        self.older: dict[Item, ItemLabel] = {}

    def label(self, item: Any) -> ItemLabel | None:
        """The label of an item, NO_LABEL without an item; None if `identify` must look at it."""
        if item is None:
            return NO_LABEL
        if type(item) is not str and type(item) is not int:
            return None
        return self.recent.get(item) or self._make(item)

    def _make(self, item: Any) -> ItemLabel | None:
        """Make the label of an item that is not among the recent ones, and remember it."""
        label = self.older.get(item) or label_of(item)
        if label is not None and label[3] <= NAME_MAX:
            if len(self.recent) == LABELS_REMEMBERED:
                self.older, self.recent = self.recent, {}
            self.recent[item] = label
        return label

    def identify(self, offered: Any) -> tuple[int | None, str]:
        """Return the tag and the name of an update's item ("" if the item is a number).

        Raises LocalProtocolError, with the reason, if what is offered cannot be sent.
        """
        if not isinstance(offered, Update):
            raise LocalProtocolError(f"only an Update can be sent, not {type(offered).__name__}")
        item: Any = offered.item
        if not isinstance(offered.payload, bytes):
            kind = type(offered.payload).__name__
            raise LocalProtocolError(f"payload: must be bytes, not {kind}")
        if isinstance(item, str):
            item = str.__str__(item)  # of an enumeration, its value
        elif isinstance(item, int) and not isinstance(item, bool):
            item = int(item)
        label = self.label(item)
        if label is not None:
            return label[0], item if type(item) is str else ""
        if type(item) is int:
            raise LocalProtocolError(f"item: {item} is not a signed 64-bit number")
        if type(item) is not str or not item:
            raise LocalProtocolError(
                f"item: must be a non-empty string, a whole number or None, not {item!r}"
            )
        raise LocalProtocolError(f"item: {item!r} cannot be encoded as UTF-8")


class MessageWriter:
    """Writes messages one behind the other."""

    __slots__ = ("at", "buffer")

    def __init__(self, size: Number) -> None:
        self.buffer = bytearray(size)
        self.at = 0

    def make_room(self, size: Number) -> None:
        """For so many bytes more."""
        missing: cython.Py_ssize_t = self.at + size - len(self.buffer)
        if missing > 0:
            self.buffer += bytes(missing + len(self.buffer))

    def copy(self, data: bytes) -> None:
        """Write bytes as they are."""
        out = self.buffer
        given = data
        at: cython.Py_ssize_t = self.at
        size: cython.Py_ssize_t = len(data)
        place: cython.Py_ssize_t
        for place in range(size):
            out[at + place] = given[place]
        self.at = at + size

    def write_uint(self, kind: Number, value: Number) -> None:
        """Write a number that is not below 0, behind the kind that says in how many bytes.

        `kind` is that of one byte; those of two, four and eight follow.
        """
        out = self.buffer
        at: cython.Py_ssize_t = self.at
        size: cython.int = 1
        while size < 8 and value >> 8 * size:
            size *= 2
            kind += 1
        out[at] = kind
        self.at = at + 1 + size
        while size:
            out[at + size] = value & 0xFF
            value >>= 8
            size -= 1

    def message(
        self, head: bytes, seq: Number, label: ItemLabel, keep: bool, payload: bytes
    ) -> None:
        """Write one; `head` is what all of its sender begin with."""
        self.copy(head)
        out = self.buffer
        if seq < 0x80:
            out[self.at] = seq
            self.at += 1
        else:
            self.write_uint(UNSIGNED, seq)
        self.copy(label[1])
        at: cython.Py_ssize_t = self.at
        out[at] = BIN  # It covers nothing
        out[at + 1] = 0
        out[at + 2] = TRUE if keep else FALSE
        out[at + 3] = FIXARRAY  # and waits for nobody.
        self.at = at + 4
        self.write_uint(BIN, len(payload))
        self.copy(payload)
        self.copy(label[2])


def pack_run(
    rank: Number,
    seq: Number,
    updates: Sequence[Update],
    labels: ItemLabels,
    count_max: Number,
    payload_max: Number,
    size_max: Number,
) -> tuple[Run | None, int]:
    """A run after `seq` of updates that have an item at the most, and its size.

    It has at most so many messages and so much payload, and no message above `size_max`.  Stops
    before the first one that needs a closer look; without any there is no run.
    """
    head = bytes((FIXARRAY + 8,)) + encode(rank)
    writer: MessageWriter = MessageWriter(len(updates) * MESSAGE_OVERHEAD_MAX)
    count: cython.Py_ssize_t = 0
    payloads: cython.Py_ssize_t = 0
    size: cython.Py_ssize_t = 0
    is_tagged: cython.bint = False
    for each in updates:
        if count >= count_max or type(each) is not Update:
            break
        update: Update = each
        payload, label = update.payload, labels.label(update.item)
        if type(payload) is not bytes or update.obsoletes or label is None:
            break
        length: cython.Py_ssize_t = len(payload)
        named: cython.Py_ssize_t = label[3]
        needs: cython.Py_ssize_t = length + HEADER_BYTES + named
        if needs > size_max or payloads + length > payload_max or named > NAME_MAX:
            break
        count += 1
        payloads += length
        size += needs
        is_tagged = is_tagged or label is not NO_LABEL
        writer.make_room(needs + MESSAGE_OVERHEAD_MAX)
        writer.message(head, seq + count, label, update.never_purge, payload)
    if not count:
        return None, 0
    data = bytes(memoryview(writer.buffer)[: writer.at])
    return Run(data, 0, len(data), count, rank, seq + 1, payloads, is_tagged), size
