"""Runs: messages of one sender, next to each other in its stream.

A run is bytes until somebody needs its messages one by one, or messages from the beginning; to
everybody it is a sequence of messages, and cheap to those who ask it for what it knows.  First
transmissions are nearly always one run that says nothing unusual.  `parse_run` recognises that in
one pass over a datagram's MessagePack and makes no object for any message; what it does not
recognise is for msgspec to decode or to refuse, and `runs_of` finds the runs in it.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec.msgpack import encode

from semcast.kernel.reader import ARRAY, FIXARRAY, NAME_MAX, MessageReader, Number
from semcast.terms.ids import RANK_MAX
from semcast.terms.items import ITEM_MAX
from semcast.terms.messages import DataMessage

if TYPE_CHECKING:
    import cython

HEADER_BYTES: Final = 24  # beside payload and name; an estimate good enough to fill datagrams
DISTANCE_BYTES: Final = 3
DEPENDENCY_BYTES: Final = 10


class Run:  # noqa: PLW1641 (equal to lists, which have no hash)
    """Messages of one sender from number `first` on.  Immutable.

    If it `is_packed`, it lies in the bytes `data` from `begin` to `end`: read by `parse_run`, or
    written by `pack`.  A message that comes `after` others is a run by itself.  If it `is_plain`,
    nothing in it depends on the recipe of a group; if not `is_tagged`, no message has an item.
    """

    __slots__ = (
        "after",
        "begin",
        "count",
        "data",
        "end",
        "first",
        "is_packed",
        "is_plain",
        "is_tagged",
        "made",
        "payload_bytes",
        "sender",
    )

    def __init__(
        self,
        data: bytes,
        begin: int,
        end: int,
        count: int,
        sender: Any,
        first: Any,
        payload_bytes: int,
        is_tagged: bool,
        made: Any = None,
        is_plain: bool = True,
        after: Any = (),
    ) -> None:
        self.data = data
        self.begin = begin
        self.end = end
        self.count = count
        self.sender = sender
        self.first = first
        self.payload_bytes = payload_bytes
        self.is_tagged = is_tagged
        self.is_packed = made is None
        self.made = made
        self.is_plain = is_plain
        self.after = after

    def __len__(self) -> int:
        return self.count

    def __repr__(self) -> str:
        return f"Run({self.messages()})"

    def __eq__(self, other: object) -> bool:
        """Like a tuple of its messages, but equal to any sequence of them."""
        return isinstance(other, Sequence) and self.messages() == list(other)

    def __iter__(self) -> Iterator[DataMessage]:
        return iter(self.messages())

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            start, stop, step = place.indices(self.count)
            return self.slice_run(start, stop) if step == 1 else self.messages()[place]
        index = place + self.count if place < 0 else place
        if not 0 <= index < self.count:
            raise IndexError("run index out of range")
        if self.made is not None:
            return self.made[index]
        return self.slice_run(index, index + 1).messages()[0]

    def slice_run(self, start: int, stop: int) -> Any:
        """The messages from one place to another."""
        if start == 0 and stop == self.count:
            return self
        if not self.is_packed:
            return _part(self, start, stop)
        reader: MessageReader = MessageReader(self.data, self.begin)
        for _ in range(start):
            reader.message()
        begin, size = reader.at, 0
        for _ in range(start, stop):
            reader.message()
            size += reader.payload_end - reader.payload
        count, first = max(0, stop - start), self.first + start
        return Run(self.data, begin, reader.at, count, self.sender, first, size, self.is_tagged)

    def take_prefix(self, room: Number, is_empty: bool) -> tuple[Any, int]:
        """The messages at the front that take up at most so much room, and how much they do.

        Into an empty datagram goes at least one, however large.
        """
        reader: MessageReader = MessageReader(self.data, self.begin)
        stop: cython.Py_ssize_t = 0
        payloads: cython.Py_ssize_t = 0
        size: cython.Py_ssize_t = 0
        end: cython.Py_ssize_t = self.begin
        while stop < self.count and size < room:
            reader.message()
            payload: cython.Py_ssize_t = reader.payload_end - reader.payload
            needs: cython.Py_ssize_t = HEADER_BYTES + payload + reader.name_end - reader.name
            if size + needs > room and (stop or not is_empty):
                break
            stop += 1
            payloads += payload
            size += needs
            end = reader.at
        if stop == self.count:
            return self, size
        return Run(
            self.data, self.begin, end, stop, self.sender, self.first, payloads, self.is_tagged
        ), size

    def behind(self, head: Any) -> Any:
        """What is left behind these messages at the front."""
        count, size = self.count - head.count, self.payload_bytes - head.payload_bytes
        first = self.first + head.count
        return Run(self.data, head.end, self.end, count, self.sender, first, size, self.is_tagged)

    def to_msgpack(self) -> bytes:
        """The messages as an array in MessagePack."""
        if not self.is_packed:
            return encode(self.made)
        count = self.count
        if count < 0x10:
            head = bytes((FIXARRAY + count,))
        elif count < 0x10000:
            head = bytes((ARRAY, count >> 8, count & 0xFF))
        else:
            head = bytes((ARRAY + 1,)) + count.to_bytes(4, "big")
        return head + self.data[self.begin : self.end]

    def messages(self) -> list[DataMessage]:
        """Each by itself; made when first asked for."""
        if self.made is not None:
            return self.made  # type: ignore[no-any-return]
        made = []
        reader: MessageReader = MessageReader(self.data, self.begin)
        sender = self.sender
        for _ in range(self.count):
            reader.message()
            item = reader.tag() if reader.has_item else None
            made.append(
                DataMessage(
                    sender, reader.seq, item, b"", reader.keep, (), reader.body(), reader.text()
                )
            )
        self.made = made
        return made

    def app_messages(self, make: Callable[..., Any], sender: Any, position: Any) -> list[Any]:
        """What the application gets, without a message in between if there is none.

        Its item is the name, or the number if there is no name.  `position` is that of the first in
        a total order; without one it is 0.
        """
        made = []
        item: Any
        step: cython.Py_ssize_t = position > 0
        if self.made is not None:
            message: DataMessage
            for message in self.made:
                item = message.name or message.item
                seq, payload = message.seq, message.payload
                made.append(make(sender, item, payload, seq, 0, message.never_purge, position))
                position += step
            return made
        reader: MessageReader = MessageReader(self.data, self.begin)
        for _ in range(self.count):
            reader.message()
            item = reader.tag() if reader.has_item else None
            if reader.name < reader.name_end:
                item = reader.text()
            made.append(make(sender, item, reader.body(), reader.seq, 0, reader.keep, position))
            position += step
        return made


Sequence.register(Run)


def run_of(messages: list[DataMessage]) -> Run:
    """One run: messages of one sender next to each other, or one that comes after others."""
    payloads: cython.Py_ssize_t = 0
    is_tagged: cython.bint = False
    is_plain: cython.bint = True
    message: DataMessage
    for message in messages:
        payloads += len(message.payload)
        item = message.item
        if item is not None:
            is_tagged = True
            if item > ITEM_MAX:
                is_plain = False
        if message.covers or message.after or len(message.name) > NAME_MAX:
            is_plain = False
    head: DataMessage = messages[0]
    return Run(
        b"",
        0,
        0,
        len(messages),
        head.sender,
        head.seq,
        payloads,
        is_tagged,
        messages,
        is_plain,
        head.after,
    )


def _part(run: Run, start: int, stop: int) -> Any:
    if start < stop:
        return run_of(run.made[start:stop])
    return Run(b"", 0, 0, 0, run.sender, run.first + start, 0, run.is_tagged, [])


def runs_of(messages: Sequence[DataMessage]) -> Sequence[Run]:
    """The runs that messages are, in their order."""
    if isinstance(messages, Run):
        return (messages,)
    runs = []
    pending: list[Any] = []
    sender: Any = None
    seq: Any = None
    message: DataMessage
    for message in messages:
        if pending and (message.sender != sender or message.seq != seq + 1 or message.after):
            runs.append(run_of(pending))
            pending = []
        pending.append(message)
        sender, seq = message.sender, message.seq
        if message.after:
            runs.append(run_of(pending))
            pending = []
    if pending:
        runs.append(run_of(pending))
    return runs


def size_of(message: DataMessage) -> int:
    """About what a message takes in a datagram."""
    return _size(message.payload, message.name, message.covers, message.after)


def _size(payload: Any, name: Any, covers: Any, after: Any) -> int:
    """Given fields, since what takes a message by a C call does not look whether it is one."""
    size: cython.Py_ssize_t = len(payload) + HEADER_BYTES + DEPENDENCY_BYTES * len(after)
    size += len(name) if name.isascii() else len(name.encode())
    if covers:
        size += len(covers) if isinstance(covers, bytes) else DISTANCE_BYTES * len(covers)
    return size


def sizes_of(messages: Sequence[DataMessage]) -> int:
    """About what messages take in a datagram together."""
    size: cython.Py_ssize_t = 0
    message: DataMessage
    for message in messages:
        size += _size(message.payload, message.name, message.covers, message.after)
    return size


def parse_run(data: bytes, begin: int = 0) -> tuple[Run, int] | None:
    """The run that the bytes of a datagram are from `begin` on, if they are one, and up to where
    its sender says that its stream is safe."""
    reader: MessageReader = MessageReader(data, begin)
    sender: cython.longlong = 0
    first: cython.longlong = 0
    count: cython.longlong = 0
    size: cython.Py_ssize_t = 0
    is_tagged: cython.bint = False
    try:
        reader.expect(FIXARRAY + 5)
        reader.expect(1)  # the tag of `Data`
        announced: cython.longlong = reader.count()
        begin = reader.at
        while count < announced:
            reader.message()
            if not count:
                sender, first = reader.sender, reader.seq
            if reader.sender != sender or reader.seq < 1 or reader.seq - first != count:
                return None
            reader.check_name()
            is_tagged = is_tagged or reader.has_item
            size += reader.payload_end - reader.payload
            count += 1
        end: cython.Py_ssize_t = reader.at
        reader.expect(FIXARRAY)  # no notices
        reader.expect(0)  # It answers nobody.
        safe = reader.integer()
    except (ValueError, IndexError):
        return None
    if not count or not 0 <= sender <= RANK_MAX or safe < 0 or reader.at != len(data):
        return None
    return Run(data, begin, end, count, sender, first, size, is_tagged), safe


def concat_runs(runs: Sequence[Any]) -> Any:
    """One run of several that continue each other as bytes, else their messages."""
    first = runs[0]
    if len(runs) == 1:
        return first if isinstance(first, Run) else tuple(first)
    count: cython.Py_ssize_t = 0
    size: cython.Py_ssize_t = 0
    is_tagged = False
    pieces = []
    for run in runs:
        is_next = isinstance(run, Run) and run.is_packed and run.sender == first.sender
        if not is_next or run.first != first.first + count:
            return tuple([message for run in runs for message in run])
        pieces.append(run.data[run.begin : run.end])
        count += run.count
        size += run.payload_bytes
        is_tagged = is_tagged or run.is_tagged
    data = b"".join(pieces)
    return Run(data, 0, len(data), count, first.sender, first.first, size, is_tagged)
