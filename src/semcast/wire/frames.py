"""The frame: what one UDP datagram carries, or one length-prefixed record on TCP.

A fixed header in clear, then the body.  The header is all that anybody reads before the body is
authenticated, and it is authenticated along with it.  It names the key, the group, the member
with its incarnation and salt, and a counter that never repeats for these on that channel.
Magic, version, kind, key, group and sender keep their places in every version, so a process that
cannot read a frame can still name its sender.  Hellos stay in version `GREETING`, so every process
can read them.
"""

from collections.abc import Iterable
from hashlib import blake2b
from struct import Struct
from typing import Final, NamedTuple

from semcast.terms.errors import RemoteProtocolError

MAGIC: Final = b"SC"

# The versions that this process reads and speaks.
LOWEST: Final = 1
HIGHEST: Final = 1
GREETING: Final = 1  # for good

# Kinds: what the body is.
DATAGRAM: Final = 0  # one datagram of the protocol, as the codec writes it
FRAGMENT: Final = 1  # a part of one
HELLO: Final = 2  # discovery: who is here
ROSTER: Final = 3  # discovery: who the members are
REPORT: Final = 4  # how a member is doing, for its peers to see
GOODBYE: Final = 5  # a member leaves
PROBE: Final = 6  # is a name in use?
KINDS: Final = 7
GREETINGS: Final = frozenset({HELLO, ROSTER, PROBE})  # before it is known what the others speak

# Channels count apart: what is slow on one is no replay on the other.
UDP: Final = 0
TCP: Final = 1
MULTICAST: Final = 2  # which has a socket of its own, and so a queue
CHANNELS: Final = 3

# magic, version, kind in the low and channel in the high half, key, group, sender, incarnation,
# salt, counter
HEADER: Final = Struct("<2sBBIQQQQQ")
HEADER_BYTES: Final = HEADER.size
CHANNEL_OFFSET: Final = 3
KEY_OFFSET: Final = 4
COUNTER_OFFSET: Final = 40
# Of group, sender, incarnation, salt: by them a member knows its own frames.
SENDER_OFFSET: Final = 8
TAG_BYTES: Final = 16
FRAME_BYTES_MAX: Final = 65_507  # what UDP over IPv4 carries
UNSEALED: Final = 0  # the key id of a frame that is not sealed


class Claim(NamedTuple):
    """Whose frame of another version it is, as its header says; nothing vouches for it."""

    version: int
    group: int
    sender: int


class FrameRejected(RemoteProtocolError):
    """A frame that is not for us; `reason` is the word under which it is counted."""

    def __init__(self, reason: str, text: str, claim: Claim | None = None) -> None:
        super().__init__(text)
        self.reason = reason
        self.claim = claim


class FrameHeader(NamedTuple):
    """The clear part of a frame."""

    kind: int
    channel: int
    key: int
    group: int
    sender: int
    incarnation: int
    salt: int
    counter: int


def spoken() -> tuple[int, int]:
    """The lowest and the highest version that this process speaks."""
    return LOWEST, HIGHEST


def common(spoken: Iterable[tuple[int, int]]) -> int | None:
    """The highest version within all of these ranges, if there is one."""
    lows, highs = zip(*spoken, strict=True)
    lowest, highest = max(lows), min(highs)
    return highest if lowest <= highest else None


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


def pack(header: FrameHeader, version: int = LOWEST) -> bytes:
    """The header's bytes."""
    kind, channel, *rest = header
    return HEADER.pack(MAGIC, version, kind | channel << 4, *rest)


def parse(frame: bytes | memoryview) -> FrameHeader:
    """Read the clear header, and nothing else; raises `FrameRejected`."""
    return FrameHeader._make(fields(frame))


def fields(frame: bytes | memoryview) -> tuple[int, int, int, int, int, int, int, int]:
    """As `parse`, but a plain tuple: making a named one takes longer than all the checks."""
    if len(frame) < HEADER_BYTES:
        raise FrameRejected("short", f"{len(frame)} bytes, a frame has at least {HEADER_BYTES}")
    magic, version, both, key, group, sender, incarnation, salt, counter = HEADER.unpack_from(frame)
    kind, channel = both & 15, both >> 4
    if magic != MAGIC:
        raise FrameRejected("foreign", "not a frame of Semcast")
    if not LOWEST <= version <= HIGHEST and (version != GREETING or kind not in GREETINGS):
        text = f"version {version} of the protocol, this process speaks {LOWEST} to {HIGHEST}"
        raise FrameRejected("version", text, Claim(version, group, sender))
    if kind >= KINDS or channel >= CHANNELS:
        raise FrameRejected("kind", f"frame of unknown kind {both}")
    return kind, channel, key, group, sender, incarnation, salt, counter
