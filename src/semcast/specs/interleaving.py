"""One order of all processes' events, for monitors, from what each process recorded of itself.

Guarantees: each process's own order is kept, and every event comes after its causes if any order
allows that.  The causes are those that purge safety asks for: a message is received, delivered or
skipped after it was multicast, skipped after a purge, purged or said to be safe or stable after
the frontiers got there.
Idea: these conditions only ever become true, so whatever is due may be taken at once, the earliest
first; when nothing is due, no order exists, and what is taken then is a violation to be judged.  A
claim goes first: a process may be mistaken in what it claims, not in what it received.

Assumes: clocks of two processes differ by at most `skew_ns`, beyond which no event may wait for
another.  Without a bound, purge safety is judged as the processes themselves could: wrong is only
what no execution with these local orders makes right.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from math import inf
from typing import Final

from semcast.terms.events import (
    DELIVER,
    LEAVE,
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
from semcast.terms.messages import Rank, Seq

_CLAIMS: Final = frozenset({PURGE, SAFE, STABLE, RECLAIM})


class Interleaving:
    """Iterates once over the events of processes 0 to n - 1, each of them in local order.

    `replicated`: a purge from retransmission waits until the newer message is safe.
    """

    def __init__(
        self,
        streams: Sequence[Sequence[Event]],
        f: int,
        *,
        replicated: bool,
        skew_ns: float = inf,
    ) -> None:
        n = len(streams)
        self._streams = streams
        # A clock that went back does not take its process back.
        self._times = [list(accumulate((e.ts_ns for e in stream), max)) for stream in streams]
        self._place = [0] * n
        self._f = f
        self._replicated = replicated
        self._skew_ns = skew_ns
        self._frontier: list[list[Seq]] = [[0] * n for _ in range(n)]  # [sender][pid]
        self._purged: list[set[Seq]] = [set() for _ in range(n)]
        self._forgotten: set[Rank] = set()
        self._is_due: dict[str, Callable[[Event], bool]] = {
            RECEIVE: self._is_multicast,
            DELIVER: self._is_multicast,
            SKIP: self._is_purged,
            PURGE: self._may_purge,
            SAFE: self._is_safe,
            STABLE: self._is_stable,
            RECLAIM: self._is_stable,
        }

    def __iter__(self) -> Iterator[Event]:
        while (pid := self._next()) is not None:
            event = self._streams[pid][self._place[pid]]
            self._place[pid] += 1
            self._learn(event)
            yield event

    def _next(self) -> Rank | None:
        """Whose event comes next."""
        heads = [
            (self._times[pid][place], pid)
            for pid, place in enumerate(self._place)
            if place < len(self._streams[pid])
        ]
        if not heads:
            return None
        heads.sort()
        latest = heads[0][0] + self._skew_ns
        waiting = [pid for time, pid in heads if time <= latest]
        for pid in waiting:
            event = self._streams[pid][self._place[pid]]
            is_due = self._is_due.get(event.kind)
            if is_due is None or is_due(event):
                return pid
        for pid in waiting:
            if self._streams[pid][self._place[pid]].kind in _CLAIMS:
                return pid
        return waiting[0]

    def _learn(self, event: Event) -> None:
        kind = event.kind
        if kind in (MULTICAST, RECEIVE, SKIP):
            row = self._frontier[event.sender]
            row[event.pid] = max(row[event.pid], event.seq)
        elif kind == PURGE and event.note == RETRANSMISSION:
            self._purged[event.sender].add(event.seq)
        elif kind == LEAVE:
            self._forgotten.add(event.peer)

    def _is_multicast(self, event: Event) -> bool:
        return self._frontier[event.sender][event.sender] >= event.seq

    def _is_purged(self, event: Event) -> bool:
        return event.seq in self._purged[event.sender]

    def _may_purge(self, event: Event) -> bool:
        if event.note != RETRANSMISSION or not self._replicated:
            return True  # It takes only what the process itself has received.
        return self._have_reached(event.sender, event.by_seq)

    def _is_safe(self, event: Event) -> bool:
        return self._have_reached(event.sender, event.seq)

    def _have_reached(self, sender: Rank, seq: Seq) -> bool:
        return sum(reached >= seq for reached in self._frontier[sender]) > self._f

    def _is_stable(self, event: Event) -> bool:
        row, forgotten = self._frontier[event.sender], self._forgotten
        return all(reached >= event.seq or pid in forgotten for pid, reached in enumerate(row))
