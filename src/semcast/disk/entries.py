"""The bytes of a segment: one entry for each record, found again whatever happened to the others.

An entry is a head and a body.  The head has the log's marker, a checksum, the length of the body,
the entry's place in its batch, and the number of the batch's first record; both numbers enter the
checksum.  A batch is what one sync made durable.  It is written only when the batch before is on
stable storage, so every entry proves that the records before its batch were durable.

Where an entry is bad, the next one is looked for by its marker.  Marker and checksum start from a
random salt of the log: a record that contains an entry, by chance or by intent, is not taken for
one.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Final, NamedTuple
from zlib import crc32

HEAD: Final = Struct("<IIIIQ")  # marker, checksum, body's bytes, place in its batch, batch's first
BODY_BYTES_MAX: Final = 1 << 30
SALT_BYTES: Final = 8
MARK_BYTES: Final = 16 << 10  # at least, between two entries whose offsets are remembered

_MASK: Final = 0xFFFFFFFF
_FIRST: Final = Struct("<Q")


class EntryKey:
    """What the entries of one log have in common.  Made of its salt."""

    __slots__ = ("marker", "marker_bytes", "salt")

    def __init__(self, salt: bytes) -> None:
        if len(salt) != SALT_BYTES:
            raise ValueError(f"salt: {len(salt)} bytes, must be {SALT_BYTES}")
        self.salt = salt
        self.marker = crc32(salt)
        self.marker_bytes = self.marker.to_bytes(4, "little")

    def seed(self, first: int) -> int:
        """Where the checksums of a batch start, each plus its place."""
        return crc32(_FIRST.pack(first), int.from_bytes(self.salt[:4], "little"))


class Marks:
    """Where some entries begin, so that a record is found without reading all before it."""

    __slots__ = ("_numbers", "_offsets")

    def __init__(self) -> None:
        self._numbers, self._offsets = array("Q"), array("Q")

    def __len__(self) -> int:
        return len(self._numbers)

    def add(self, number: int, offset: int) -> None:
        """The entry of a record begins here."""
        if not self._offsets or offset - self._offsets[-1] >= MARK_BYTES:
            self._numbers.append(number)
            self._offsets.append(offset)

    def extend(self, other: "Marks", by: int) -> None:
        """Add those of a batch that was written at `by`."""
        for number, offset in zip(other._numbers, other._offsets, strict=True):
            self.add(number, by + offset)

    def nearest(self, number: int) -> int:
        """An offset from which on the entry of a record is found."""
        place = bisect_right(self._numbers, number) - 1
        return self._offsets[place] if place >= 0 else 0


class Batch:
    """Records that become durable together, as the bytes of their entries."""

    __slots__ = ("_key", "_next_mark", "_seed", "count", "data", "first", "marks")

    def __init__(self, key: EntryKey, first: int) -> None:
        self.first = first
        self.count = 0
        self.data = bytearray()
        self.marks = Marks()
        self._key = key
        self._seed = key.seed(first)
        self._next_mark = 0

    def __repr__(self) -> str:
        return f"Batch({self.first}, records={self.count}, bytes={len(self.data)})"

    def add(self, bodies: Iterable[bytes]) -> None:
        """Add a record for each body."""
        data, marker, first, pack = self.data, self._key.marker, self.first, HEAD.pack
        place, seed = self.count, self._seed
        if len(data) >= self._next_mark:
            self._next_mark = len(data) + MARK_BYTES
            self.marks.add(first + place, len(data))
        for body in bodies:
            size = len(body)
            if size > BODY_BYTES_MAX:
                raise ValueError(f"a record of {size:,} bytes; at most {BODY_BYTES_MAX:,}")
            data += pack(marker, crc32(body, seed + place & _MASK), size, place, first)
            data += body
            place += 1
        self.count = place

    def follow(self) -> "Batch":
        """The batch after this one, empty."""
        return Batch(self._key, self.first + self.count)


class Hole(NamedTuple):
    """Bytes from `start` to `end` that are no entry.  Records `first` to `last` are not there;
    `last` is None if nothing follows."""

    start: int
    end: int
    first: int
    last: int | None


class SegmentScan:
    """One pass over the bytes of a segment whose first record has the number `first`.

    Iterating gives number, start and end of each body, in order; after that: `holes` has what is no
    entry, `last` is the number of the last record, `end` where it ends, and all records up to
    `synced` were durable.
    """

    def __init__(self, data: bytes, key: EntryKey, first: int) -> None:
        self.holes: list[Hole] = []
        self.last = first - 1
        self.synced = first - 1
        self.end = 0
        self.marks = Marks()
        self._data = data
        self._key = key

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        data, marker, head_bytes = self._data, self._key.marker, HEAD.size
        at, size, expected = 0, len(data), self.last + 1
        batch, seed, next_mark = -1, 0, 0
        unpack = HEAD.unpack_from
        while at < size:
            if at + head_bytes <= size:
                mark, checksum, length, place, first = unpack(data, at)
                body = at + head_bytes
                end = body + length
                if first != batch:
                    batch, seed = first, self._key.seed(first)
                number = first + place
                if (
                    mark == marker
                    and end <= size
                    and number >= expected
                    and crc32(data[body:end], seed + place & _MASK) == checksum
                ):
                    if number > expected or at > self.end:
                        self.holes.append(Hole(self.end, at, expected, number - 1))
                    if at >= next_mark:
                        next_mark = at + MARK_BYTES
                        self.marks.add(number, at)
                    self.last, self.end, self.synced = number, end, max(self.synced, first - 1)
                    yield number, body, end
                    at, expected = end, number + 1
                    continue
            at = data.find(self._key.marker_bytes, at + 1)
            if at < 0:
                break
        if self.end < size:
            self.holes.append(Hole(self.end, size, expected, None))
