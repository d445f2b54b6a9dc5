"""What is measured of a run, all of it derived from trace events.

Only what happens after the warm-up counts, as in SRM §6.1: "initial measurements in each run are
discarded".  Ratios are shares of what was on its way to a process: delivered, purged before
delivery, or skipped on a notice.
"""

from collections import Counter

from semcast.terms.events import (
    DELIVER,
    DELIVERY,
    MULTICAST,
    PURGE,
    SAFE,
    SKIP,
    STABLE,
    Event,
)


class Meter:
    """Observes one run with one sender, rank `sender`; `start_s` to `end_s` is measured."""

    def __init__(self, sender: int, start_s: float, end_s: float) -> None:
        self.sender = sender
        self.start_ns, self.end_ns = round(start_s * 1e9), round(end_s * 1e9)
        self.sent_at: dict[int, int] = {}
        self.delivered: Counter[int] = Counter()
        self.omitted: Counter[int] = Counter()
        self.latency_ns: Counter[int] = Counter()
        self.reached = {STABLE: 0, SAFE: 0}
        self.agreed = {STABLE: 0, SAFE: 0}
        self.agreed_ns = {STABLE: 0, SAFE: 0}
        self.accepted = 0

    def on_event(self, event: Event) -> None:
        """Count one event."""
        kind, now = event.kind, event.ts_ns
        if kind == MULTICAST:
            self.sent_at[event.seq] = now
        elif kind in self.reached and event.pid == self.sender == event.sender:
            self._agree(kind, event.seq, now)
        if not self.start_ns < now <= self.end_ns:
            return
        if kind == DELIVER:
            self.delivered[event.pid] += 1
            self.latency_ns[event.pid] += now - self.sent_at[event.seq]
        elif kind == MULTICAST:
            self.accepted += 1
        elif kind == SKIP or (kind == PURGE and event.note == DELIVERY):
            self.omitted[event.pid] += 1

    def _agree(self, kind: str, seq: int, now: int) -> None:
        if self.start_ns < now <= self.end_ns:
            for reached in range(self.reached[kind] + 1, seq + 1):
                self.agreed[kind] += 1
                self.agreed_ns[kind] += now - self.sent_at[reached]
        self.reached[kind] = seq

    @property
    def seconds(self) -> float:
        """How long was measured."""
        return (self.end_ns - self.start_ns) / 1e9

    @property
    def accepted_rate(self) -> float:
        """Messages per second that the sender's application got rid of."""
        return self.accepted / self.seconds

    def rate(self, pid: int) -> float:
        """Messages per second delivered at a process."""
        return self.delivered[pid] / self.seconds

    def purged_ratio(self, pid: int) -> float:
        """The share of messages that a process never saw."""
        total = self.delivered[pid] + self.omitted[pid]
        return self.omitted[pid] / total if total else 0.0

    def latency_ms(self, pid: int) -> float:
        """Mean time from multicast to delivery at a process."""
        return self.latency_ns[pid] / self.delivered[pid] / 1e6 if self.delivered[pid] else 0.0

    def row(self, fast: int, slow: int) -> dict[str, float]:
        """What most experiments tell of a fast and a slow receiver."""
        return {
            "accepted_rate": self.accepted_rate,
            "fast_rate": self.rate(fast),
            "slow_rate": self.rate(slow),
            "purged_ratio": self.purged_ratio(slow),
            "fast_purged_ratio": self.purged_ratio(fast),
            "latency_mean_ms": self.latency_ms(slow),
        }

    def agreement_ms(self, kind: str) -> float | None:
        """Mean time until the sender knows its messages to be stable or safe."""
        return self.agreed_ns[kind] / self.agreed[kind] / 1e6 if self.agreed[kind] else None
