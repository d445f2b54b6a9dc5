"""Bytes ⇄ datagrams."""

from semcast.wire.codec import DATAGRAM_BYTES_MAX, decode, encode
from semcast.wire.pubsub import decode_pubsub
from semcast.wire.views import decode_view

__all__ = [
    "DATAGRAM_BYTES_MAX",
    "decode",
    "decode_pubsub",
    "decode_view",
    "encode",
]
