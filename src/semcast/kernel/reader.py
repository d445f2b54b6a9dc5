"""Messages in MessagePack, read one after the other where they lie.

Reading beyond the bytes raises IndexError in both builds, whatever lengths they claim.
"""

from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    import cython

NAME_MAX: Final = 1024  # characters of an item's name, which the bound on bytes held does not count

NIL: Final = 0xC0
FALSE: Final = 0xC2
TRUE: Final = 0xC3
BIN: Final = 0xC4  # a length of one byte follows; of two and of four with the next kinds
UNSIGNED: Final = 0xCC  # of one byte; two, four and eight with the next kinds
SIGNED: Final = 0xD0
STR: Final = 0xD9
ARRAY: Final = 0xDC  # a length of two bytes follows; of four with the next kind
FIXARRAY: Final = 0x90  # the kind says how many, up to 15
FIXSTR: Final = 0xA0  # the kind says how long, up to 31


Number: TypeAlias = int  # one of C's, where compiled.pxd says so


class MessageReader:
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
        self.expect(FIXARRAY + 8)
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
        if data[at] != BIN or data[at + 1] != 0 or data[at + 3] != FIXARRAY:
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
        if FIXSTR <= kind < NIL:
            self.skip(kind - FIXSTR)
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
        if FIXARRAY <= kind < FIXSTR:
            return kind - FIXARRAY
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
