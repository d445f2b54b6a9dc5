"""A rate limit for costly work on behalf of senders that are not authenticated."""


class Allowance:
    """A token bucket: a burst, then so many a second."""

    __slots__ = ("_burst", "_paid_at", "_per_s", "_tokens")

    def __init__(self, per_s: float, burst: int) -> None:
        self._per_s = per_s
        self._burst = burst
        self._tokens: float = burst
        self._paid_at = 0.0

    def take(self, now: float) -> bool:
        """Do it once more; False if it was done too often."""
        earned = (now - self._paid_at) * self._per_s
        tokens = min(self._tokens + earned, self._burst)
        if tokens < 1:
            return False
        self._tokens = tokens - 1
        self._paid_at = now
        return True
