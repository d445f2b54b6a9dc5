"""The column `dist`: how far back the latest message lies that a message makes obsolete.

The run's relation says what makes a message obsolete: a later one of its item, one that names its
distance in `covers`, any later one, or nothing.  A message marked never-purge never becomes
obsolete.
"""

from array import array
from typing import Final

from semcast.terms.messages import DataMessage
from semcast.terms.relations import ITEM, NOTHING, facts_of

BITMAP_BYTES_MAX: Final = 1 << 16


class DistanceTracker:
    """Learns from each multicast.  A deliver row needs the distance long after its multicast, so
    all are kept: 5 bytes for each message, and one sequence number for each item of a sender."""

    def __init__(self, relation: str) -> None:
        """`relation` may carry a parameter ("bitmap:32"), which is ignored."""
        facts = facts_of(relation)
        self._has_covers = facts.covers is not None
        self._by_item, self._never = facts.replaces == ITEM, facts.replaces == NOTHING
        self._streams: dict[int, _Stream] = {}

    def on_multicast(self, message: DataMessage) -> None:
        """Learn a message; those of a sender come in the order of their sequence numbers."""
        stream = self._streams.setdefault(message.sender, _Stream())
        stream.reach(message.seq)
        stream.never_purged[message.seq] = message.never_purge
        stream.nearest[message.seq] = self._nearest(stream, message)

    def of(self, message: DataMessage) -> int | None:
        """None where it makes nothing obsolete, or where its multicast was not seen."""
        stream = self._streams.get(message.sender)
        if stream is None or message.seq >= len(stream.nearest):
            return None
        return stream.nearest[message.seq] or None

    def _nearest(self, stream: "_Stream", message: DataMessage) -> int:
        if self._has_covers:
            for distance in distances_covered(message):
                if distance < message.seq and not stream.never_purged[message.seq - distance]:
                    return distance
            return 0
        if self._never or (self._by_item and message.item is None):
            return 0
        item = message.item if self._by_item else None  # one for all messages
        distance = message.seq - stream.latest.get(item, message.seq)
        if not message.never_purge:
            stream.latest[item] = message.seq
        return distance


class _Stream:
    """What is known of one sender's messages, by sequence number; place 0 is unused."""

    def __init__(self) -> None:
        self.nearest = array("i")
        self.never_purged = bytearray()
        self.latest: dict[int | None, int] = {}

    def reach(self, seq: int) -> None:
        missing = seq + 1 - len(self.never_purged)
        if missing > 0:
            self.nearest.extend([0] * missing)
            self.never_purged.extend(bytes(missing))


def distances_covered(message: DataMessage) -> tuple[int, ...]:
    """The distances that `covers` names, nearest first."""
    if not message.covers:
        return ()
    if isinstance(message.covers, tuple):
        return tuple(sorted(message.covers))
    # The n-th bit, counted from 1, names the n-th preceding message. [SRM §3.2]
    return tuple(
        8 * place + bit + 1
        for place, byte in enumerate(message.covers)
        for bit in range(8)
        if byte >> bit & 1
    )


def covers_of(distances: list[int] | None, relation: str) -> bytes | tuple[int, ...]:
    """The annotation that names these distances, in the form that the relation uses."""
    covers = facts_of(relation).covers
    if covers is bytes:
        bitmap = sum(1 << (distance - 1) for distance in distances or ())
        return bitmap.to_bytes((bitmap.bit_length() + 7) // 8, "little")
    return tuple(distances or ()) if covers is tuple else b""
