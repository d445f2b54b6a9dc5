"""Purge safety: no process drops a message that another one may still need.

Only obsolete messages may be purged; from a retransmission buffer only if the newer message is
safe.  A claim that messages are safe or stable, and a reclaim, must be true of the real frontiers
of all processes at that moment, not only of what the claiming process had heard.

Rule: TP4, TP5 [SRB §2.3]; purge_d, purge_r [SRM §4.3]; S-SM buffers and purges at the sender only.
Departs: safe counts frontiers, messages reached in order or skipped on a notice; counting what
arrived out of order breaks FIFO Completeness when the sender crashes.  A gap is passed only on a
notice that the message was purged, so a frontier that jumps is a violation too.
"""

from collections.abc import Mapping

from semcast.specs.history import EventHandler, History
from semcast.specs.violations import ViolationLog
from semcast.terms.events import (
    DELIVERY,
    MULTICAST,
    PURGE,
    RECEIVE,
    RECLAIM,
    RETRANSMISSION,
    SAFE,
    SKIP,
    STABLE,
    Event,
)
from semcast.terms.ids import Rank, Seq


class PurgeSafety:
    """One per run.  Invariant: `_frontier[s][p]` is how far p got, in order, in the stream of s."""

    __slots__ = (
        "_f",
        "_frontier",
        "_history",
        "_ledger",
        "_purged",
        "_reached",
        "_replicated",
        "_safe",
        "checked",
    )

    def __init__(self, history: History, ledger: ViolationLog, *, f: int, replicated: bool) -> None:
        """`replicated`: processes other than the sender keep a message for recovery."""
        n = history.n
        self._history = history
        self._ledger = ledger
        self.checked = 0  # purges, skips, reclaims, and claims that something is safe or stable
        self._f = f
        self._replicated = replicated
        self._frontier: list[list[Seq]] = [[0] * n for _ in range(n)]
        self._reached: list[dict[Rank, Event]] = [{} for _ in range(n)]  # oldest step first
        self._safe: list[Seq] = [0] * n  # the safe frontier, as of when it was last needed
        self._purged: list[set[Seq]] = [set() for _ in range(n)]

    def handlers(self) -> Mapping[str, EventHandler]:
        """The events it judges or learns from."""
        return {
            MULTICAST: self.on_multicast,
            RECEIVE: self.on_receive,
            SKIP: self.on_skip,
            PURGE: self.on_purge,
            SAFE: self.on_safe,
            STABLE: self.on_stable,
            RECLAIM: self.on_stable,
        }

    def on_multicast(self, event: Event) -> None:
        """A sender has reached what it multicasts."""
        row = self._frontier[event.sender]
        if event.seq != row[event.pid] + 1:
            self._report_step(event)
        self._advance(event, row)

    def on_receive(self, event: Event) -> None:
        """A frontier moves by one, and never past the sender's own."""
        row = self._frontier[event.sender]
        if event.seq > row[event.sender]:
            self._report_step(event)  # Nobody multicast it; it reaches nothing.
        elif event.pid != event.sender:  # Else its own copy, which the multicast counted.
            if event.seq != row[event.pid] + 1:
                self._report_step(event)
            self._advance(event, row)

    def on_skip(self, event: Event) -> None:
        """A notice exists only of what was purged for good somewhere."""
        self.checked += 1
        if event.seq not in self._purged[event.sender]:
            what = f"skip of {event.sender}:{event.seq}, which no process had purged"
            self._report(event, what, self._history.multicast[event.sender].get(event.seq))
        self.on_receive(event)

    def on_purge(self, event: Event) -> None:
        """Obsolete, by a message that is here (delivery) or safe (retransmission)."""
        self.checked += 1
        sender, seq, by_seq = event.sender, event.seq, event.by_seq
        if not self._history.relation.obsoletes(sender, seq, by_seq):
            self._report_purge(event, "which does not make it obsolete")
        if event.note == DELIVERY:
            if self._frontier[sender][event.pid] < by_seq:  # TP4 [SRB §2.3]
                self._report_purge(event, "which it had not received")
        elif event.note == RETRANSMISSION:
            self._purged[sender].add(seq)
            if self._replicated:
                if not self._is_safe(sender, by_seq):  # TP5 [SRB §2.3]
                    self._report_purge(event, f"which was not safe: {self._reach(sender)}")
            elif event.pid != sender:
                self._report_purge(event, "but only the sender keeps messages for recovery")
        else:
            self._report_purge(event, f"from no known buffer ({event.note!r})")

    def on_safe(self, event: Event) -> None:
        """At more than f processes the frontier has reached it."""
        self.checked += 1
        if not self._is_safe(event.sender, event.seq):
            what = f"claim that {event.sender}:{event.seq} is safe: {self._reach(event.sender)}"
            self._report(event, what, *self._reached[event.sender].values())

    def on_stable(self, event: Event) -> None:
        """Every process that nobody has forgotten has reached it."""
        self.checked += 1
        row, seq = self._frontier[event.sender], event.seq
        if min(row) >= seq:
            return
        forgotten = self._history.forgotten
        behind = [pid for pid in range(len(row)) if row[pid] < seq and pid not in forgotten]
        if behind:
            what = f"{event.kind} up to {event.sender}:{seq}: {self._reach(event.sender)}"
            self._report(event, what, *self._reached[event.sender].values())

    def _advance(self, event: Event, row: list[Seq]) -> None:
        pid = event.pid
        if event.seq > row[pid]:
            row[pid] = event.seq
            reached = self._reached[event.sender]
            reached.pop(pid, None)  # Reinserted, so that evidence comes in order of occurrence.
            reached[pid] = event

    def _is_safe(self, sender: Rank, seq: Seq) -> bool:
        if self._safe[sender] < seq:  # Frontiers only grow, so what was safe remains so.
            self._safe[sender] = sorted(self._frontier[sender])[-1 - self._f]
        return self._safe[sender] >= seq

    def _reach(self, sender: Rank) -> str:
        row = ", ".join(str(seq) for seq in self._frontier[sender])
        return f"the frontiers of processes 0 to {self._history.n - 1} are {row} and f = {self._f}"

    def _report_purge(self, event: Event, why: str) -> None:
        sender, by_seq = event.sender, event.by_seq
        what = f"purge of {sender}:{event.seq} ({event.note}) for {sender}:{by_seq}, {why}"
        evidence = [self._history.multicast[sender].get(seq) for seq in (event.seq, by_seq)]
        self._report(event, what, *evidence)

    def _report_step(self, event: Event) -> None:
        sender, pid = event.sender, event.pid
        row, reached = self._frontier[sender], self._reached[sender]
        what = f"{event.kind} of {sender}:{event.seq} when its frontier was {sender}:{row[pid]}"
        if pid != sender:
            what = f"{what} and the sender's {sender}:{row[sender]}"
        self._report(event, what, reached.get(pid))

    def _report(self, event: Event, what: str, *before: Event | None) -> None:
        self._ledger.add("purge_safety", f"process {event.pid}: {what}", *before, event)
