"""First transmissions written as what they travel as: the other side of `scan`.

A `UpdateBatch` is what the application wants to send, as it gave it.  `pack_run` makes a run of it
that is held, sent and delivered as it is; no object is made for any message.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from msgspec.msgpack import encode

from semcast.kernel.reader import BIN, FALSE, FIXARRAY, NAME_MAX, TRUE, UNSIGNED, Number
from semcast.kernel.run import HEADER_BYTES, Run
from semcast.terms.messages import Submission, Update

if TYPE_CHECKING:
    import cython

MESSAGE_OVERHEAD_MAX: Final = 64  # bytes of a message beside payload and name, with some to spare

# Of an item: its tag, tag and name as they are written, and how many bytes the name has.
ItemLabel: TypeAlias = tuple[int | None, bytes, bytes, int]
NO_LABEL: Final[ItemLabel] = (None, b"\xc0", b"\xa0", 0)


class UpdateBatch:
    """Updates: a sequence of submissions to everybody, each made when somebody asks for it.

    `labels` are those of items that were met before, `label_of` finds that of another, or None if
    it can have none.  `submission_of` makes a submission, or raises.
    """

    __slots__ = ("label_of", "labels", "submission_of", "updates")

    def __init__(
        self,
        updates: list[Update],
        labels: dict[str, ItemLabel],
        label_of: Callable[[str], ItemLabel | None],
        submission_of: Callable[[Update], Submission],
    ) -> None:
        self.updates = updates
        self.labels = labels
        self.label_of = label_of
        self.submission_of = submission_of

    def __len__(self) -> int:
        return len(self.updates)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            shared = (self.labels, self.label_of, self.submission_of)
            return UpdateBatch(self.updates[place], *shared)
        return self.submission_of(self.updates[place])


Sequence.register(UpdateBatch)


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


def _label(parcel: UpdateBatch, item: Any) -> ItemLabel | None:
    """That of an item or of none; None if it can have none or is not the usual text."""
    if item is None:
        return NO_LABEL
    if type(item) is not str:
        return None
    return parcel.labels.get(item) or parcel.label_of(item)


def pack_run(
    rank: Number,
    seq: Number,
    parcel: UpdateBatch,
    count_max: Number,
    payload_max: Number,
    size_max: Number,
) -> tuple[Run | None, int]:
    """A run after `seq` of updates that have an item at the most, and its size.

    It has at most so many messages and so much payload, and no message above `size_max`.  Stops
    before the first one that needs a closer look; without any there is no run.
    """
    updates = parcel.updates
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
        payload, label = update.payload, _label(parcel, update.item)
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
