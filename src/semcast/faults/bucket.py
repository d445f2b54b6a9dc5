"""A link of finite bandwidth with a bounded queue [SRB §3.2].

The bucket leaks `bandwidth_bps`; what does not fit in front of the leak waits.  A datagram is
refused when more than `queue_bytes` wait ahead of it, so no datagram waits longer than
`queue_bytes` takes to leak, and an idle link takes a datagram of any size.
Rejected: a queue of datagrams.  One number, the time at which the bucket runs empty, holds the
same information because service is first come, first served.
"""


class LeakyBucket:
    """Invariant: the bytes that wait at `now` are (empty_at - now) * bandwidth / 8, or none."""

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
