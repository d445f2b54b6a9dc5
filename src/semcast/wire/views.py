"""Datagrams of groups with views as MessagePack, and back from bytes nobody vouches for.

As `wire.codec` for fixed groups: whatever bytes come in, `decode_view` returns a datagram whose
numbers make sense or raises `RemoteProtocolError`.  That a process is in a view is for the member
to check.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from semcast.terms.errors import RemoteProtocolError
from semcast.terms.messages import SEQ_MAX
from semcast.terms.views import (
    Accepted,
    Consent,
    Decided,
    Departed,
    Enclosed,
    Formed,
    Heartbeat,
    Invite,
    Life,
    Prepare,
    Promise,
    Proposal,
    Propose,
    Reached,
    Refused,
    StateChunk,
    View,
    ViewDatagram,
    WantState,
)
from semcast.wire.codec import Large, check_datagram, decode_usual, decode_with

PID_MAX: Final = 2**31 - 1
ENCLOSED: Final = b"\x93\x21"  # an array of three, the first the tag of `Enclosed`
NUMBERS: Final = {b"\xcc": 1, b"\xcd": 2, b"\xce": 4}  # bytes that follow, in MessagePack

_decoder: msgspec.msgpack.Decoder[ViewDatagram] = msgspec.msgpack.Decoder(ViewDatagram)


class _LargeEnclosed(msgspec.Struct, array_like=True, tag=33):
    """A large datagram of a view at a first look."""

    view: int
    datagram: Large


_large = msgspec.msgpack.Decoder(_LargeEnclosed | StateChunk)


def decode_view(data: bytes) -> ViewDatagram:
    """The datagram in these bytes, or `RemoteProtocolError`."""
    usual = _decode_usual(data)
    if usual is not None:
        return usual
    datagram = decode_with(_decoder, data, _large)
    _CHECKS[type(datagram)](datagram)
    return datagram


def _decode_usual(data: bytes) -> Enclosed | None:
    """A first transmission in a view whose number is small, which nearly all are."""
    if data[:2] != ENCLOSED:
        return None
    if data[2:3] < b"\x80":
        view, begin = data[2:3], 3
    elif data[2:3] in NUMBERS:
        begin = 3 + NUMBERS[data[2:3]]
        view = data[3:begin]
    else:
        return None
    inside = decode_usual(data, begin)
    return None if inside is None else Enclosed(int.from_bytes(view, "big"), inside)


def _numbers(**fields: int) -> None:
    for name, value in fields.items():
        if not 0 <= value <= SEQ_MAX:
            raise RemoteProtocolError(f"{name} out of range: {value!r}")


def _seqs(name: str, seqs: tuple[int, ...]) -> None:
    for seq in seqs:
        _numbers(**{name: seq})


def _lives(lives: tuple[Life, ...]) -> None:
    for pid, inc in lives:
        if not 0 <= pid <= PID_MAX:
            raise RemoteProtocolError(f"pid out of range: {pid!r}")
        _numbers(inc=inc)
    if len({pid for pid, _ in lives}) < len(lives):
        raise RemoteProtocolError("members: one process twice")


def _view(view: View) -> None:
    _numbers(view=view.id)
    _lives(view.members)
    _seqs("bases", view.bases)
    if not 0 < len(view.members) == len(view.bases):
        raise RemoteProtocolError(f"view {view.id}: {len(view.members)} members")


def _proposal(proposal: Proposal) -> None:
    _view(proposal.next)
    _seqs("cut", proposal.cut)
    _lives(proposal.stateless)


def _heartbeat(heartbeat: Heartbeat) -> None:
    _numbers(inc=heartbeat.inc, view=heartbeat.view)
    _lives(heartbeat.expels)
    _numbers(held=heartbeat.held, delivered=heartbeat.delivered)


def _enclosed(enclosed: Enclosed) -> None:
    _numbers(view=enclosed.view)
    check_datagram(enclosed.datagram)


def _promise(promise: Promise) -> None:
    _numbers(view=promise.view, ballot=promise.ballot, sent=promise.sent)
    _numbers(accepted_ballot=promise.accepted_ballot)
    _seqs("frontier", promise.frontier)
    if promise.accepted is not None:
        _proposal(promise.accepted)
    if (promise.accepted is None) != (promise.accepted_ballot == 0):
        raise RemoteProtocolError(f"promise: accepted in ballot {promise.accepted_ballot}")


def _propose(propose: Propose) -> None:
    _numbers(view=propose.view, ballot=propose.ballot)
    _proposal(propose.proposal)
    _seqs("holders", propose.holders)


def _decided(decided: Decided) -> None:
    _numbers(view=decided.view, holder=decided.holder)
    _proposal(decided.proposal)


def _invite(invite: Invite) -> None:
    _numbers(view=invite.view)
    _lives(invite.members)


def _chunk(chunk: StateChunk) -> None:
    _numbers(view=chunk.view, offset=chunk.offset, total=chunk.total)
    if chunk.offset + len(chunk.data) > chunk.total:
        raise RemoteProtocolError(f"state: {len(chunk.data)} bytes at {chunk.offset}")


_CHECKS: Final[dict[type, Callable[[Any], None]]] = {
    Heartbeat: _heartbeat,
    Enclosed: _enclosed,
    Reached: lambda r: _numbers(view=r.view, held=r.held, delivered=r.delivered),
    Prepare: lambda p: _numbers(view=p.view, ballot=p.ballot),
    Promise: _promise,
    Propose: _propose,
    Accepted: lambda a: _numbers(view=a.view, ballot=a.ballot),
    Decided: _decided,
    Refused: lambda r: _numbers(view=r.view, promised=r.promised),
    Departed: lambda d: _numbers(inc=d.inc, view=d.view),
    Invite: _invite,
    Consent: lambda c: _numbers(view=c.view, base=c.base),
    Formed: lambda f: _view(f.view),
    WantState: lambda w: _numbers(view=w.view, offset=w.offset),
    StateChunk: _chunk,
}
