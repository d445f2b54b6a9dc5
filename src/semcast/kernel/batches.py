"""Messages that stay bytes until somebody needs them one by one.

First transmissions are nearly always of one sender, next to each other in its stream, and say
nothing unusual.  `scan` recognises them in one pass over a datagram's MessagePack and makes no
object for any message; what it does not recognise is for msgspec to decode or to refuse.  A `Batch`
is a sequence of messages to everybody, and cheap to those who ask it for what it knows.
Reading beyond the bytes raises IndexError in both builds, whatever lengths they claim.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from semcast.terms.ids import RANK_MAX
from semcast.terms.messages import Message

if TYPE_CHECKING:
    import cython

HEADER_BYTES: Final = 24  # beside payload and name; an estimate good enough to fill datagrams
NAME_MAX: Final = 1024  # characters of an item's name, which the bound on bytes held does not count

NIL: Final = 0xC0
FALSE: Final = 0xC2
TRUE: Final = 0xC3
BIN: Final = 0xC4  # a length of one byte follows; of two and of four with the next kinds
UNSIGNED: Final = 0xCC  # of one byte; two, four and eight with the next kinds
SIGNED: Final = 0xD0
STR: Final = 0xD9
ARRAY: Final = 0xDC  # a length of two bytes follows; of four with the next kind
FEW: Final = 0x90  # the kind says how many, up to 15
SHORT: Final = 0xA0  # the kind says how long, up to 31


Number: TypeAlias = int  # one of C's, where compiled.pxd says so


class Reader:
    """Goes from message to message; its fields are what the last one says.

    Item, payload and name are told by where they begin, the last two also by where they end.  The
    unusual raises ValueError.
    """

    __slots__ = (
        "at",
        "begun",
        "data",
        "has_item",
        "item",
        "keep",
        "name",
        "name_end",
        "payload",
        "payload_end",
        "sender",
        "seq",
    )

    def __init__(self, data: bytes, at: Number) -> None:
        self.data = data
        self.at = at

    def message(self) -> None:
        """Read the next one."""
        data: bytes = self.data
        self.expect(FEW + 8)
        self.sender = self.integer()
        self.seq = self.integer()
        self.has_item = data[self.at] != NIL
        self.item = self.at
        if self.has_item:
            self.skip_integer()
        else:
            self.at += 1
        at: cython.Py_ssize_t = self.at
        keep: cython.int = data[at + 2]
        # It covers nothing and waits for nobody.
        if data[at] != BIN or data[at + 1] != 0 or data[at + 3] != FEW:
            raise ValueError("an unusual message")
        if keep != TRUE and keep != FALSE:
            raise ValueError("neither true nor false")
        self.keep = keep == TRUE
        kind: cython.int = data[at + 4]
        if not BIN <= kind < BIN + 3:
            raise ValueError("not a payload")
        self.at = at + 5
        self.skip(self.number(1 << (kind - BIN), 0))
        self.payload, self.payload_end = self.begun, self.at
        kind = data[self.at]
        self.at += 1
        if SHORT <= kind < NIL:
            self.skip(kind - SHORT)
        elif STR <= kind < STR + 3:
            self.skip(self.number(1 << (kind - STR), 0))
        else:
            raise ValueError("not a name")
        self.name, self.name_end = self.begun, self.at

    def expect(self, byte: Number) -> None:
        """Read this byte."""
        if self.data[self.at] != byte:
            raise ValueError("unusual")
        self.at += 1

    def skip(self, length: Number) -> None:
        """Go on behind so many bytes, which have begun here."""
        if length > len(self.data) - self.at:
            raise IndexError("bytes are missing")
        self.begun = self.at
        self.at += length

    def integer(self) -> int:
        """Read a number that fits 64 bits with its sign."""
        data: bytes = self.data
        kind: cython.int = data[self.at]
        self.at += 1
        if kind < 0x80:
            return kind
        if kind >= 0xE0:
            return kind - 0x100
        is_high: cython.bint = data[self.at] >= 0x80
        if SIGNED <= kind < SIGNED + 4:
            return self.number(1 << (kind - SIGNED), -1 if is_high else 0)
        if not UNSIGNED <= kind < UNSIGNED + 4 or (is_high and kind == UNSIGNED + 3):
            raise ValueError("not such a number")
        return self.number(1 << (kind - UNSIGNED), 0)

    def skip_integer(self) -> None:
        """Go on behind such a number."""
        data: bytes = self.data
        at: cython.Py_ssize_t = self.at
        kind: cython.int = data[at]
        if kind < 0x80 or kind >= 0xE0:
            self.at = at + 1
        elif SIGNED <= kind < SIGNED + 4:
            self.at = at + 1 + (1 << (kind - SIGNED))
        elif not UNSIGNED <= kind < UNSIGNED + 4 or (kind == UNSIGNED + 3 and data[at + 1] >= 0x80):
            raise ValueError("not such a number")
        else:
            self.at = at + 1 + (1 << (kind - UNSIGNED))

    def tag(self) -> int:
        """The item."""
        end: cython.Py_ssize_t = self.at
        self.at = self.item
        item: cython.longlong = self.integer()
        self.at = end
        return item

    def number(self, size: Number, value: Number) -> int:
        """Read so many bytes of a number; what comes before them, 0 or -1, is its sign."""
        data: bytes = self.data
        at: cython.Py_ssize_t
        for at in range(self.at, self.at + size):
            value = value * 0x100 + data[at]
        self.at += size
        return value

    def count(self) -> int:
        """Read how long an array is."""
        kind: cython.int = self.data[self.at]
        self.at += 1
        if FEW <= kind < SHORT:
            return kind - FEW
        if ARRAY <= kind < ARRAY + 2:
            return self.number(2 << (kind - ARRAY), 0)
        raise ValueError("not an array")

    def check_name(self) -> None:
        """Raise a ValueError if the name is too long or no text."""
        if self.name_end - self.name > NAME_MAX:
            raise ValueError("a long name")
        data: bytes = self.data
        place: cython.Py_ssize_t
        for place in range(self.name, self.name_end):
            if data[place] >= 0x80:
                self.text()
                break

    def text(self) -> str:
        """The name."""
        if self.name == self.name_end:
            return ""
        data = self.data
        return data[self.name : self.name_end].decode()

    def body(self) -> bytes:
        """The payload."""
        data = self.data
        return data[self.payload : self.payload_end]


class Batch:  # noqa: PLW1641 (equal to lists, which have no hash)
    """Messages of one sender from number `first` on, as they lie in a datagram.

    Made by `scan`, which has read every one of them, or by `pack`, which wrote them.  `safe` is
    what the datagram says of the sender's stream; if not `is_tagged`, none of them has an item.
    """

    __slots__ = (
        "begin",
        "count",
        "data",
        "end",
        "first",
        "is_tagged",
        "payload_bytes",
        "safe",
        "sender",
    )

    def __init__(
        self,
        data: bytes,
        begin: int,
        end: int,
        count: int,
        sender: int,
        first: int,
        payload_bytes: int,
        safe: int,
        is_tagged: bool,
    ) -> None:
        self.data = data
        self.begin = begin
        self.end = end
        self.count = count
        self.sender = sender
        self.first = first
        self.payload_bytes = payload_bytes
        self.safe = safe
        self.is_tagged = is_tagged

    def __len__(self) -> int:
        return self.count

    def __repr__(self) -> str:
        return f"Batch({self.messages()})"

    def __eq__(self, other: object) -> bool:
        """Like a tuple of its messages, but equal to any sequence of them."""
        return isinstance(other, Sequence) and self.messages() == list(other)

    def __iter__(self) -> Iterator[Message]:
        return iter(self.messages())

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            start, stop, step = place.indices(self.count)
            return self.part(start, stop) if step == 1 else self.messages()[place]
        index = place + self.count if place < 0 else place
        if not 0 <= index < self.count:
            raise IndexError("batch index out of range")
        return self.part(index, index + 1).messages()[0]

    def part(self, start: int, stop: int) -> Any:
        """The messages from one place to another, over the same bytes."""
        if start == 0 and stop == self.count:
            return self
        reader: Reader = Reader(self.data, self.begin)
        for _ in range(start):
            reader.message()
        begin, size = reader.at, 0
        for _ in range(start, stop):
            reader.message()
            size += reader.payload_end - reader.payload
        count, first = max(0, stop - start), self.first + start
        end, told = reader.at, (self.safe, self.is_tagged)
        return Batch(self.data, begin, end, count, self.sender, first, size, *told)

    def fit(self, room: Number, is_empty: bool) -> tuple[Any, int]:
        """The messages at the front that take up at most so much room, and how much they do.

        Into an empty datagram goes at least one, however large.
        """
        reader: Reader = Reader(self.data, self.begin)
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
        told = (self.safe, self.is_tagged)
        return Batch(
            self.data, self.begin, end, stop, self.sender, self.first, payloads, *told
        ), size

    def after(self, head: Any) -> Any:
        """What is left behind these messages at the front."""
        count, size = self.count - head.count, self.payload_bytes - head.payload_bytes
        first, told = self.first + head.count, (self.safe, self.is_tagged)
        return Batch(self.data, head.end, self.end, count, self.sender, first, size, *told)

    def packed(self) -> bytes:
        """The messages as an array in MessagePack."""
        count = self.count
        if count < 0x10:
            head = bytes((FEW + count,))
        elif count < 0x10000:
            head = bytes((ARRAY, count >> 8, count & 0xFF))
        else:
            head = bytes((ARRAY + 1,)) + count.to_bytes(4, "big")
        return head + self.data[self.begin : self.end]

    def messages(self) -> list[Message]:
        """Each by itself."""
        made = []
        reader: Reader = Reader(self.data, self.begin)
        sender = self.sender
        for _ in range(self.count):
            reader.message()
            item = reader.tag() if reader.has_item else None
            made.append(
                Message(
                    sender, reader.seq, item, b"", reader.keep, (), reader.body(), reader.text()
                )
            )
        return made

    def letters(self, make: Callable[..., Any], sender: Any, position: Any) -> list[Any]:
        """What the application gets, without a message in between."""
        made = []
        step: cython.Py_ssize_t = position > 0
        reader: Reader = Reader(self.data, self.begin)
        for _ in range(self.count):
            reader.message()
            name = reader.text() if reader.name < reader.name_end else None
            made.append(make(sender, name, reader.body(), reader.seq, 0, reader.keep, position))
            position += step
        return made


Sequence.register(Batch)


def scan(data: bytes, begin: int = 0) -> Batch | None:
    """The batch that the bytes of a datagram are from `begin` on, if they are one."""
    reader: Reader = Reader(data, begin)
    sender: cython.longlong = 0
    first: cython.longlong = 0
    count: cython.longlong = 0
    size: cython.Py_ssize_t = 0
    is_tagged: cython.bint = False
    try:
        reader.expect(FEW + 5)
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
        reader.expect(FEW)  # no notices
        reader.expect(0)  # It answers nobody.
        safe = reader.integer()
    except (ValueError, IndexError):
        return None
    if not count or not 0 <= sender <= RANK_MAX or safe < 0 or reader.at != len(data):
        return None
    return Batch(data, begin, end, count, sender, first, size, safe, is_tagged)


def join(runs: Sequence[Any]) -> Any:
    """One run of several: a batch if they are batches that continue each other, else a tuple."""
    first = runs[0]
    if len(runs) == 1:
        return first if isinstance(first, Batch) else tuple(first)
    count: cython.Py_ssize_t = 0
    size: cython.Py_ssize_t = 0
    is_tagged = False
    pieces = []
    for run in runs:
        is_next = isinstance(run, Batch) and run.sender == first.sender
        if not is_next or run.first != first.first + count:
            return tuple([message for run in runs for message in run])
        pieces.append(run.data[run.begin : run.end])
        count += run.count
        size += run.payload_bytes
        is_tagged = is_tagged or run.is_tagged
    data, safe = b"".join(pieces), runs[-1].safe
    return Batch(data, 0, len(data), count, first.sender, first.first, size, safe, is_tagged)
