"""From an event to its row and back: what of a message stands in a trace.

A row keeps the item, the distances, the size and a digest of the payload, not the payload.  Read
back, the eight bytes of the digest stand in for it: equal where payloads were equal.
"""

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from semcast.terms.events import (
    CRASH,
    DISCARD,
    EXECUTE,
    INSTALL,
    JOIN,
    LEAVE,
    MULTICAST,
    PURGE,
    RECLAIM,
    RECOVER,
    SKIP,
    Event,
)
from semcast.terms.messages import Message
from semcast.traces.distances import Distances, covers_of, distances_covered

_NOTE: Final = {  # what `Event.note` is called among the attributes; otherwise "note"
    PURGE: "where",
    JOIN: "after",
    INSTALL: "primary",
    EXECUTE: "op",
    **dict.fromkeys((DISCARD, SKIP, RECLAIM, LEAVE, CRASH, RECOVER), "reason"),
}


class Row(NamedTuple):
    """The columns that an event fills, but for its run and group."""

    pid: int
    inc: int
    n: int
    ts_ns: int
    view: int
    sender: int | None
    sender_inc: int | None
    seq: int | None
    item: int | None
    dist: int | None
    covers: tuple[int, ...] | None
    by_sender: int | None
    by_inc: int | None
    by_seq: int | None
    position: int | None
    peer: int | None
    client: int | None
    request: int | None
    version: int | None
    size: int | None
    digest: int | None
    buffered: int
    members: tuple[int, ...] | None
    attrs: tuple[tuple[str, str], ...] | None


def row_of(event: Event, distances: Distances, payload: tuple[int, int] | None = None) -> Row:
    """The row of an event; `distances` learns from each multicast.  `payload` is its size and
    digest where the message itself no longer has it."""
    message = event.message
    if message is not None and event.kind == MULTICAST:
        distances.on_multicast(message)
    if message is not None and payload is None:
        payload = len(message.payload), digest(message.payload)
    size, seen = payload or (None, event.digest)
    sender = event.sender if event.sender >= 0 else None
    by_sender, by_inc = _superseding(event)
    return Row(
        pid=event.pid,
        inc=event.inc,
        n=event.n,
        ts_ns=event.ts_ns,
        view=event.view,
        sender=sender,
        sender_inc=None if sender is None else event.sender_inc,
        seq=event.seq or None,
        item=message.item if message else None,
        dist=distances.of(message) if message else None,
        covers=(distances_covered(message) or None) if message else None,
        by_sender=by_sender,
        by_inc=by_inc,
        by_seq=event.by_seq or None,
        position=event.position or None,
        peer=event.peer if event.peer >= 0 else None,
        client=event.client if event.client >= 0 else None,
        request=event.request if event.request >= 0 else None,
        version=event.version if event.version >= 0 else None,
        size=size,
        digest=seen,
        buffered=event.buffered,
        members=event.members or None,
        attrs=_attrs(event) or None,
    )


def event_of(kind: str, row: Mapping[str, Any], relation: str) -> Event:
    """The event of a row, given as column → value; columns an `Event` lacks are passed over."""
    attrs = dict(row["attrs"] or ())
    message, digest = None, row["digest"]
    if digest is not None and row["seq"] is not None:
        message = Message(
            sender=row["sender"],
            seq=row["seq"],
            item=row["item"],
            covers=covers_of(row["covers"], relation),
            keep=attrs.get("never_purge") == "1",
            deps=_deps(attrs.get("deps", "")),
            payload=digest.to_bytes(8, "big", signed=True),
        )
        digest = None
    sender_inc, by_inc = _or(row["sender_inc"], 1), _or(row["by_inc"], 1)
    by_sender = _or(row["by_sender"], -1)
    if (by_sender, by_inc) == (row["sender"], sender_inc):
        by_sender, by_inc = -1, 1
    return Event(
        kind,
        row["pid"],
        sender=_or(row["sender"], -1),
        seq=row["seq"] or 0,
        message=message,
        by_seq=row["by_seq"] or 0,
        note=attrs.get(_NOTE.get(kind, "note"), ""),
        peer=_or(row["peer"], -1),
        buffered=row["buffered"] or 0,
        n=row["n"],
        ts_ns=row["ts_ns"],
        inc=_or(row["inc"], 1),
        sender_inc=sender_inc,
        by_sender=by_sender,
        by_inc=by_inc,
        view=row["view"] or 0,
        members=tuple(row["members"] or ()),
        position=row["position"] or 0,
        client=_or(row["client"], -1),
        request=_or(row["request"], -1),
        version=_or(row["version"], -1),
        digest=digest,
    )


def digest(payload: bytes) -> int:
    """BLAKE2b of a payload: 64 bits, big-endian, signed."""
    return int.from_bytes(blake2b(payload, digest_size=8).digest(), "big", signed=True)


def _superseding(event: Event) -> tuple[int | None, int | None]:
    """Whose message `by_seq` is: the row's sender's, unless the event says otherwise."""
    if not event.by_seq:
        return None, None
    if event.by_sender < 0:
        return event.sender, event.sender_inc
    return event.by_sender, event.by_inc


def _or(value: int | None, otherwise: int) -> int:
    return otherwise if value is None else value


def _attrs(event: Event) -> tuple[tuple[str, str], ...]:
    attrs: list[tuple[str, str]] = []
    if event.note:
        attrs.append((_NOTE.get(event.kind, "note"), event.note))
    if event.message is not None and event.message.keep:
        attrs.append(("never_purge", "1"))
    if event.message is not None and event.message.deps:
        attrs.append(("deps", " ".join(f"{rank}:{seq}" for rank, seq in event.message.deps)))
    return tuple(attrs)


def _deps(text: str) -> tuple[tuple[int, int], ...]:
    pairs = (pair.split(":") for pair in text.split())
    return tuple((int(rank), int(seq)) for rank, seq in pairs)
