"""The frame: what one UDP datagram carries, or one length-prefixed record on TCP.

A fixed header in clear, then the body.  The header is all that anybody reads before the body is
authenticated, and it is authenticated along with it.  It names the key, the group, the member
with its incarnation, and a counter that never repeats for that incarnation on that channel.
"""

from hashlib import blake2b
from struct import Struct
from typing import Final, NamedTuple

from semcast.terms.errors import RemoteProtocolError

VERSION: Final = 1
MAGIC: Final = b"SC"

# Kinds: what the body is.
WHOLE: Final = 0  # one datagram of the protocol, as the codec writes it
FRAGMENT: Final = 1  # a part of one
HELLO: Final = 2  # discovery: who is here
ROSTER: Final = 3  # discovery: who the members are
REPORT: Final = 4  # how a member is doing, for its peers to see
GOODBYE: Final = 5  # a member leaves
KINDS: Final = 6

# Channels count apart: what is slow on one is no replay on the other.
UDP: Final = 0
TCP: Final = 1
MULTICAST: Final = 2  # which has a socket of its own, and so a queue
CHANNELS: Final = 3

# magic, version, kind in the low and channel in the high half, key, group, sender, incarnation,
# counter
HEADER: Final = Struct("<2sBBIQQQQ")
HEADER_BYTES: Final = HEADER.size
CHANNEL_PLACE: Final = 3
KEY_PLACE: Final = 4
COUNTER_PLACE: Final = 32
MARK_PLACE: Final = 8  # of group, sender and incarnation: by them a member knows its own frames
TAG_BYTES: Final = 16
FRAME_BYTES_MAX: Final = 65_507  # what UDP over IPv4 carries
CLEAR: Final = 0  # the key id of a frame that is not sealed


class Refused(RemoteProtocolError):
    """A frame that is not for us; `reason` is the word under which it is counted."""

    def __init__(self, reason: str, told: str) -> None:
        super().__init__(told)
        self.reason = reason


class Header(NamedTuple):
    """The clear part of a frame."""

    kind: int
    channel: int
    key: int
    group: int
    sender: int
    incarnation: int
    counter: int


def hash64(name: str, kind: bytes) -> int:
    """The number under which a name travels; never 0."""
    digest = blake2b(name.encode(), digest_size=8, person=kind).digest()
    return int.from_bytes(digest, "little") or 1


def group_id(name: str) -> int:
    """The number of a group."""
    return hash64(name, b"semcast-group")


def member_id(name: str) -> int:
    """The number of a member."""
    return hash64(name, b"semcast-member")


def pack(header: Header) -> bytes:
    """The header's bytes."""
    kind, channel, *rest = header
    return HEADER.pack(MAGIC, VERSION, kind | channel << 4, *rest)


def parse(frame: bytes | memoryview) -> Header:
    """Read the clear header, and nothing else; raises `Refused`."""
    return Header._make(fields(frame))


def fields(frame: bytes | memoryview) -> tuple[int, int, int, int, int, int, int]:
    """As `parse`, but a plain tuple: making a named one takes longer than all the checks."""
    if len(frame) < HEADER_BYTES:
        raise Refused("short", f"{len(frame)} bytes, a frame has at least {HEADER_BYTES}")
    magic, version, kind, key, group, sender, incarnation, counter = HEADER.unpack_from(frame)
    if magic != MAGIC:
        raise Refused("foreign", "not a frame of Semcast")
    if version != VERSION:
        raise Refused("version", f"version {version} of the protocol, this is {VERSION}")
    if kind & 15 >= KINDS or kind >> 4 >= CHANNELS:
        raise Refused("kind", f"frame of unknown kind {kind}")
    return kind & 15, kind >> 4, key, group, sender, incarnation, counter
