"""Reliable Multicast as an automaton: every message reaches every process, once.

`buffer[i][j]` holds what i has multicast and j has not delivered.  An execution is checked along
its trace: an action whose precondition does not hold is a violation, and so is, at the end, a
message that still waits in the buffer of somebody who is owed it (the liveness condition).  The
same automaton runs under `execute`, which shows that it accepts its own executions.

Rule: [RPB §2.1].
Departs: the group may forget what is obsolete, so `supersede` takes m out of buffer[i][j] when a
message that makes it obsolete was delivered by j or still waits for it there; and the application
may decline a message (`drop`), as [RPB §2.2] lets it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from semcast.specs.automaton import Action
from semcast.specs.relation import ObsolescenceRelation, as_carried
from semcast.specs.violations import ViolationLog
from semcast.terms.events import DELIVER, INTEREST, MULTICAST, SKIP, Event
from semcast.terms.ids import Rank, Seq
from semcast.terms.messages import DataMessage

Time: TypeAlias = Mapping[Rank, Seq]
"""A vector time: per sender, how far; 0 for who is not in it [RPB §5.3]."""


class ReliableMulticast:
    """The processes 0 to n - 1, none of which crashes.  `events` is the trace of an execution
    under `execute`."""

    def __init__(self, n: int, relation: str, ledger: ViolationLog) -> None:
        self.n = n
        self.relation = ObsolescenceRelation(relation)
        self.sent: list[dict[Seq, DataMessage]] = [{} for _ in range(n)]
        self.received: list[list[set[Seq]]] = [[set() for _ in range(n)] for _ in range(n)]
        self.dropped: list[list[set[Seq]]] = [[set() for _ in range(n)] for _ in range(n)]
        self.buffer: list[list[set[Seq]]] = [[set() for _ in range(n)] for _ in range(n)]
        self.events: list[Event] = []
        self._is_running = False
        self._ledger = ledger

    def actions(self, plan: Sequence[Sequence[DataMessage]]) -> tuple[Action, ...]:
        """What may happen when process i multicasts `plan[i]`, in that order."""
        self._is_running = True

        def planned() -> Iterator[tuple[Rank, DataMessage]]:
            return ((i, m) for i in range(self.n) for m in plan[i])

        return (
            Action("send", planned, self._is_next, self.send),
            Action("receive", self.waiting, self.can_receive, self.receive, fair=True),
        )

    def handlers(self) -> Mapping[str, Callable[[Event], None]]:
        """The events that are its actions."""
        return {MULTICAST: self.on_multicast, DELIVER: self.on_deliver, SKIP: self.on_skip}

    def on_multicast(self, event: Event) -> None:
        """user_send(m)_i."""
        if event.message is not None and self._holds(
            self.can_send(event.pid, event.message), "multicast", event
        ):
            self.send(event.pid, event.message)

    def on_deliver(self, event: Event) -> None:
        """user_receive(m)_j,i."""
        arguments = event.pid, event.sender, event.seq
        if self._holds(self.can_receive(*arguments), "deliver", event):
            self.receive(*arguments)

    def on_skip(self, event: Event) -> None:
        """An internal action: m leaves the buffer without being delivered."""
        arguments = event.pid, event.sender, event.seq
        if event.seq not in self.buffer[event.sender][event.pid]:
            return  # It was owed no more: no action of the automaton.
        if event.note == INTEREST:
            self.drop(*arguments)
        elif self._holds(self.can_supersede(*arguments), "skip (superseded)", event):
            self.buffer[event.sender][event.pid].discard(event.seq)

    def on_end(self, owed: Iterable[Rank]) -> None:
        """Whatever is in a buffer at any point is delivered later [RPB §2.1]."""
        for j in sorted(owed):
            for i in range(self.n):
                for seq in sorted(self.owed(i, j)):
                    what = f"process {j} never delivered {i}:{seq}, which is owed to it"
                    self._ledger.add("reliable_multicast", what, Event(MULTICAST, i, i, seq))

    def owed(self, i: Rank, j: Rank) -> Iterable[Seq]:
        """What j must still deliver of i."""
        return self.buffer[i][j]

    def can_send(self, i: Rank, m: DataMessage) -> bool:
        """A number is given once, by its sender [RPB §3.1, Property 3.1]."""
        return m.sender == i and m.seq not in self.sent[i]

    def send(self, i: Rank, m: DataMessage) -> None:
        """Effect: m waits for everybody."""
        self.sent[i][m.seq] = m
        self.relation.on_multicast(as_carried(m))
        for j in range(self.n):
            self.buffer[i][j].add(m.seq)
        self._tell(MULTICAST, i, m, i)

    def waiting(self) -> Iterator[tuple[Rank, Rank, Seq]]:
        """(j, i, seq): what may be delivered, in order, so that equal runs are equal."""
        for i in range(self.n):
            for j in range(self.n):
                for seq in sorted(self.buffer[i][j]):
                    yield j, i, seq

    def can_receive(self, j: Rank, i: Rank, seq: Seq) -> bool:
        """m ∈ buffer(i, j)."""
        return seq in self.buffer[i][j]

    def receive(self, j: Rank, i: Rank, seq: Seq) -> None:
        """Effect: m no longer waits for j."""
        self.buffer[i][j].discard(seq)
        self.received[i][j].add(seq)
        self._tell(DELIVER, j, self.sent[i][seq], i)

    def drop(self, j: Rank, i: Rank, seq: Seq) -> None:
        """j knows that m will not come."""
        self.buffer[i][j].discard(seq)
        self.dropped[i][j].add(seq)

    def can_supersede(self, j: Rank, i: Rank, seq: Seq) -> bool:
        """m waits for j, and j has, waits for, or knows the fate of, what makes it obsolete."""
        if seq not in self.buffer[i][j]:
            return False
        others = (*self.received[i][j], *self.buffer[i][j], *self.dropped[i][j])
        return any(by > seq and self.relation.obsoletes(i, seq, by) for by in others)

    def _tell(
        self, kind: str, pid: Rank, m: DataMessage | None = None, sender: Rank = -1, note: str = ""
    ) -> None:
        if self._is_running:  # A trace that is checked exists already.
            seq = 0 if m is None else m.seq
            event = Event(kind, pid, sender, seq, m, note=note)
            if kind == MULTICAST and m is not None:
                event.declared = as_carried(m).obsoletes
            self.events.append(event)

    def _is_next(self, i: Rank, m: DataMessage) -> bool:
        return self.can_send(i, m) and all(seq in self.sent[i] for seq in range(1, m.seq))

    def _holds(self, enabled: bool, action: str, event: Event) -> bool:
        """Whether the precondition holds; where it does not, that is a violation."""
        if not enabled:
            what = f"{action} of {event.sender}:{event.seq} at process {event.pid} is not enabled"
            self._ledger.add("reliable_multicast", what, event)
        return enabled
