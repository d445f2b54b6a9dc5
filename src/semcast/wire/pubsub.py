"""Datagrams of publish/subscribe groups as MessagePack, and back from bytes nobody vouches for.

As `wire.codec` for groups of members: whatever bytes come in, `decode_pubsub` returns a datagram
whose numbers make sense or raises `RemoteProtocolError`.  Spans are sorted and disjoint, and every
list is bounded by its type, so a datagram costs no more to handle than to send.  Whether a process
exists in this group is for the participant to check.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from semcast.terms.errors import RemoteProtocolError
from semcast.terms.messages import SEQ_MAX
from semcast.terms.pubsub import (
    LEFT,
    MEMBER,
    Absent,
    Ack,
    Census,
    Collected,
    Digest,
    Entry,
    Gap,
    Gone,
    Goodbye,
    Gossip,
    Heard,
    Heartbeat,
    Holds,
    Join,
    Lasts,
    Leave,
    Members,
    Part,
    Publication,
    PubsubDatagram,
    Repair,
    Request,
    Resync,
    Span,
    Welcome,
)
from semcast.wire.codec import check_message, check_purged, check_rank, decode_with

SIGNATURE_MAX: Final = 2**64 - 1

_decoder: msgspec.msgpack.Decoder[PubsubDatagram] = msgspec.msgpack.Decoder(PubsubDatagram)


def decode_pubsub(data: bytes) -> PubsubDatagram:
    """The datagram in these bytes, or `RemoteProtocolError`."""
    datagram = decode_with(_decoder, data)
    _CHECKS[type(datagram)](datagram)
    return datagram


def _within(field: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise RemoteProtocolError(f"{field} out of range: {value!r}")


def _repair(repair: Repair) -> None:
    for message in repair.messages:
        check_message(message)
    for notice in repair.purged:
        check_purged(notice)
    _within("load", repair.load, 0, 100)


def _publication(publication: Publication) -> None:
    for message in publication.messages:
        check_message(message)


def _heartbeat(heartbeat: Heartbeat) -> None:
    check_rank(heartbeat.sender)
    _within("last", heartbeat.last, 1, SEQ_MAX)


def _span(span: Span, after: int = 0) -> None:
    if not after < span[0] <= span[1] <= SEQ_MAX:
        raise RemoteProtocolError(f"span out of range: {span!r}")


def _part(part: Part) -> None:
    check_rank(part.sender)
    after = 0
    for span in part.spans:
        _span(span, after)
        after = span[1]


def _parts(parts: tuple[Part, ...]) -> None:
    for part in parts:
        _part(part)
        if not part.spans:
            raise RemoteProtocolError(f"no span of {part.sender}")


def _streams(streams: tuple[Heard, ...]) -> None:
    for heard in streams:
        check_rank(heard.sender)
        _within("last", heard.last, 0, SEQ_MAX)
        _within("frontier", heard.frontier, 0, heard.last)


def _fresh(fresh: int) -> None:
    _within("fresh", fresh, -1, SEQ_MAX)


def _entry(entry: Entry) -> None:
    check_rank(entry.pid)
    _within("status", entry.status, MEMBER, LEFT)
    _fresh(entry.fresh)


def _gossip(gossip: Gossip) -> None:
    _fresh(gossip.fresh)
    _within("members", gossip.members, 0, SIGNATURE_MAX)
    _within("heard", gossip.heard, 0, SIGNATURE_MAX)
    _parts(gossip.lacks)
    _streams(gossip.streams)


def _digest(digest: Digest) -> None:
    _within("members", digest.members, 0, SIGNATURE_MAX)
    _parts(digest.holds)


def _lasts(lasts: Lasts) -> None:
    _fresh(lasts.fresh)
    _within("members", lasts.members, 0, SIGNATURE_MAX)
    _streams(lasts.streams)


def _members(members: Members) -> None:
    check_rank(members.first)
    check_rank(members.last)
    for entry in members.entries:
        _entry(entry)


def _welcome(welcome: Welcome) -> None:
    _fresh(welcome.fresh)
    _streams(welcome.lasts)


def _leave(leave: Leave) -> None:
    _fresh(leave.fresh)
    _within("members", leave.members, 0, SIGNATURE_MAX)


def _ack(ack: Ack) -> None:
    _part(ack.part)
    _fresh(ack.inc)


def _holds(holds: Holds) -> None:
    _span(holds.span)
    _part(holds.part)


_CHECKS: Final[dict[type, Callable[[Any], None]]] = {
    Publication: _publication,
    Repair: _repair,
    Heartbeat: _heartbeat,
    Request: lambda d: _parts(d.lacks),
    Gossip: _gossip,
    Digest: _digest,
    Collected: lambda d: _parts(d.parts),
    Lasts: _lasts,
    Members: _members,
    Join: lambda d: _fresh(d.fresh),
    Welcome: _welcome,
    Leave: _leave,
    Goodbye: lambda d: _fresh(d.fresh),
    Ack: _ack,
    Census: lambda d: _span(d.span),
    Holds: _holds,
    Gap: lambda d: _part(d.part),
    Gone: lambda d: _part(d.part),
    Resync: lambda d: _fresh(d.inc),
    Absent: lambda d: _part(d.part),
}
