"""From an event to its row and back: what of a message stands in a trace.

A row keeps the item, the distances, the size and a digest of the payload, not the payload.  Read
back, the eight bytes of the digest stand in for it: equal where payloads were equal.
"""

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from semcast.terms.events import DISCARD, LEAVE, MULTICAST, PURGE, SKIP, Event
from semcast.terms.messages import Message
from semcast.traces.distances import Distances, covers_of, distances_covered

_NOTE: Final = {PURGE: "where", DISCARD: "reason", SKIP: "reason", LEAVE: "reason"}


class Row(NamedTuple):
    """The columns that an event fills; the others follow from these or are null."""

    pid: int
    n: int
    ts_ns: int
    sender: int | None
    seq: int | None
    item: int | None
    dist: int | None
    covers: tuple[int, ...] | None
    by_seq: int | None
    peer: int | None
    size: int | None
    digest: int | None
    buffered: int
    attrs: tuple[tuple[str, str], ...] | None


def row_of(event: Event, distances: Distances, payload: tuple[int, int] | None = None) -> Row:
    """The row of an event; `distances` learns from each multicast.  `payload` is its size and
    digest where the message itself no longer has it."""
    message = event.message
    if message is not None and event.kind == MULTICAST:
        distances.on_multicast(message)
    if message is not None and payload is None:
        payload = len(message.payload), digest(message.payload)
    size, seen = payload or (None, None)
    return Row(
        pid=event.pid,
        n=event.n,
        ts_ns=event.ts_ns,
        sender=event.sender if event.sender >= 0 else None,
        seq=event.seq or None,
        item=message.item if message else None,
        dist=distances.of(message) if message else None,
        covers=(distances_covered(message) or None) if message else None,
        by_seq=event.by_seq or None,
        peer=event.peer if event.peer >= 0 else None,
        size=size,
        digest=seen,
        buffered=event.buffered,
        attrs=_attrs(event) or None,
    )


def event_of(kind: str, row: Mapping[str, Any], relation: str) -> Event:
    """The event of a row, given as column → value; columns an `Event` lacks are passed over."""
    attrs = dict(row["attrs"] or ())
    message = None
    if row["digest"] is not None:
        message = Message(
            sender=row["sender"],
            seq=row["seq"],
            item=row["item"],
            covers=covers_of(row["covers"], relation),
            keep=attrs.get("never_purge") == "1",
            deps=_deps(attrs.get("deps", "")),
            payload=row["digest"].to_bytes(8, "big", signed=True),
        )
    return Event(
        kind,
        row["pid"],
        sender=-1 if row["sender"] is None else row["sender"],
        seq=row["seq"] or 0,
        message=message,
        by_seq=row["by_seq"] or 0,
        note=attrs.get(_NOTE.get(kind, "note"), ""),
        peer=-1 if row["peer"] is None else row["peer"],
        buffered=row["buffered"] or 0,
        n=row["n"],
        ts_ns=row["ts_ns"],
    )


def digest(payload: bytes) -> int:
    """BLAKE2b of a payload: 64 bits, big-endian, signed."""
    return int.from_bytes(blake2b(payload, digest_size=8).digest(), "big", signed=True)


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
