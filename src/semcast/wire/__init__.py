"""Bytes ⇄ datagrams."""

from semcast.wire.codec import DATAGRAM_BYTES_MAX, RANK_MAX, SEQ_MAX, decode, encode

__all__ = ["DATAGRAM_BYTES_MAX", "RANK_MAX", "SEQ_MAX", "decode", "encode"]
