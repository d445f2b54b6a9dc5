"""Bytes ⇄ datagrams."""

from semcast.wire.codec import (
    DATAGRAM_BYTES_MAX,
    GROUP_CODEC,
    PUBSUB_CODEC,
    SERVICE_CODEC,
    STORE_CODEC,
    VIEW_CODEC,
    Codec,
    encode,
)

__all__ = [
    "DATAGRAM_BYTES_MAX",
    "GROUP_CODEC",
    "PUBSUB_CODEC",
    "SERVICE_CODEC",
    "STORE_CODEC",
    "VIEW_CODEC",
    "Codec",
    "encode",
]
