"""One direction between two members: when each datagram arrives, or why it is dropped.

`Link` is the description, `LinkState` the same link in use.  A datagram first passes the cut, then
waits for the bandwidth, then may be lost or duplicated; each copy draws its own latency and whether
it is held back.  The order of the draws is fixed: equal links, generators, sizes and times give
equal arrivals, so a seed has the same faults in the simulated network and in the live relay.
Rejected: a queue of datagrams in front of the bandwidth.  One number, the time at which the queue
runs empty, holds the same information because service is first come, first served.
"""

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Final

import msgspec

from semcast.faults.latency import Constant, Latency
from semcast.terms.limits import check_finite, check_positive, check_range

UDP_IP_BYTES: Final = 28  # headers, which take bandwidth too
UNUSED: Final = Random(0)  # A generator takes 2.5 KB; links that draw nothing share this one.


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """One direction between two members.

    A datagram first leaks through the bandwidth (None: infinitely fast), where at most
    `queue_bytes` may wait ahead of it; then it is lost, doubled (each copy draws its own
    latency), or, with probability `reorder`, held back by up to `reorder_s` more.  Latencies are
    drawn one by one, so a random latency reorders too, as UDP may.
    """

    latency: Latency = Constant(0.001)
    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    reorder_s: float = 0.01
    bandwidth_bps: float | None = None
    queue_bytes: int = 131_072

    def __post_init__(self) -> None:
        check_range("loss", self.loss, 0, 1)
        check_range("duplicate", self.duplicate, 0, 1)
        check_range("reorder", self.reorder, 0, 1)
        check_finite("reorder_s", self.reorder_s)
        if self.bandwidth_bps is not None:
            check_positive("bandwidth_bps", self.bandwidth_bps)
        check_finite("queue_bytes", self.queue_bytes)

    @property
    def is_random(self) -> bool:
        """Whether anything about it is drawn."""
        faulty = self.loss or self.duplicate or self.reorder
        return bool(faulty) or not isinstance(self.latency, Constant)

    def without_faults(self) -> "Link":
        """The same link without its faults: latency and bandwidth are what a network is."""
        return msgspec.structs.replace(self, loss=0.0, duplicate=0.0, reorder=0.0)


class LeakyBucket:
    """A finite bandwidth with a bounded queue [SRB §3.2].

    A datagram is refused when more than `queue_bytes` wait ahead of it, so no datagram waits
    longer than `queue_bytes` takes to leak, and an idle link takes a datagram of any size.
    Invariant: the bytes that wait at `now` are (empty_at - now) * bandwidth / 8, or none.
    """

    __slots__ = ("empty_at", "queue_s", "s_per_byte")

    def __init__(self, bandwidth_bps: float, queue_bytes: int) -> None:
        self.s_per_byte = 8.0 / bandwidth_bps
        self.queue_s = queue_bytes * self.s_per_byte
        self.empty_at = 0.0

    def __repr__(self) -> str:
        return f"LeakyBucket(empty_at={self.empty_at})"

    def admit(self, size_bytes: int, now: float) -> float | None:
        """When the datagram's last byte has left, or None when the queue overflowed."""
        start = self.empty_at
        if start < now:
            start = now
        elif start - now > self.queue_s:
            return None
        self.empty_at = start + size_bytes * self.s_per_byte
        return self.empty_at


class LinkState:
    """A link in use, from its first datagram on.

    Invariant: if `plain_s` is not negative, every datagram arrives once, `plain_s` after it was
    sent.  The simulated network then skips `transmit`, which is slower.
    """

    __slots__ = ("bucket", "is_cut", "link", "plain_s", "rng")

    def __init__(self, link: Link, rng: Random = UNUSED) -> None:
        bandwidth = link.bandwidth_bps
        self.bucket = None if bandwidth is None else LeakyBucket(bandwidth, link.queue_bytes)
        self.rng = rng
        self.use(link)

    def __repr__(self) -> str:
        return f"LinkState({self.link}, bucket={self.bucket}, is_cut={self.is_cut})"

    def use(self, link: Link, *, is_cut: bool = False) -> None:
        """Change what happens to later datagrams; those in the queue stay there."""
        self.link = link
        self.is_cut = is_cut
        latency = link.latency
        is_plain = self.bucket is None and not (is_cut or link.is_random)
        self.plain_s = latency.s if is_plain and isinstance(latency, Constant) else -1.0

    def transmit(self, size_bytes: int, now: float, dropped: Counter[str]) -> Sequence[float]:
        """When each copy of a datagram arrives; if none does, count the reason in `dropped`."""
        if self.is_cut:
            dropped["cut"] += 1
            return ()
        if self.bucket is not None:
            admitted = self.bucket.admit(size_bytes, now)
            if admitted is None:
                dropped["queue"] += 1
                return ()
            now = admitted
        link, rng = self.link, self.rng
        if link.loss and rng.random() < link.loss:
            dropped["loss"] += 1
            return ()
        if link.duplicate and rng.random() < link.duplicate:
            return (self._arrival(now), self._arrival(now))
        return (self._arrival(now),)

    def _arrival(self, leaves: float) -> float:
        link, rng = self.link, self.rng
        arrives = leaves + link.latency.draw(rng)
        if link.reorder and rng.random() < link.reorder:
            arrives += link.reorder_s * rng.random()
        return arrives
