"""Frames in and out of UDP sockets: sealed, opened, fragmented, counted.

One wake-up drains the socket, up to a bound, and then hands over once: the protocol handles what
came as one batch.  After the first datagram, often the only one, the transport asks the kernel
whether another one waits, which costs a third of a failed read.  What the kernel does not take at
once waits, bounded; beyond that it is lost, which the protocol repairs like any other loss.
Rejected: inferring from the time since the last wake-up that nothing else waits.  An event loop
that turns slowly would then read one datagram per turn.
"""

import asyncio
import errno
import logging
import select
import socket
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence, Sized
from contextlib import suppress
from functools import lru_cache
from struct import Struct
from time import monotonic
from typing import Final

from msgspec.structs import replace

from semcast.runtime.transport.addresses import Address
from semcast.terms.errors import RemoteProtocolError
from semcast.wire.fragments import PART_HEADER_BYTES, Reassembler, split
from semcast.wire.frames import (
    FRAGMENT,
    HEADER_BYTES,
    MULTICAST,
    TAG_BYTES,
    UDP,
    Claim,
    FrameRejected,
)
from semcast.wire.sealing import OpenedFrame, Opener, Sealer

log = logging.getLogger("semcast")

DRAIN_MAX: Final = 256  # datagrams per wake-up, and
DRAIN_S: Final = 0.002  # for how long at most: the application must get its turn
UNSENT_FRAMES_MAX: Final = 1024  # frames that the kernel did not take yet
RECEIVE_BYTES: Final = 65_535

# Linux takes and hands over several datagrams of one size, the last may be smaller, as one; the
# socket module does not know how.
SOL_UDP: Final = 17
UDP_SEGMENT: Final = 103
UDP_GRO: Final = 104
SEGMENT: Final = Struct("@H")
CMSG_BYTES: Final = socket.CMSG_SPACE(4)  # what is told beside a train: the size of its datagrams
GSO_SEGMENTS_MAX: Final = 64
GSO_BYTES_MAX: Final = 65_000
# Why the kernel did not send a datagram, by the word under which it is counted.
NOBODY: Final = (
    *(errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.EHOSTDOWN),
    *(errno.ENETUNREACH, errno.ENETDOWN),
)
SEND_ERRORS: Final = {
    **dict.fromkeys(NOBODY, "unreachable"),
    **dict.fromkeys((errno.EPERM, errno.EACCES), "forbidden"),
    errno.EMSGSIZE: "too large",
    errno.ENOBUFS: "no buffer",
}
FAULT_PERIOD_S: Final = 60.0  # between two tracebacks
GSO_UNSUPPORTED: Final = (errno.EINVAL, errno.EIO, errno.ENOPROTOOPT, errno.EOPNOTSUPP)


@lru_cache(maxsize=1024)
def is_loopback(host: str) -> bool:
    """Whether a source address is of this machine."""
    return host.startswith("127.") or host == "::1"


def gso_batches(frames: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    """At least one frame, in pieces that can leave as one each."""
    begin, size = 0, len(frames[0])
    for place in range(1, len(frames)):
        length = place - begin
        if (
            len(frames[place]) > size
            or len(frames[place - 1]) < size
            or length == GSO_SEGMENTS_MAX
            or (length + 1) * size > GSO_BYTES_MAX
        ):
            yield frames[begin:place]
            begin, size = place, len(frames[place])
    yield frames[begin:]


def split_gro(received: bytes, ancillary: Sequence[tuple[int, int, bytes]]) -> list[bytes]:
    """The datagrams of a train."""
    size = int.from_bytes(ancillary[0][2], sys.byteorder)
    return [received[place : place + size] for place in range(0, len(received), size)]


class UdpTransport:
    """Lives as long as the group.  `on_frame` gets what is to be believed, `on_drained` follows."""

    def __init__(
        self,
        sealer: Sealer,
        opener: Opener,
        unicast: socket.socket,
        multicast: tuple[socket.socket | None, tuple[object, ...]] | None,
        frame_bytes: int,
        reassembly: Reassembler,
    ) -> None:
        """`multicast` is the socket that listens to the group, None for a client of the group, and
        where to send to it."""
        self.sealer = sealer
        self.opener = opener
        self.frame_bytes = frame_bytes
        self.body_bytes = frame_bytes - HEADER_BYTES - TAG_BYTES  # what fits into one frame
        self.reads_max = DRAIN_MAX
        self.discarded: Counter[str] = Counter()
        self.datagrams_in = self.datagrams_out = self.bytes_in = self.bytes_out = 0
        self.on_frame: Callable[[OpenedFrame, Address, float], None] = lambda *_: None
        self.on_drained: Callable[[float], None] = lambda _: None
        self.on_claim: Callable[[Claim], None] = lambda _: None  # of another version
        self._loop = asyncio.get_running_loop()
        self._unicast = unicast
        self._listening = [unicast]
        if multicast is not None and multicast[0] is not None:
            self._listening.append(multicast[0])
        self._group = None if multicast is None else multicast[1]
        self._reassembly = reassembly
        self._fragmented = 0
        self._has_gro = False
        self._fault_at = -FAULT_PERIOD_S
        self._has_gso = sys.platform == "linux"  # whether the kernel does, as far as is known
        self._waiting: deque[tuple[bytes, tuple[object, ...]]] = deque()

    def start(self) -> None:
        """Listen."""
        for sock in self._listening:
            if self._has_gso and self.frame_bytes * 2 <= GSO_BYTES_MAX:
                with suppress(OSError):  # An older kernel cuts trains apart by itself.
                    sock.setsockopt(SOL_UDP, UDP_GRO, 1)
                    self._has_gro = True
            poller = select.poll()
            poller.register(sock, select.POLLIN)
            self._loop.add_reader(sock.fileno(), self._drain, sock, poller.poll)

    def close(self) -> None:
        """Stop, and give the ports back."""
        for sock in self._listening:
            self._loop.remove_reader(sock.fileno())
        self._loop.remove_writer(self._unicast.fileno())
        for sock in self._listening:
            sock.close()

    def send(self, kind: int, body: bytes, to: Sequence[tuple[object, ...] | None]) -> None:
        """One body to each address, or to the multicast group where there is none."""
        self.send_all(kind, (body,), to)

    def send_all(
        self, kind: int, bodies: Sequence[bytes], to: Sequence[tuple[object, ...] | None]
    ) -> None:
        """Several bodies, in order, to each address or to the multicast group."""
        if len(bodies) == 1 and len(bodies[0]) <= self.body_bytes and None not in to:
            frame = self.sealer.seal(kind, bodies[0], UDP)
            for address in to:
                assert address is not None
                self._transmit(frame, address)
            return
        channel = MULTICAST if None in to else UDP
        frames = [frame for body in bodies for frame in self._frames(kind, body, channel)]
        for train in gso_batches(frames) if len(frames) > 1 else (frames,):
            for address in to:
                target = self._group if address is None else address
                assert target is not None, "without multicast everyone has an address"
                if len(train) == 1 or not self._transmit_train(train, target):
                    for frame in train:
                        self._transmit(frame, target)

    def send_frame(self, frame: bytes, to: tuple[object, ...] | None) -> None:
        """A frame that was sealed elsewhere, to an address or to the multicast group."""
        target = self._group if to is None else to
        assert target is not None, "without multicast everyone has an address"
        self._transmit(frame, target)

    def _frames(self, kind: int, body: bytes, channel: int) -> list[bytes]:
        if len(body) <= self.body_bytes:
            return [self.sealer.seal(kind, body, channel)]
        self._fragmented = (self._fragmented + 1) & 0xFFFFFFFF
        size = self.body_bytes - PART_HEADER_BYTES
        parts = split(bytes((kind,)) + body, size, self._fragmented)
        return [self.sealer.seal(FRAGMENT, part, channel) for part in parts]

    def _transmit(self, frame: bytes, target: tuple[object, ...]) -> None:
        if self._waiting:
            self._delay(frame, target)
            return
        try:
            self._unicast.sendto(frame, target)
        except BlockingIOError:
            self._loop.add_writer(self._unicast.fileno(), self._send_waiting)
            self._delay(frame, target)
        except OSError as error:
            self.discarded[SEND_ERRORS.get(error.errno or 0, "send error")] += 1
        else:
            self.datagrams_out += 1
            self.bytes_out += len(frame)

    def _transmit_train(self, train: Sequence[bytes], target: tuple[object, ...]) -> bool:
        """Give the kernel several frames at once to cut apart; False if it does not take them."""
        if self._waiting or not self._has_gso:
            return False
        size = SEGMENT.pack(len(train[0]))
        try:
            sent = self._unicast.sendmsg(train, [(SOL_UDP, UDP_SEGMENT, size)], 0, target)
        except OSError as error:
            self._has_gso = error.errno not in GSO_UNSUPPORTED
            return False
        self.datagrams_out += len(train)
        self.bytes_out += sent
        return True

    def _delay(self, frame: bytes, target: tuple[object, ...]) -> None:
        if len(self._waiting) < UNSENT_FRAMES_MAX:
            self._waiting.append((frame, target))
        else:
            self.discarded["unsent"] += 1

    def _send_waiting(self) -> None:
        waiting, self._waiting = self._waiting, deque()
        while waiting and not self._waiting:
            self._transmit(*waiting.popleft())
        self._waiting.extend(waiting)
        if not self._waiting:
            self._loop.remove_writer(self._unicast.fileno())

    def _drain(self, sock: socket.socket, poll: Callable[[int], Sized]) -> None:
        """Read until the socket is empty, up to the bound; `poll` tells whether it is readable."""
        now = monotonic()
        ancillary: Sequence[tuple[int, int, bytes]] = ()
        try:
            for place in range(self.reads_max):
                try:
                    if self._has_gro:
                        received, ancillary, _, address = sock.recvmsg(RECEIVE_BYTES, CMSG_BYTES)
                    else:  # which is quicker
                        received, address = sock.recvfrom(RECEIVE_BYTES)
                except BlockingIOError:
                    break
                except OSError:
                    self.discarded["unreachable"] += 1  # An earlier datagram of ours came back.
                    continue
                self.bytes_in += len(received)
                for frame in split_gro(received, ancillary) if ancillary else (received,):
                    self.datagrams_in += 1
                    self.receive_frame(frame, address[:2], now)
                if self.reads_max == 1 or (place == 0 and not poll(0)):
                    break  # A failed read costs three times as much as to poll.
                if monotonic() - now > DRAIN_S:
                    break
        finally:
            self.on_drained(now)

    def receive_frame(self, frame: bytes, address: Address, now: float) -> bool:
        """Open one frame and hand it over; False if it was discarded, and counted."""
        try:
            opened = self.opener.open(frame, is_loopback(address[0]), now)
            if opened.kind == FRAGMENT:
                whole = self._reassembly.add(opened.sender, opened.body, now)
                if whole is None:
                    return True
                opened = replace(opened, kind=whole[0], body=whole[1:])
            self.on_frame(opened, address, now)
        except FrameRejected as refused:
            if refused.reason != "own":  # Multicasts always come back.
                self.discarded[refused.reason] += 1
            if refused.claim is not None:
                self.on_claim(refused.claim)
            return False
        except Exception as error:
            self.discard(error, now)
            return False
        return True

    def discard(self, error: Exception, now: float) -> None:
        """Count a datagram whose handling raised an error; log one that is ours once a minute.

        The protocol repairs the loss of one datagram, so the rest of the drain goes on.
        """
        if isinstance(error, RemoteProtocolError):
            self.discarded["malformed"] += 1
            return
        self.discarded["faulty"] += 1
        if now - self._fault_at >= FAULT_PERIOD_S:
            self._fault_at = now
            problem = "a datagram was dropped because of an error in semcast; please report it"
            log.error(problem, exc_info=error)
