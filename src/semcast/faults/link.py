"""What one direction between two members does to datagrams."""

import msgspec

from semcast.faults.bucket import LeakyBucket
from semcast.faults.latency import Constant, Latency
from semcast.faults.limits import finite, positive, within


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
        within("loss", self.loss, 0, 1)
        within("duplicate", self.duplicate, 0, 1)
        within("reorder", self.reorder, 0, 1)
        finite("reorder_s", self.reorder_s)
        if self.bandwidth_bps is not None:
            positive("bandwidth_bps", self.bandwidth_bps)
        finite("queue_bytes", self.queue_bytes)

    def bucket(self) -> LeakyBucket | None:
        """A fresh bucket, or None where bandwidth is unlimited."""
        if self.bandwidth_bps is None:
            return None
        return LeakyBucket(self.bandwidth_bps, self.queue_bytes)

    @property
    def is_random(self) -> bool:
        """Whether anything about it is drawn."""
        faulty = self.loss or self.duplicate or self.reorder
        return bool(faulty) or not isinstance(self.latency, Constant)

    def healed(self) -> "Link":
        """The same link without its faults: latency and bandwidth are what a network is."""
        return msgspec.structs.replace(self, loss=0.0, duplicate=0.0, reorder=0.0)
