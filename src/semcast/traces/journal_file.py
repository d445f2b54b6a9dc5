"""The file of a journal: what one process recorded in one life, readable after `kill -9`.

Eight bytes of magic and version, then frames: the length and the CRC-32 of a body, four bytes
little-endian each, and the body in MessagePack.  The first body is the header, the others are
batches of events.  Unwritten space is zero.  A frame that is empty, cut off, longer than any or
whose checksum is wrong ends the journal, and everything before it counts: what a process was
writing when it was killed never hides what it had written.

A journal may come from an untrusted source: a value that no correct writer could have written is
a `BadFile`.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias
from zlib import crc32

import msgspec
from msgspec import Meta

from semcast.terms.events import (
    ATTRIBUTES,
    DEFAULTS,
    EVENT_FIELDS,
    FIRST,
    INT32,
    INT32_LIST,
    INT64_LIST,
    LATER,
    MULTICAST,
    STRING,
    VIEWS,
    in_journal,
    kind_fault,
)
from semcast.terms.ids import SEQ_MAX
from semcast.terms.messages import AFTER_MAX, COVERS_MAX
from semcast.terms.relations import RELATIONS, base_name
from semcast.terms.views import MEMBERS_MAX
from semcast.traces.distance_tracker import BITMAP_BYTES_MAX
from semcast.traces.errors import BadFile
from semcast.traces.files import open_file

MAGIC: Final = b"semcast\x01"
SUFFIX: Final = ".journal"

FRAME: Final = Struct("<II")  # the length of a body and its CRC-32
BODY_BYTES_MAX: Final = 1 << 28
# A sender's numbers are dense.  Distances are kept for all of them, so no number may be far ahead
# of the events before it.
SEQ_AHEAD_MAX: Final = 1 << 20

LIST_MAX: Final = max(COVERS_MAX, MEMBERS_MAX)
_INT_MAX: Final = 2**31 - 1

_Long: TypeAlias = Annotated[int, Meta(ge=0, le=SEQ_MAX)]
_Int: TypeAlias = Annotated[int, Meta(ge=0, le=_INT_MAX)]
_Item: TypeAlias = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
_Distance: TypeAlias = Annotated[int, Meta(ge=1, le=_INT_MAX)]
_Bitmap: TypeAlias = Annotated[bytes, Meta(max_length=BITMAP_BYTES_MAX)]
_Distances: TypeAlias = Annotated[tuple[_Distance, ...], Meta(max_length=COVERS_MAX)]
_Deps: TypeAlias = Annotated[tuple[tuple[_Int, _Long], ...], Meta(max_length=AFTER_MAX)]


class JournalHeader(msgspec.Struct, frozen=True, kw_only=True):
    """Who writes, and in which run.

    `names` and `incarnations` are those of all members by pid, the writer's own among them.  With
    views nobody knows all: then `names` has the writer's alone, `inc` is the life it began with,
    and every event says whose it is.
    """

    run_id: _Long
    pid: _Int
    names: tuple[str, ...]
    incarnations: tuple[_Int, ...]
    group: str
    protocol: str
    order: str
    relation: str
    f: _Int
    parameters: dict[str, str] = {}
    inc: _Int = 0

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


def _bounded(name: str) -> Any:
    """The type of a field of an event as a journal may have it."""
    if name in ATTRIBUTES:
        return str if isinstance(DEFAULTS[name], str) else Annotated[int, Meta(ge=0)]
    column, default = EVENT_FIELDS[name], DEFAULTS[name]
    if column.type == STRING:
        return str
    minimum = column.minimum or 0
    if column.type in (INT32_LIST, INT64_LIST):
        maximum = _INT_MAX if column.type == INT32_LIST else SEQ_MAX
        each = Annotated[int, Meta(ge=minimum, le=maximum)]
        return Annotated[tuple[each, ...], Meta(max_length=LIST_MAX)]
    maximum = _INT_MAX if column.type == INT32 else SEQ_MAX
    return Annotated[int, Meta(ge=min(minimum, default), le=maximum)]


def _fields(part: str) -> list[tuple[str, Any, Any]]:
    return [(name, _bounded(name), DEFAULTS[name]) for name in in_journal(part)]


# What msgspec checks; mypy cannot see fields that come from a table.
if TYPE_CHECKING:
    JournalEvent: TypeAlias = Any
    JournalViewFields: TypeAlias = Any
else:
    _OF_A_MESSAGE: Final = [
        ("item", _Item | None, None),
        ("covers", _Bitmap | _Distances, b""),
        ("keep", bool, False),
        ("deps", _Deps, ()),
        ("size", _Int, 0),
        ("digest", Annotated[bytes, Meta(min_length=8, max_length=8)] | None, None),
    ]
    # One event; from `item` on only where it has a message or a later field.
    JournalEvent = msgspec.defstruct(
        "JournalEvent",
        [*((name, kind) for name, kind, _ in _fields(FIRST)), *_OF_A_MESSAGE, *_fields(LATER)],
        frozen=True,
        array_like=True,
        gc=False,
    )
    # What an event has in addition where there are views; an older version wrote fewer fields.
    JournalViewFields = msgspec.defstruct(
        "JournalViewFields", _fields(VIEWS), frozen=True, array_like=True, gc=False
    )


class JournalBatch(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Events recorded at one time, and item names not told before.  `last`: the journal was
    closed, so its process did not crash.  With views, `inside` has one for each event."""

    ts_ns: _Item
    events: list[JournalEvent]
    names: list[tuple[_Item, str]] = []
    last: bool = False
    inside: list[JournalViewFields] = []


_header = msgspec.msgpack.Decoder(JournalHeader)
_batch = msgspec.msgpack.Decoder(JournalBatch)


def decode_header(body: bytes) -> JournalHeader:
    """The header that these bytes are; a `ValueError` says what is wrong with it."""
    header = _header.decode(body)
    if header.has_views:
        if len(header.names) != 1:
            raise ValueError(f"{len(header.names)} names, with views must be 1")
    elif not header.pid < len(header.names) == len(header.incarnations):
        raise ValueError(
            f"process {header.pid} with {len(header.names)} names and "
            f"{len(header.incarnations)} incarnations, must be one of them"
        )
    if base_name(header.relation) not in RELATIONS:
        raise ValueError(f"relation {header.relation[:60]!r} is not one of {', '.join(RELATIONS)}")
    return header


def read_journal(path: Path) -> tuple[JournalHeader, Iterator[JournalBatch]]:
    """The header and the batches that were completely written."""
    bodies = _bodies(path)
    try:
        header = decode_header(next(bodies, b""))
    except ValueError as error:
        raise _bad(path, f"a journal without a valid header: {error}") from None
    # Names of files are made of the header, and the name of the journal itself is used, too.
    if path.name != f"{header.stem}{SUFFIX}":
        raise _bad(path, f"its header is that of {header.stem}{SUFFIX}")
    return header, _batches(path, header, bodies)


def _batches(path: Path, header: JournalHeader, bodies: Iterator[bytes]) -> Iterator[JournalBatch]:
    before = 0
    for body in bodies:
        try:
            batch = _batch.decode(body)
        except msgspec.DecodeError as error:
            raise _bad(path, f"cannot decode a batch: {error}") from None
        before += len(batch.events)
        fault = _fault(header, batch, before)
        if fault is not None:
            raise _bad(path, fault)
        yield batch


def _fault(header: JournalHeader, batch: JournalBatch, events: int) -> str | None:
    """What its writer cannot have said; `events` are those up to the end of the batch."""
    if len(batch.inside) != (len(batch.events) if header.has_views else 0):
        return f"a batch of {len(batch.events)} events tells of {len(batch.inside)} views"
    for event in batch.events:
        fault = kind_fault(event.kind)
        if fault is not None:
            return fault
        if event.kind == MULTICAST:
            if event.sender != header.pid:
                return f"a multicast of process {event.sender} in the journal of {header.pid}"
            if event.seq > events + SEQ_AHEAD_MAX:
                return f"multicast {event.seq:,} within the first {events:,} events"
    return None


def _bodies(path: Path) -> Iterator[bytes]:
    """One at a time: however large the file is said to be, only what is there is held."""
    with os.fdopen(open_file(path), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if file.read(len(MAGIC)) != MAGIC:
            raise _bad(path, "not a journal that this version can read")
        while len(frame := file.read(FRAME.size)) == FRAME.size:
            length, checksum = FRAME.unpack(frame)
            if not 0 < length <= min(BODY_BYTES_MAX, size - file.tell()):
                return
            body = file.read(length)
            if crc32(body) != checksum:
                return
            yield body


def _bad(path: Path, reason: str) -> BadFile:
    return BadFile(f"{path}: {reason}; move this file away to read the rest of the trace")
