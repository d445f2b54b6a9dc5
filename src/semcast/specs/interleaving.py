"""One order of all processes' events, for monitors, from the events that each process recorded.

Guarantees: each process's own order is kept, and every event comes after its causes if any order
allows that.  The causes are those that the monitors look for: a message is received, delivered or
skipped after it was multicast, skipped after a purge, purged or claimed to be safe or stable after
the frontiers got there, confirmed after all members delivered it, and a view without a member that
asked to leave comes after its request.
Idea: these conditions only ever become true, so an event whose causes are there may be taken at
once, the earliest first.  If there is none, no order exists, and the next one is a violation to be
judged.  A claim goes first: a process may be mistaken in what it claims, not in what it received.

Assumes: clocks of two processes differ by at most `skew_ns`.  Without a bound, a claim is wrong
only if no execution with these local orders makes it right.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heapreplace
from math import inf
from typing import Final, Protocol, TypeAlias

from semcast.terms.events import (
    CONFIRM,
    CRASH,
    DELIVER,
    INSTALL,
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
from semcast.terms.ids import Rank, Seq

_CLAIMS: Final = (frozenset({INSTALL}), frozenset({PURGE, SAFE, STABLE, RECLAIM, CONFIRM}))
_Head: TypeAlias = tuple[int, Rank, Event]


class Causes(Protocol):
    """Knows by kind whether the causes of an event are there, and learns from events taken."""

    @property
    def is_due(self) -> Mapping[str, Callable[[Event], bool]]:
        """By kind, the condition to wait for."""
        ...

    @property
    def learn(self) -> Mapping[str, Callable[[Event], None]]:
        """By kind, what to call with an event that was taken."""
        ...


class Interleaving:
    """Iterates once over the events of processes 0 to n - 1, each of them in local order.  Holds
    one event of each process, so the streams may be as long as they like."""

    def __init__(
        self, streams: Sequence[Iterable[Event]], causes: Causes, *, skew_ns: float = inf
    ) -> None:
        self._streams = [iter(stream) for stream in streams]
        self._causes = causes
        self._skew_ns = skew_ns

    def __iter__(self) -> Iterator[Event]:
        firsts = ((pid, next(stream, None)) for pid, stream in enumerate(self._streams))
        heads = [(first.ts_ns, pid, first) for pid, first in firsts if first is not None]
        heapify(heads)
        is_due, learn = self._causes.is_due, self._causes.learn
        while heads:
            time, pid, event = heads[0]
            condition = is_due.get(event.kind)
            if condition is not None and not condition(event):
                time, pid, event = self._choose(heads)
            handler = learn.get(event.kind)
            if handler is not None:
                handler(event)
            yield event
            following = next(self._streams[pid], None)
            if following is None:
                heappop(heads)
            else:  # A clock that went back does not take its process back.
                heapreplace(heads, (max(time, following.ts_ns), pid, following))

    def _choose(self, heads: list[_Head]) -> _Head:
        """Put the event to be taken first in `heads`, where the earliest one must wait."""
        heads.sort()  # A sorted list is a heap.
        latest = heads[0][0] + self._skew_ns
        waiting = [head for head in heads if head[0] <= latest]
        for head in waiting:
            condition = self._causes.is_due.get(head[2].kind)
            if condition is None or condition(head[2]):
                return self._first(heads, head)
        for claims in _CLAIMS:
            for head in waiting:
                if head[2].kind in claims:
                    return self._first(heads, head)
        return heads[0]

    def _first(self, heads: list[_Head], head: _Head) -> _Head:
        """Move a head to the front of the others, which are sorted; the caller replaces it."""
        heads.remove(head)
        heads.insert(0, head)
        return head


class FrontierCauses:
    """The causes in a group of fixed membership, whose events tell of frontiers.

    `replicated`: a purge from retransmission waits until the newer message is safe.
    """

    def __init__(self, n: int, f: int, *, replicated: bool) -> None:
        self._f = f
        self._replicated = replicated
        self._frontier: list[list[Seq]] = [[0] * n for _ in range(n)]  # [sender][pid]
        self._purged: list[set[Seq]] = [set() for _ in range(n)]
        self._forgotten: set[Rank] = set()
        self.is_due = {
            RECEIVE: self._is_multicast,
            DELIVER: self._is_multicast,
            SKIP: self._is_purged,
            PURGE: self._may_purge,
            SAFE: self._is_safe,
            STABLE: self._is_stable,
            RECLAIM: self._is_stable,
        }
        self.learn = {
            **dict.fromkeys((MULTICAST, RECEIVE, SKIP), self._on_step),
            PURGE: self._on_purge,
            LEAVE: self._on_leave,
        }

    def _on_step(self, event: Event) -> None:
        row = self._frontier[event.sender]
        row[event.pid] = max(row[event.pid], event.seq)

    def _on_purge(self, event: Event) -> None:
        if event.note == RETRANSMISSION:
            self._purged[event.sender].add(event.seq)

    def _on_leave(self, event: Event) -> None:
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


class MessageCauses:
    """The causes where processes come, go and recover.

    `by_life`: the numbers of a sender start again in each incarnation.  `is_primary`: the views are
    one sequence, in which it matters who asked to leave.
    """

    def __init__(self, *, by_life: bool, is_primary: bool) -> None:
        self._by_life = by_life
        self._sent: dict[tuple[Rank, int], Seq] = {}
        self._delivered: defaultdict[tuple[int, ...], dict[Rank, Seq]] = defaultdict(dict)
        self._members: dict[tuple[int, int], tuple[Rank, ...]] = {}  # by lineage and view
        self._current: dict[Rank, tuple[Rank, ...]] = {}
        self._gone: set[Rank] = set()
        self.is_due = {
            **dict.fromkeys((RECEIVE, DELIVER), self._is_multicast),
            CONFIRM: self._is_delivered,
        }
        if is_primary:
            self.is_due[INSTALL] = self._may_install
        self.learn = {
            MULTICAST: self._on_multicast,
            DELIVER: self._on_deliver,
            INSTALL: self._on_install,
            **dict.fromkeys((LEAVE, CRASH), self._on_leave),
        }

    def _stream(self, event: Event) -> tuple[Rank, int]:
        return event.sender, event.sender_inc if self._by_life else 0

    def _on_multicast(self, event: Event) -> None:
        self._sent[self._stream(event)] = event.seq

    def _on_deliver(self, event: Event) -> None:
        if event.view:
            self._delivered[self._in_view(event)][event.pid] = event.seq

    def _on_install(self, event: Event) -> None:
        self._members.setdefault((event.lineage, event.view), event.members)
        self._current[event.pid] = event.members
        self._gone -= set(event.members)

    def _on_leave(self, event: Event) -> None:
        self._gone.add(event.pid if event.peer < 0 else event.peer)

    def _in_view(self, event: Event) -> tuple[int, ...]:
        return event.lineage, event.view, *self._stream(event)

    def _is_multicast(self, event: Event) -> bool:
        return self._sent.get(self._stream(event), 0) >= event.seq

    def _is_delivered(self, event: Event) -> bool:
        delivered = self._delivered[self._in_view(event)]
        members = self._members.get((event.lineage, event.view), ())
        return all(delivered.get(pid, 0) >= event.seq for pid in members)

    def _may_install(self, event: Event) -> bool:
        """Members that the view drops may have asked to leave, which their own records tell."""
        dropped = set(self._current.get(event.pid, ())) - set(event.members)
        return dropped <= self._gone
