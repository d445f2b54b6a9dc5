"""Bodies too large for one frame: cut into parts, and put together again.

Parts may come in any order, twice, and between the parts of other bodies.  A part that is lost is
not asked for: the body is then lost as a whole, which the protocol above repairs like any loss.
Of each sender at most `bodies_max` are remembered, until no part came for `age_max_s`, and their
parts take at most `sender_bytes_max`; beyond that the one that waited longest for a part is
dropped, and counted if it was not complete.  All senders together have room for
`SENDERS_AT_ONCE` of them, which bounds unknown senders, too; beyond that, the sender that was
silent for longest loses its parts.
Rejected: setting a body's bytes aside when its first part comes; a part of a few bytes could then
ask for the whole bound.
"""

from struct import Struct
from typing import Final

from semcast.terms.errors import LocalProtocolError, RemoteProtocolError

PART: Final = Struct("<IHH")  # number of the body, index of the part, count of parts
PART_HEADER_BYTES: Final = PART.size
PARTS_MAX: Final = 65_535
SENDERS_AT_ONCE: Final = 16  # that may have all they are allowed
PART_COST_BYTES: Final = 128  # what keeping a part takes besides its bytes


def split(body: bytes, size: int, number: int) -> list[bytes]:
    """The parts of a body: `size` bytes of it in each but the last, behind the part's header.

    `number` tells the sender's bodies apart: 32 bits, used again only when long forgotten.
    """
    starts = range(0, len(body), size)
    if len(starts) > PARTS_MAX:
        raise LocalProtocolError(
            f"message needs {len(starts)} parts of {size} bytes, maximum is {PARTS_MAX}"
        )
    return [
        PART.pack(number, index, len(starts)) + body[start : start + size]
        for index, start in enumerate(starts)
    ]


class _PartialBody:
    """A body on its way.  Once complete it holds no parts and only tells late ones apart."""

    __slots__ = ("count", "heard_at", "is_complete", "parts", "size")

    def __init__(self, count: int, now: float) -> None:
        self.count = count
        self.heard_at = now  # when its latest part came
        self.parts: dict[int, bytes] = {}
        self.size = 0
        self.is_complete = False


class _Sender:
    """The bodies of one sender, the longest unheard first, and what their parts take."""

    __slots__ = ("bodies", "held_bytes")

    def __init__(self) -> None:
        self.bodies: dict[int, _PartialBody] = {}
        self.held_bytes = 0

    def keep(self, number: int, index: int, part: bytes, now: float) -> None:
        """Hold a part until the rest is there."""
        body = self.bodies[number] = self.bodies.pop(number)  # now the latest heard
        body.heard_at = now
        body.parts[index] = part
        body.size += len(part)
        self.held_bytes += len(part) + PART_COST_BYTES

    def take(self, body: _PartialBody) -> bytes:
        """The whole body, of which nothing is held from now on."""
        whole = b"".join(body.parts[index] for index in range(body.count))
        self._release(body)
        body.is_complete = True
        return whole

    def drop(self, number: int) -> bool:
        """Forget a body; True if it was not complete."""
        body = self.bodies.pop(number)
        self._release(body)
        return not body.is_complete

    def _release(self, body: _PartialBody) -> None:
        self.held_bytes -= body.size + len(body.parts) * PART_COST_BYTES
        body.parts, body.size = {}, 0


class Reassembler:
    """Puts parts together, for every sender apart; `dropped` counts the bodies given up."""

    def __init__(
        self,
        body_bytes_max: int,
        sender_bytes_max: int,
        bodies_max: int = 64,
        age_max_s: float = 2.0,
        senders_max: int = 256,
    ) -> None:
        self.body_bytes_max = body_bytes_max
        self.senders_max = senders_max
        self.bytes_max = SENDERS_AT_ONCE * sender_bytes_max
        self.sender_bytes_max = sender_bytes_max
        self.bodies_max = bodies_max
        self.age_max_s = age_max_s
        self.dropped = 0
        self.held_bytes = 0  # what the parts of incomplete bodies take, of all senders
        self._senders: dict[int, _Sender] = {}  # the latest heard comes last

    def __repr__(self) -> str:
        return f"Reassembler(held_bytes={self.held_bytes}, dropped={self.dropped})"

    def add(self, sender: int, part: bytes, now: float) -> bytes | None:
        """The body that this part completes, if it does; raises `RemoteProtocolError`."""
        if len(part) <= PART_HEADER_BYTES:
            raise RemoteProtocolError(f"part of {len(part)} bytes, which contains no data")
        number, index, count = PART.unpack_from(part)
        if index >= count or count > self.body_bytes_max:
            raise RemoteProtocolError(f"part number out of range: {index} of {count}")
        source = self._senders[sender] = self._senders.pop(sender, _Sender())
        before = source.held_bytes
        try:
            return self._add(source, number, index, count, part, now)
        finally:
            self.held_bytes += source.held_bytes - before
            self._drop_unheard()

    def _drop_unheard(self) -> None:
        """Drop what is held of senders, the longest unheard first, until the bounds hold."""
        while len(self._senders) > self.senders_max or self.held_bytes > self.bytes_max:
            gone = self._senders.pop(next(iter(self._senders)))
            self.held_bytes -= gone.held_bytes
            self.dropped += sum(not body.is_complete for body in gone.bodies.values())

    def _add(
        self, source: _Sender, number: int, index: int, count: int, part: bytes, now: float
    ) -> bytes | None:
        self._trim(source, now)
        body = source.bodies.get(number)
        if body is None:
            body = source.bodies[number] = _PartialBody(count, now)
        elif body.count != count:
            raise RemoteProtocolError(
                f"part {index} of {count}, but earlier parts said {body.count}"
            )
        if body.is_complete or index in body.parts:
            return None
        if body.size + len(part) - PART_HEADER_BYTES > self.body_bytes_max:
            self.dropped += source.drop(number)
            raise RemoteProtocolError(f"body of more than {self.body_bytes_max} bytes")
        source.keep(number, index, part[PART_HEADER_BYTES:], now)
        if len(body.parts) == count:
            return source.take(body)
        self._trim(source, now)
        return None

    def _trim(self, source: _Sender, now: float) -> None:
        """Drop bodies, the longest unheard first, until all bounds hold."""
        bodies = source.bodies
        while bodies:
            oldest = next(iter(bodies))
            if (
                now - bodies[oldest].heard_at <= self.age_max_s
                and len(bodies) <= self.bodies_max
                and source.held_bytes <= self.sender_bytes_max
            ):
                return
            self.dropped += source.drop(oldest)
