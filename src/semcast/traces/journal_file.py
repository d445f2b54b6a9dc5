"""The file of a journal: what one process recorded in one life, readable after `kill -9`.

Eight bytes of magic and version, then frames: the length and the CRC-32 of a body, four bytes
little-endian each, and the body in MessagePack.  The first body is the header, the others are
batches of events.  Unwritten space is zero.  A frame that is empty, cut off or whose checksum is
wrong ends the journal, and everything before it counts: what a process was writing when it was
killed never hides what it had written.
"""

from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import Final
from zlib import crc32

import msgspec

from semcast.traces.errors import BadFile

MAGIC: Final = b"semcast\x01"
SUFFIX: Final = ".journal"

FRAME: Final = Struct("<II")  # the length of a body and its CRC-32


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """Who writes, and in which run.

    `names` and `incarnations` are those of all members by pid, the writer's own among them.  With
    views nobody knows all: then `names` has the writer's alone, `inc` is the life it began with,
    and every event says whose it is.
    """

    run_id: int
    pid: int
    names: tuple[str, ...]
    incarnations: tuple[int, ...]
    group: str
    protocol: str
    order: str
    relation: str
    f: int
    parameters: dict[str, str] = {}
    inc: int = 0

    @property
    def has_views(self) -> bool:
        """Whether events tell lives and views themselves."""
        return self.inc > 0

    @property
    def name(self) -> str:
        """The writer's."""
        return self.names[0 if self.has_views else self.pid]

    @property
    def stem(self) -> str:
        """What the files of this life are called."""
        return f"{self.run_id}-{self.pid}-{self.inc or self.incarnations[self.pid]}"


class Recorded(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One event; from `item` on only where it has a message."""

    kind: str
    sender: int
    seq: int
    by_seq: int
    note: str
    peer: int
    buffered: int
    item: int | None = None
    covers: bytes | tuple[int, ...] = b""
    keep: bool = False
    deps: tuple[tuple[int, int], ...] = ()
    size: int = 0
    digest: bytes | None = None


class InView(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What an event says in addition where there are views."""

    inc: int
    sender_inc: int
    by_sender: int
    by_inc: int
    view: int
    position: int
    members: tuple[int, ...] = ()


class Batch(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Events recorded at one time, and item names not told before.  `last`: the journal was
    closed, so its process did not crash.  With views, `inside` has one for each event."""

    ts_ns: int
    events: list[Recorded]
    names: list[tuple[int, str]] = []
    last: bool = False
    inside: list[InView] = []


_header = msgspec.msgpack.Decoder(Header)
_batch = msgspec.msgpack.Decoder(Batch)


def read_journal(path: Path) -> tuple[Header, Iterator[Batch]]:
    """The header and the batches that were completely written."""
    content = path.read_bytes()
    if content[: len(MAGIC)] != MAGIC:
        raise BadFile(f"{path}: not a journal that this version can read")
    bodies = _bodies(content)
    try:
        header = _header.decode(next(bodies, b""))
    except msgspec.DecodeError as error:
        raise BadFile(f"{path}: a journal with no header: {error}") from None
    return header, _batches(path, bodies)


def _batches(path: Path, bodies: Iterator[memoryview]) -> Iterator[Batch]:
    for body in bodies:
        try:
            yield _batch.decode(body)
        except msgspec.DecodeError as error:
            raise BadFile(f"{path}: a batch that is none: {error}") from None


def _bodies(content: bytes) -> Iterator[memoryview]:
    view, place = memoryview(content), len(MAGIC)
    while place + FRAME.size <= len(view):
        length, checksum = FRAME.unpack_from(view, place)
        place += FRAME.size
        body = view[place : place + length]
        if not length or len(body) < length or crc32(body) != checksum:
            return
        yield body
        place += length
