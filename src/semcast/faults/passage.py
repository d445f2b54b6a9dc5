"""A link in use: what becomes of one datagram, whatever clock tells the time.

The queue in front of the bandwidth comes first, then loss, then duplication; each copy draws its
own latency and whether it is held back.  Equal links, generators and sizes at equal times have
equal arrivals, so the draws of a seed do not depend on who carries the datagrams.
"""

from collections import Counter
from random import Random

from semcast.faults.link import Link


class Passage:
    """One direction between two members, from its first datagram on."""

    __slots__ = ("_bucket", "_link", "_rng")

    def __init__(self, link: Link, rng: Random) -> None:
        self._link = link
        self._bucket = link.bucket()
        self._rng = rng

    def __repr__(self) -> str:
        return f"Passage(link={self._link}, bucket={self._bucket})"

    def carry(self, size_bytes: int, now: float, dropped: Counter[str]) -> list[float]:
        """When each copy of a datagram arrives; without any, the reason is counted."""
        link, rng = self._link, self._rng
        leaves = now
        if self._bucket is not None:
            admitted = self._bucket.admit(size_bytes, now)
            if admitted is None:
                dropped["queue"] += 1
                return []
            leaves = admitted
        if link.loss and rng.random() < link.loss:
            dropped["loss"] += 1
            return []
        arrivals = []
        for _ in range(2 if link.duplicate and rng.random() < link.duplicate else 1):
            arrives = leaves + link.latency.draw(rng)
            if link.reorder and rng.random() < link.reorder:
                arrives += link.reorder_s * rng.random()
            arrivals.append(arrives)
        return arrivals

    def heal(self) -> None:
        """End loss, duplication and reordering; what waits for the bandwidth stays there."""
        self._link = self._link.healed()
