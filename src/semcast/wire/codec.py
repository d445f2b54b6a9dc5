"""Datagrams as MessagePack, and back from untrusted bytes: one codec per family.

Whatever bytes come in, `Codec.decode` returns a datagram whose numbers make sense or raises
`RemoteProtocolError`; nothing else escapes.  msgspec checks shapes, types and the bounds that stand
in the types; the checks beside the definitions of the datagrams (`terms`) cover what a type cannot
say, such as a first number that is above the last.  The usual first transmission is recognised by
the compiled kernel, which checks as much and leaves the messages in their bytes.  That a rank or a
process exists in this group is for the machine to check.
Memory is bounded by the datagram: msgspec allocates no more elements than bytes are there.  In a
group a large datagram, whose elements would take many times its size, carries one message or one
piece of state; in publish/subscribe every list is bounded by its type.
"""

from collections.abc import Callable
from typing import Annotated, Any, Final, Generic, TypeVar

import msgspec

from semcast import kernel
from semcast.terms.errors import LocalProtocolError, RemoteProtocolError
from semcast.terms.ids import SEQ_MAX
from semcast.terms.messages import CHECKS, Checks, Data, Datagram
from semcast.terms.pubsub import PUBSUB_CHECKS, PubsubDatagram
from semcast.terms.service import Reply, Request, ServiceDatagram
from semcast.terms.store import Parcel, StoreDatagram, StoreReply, StoreRequest
from semcast.terms.views import VIEW_CHECKS, Stamped, StateChunk, ViewEnvelope

DATAGRAM_BYTES_MAX: Final = 32 << 20  # the largest message with its annotation; frames fragment it
LARGE_BYTES: Final = 256 << 10  # well over what several messages are put together to
NOTICES_MAX: Final = 1 << 12
SCANS: Final = kernel.BUILD == "compiled"  # Otherwise msgspec is faster.
STAMPED: Final = b"\x94\x2f"  # an array of four, the first the tag of `Stamped`
ENCLOSED: Final = b"\x93\x21"  # an array of three, the first the tag of `ViewEnvelope`
NUMBERS: Final = {0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8}  # bytes that follow, in MessagePack

T = TypeVar("T")


def _packed(messages: Any) -> msgspec.Raw:
    """A run, which mostly is bytes already."""
    if not isinstance(messages, kernel.Run):
        raise TypeError(f"cannot encode {type(messages).__name__} in a datagram")
    return msgspec.Raw(messages.to_msgpack())


_encoder = msgspec.msgpack.Encoder(enc_hook=_packed)


def encode(datagram: msgspec.Struct) -> bytes:
    """The bytes of a datagram of any family; equal datagrams have equal bytes."""
    try:
        data = _encoder.encode(datagram)
    except OverflowError as error:
        raise LocalProtocolError(
            f"{type(datagram).__name__} contains an integer of more than 64 bits"
        ) from error
    if len(data) > DATAGRAM_BYTES_MAX:
        raise LocalProtocolError(
            f"{type(datagram).__name__} has {len(data)} bytes, maximum is {DATAGRAM_BYTES_MAX}"
        )
    return data


class Codec(Generic[T]):
    """The datagrams of one family.  `datagrams` is their type, `checks` what that cannot say.

    `usual` recognises the usual first transmission.  `large` is the type that a large datagram must
    have at a first look, which allocates nothing for what is in its elements.
    """

    def __init__(
        self,
        datagrams: Any,
        checks: Checks,
        *,
        usual: Callable[[bytes], T | None] | None = None,
        large: Any = None,
    ) -> None:
        self.datagrams = datagrams
        self._decoder: msgspec.msgpack.Decoder[T] = msgspec.msgpack.Decoder(datagrams)
        self._checks = checks
        self._usual = usual
        self._large = None if large is None else msgspec.msgpack.Decoder(large)

    encode = staticmethod(encode)

    def decode(self, data: bytes) -> T:
        """The datagram in these bytes, or `RemoteProtocolError`."""
        if self._usual is not None and (usual := self._usual(data)) is not None:
            return usual
        size = len(data)
        if size > DATAGRAM_BYTES_MAX:
            raise RemoteProtocolError(f"datagram has {size} bytes, maximum is {DATAGRAM_BYTES_MAX}")
        try:
            if self._large is not None and size > LARGE_BYTES:
                self._large.decode(data)
            datagram = self._decoder.decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise RemoteProtocolError(f"cannot decode the datagram: {error}") from error
        check = self._checks.get(type(datagram))
        if check is not None:
            check(datagram)
        return datagram


def decode_data_run(data: bytes, begin: int = 0) -> Data | None:
    """The usual first transmission, if that is what these bytes are from `begin` on."""
    if not SCANS or len(data) > LARGE_BYTES:
        return None
    found: Any = kernel.parse_run(data, begin)
    return None if found is None else Data(found[0], (), 0, found[1])


def decode_usual_in_view(data: bytes) -> Stamped | None:
    """The usual first transmission in a view, if that is what these bytes are."""
    if data[:2] != STAMPED:
        return None
    lineage, place = _number(data, 2)
    inc, place = _number(data, place)
    if data[place : place + 2] != ENCLOSED:
        return None
    view, place = _number(data, place + 2)
    if min(lineage, inc, view) < 0 or max(inc, view) > SEQ_MAX:
        return None
    inside = decode_data_run(data, place)
    return None if inside is None else Stamped(lineage, inc, ViewEnvelope(view, inside))


def _number(data: bytes, place: int) -> tuple[int, int]:
    """An integer in MessagePack and where it ends; -1 if there is none, or not all of it."""
    first = data[place] if place < len(data) else 0xFF
    if first < 0x80:
        return first, place + 1
    end = place + 1 + NUMBERS.get(first, 0)
    if first not in NUMBERS or end > len(data):
        return -1, len(data)
    return int.from_bytes(data[place + 1 : end], "big"), end


class _Large(msgspec.Struct, array_like=True, tag=1):
    """A large datagram of a group at a first look."""

    messages: Annotated[tuple[msgspec.Raw, ...], msgspec.Meta(max_length=1)]
    purged: Annotated[tuple[msgspec.Raw, ...], msgspec.Meta(max_length=NOTICES_MAX)] = ()


class _LargeViewEnvelope(msgspec.Struct, array_like=True, tag=33):
    """The same in a view."""

    view: int
    datagram: _Large


class _LargeStamped(msgspec.Struct, array_like=True, tag=47):
    """The same with its stamp, or a piece of state."""

    lineage: int
    inc: int
    datagram: _LargeViewEnvelope | StateChunk


GROUP_CODEC: Final[Codec[Datagram]] = Codec(Datagram, CHECKS, usual=decode_data_run, large=_Large)
VIEW_CODEC: Final[Codec[Stamped]] = Codec(
    Stamped, VIEW_CHECKS, usual=decode_usual_in_view, large=_LargeStamped
)
SERVICE_CODEC: Final[Codec[ServiceDatagram]] = Codec(
    ServiceDatagram,
    VIEW_CHECKS,
    usual=decode_usual_in_view,
    large=_LargeStamped | Request | Reply,
)
STORE_CODEC: Final[Codec[StoreDatagram]] = Codec(
    StoreDatagram,
    VIEW_CHECKS,
    usual=decode_usual_in_view,
    large=_LargeStamped | StoreRequest | StoreReply | Parcel,
)
PUBSUB_CODEC: Final[Codec[PubsubDatagram]] = Codec(PubsubDatagram, PUBSUB_CHECKS)
