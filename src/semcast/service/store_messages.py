"""Messages that the servers of a store multicast in their group, send in parcels, and keep on disk.

All are MessagePack.  Decoding a payload that makes no sense raises `RemoteProtocolError`.
"""

from typing import Any, Final, TypeAlias

import msgspec

from semcast.terms.errors import RemoteProtocolError
from semcast.terms.ids import Count, Pid, ViewId

UpdateEntry: TypeAlias = tuple[int, int, int, int, bytes]
"""client, number, the oldest number that is not answered, the opening of its session, command"""
QueryEntry: TypeAlias = tuple[int, int, int, bytes]
"""client, number, the last update that it has seen, command"""
Items: TypeAlias = list[tuple[bytes, bytes]]


class UpdateBatch(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """Updates of clients of one server; `entries` stay bytes until they are executed."""

    count: int
    entries: msgspec.Raw


class QueryBatch(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """Queries of clients of one server, which the members of the view answer in turn."""

    queries: tuple[QueryEntry, ...]


class Expertise(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """What a server knows as it enters a view [VSD fig. 5]; all of it is on its disk.

    `level` is the highest primary view that it knows of, `length` how many updates it has, `safe`
    how many of them are safe to execute, `base` how many it has dropped.  Without `has_state` it
    counts in no quorum.  `known` has, by server, how far others were on their disks, so that a
    server whose disk went back in time is found out.
    """

    level: ViewId
    base: Count
    length: Count
    safe: Count
    has_state: bool
    known: tuple[tuple[Pid, ViewId, Count], ...] = ()


class InPlace(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """This server now has, on its disk, what the members of the view start from."""


class QueryAnswer(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """The answer to a query of another server's client, in the state after the update `index`."""

    view: ViewId
    client: Count
    number: Count
    status: str
    body: bytes
    index: Count


class HandoverRequest(msgspec.Struct, frozen=True, array_like=True, tag=10):
    """A member of the view asks for what it lacks."""

    view: ViewId


class ItemsSlice(msgspec.Struct, frozen=True, array_like=True, tag=6):
    """Some items of a snapshot."""

    view: ViewId
    items: Items


class SessionsSlice(msgspec.Struct, frozen=True, array_like=True, tag=11):
    """Some bytes of the sessions of a snapshot; with 10,000 clients they are several megabytes."""

    view: ViewId
    part: bytes


class SnapshotRest(msgspec.Struct, frozen=True, array_like=True, tag=7):
    """The end of a snapshot: the state after the update `index`, whose history has this digest."""

    view: ViewId
    index: Count
    digest: Count


class LogSlice(msgspec.Struct, frozen=True, array_like=True, tag=8):
    """Batches of updates that follow the update `after`, where the history has this digest."""

    view: ViewId
    after: Count
    digest: Count
    batches: list[tuple[int, bytes]]


class HandoverEnd(msgspec.Struct, frozen=True, array_like=True, tag=9):
    """That was all: the history has so many updates and this digest."""

    view: ViewId
    length: Count
    digest: Count


# Records.  `is_own` tells a snapshot that the server writes of its own state from what another
# server hands over; both are staged, and count from the record on that ends them.


class BatchRecord(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """The next batch, from the update `first` on; at least the first `safe` updates are safe."""

    first: int
    count: int
    payload: bytes
    safe: Count


class StagingRecord(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """What was staged before is void; more follows."""

    is_own: bool


class ItemsRecord(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """Staged items of a snapshot."""

    is_own: bool
    items: Items


class SnapshotRecord(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """The rest of a staged snapshot."""

    is_own: bool
    index: Count
    digest: Count
    sessions: bytes


class StagedBatchRecord(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """A staged batch of updates."""

    is_own: bool
    count: int
    payload: bytes


class AdoptedRecord(msgspec.Struct, frozen=True, array_like=True, tag=6):
    """The server has this level from now on, and a state.  With `is_handed`, what is behind the
    update `after` gives way to what another server has handed over."""

    level: ViewId
    after: Count
    safe: Count
    is_handed: bool


class SnapshotDoneRecord(msgspec.Struct, frozen=True, array_like=True, tag=7):
    """The staged snapshot of the own state counts, with this level; what it covers is not needed
    any more."""

    level: ViewId
    safe: Count


class SafeRecord(msgspec.Struct, frozen=True, array_like=True, tag=8):
    """At least the first `safe` updates are safe; written when nothing else is."""

    safe: Count


StoreRecord: TypeAlias = (
    BatchRecord
    | StagingRecord
    | ItemsRecord
    | SnapshotRecord
    | StagedBatchRecord
    | AdoptedRecord
    | SnapshotDoneRecord
    | SafeRecord
)
GroupMessage: TypeAlias = UpdateBatch | QueryBatch | Expertise | InPlace
ParcelBody: TypeAlias = (
    QueryAnswer
    | HandoverRequest
    | ItemsSlice
    | SessionsSlice
    | SnapshotRest
    | LogSlice
    | HandoverEnd
)

_encoder: Final = msgspec.msgpack.Encoder()
_group: Final = msgspec.msgpack.Decoder(GroupMessage)
_parcel: Final = msgspec.msgpack.Decoder(ParcelBody)
_entries: Final = msgspec.msgpack.Decoder(tuple[UpdateEntry, ...])

encode_message = _encoder.encode


def update_batch(entries: list[UpdateEntry]) -> bytes:
    """The payload of a batch."""
    return _encoder.encode(UpdateBatch(len(entries), msgspec.Raw(_encoder.encode(entries))))


def entries_of(payload: bytes) -> tuple[UpdateEntry, ...]:
    """The updates in a batch."""
    batch = decode_group(payload)
    if not isinstance(batch, UpdateBatch):
        raise RemoteProtocolError("a payload in the log is not a batch of updates")
    entries: tuple[UpdateEntry, ...] = _decoded(_entries, batch.entries)
    if len(entries) != batch.count:
        raise RemoteProtocolError(f"a batch of {batch.count} updates has {len(entries)}")
    return entries


def decode_group(payload: bytes) -> GroupMessage:
    """What was multicast."""
    message: GroupMessage = _decoded(_group, payload)
    return message


def decode_parcel(body: bytes) -> ParcelBody:
    """What came in a parcel."""
    content: ParcelBody = _decoded(_parcel, body)
    return content


def _decoded(decoder: msgspec.msgpack.Decoder[Any], data: Any) -> Any:
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RemoteProtocolError(f"cannot decode what a server of the store sent: {error}") from (
            error
        )
