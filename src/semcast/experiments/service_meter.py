"""What EXP-7 measures, all of it derived from trace events: answers, skipped updates, backups."""

from itertools import pairwise

from semcast.experiments.experiment import Row
from semcast.terms.events import DELIVER, DELIVERY, INSTALL, MULTICAST, PURGE, REPLY, SKIP, Event


class ServiceMeter:
    """Observes one run; `start_s` to `end_s` is measured.  The primary never changes."""

    def __init__(self, primary: int, slow: int, start_s: float, end_s: float) -> None:
        self.primary, self.slow = primary, slow
        self.start_ns, self.end_ns = round(start_s * 1e9), round(end_s * 1e9)
        self.replied: set[tuple[int, int]] = set()  # requests, however often they were answered
        self.sent = 0  # updates that were multicast
        self.updates: set[int] = set()
        self.delivered = self.omitted = 0  # of the updates, at the slow backup
        self.views: list[tuple[int, int]] = []  # since when there were how many backups

    def on_event(self, event: Event) -> None:
        """Count one event."""
        kind, now = event.kind, event.ts_ns
        if kind == INSTALL and event.pid == self.primary:
            self.views.append((now, len(event.members) - 1))
        elif kind == MULTICAST and event.message is not None and event.message.item is not None:
            self.updates.add(event.seq)
        if not self.start_ns < now <= self.end_ns:
            return
        if kind == REPLY:
            self.replied.add((event.client, event.request))
        elif kind == MULTICAST:
            self.sent += event.seq in self.updates
        elif event.pid == self.slow and event.seq in self.updates:
            self.delivered += kind == DELIVER
            self.omitted += kind == SKIP or (kind == PURGE and event.note == DELIVERY)

    def row(self) -> Row:
        """What was measured."""
        measured_ns = self.end_ns - self.start_ns
        spans = [(backups, span_ns) for backups, span_ns in self._spans() if span_ns > 0]
        on_way = self.delivered + self.omitted
        return {
            "request_rate": len(self.replied) * 1e9 / measured_ns,
            "purged_ratio": self.omitted / on_way if on_way else 0.0,
            "backups_mean": sum(backups * span_ns for backups, span_ns in spans) / measured_ns,
            "backups_min": min((backups for backups, _ in spans), default=None),
            "view_changes": sum(self.start_ns < at <= self.end_ns for at, _ in self.views),
        }

    def _spans(self) -> list[tuple[int, int]]:
        """By view, how many backups it had, and how much of its time was measured."""
        views = [*self.views, (self.end_ns, 0)]
        return [
            (backups, min(until, self.end_ns) - max(since, self.start_ns))
            for (since, backups), (until, _) in pairwise(views)
        ]
