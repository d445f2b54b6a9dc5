"""How many messages a receiver may ask for at a time, and how long it waits for them.

Rule: slow start, congestion avoidance and timeouts as TCP does [SRM §5.3], so that repair
never overruns a slow link.  The window counts messages, at least what a datagram takes; the
timeout is the smoothed round trip plus four deviations, doubled while nothing comes back.
"""


class Window:
    """Invariant: least <= size <= largest, and timeout_s stays between its bounds."""

    __slots__ = (
        "backoff",
        "deviation_s",
        "largest",
        "least",
        "size",
        "smoothed_s",
        "threshold",
        "timeouts_s",
    )

    def __init__(
        self, least: int, largest: int, timeout_min_s: float, timeout_max_s: float
    ) -> None:
        self.timeouts_s = (timeout_min_s, timeout_max_s)
        self.least = float(least)
        self.largest = float(largest)
        self.size = min(4 * self.least, self.largest)
        self.threshold = self.largest
        self.smoothed_s = 0.0
        self.deviation_s = 0.0
        self.backoff = 1

    def __repr__(self) -> str:
        return f"Window(size={self.size:.1f}, threshold={self.threshold}, {self.timeout_s:.3f} s)"

    @property
    def timeout_s(self) -> float:
        """How long to wait for an answer."""
        lowest, highest = self.timeouts_s
        if not self.smoothed_s:
            return min(highest, 5 * lowest * self.backoff)
        patience = self.smoothed_s + 4 * self.deviation_s
        return min(highest, max(lowest, patience) * self.backoff)

    def on_answer(self, messages: int, round_trip_s: float) -> None:
        """An answer came, after that long; requests are numbered, so there is no doubt to which."""
        self.backoff = 1
        growth = messages if self.size < self.threshold else messages / self.size
        self.size = min(self.largest, self.size + growth)
        if not self.smoothed_s:
            self.smoothed_s, self.deviation_s = round_trip_s, round_trip_s / 2
            return
        error = round_trip_s - self.smoothed_s
        self.smoothed_s += error / 8
        self.deviation_s += (abs(error) - self.deviation_s) / 4

    def on_timeout(self) -> None:
        """Nothing came: assume congestion."""
        self.threshold = max(self.size / 2, 2 * self.least)
        self.size = self.least
        self.backoff = min(self.backoff * 2, 1 << 16)
