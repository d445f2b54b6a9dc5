"""How many datagrams of repair a receiver may ask for, and how long it waits for them.

Rule: slow start, congestion avoidance and timeouts as TCP does [SRM §5.3], so that repair
never overruns a slow link.  The timeout is the smoothed round trip plus four deviations, doubled
while nothing comes back.
Departs: slow start adds a datagram for each answer, not for each datagram of it, because a narrow
link would lose what doubling asks for.  Past the threshold an answer, which is a whole window, adds
one, as in TCP, but only 1/size while answers wait in a queue.  When a queue overflows, the
last datagram is lost, which is the one that closes the request: there is no fast retransmit as
in TCP, and each overflow costs a timeout.
"""

from math import inf
from typing import Final

QUEUED: Final = 4  # times the shortest round trip: such an answer waited in a queue


class CongestionWindow:
    """Invariant: 1 <= size <= largest, and timeout_s stays between its bounds."""

    __slots__ = (
        "backoff",
        "deviation_s",
        "largest",
        "least_s",
        "size",
        "smoothed_s",
        "threshold",
        "timeouts_s",
    )

    def __init__(self, largest: int, timeout_min_s: float, timeout_max_s: float) -> None:
        self.timeouts_s = (timeout_min_s, timeout_max_s)
        self.largest = float(largest)
        self.size = min(4.0, self.largest)
        self.threshold = self.largest
        self.least_s = inf  # the shortest round trip since the last timeout
        self.smoothed_s = 0.0
        self.deviation_s = 0.0
        self.backoff = 1

    def __repr__(self) -> str:
        name = type(self).__name__
        return f"{name}(size={self.size:.1f}, threshold={self.threshold}, {self.timeout_s:.3f} s)"

    @property
    def timeout_s(self) -> float:
        """How long to wait for an answer."""
        lowest, highest = self.timeouts_s
        if not self.smoothed_s:
            return min(highest, 5 * lowest * self.backoff)
        patience = self.smoothed_s + 4 * self.deviation_s
        return min(highest, max(lowest, patience) * self.backoff)

    def on_answer(self, round_trip_s: float) -> None:
        """An answer came, after that long; requests are numbered, so there is no doubt to which."""
        self.backoff = 1
        self.least_s = min(self.least_s, round_trip_s)
        queues = round_trip_s > QUEUED * self.least_s
        is_careful = queues and self.size >= self.threshold
        # Congestion avoidance adds one datagram per round trip. [SRM §5.3]
        self.size = min(self.largest, self.size + (1 / self.size if is_careful else 1))
        if not self.smoothed_s:
            self.smoothed_s, self.deviation_s = round_trip_s, round_trip_s / 2
            return
        error = round_trip_s - self.smoothed_s
        self.smoothed_s += error / 8
        self.deviation_s += (abs(error) - self.deviation_s) / 4

    def on_timeout(self) -> None:
        """Nothing came: assume congestion."""
        self.threshold = max(self.size / 2, 2.0)
        self.size = 1.0
        self.least_s = inf
        self.backoff = min(self.backoff * 2, 1 << 16)
