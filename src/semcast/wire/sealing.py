"""Seals and opens frames: only holders of a key can make or read them, and each counts once.

Every sealer has a key of its own, derived from the group's, the sender, its incarnation and a salt
drawn at its start.  The nonce is the channel and a counter: none comes back under one key, even if
a cloned disk or a clock that was set back gives out an incarnation twice.  Nothing in a frame
counts before it is authenticated, neither its place in the replay window nor the sender in its
header: forged frames change nothing.  Holders of the group's key trust each other: any of them
could speak as another.
Bounds: a member costs a window per channel and a cipher per key; of senders that are not members
the latest `UNKNOWN_SENDERS_MAX` are remembered, and new ones cost at most `UNKNOWN_SENDERS_PER_S`
derivations. Rejected: a random nonce, whose collisions limit how many frames a key may seal.
"""

import os
import secrets
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from struct import Struct
from time import monotonic_ns, time_ns
from typing import Final, NamedTuple

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from semcast.terms.errors import ConfigError, unknown_value
from semcast.wire.allowance import Allowance
from semcast.wire.forks import Ancestry, forked
from semcast.wire.frames import (
    CHANNEL_OFFSET,
    CHANNELS,
    COUNTER_OFFSET,
    GREETING,
    GREETINGS,
    HEADER_BYTES,
    HELLO,
    KEY_OFFSET,
    KINDS,
    LOWEST,
    UDP,
    UNSEALED,
    FrameHeader,
    FrameRejected,
    fields,
    group_id,
    pack,
)
from semcast.wire.replay_window import ReplayWindow

CIPHERS: Final[dict[str, type[AESGCM] | type[ChaCha20Poly1305]]] = {
    "aes-256-gcm": AESGCM,
    "chacha20-poly1305": ChaCha20Poly1305,
}
SECRET_BYTES: Final = 32
KEY_ID_MAX: Final = 2**32 - 1

UNKNOWN_SENDERS_MAX: Final = 1024
UNKNOWN_SENDERS_PER_S: Final = 2000.0  # about 2 % of a core
UNKNOWN_SENDERS_BURST: Final = 512
CLONES_MAX: Final = 64
PREFIXES_MAX: Final = 4 * UNKNOWN_SENDERS_MAX  # then all are found out again

_NONCE: Final = Struct("<IQ")  # channel, counter
_IDENTITY: Final = Struct("<QQQQ")  # group, sender, incarnation, salt
_KEY: Final = Struct("<I")
_COUNTER: Final = Struct("<Q")
_LABEL: Final = b"semcast sender key 1 "

Cipher = AESGCM | ChaCha20Poly1305


class Key(msgspec.Struct, frozen=True):
    """A secret that the members of a group share, and the number by which frames name it."""

    id: int
    cipher: str
    secret: bytes

    def __post_init__(self) -> None:
        if not 1 <= self.id <= KEY_ID_MAX:
            raise ConfigError(f"id: {self.id} is not within 1..{KEY_ID_MAX}")
        if self.cipher not in CIPHERS:
            raise unknown_value("cipher", self.cipher, CIPHERS)
        if len(self.secret) != SECRET_BYTES:
            raise ConfigError(f"secret: {len(self.secret)} bytes, must be {SECRET_BYTES}")

    def __repr__(self) -> str:
        return f"Key(id={self.id}, cipher={self.cipher!r})"


class Identity(NamedTuple):
    """Of what makes frames: no two sealers have the same."""

    group: int
    sender: int
    incarnation: int
    salt: int


def fresh_salt() -> int:
    """64 bits that no other start of any process has.

    A machine that was cloned a moment ago may draw what its twin draws; so the clocks go in too.
    """
    entropy = b"%d %d %d" % (time_ns(), monotonic_ns(), os.getpid())
    drawn = blake2b(secrets.token_bytes(32) + entropy, digest_size=8, person=b"semcast-salt")
    return int.from_bytes(drawn.digest(), "little")


def derive(key: Key, identity: tuple[int, int, int, int]) -> Cipher:
    """The cipher of one sealer."""
    info = _LABEL + key.cipher.encode() + _IDENTITY.pack(*identity)
    secret = HKDF(SHA256(), SECRET_BYTES, salt=None, info=info).derive(key.secret)
    return CIPHERS[key.cipher](secret)


class Sealer:
    """Makes the frames of one incarnation of one member.

    Invariant: no counter is used twice on a channel.  So a sealer is never copied or shared by
    threads, and refuses to work on the other side of a fork.
    """

    def __init__(
        self,
        group: str,
        sender: int,
        incarnation: int,
        key: Key | None,
        salt: int | None = None,
    ) -> None:
        """`salt` is for tests: whoever gives one twice repeats nonces."""
        drawn = fresh_salt() if salt is None else salt
        self.identity = Identity(group_id(group), sender, incarnation, drawn)
        self.version = LOWEST  # until it is known what the others speak
        self._forks = Ancestry.forks
        self._counters = [0] * CHANNELS
        self.use(key)

    def __repr__(self) -> str:
        return f"Sealer(key={self._key}, counters={self._counters})"

    @property
    def sender_bytes(self) -> bytes:
        """Bytes that all frames of this sender, and no others, have at `SENDER_OFFSET`."""
        return _IDENTITY.pack(*self.identity)

    def use(self, key: Key | None) -> None:
        """Seal with this key from now on; without one, frames are in clear."""
        self._key = UNSEALED if key is None else key.id
        self._cipher = None if key is None else derive(key, self.identity)
        self.speak(self.version)

    def speak(self, version: int) -> None:
        """Make frames of this version from now on; greetings stay in theirs."""
        self.version = version
        # Headers up to the counter, by channel and kind: to pack all of one takes three times as
        # long as to append to it.
        self._beginnings = [
            [self._beginning(kind, channel) for kind in range(KINDS)] for channel in range(CHANNELS)
        ]

    def _beginning(self, kind: int, channel: int) -> bytes:
        version = GREETING if kind in GREETINGS else self.version
        return pack(FrameHeader(kind, channel, self._key, *self.identity, 0), version)[
            :COUNTER_OFFSET
        ]

    def seal(self, kind: int, body: bytes, channel: int = UDP) -> bytes:
        """The frame of this body, ready to be sent; raises LocalProtocolError after a fork."""
        if self._forks != Ancestry.forks:  # The parent goes on with these counters.
            raise forked("seal")
        self._counters[channel] = counter = self._counters[channel] + 1
        header = self._beginnings[channel][kind] + _COUNTER.pack(counter)
        if self._cipher is None:
            return header + body
        return header + self._cipher.encrypt(_NONCE.pack(channel, counter), body, header)


class SenderState:
    """What is known of one process; made once it is admitted, or a frame of it is believed."""

    __slots__ = ("ciphers", "incarnation", "salt", "windows")

    def __init__(self, incarnation: int, salt: int) -> None:
        self.incarnation = incarnation
        self.salt = salt
        self.ciphers: dict[int, Cipher] = {}
        self.windows = tuple(ReplayWindow() for _ in range(CHANNELS))


class OpenedFrame(msgspec.Struct, frozen=True, gc=False):
    """A frame to be believed: authenticated and new, or, without keys, from this machine."""

    kind: int
    sender: int
    incarnation: int
    body: bytes
    salt: int = 0


def _decrypted(cipher: Cipher, key: int, channel: int, counter: int, frame: bytes) -> bytes:
    header, body = frame[:HEADER_BYTES], frame[HEADER_BYTES:]
    try:
        return cipher.decrypt(_NONCE.pack(channel, counter), body, header)
    except InvalidTag:
        raise FrameRejected("forged", f"not sealed with key {key}") from None


class Opener:
    """Reads the frames of one group for the member whose sealer has this identity."""

    def __init__(self, own: Identity, keys: Sequence[Key]) -> None:
        self._group, self._own, *_ = own
        self._life = own.incarnation, own.salt
        self._members: dict[int, SenderState] | None = None  # None: anybody may send
        # The latest heard comes last.
        self._strangers: OrderedDict[int, SenderState] = OrderedDict()
        self._for_strangers = Allowance(UNKNOWN_SENDERS_PER_S, UNKNOWN_SENDERS_BURST)
        self._clones: set[tuple[int, int, int]] = set()  # sender, incarnation, salt
        # How frames begin that were believed: up to the counter those of one sender are alike.
        self._known_prefixes: dict[bytes, tuple[int, int, SenderState]] = {}
        self.use(keys)

    def __repr__(self) -> str:
        members = "anybody" if self._members is None else len(self._members)
        return f"Opener(keys={[*self._keys]}, members={members}, strangers={len(self._strangers)})"

    def use(self, keys: Sequence[Key]) -> None:
        """Accept frames sealed with any of these keys, and no others; none: frames in clear."""
        self._keys = {key.id: key for key in keys}
        self._known_prefixes.clear()
        for peer in (*(self._members or {}).values(), *self._strangers.values()):
            peer.ciphers.clear()

    def admit(self, members: Iterable[tuple[int, int, int]]) -> None:
        """From now on only these senders, each with its incarnation and salt, may send more than
        hellos."""
        known = {
            (sender, peer.incarnation, peer.salt): peer
            for peers in (self._members or {}, self._strangers)
            for sender, peer in peers.items()
        }
        self._known_prefixes.clear()
        self._members = {
            sender: known.get((sender, incarnation, salt)) or SenderState(incarnation, salt)
            for sender, incarnation, salt in members
        }

    def open(self, frame: bytes, is_loopback: bool, now: float) -> OpenedFrame:
        """What the frame says, or `FrameRejected` with the word under which it is counted."""
        known = self._known_prefixes.get(frame[:COUNTER_OFFSET])
        if known is None or len(frame) < HEADER_BYTES or not (is_loopback or self._keys):
            return self._open_unusual(frame, is_loopback, now)
        kind, sender, peer = known
        is_member = self._members is not None and self._members.get(sender) is peer
        if not is_member and self._strangers.get(sender) is not peer:  # It has a new life.
            return self._open_unusual(frame, is_loopback, now)
        (counter,) = _COUNTER.unpack_from(frame, COUNTER_OFFSET)
        channel, body = frame[CHANNEL_OFFSET] >> 4, frame[HEADER_BYTES:]
        if self._keys:
            (key,) = _KEY.unpack_from(frame, KEY_OFFSET)
            body = _decrypted(peer.ciphers[key], key, channel, counter, frame)
        if not is_member:
            self._strangers.move_to_end(sender)
        if not peer.windows[channel].take(counter):
            raise FrameRejected("replay", f"frame {counter} again, or too late to tell")
        return OpenedFrame(kind, sender, peer.incarnation, body, peer.salt)

    def _open_unusual(self, frame: bytes, is_loopback: bool, now: float) -> OpenedFrame:
        """Remember how it begins, if it is to be believed."""
        opened, peer = self._open(frame, is_loopback, now)
        if len(self._known_prefixes) >= PREFIXES_MAX:
            self._known_prefixes.clear()
        self._known_prefixes[frame[:COUNTER_OFFSET]] = opened.kind, opened.sender, peer
        return opened

    def _open(self, frame: bytes, is_loopback: bool, now: float) -> tuple[OpenedFrame, SenderState]:
        """Also who sent it."""
        try:
            kind, channel, key, group, sender, incarnation, salt, counter = fields(frame)
        except FrameRejected as refused:
            if refused.claim is None or refused.claim.group == self._group:
                raise
            group = refused.claim.group  # What others speak is not for us to tell.
        if group != self._group:
            raise FrameRejected("group", f"frame of another group, {group:016x}")
        if sender == self._own and (incarnation, salt) == self._life:
            raise FrameRejected("own", "our own frame came back")
        if key not in self._keys:
            self._check_clear(key, is_loopback)
        peer = self._peer(kind, sender, incarnation, salt)
        cipher = None
        body = frame[HEADER_BYTES:]
        if key != UNSEALED:
            cipher = peer.ciphers.get(key) if peer else None
            if cipher is None:
                cipher = self._derive(key, (group, sender, incarnation, salt), peer, now)
            body = _decrypted(cipher, key, channel, counter, frame)
        if peer is None:
            peer = self._welcome(sender, incarnation, salt)
            if cipher is not None:
                peer.ciphers[key] = cipher
        elif self._strangers.get(sender) is peer:
            self._strangers.move_to_end(sender)
        if not peer.windows[channel].take(counter):
            raise FrameRejected("replay", f"frame {counter} again, or too late to tell")
        if sender == self._own:  # only now: before, anybody could have written our name there
            raise FrameRejected("namesake", "of another process by our name")
        return OpenedFrame(kind, sender, incarnation, body, salt), peer

    def _check_clear(self, key: int, is_loopback: bool) -> None:
        if key != UNSEALED:
            raise FrameRejected("key", f"sealed with unknown key {key}")
        if self._keys:
            raise FrameRejected("clear", "in clear, though this group is sealed")
        if not is_loopback:
            raise FrameRejected("clear", "in clear, and not from this machine")

    def _peer(self, kind: int, sender: int, incarnation: int, salt: int) -> SenderState | None:
        """Who claims to have sent it; None if no such process is known."""
        newest = 0
        if self._members is not None:
            member = self._members.get(sender)
            if member is not None and member.incarnation == incarnation:
                return member if member.salt == salt else None
            if kind != HELLO:
                raise FrameRejected("stranger", f"{sender:016x} is no member")
            newest = member.incarnation if member is not None else 0
        stranger = self._strangers.get(sender)
        if stranger is not None:
            if stranger.incarnation == incarnation:
                return stranger if stranger.salt == salt else None
            newest = max(newest, stranger.incarnation)
        if incarnation < newest:
            raise FrameRejected("replay", f"of an earlier incarnation of {sender:016x}")
        return None

    def _derive(
        self, key: int, identity: tuple[int, int, int, int], peer: SenderState | None, now: float
    ) -> Cipher:
        """A cipher not met before.  Only for a known peer is it kept before it proved right."""
        if peer is None:
            if identity[1:] in self._clones:  # which was authenticated, and is refused for good
                raise self._clone(*identity[1:])
            if not self._for_strangers.take(now):
                raise FrameRejected("flood", "too many senders never heard of")
        cipher = derive(self._keys[key], identity)
        if peer is not None:
            peer.ciphers[key] = cipher
        return cipher

    def _welcome(self, sender: int, incarnation: int, salt: int) -> SenderState:
        """Remember a sender that is no member, in place of its earlier incarnation."""
        for known in ((self._members or {}).get(sender), self._strangers.get(sender)):
            if known is not None and known.incarnation == incarnation:
                raise self._clone(sender, incarnation, salt)
        peer = self._strangers[sender] = SenderState(incarnation, salt)
        self._strangers.move_to_end(sender)
        if len(self._strangers) > UNKNOWN_SENDERS_MAX:
            self._strangers.popitem(last=False)
        return peer

    def _clone(self, sender: int, incarnation: int, salt: int) -> FrameRejected:
        """A second process with an incarnation that another one has: the first stays."""
        if len(self._clones) >= CLONES_MAX:
            self._clones.clear()
        self._clones.add((sender, incarnation, salt))
        if sender == self._own:
            return FrameRejected("namesake", "of another process by our name and incarnation")
        return FrameRejected("clone", f"of a second process by the incarnation of {sender:016x}")
