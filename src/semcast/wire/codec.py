"""Datagrams as MessagePack, and back from bytes that nobody vouches for.

Whatever bytes come in, `decode` returns a datagram whose numbers make sense or raises
`RemoteProtocolError`; nothing else escapes.  msgspec checks shapes and types, and the numbers of
messages; the pass below checks the rest, so that no machine meets a negative rank, sequence number
0 or a message that obsoletes one before the first.  The usual first transmission is recognised by
the compiled kernel, which checks as much and leaves the messages in their bytes.  That a rank
exists in this group is for the member to check.
Memory is bounded by the datagram: msgspec allocates no more elements than bytes are there, and a
large datagram, whose elements would take many times its size, carries one message.
Rejected: range annotations on every field; a check over several (`first` <= `last`) cannot be
annotated at all, and two ways for one datagram are one too many.
"""

from collections.abc import Callable
from typing import Annotated, Any, Final, TypeVar

import msgspec

from semcast import kernel
from semcast.terms.errors import LocalProtocolError, RemoteProtocolError
from semcast.terms.messages import (
    RANK_MAX,
    SEQ_MAX,
    Ballot,
    Data,
    Datagram,
    Excluded,
    Message,
    Nack,
    Purged,
    SafetyGossip,
    StabilityGossip,
    WindowEmpty,
)
from semcast.terms.pubsub import PubsubDatagram
from semcast.terms.views import ViewDatagram

DATAGRAM_BYTES_MAX: Final = 32 << 20  # the largest message with its annotation; frames fragment it
LARGE_BYTES: Final = 256 << 10  # well over what several messages are put together to
NOTICES_MAX: Final = 1 << 12
SCANS: Final = kernel.BUILD == "compiled"  # Otherwise msgspec is faster.

T = TypeVar("T")


def _batch(messages: Any) -> msgspec.Raw:
    """Messages that are bytes already."""
    if not isinstance(messages, kernel.Batch):
        raise TypeError(f"{type(messages).__name__} is nothing that travels")
    return msgspec.Raw(messages.packed())


_encoder = msgspec.msgpack.Encoder(enc_hook=_batch)
_decoder: msgspec.msgpack.Decoder[Datagram] = msgspec.msgpack.Decoder(Datagram)


class Large(msgspec.Struct, array_like=True, tag=1):
    """A large datagram at a first look, which allocates nothing for what is in its elements."""

    messages: Annotated[tuple[msgspec.Raw, ...], msgspec.Meta(max_length=1)]
    purged: Annotated[tuple[msgspec.Raw, ...], msgspec.Meta(max_length=NOTICES_MAX)] = ()


_large = msgspec.msgpack.Decoder(Large)


def encode(datagram: Datagram | PubsubDatagram | ViewDatagram) -> bytes:
    """The bytes of a datagram; equal datagrams have equal bytes."""
    try:
        data = _encoder.encode(datagram)
    except OverflowError as error:
        raise LocalProtocolError(
            f"{type(datagram).__name__} holds an integer of over 64 bits"
        ) from error
    if len(data) > DATAGRAM_BYTES_MAX:
        raise LocalProtocolError(
            f"{type(datagram).__name__} takes {len(data)} bytes, at most {DATAGRAM_BYTES_MAX} fit"
        )
    return data


def decode(data: bytes) -> Datagram:
    """The datagram in these bytes, or `RemoteProtocolError`."""
    usual = decode_usual(data, 0)
    if usual is not None:
        return usual
    datagram = decode_with(_decoder, data, _large)
    check_datagram(datagram)
    return datagram


def decode_usual(data: bytes, begin: int) -> Data | None:
    """The usual first transmission, if that is what these bytes are from `begin` on."""
    if not SCANS or len(data) > LARGE_BYTES:
        return None
    batch: Any = kernel.scan(data, begin)
    return None if batch is None else Data(batch, safe=batch.safe)


def decode_with(
    decoder: msgspec.msgpack.Decoder[T],
    data: bytes,
    large: msgspec.msgpack.Decoder[Any] | None = None,
) -> T:
    """What the decoder makes of bytes nobody vouches for; if they are many, `large` looks first."""
    if len(data) > DATAGRAM_BYTES_MAX:
        raise RemoteProtocolError(f"{len(data)} bytes, at most {DATAGRAM_BYTES_MAX} are a datagram")
    try:
        if large is not None and len(data) > LARGE_BYTES:
            large.decode(data)
        return decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RemoteProtocolError(f"not a datagram: {error}") from error


def check_datagram(datagram: Datagram) -> None:
    """Refuse a datagram whose numbers cannot be."""
    _CHECKS[type(datagram)](datagram)


def _data(data: Data) -> None:
    if not kernel.is_plain(data.messages):
        for message in data.messages:
            check_message(message)
    for notice in data.purged:
        check_purged(notice)
    if not 0 <= data.answers <= SEQ_MAX:
        raise _refused("answers", data.answers)
    _seq("safe", data.safe)


def check_message(message: Message) -> None:
    """Refuse a message that obsoletes or waits for what cannot be."""
    seq = message.seq
    covers = message.covers
    if covers:
        if isinstance(covers, bytes):
            reach = int.from_bytes(covers, "little").bit_length()
        else:
            reach = max(covers) if min(covers) >= 1 else seq
        if reach >= seq:
            raise RemoteProtocolError(f"covers of message {seq} names no earlier message")
    for rank, last in message.deps:
        check_rank(rank)
        _seq("deps", last)


def check_purged(notice: Purged) -> None:
    """Refuse a notice whose numbers cannot be."""
    check_rank(notice.sender)
    # What supersedes `last` comes after it, and the witness is no earlier than that.
    if not 1 <= notice.first <= notice.last < notice.witness <= SEQ_MAX:
        raise _refused("purged", (notice.first, notice.last, notice.witness))


def _nack(nack: Nack) -> None:
    check_rank(nack.sender)
    for first, last in nack.ranges:
        if not 1 <= first <= last <= SEQ_MAX:
            raise _refused("ranges", (first, last))
    _seq("limit", nack.limit)
    if not 1 <= nack.number <= SEQ_MAX:  # 0 marks a first transmission
        raise _refused("number", nack.number)


def _gossip(gossip: StabilityGossip | SafetyGossip) -> None:
    for ballot in gossip.ballots:
        _ballot(ballot)


def _ballot(ballot: Ballot) -> None:
    check_rank(ballot.sender)
    _seq("frontier", ballot.frontier)
    _seq("candidate", ballot.candidate)
    _seq("agreed", ballot.agreed)
    if len(ballot.voters) * 8 > RANK_MAX + 1:
        raise _refused("voters", f"{len(ballot.voters)} bytes")


def _window_empty(window: WindowEmpty) -> None:
    check_rank(window.sender)
    _seq("last", window.last)


def _excluded(excluded: Excluded) -> None:
    check_rank(excluded.member)


def check_rank(rank: int) -> None:
    """Refuse what is no rank in any group."""
    if not 0 <= rank <= RANK_MAX:
        raise _refused("rank", rank)


def _seq(field: str, seq: int) -> None:
    """A place in a stream that may also be before its first message."""
    if not 0 <= seq <= SEQ_MAX:
        raise _refused(field, seq)


def _refused(field: str, value: object) -> RemoteProtocolError:
    return RemoteProtocolError(f"{field} out of range: {value!r}")


_CHECKS: Final[dict[type, Callable[[Any], None]]] = {
    Data: _data,
    Nack: _nack,
    StabilityGossip: _gossip,
    SafetyGossip: _gossip,
    WindowEmpty: _window_empty,
    Excluded: _excluded,
}
