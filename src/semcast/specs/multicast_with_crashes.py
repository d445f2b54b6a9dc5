"""Reliable Multicast where processes come, go, crash and recover, as automata.

At a crash of i and at a recovery of j the thesis marks *some* messages of buffer(i, ·) and
buffer(·, j), which are dropped later, and leaves the choice to a backward simulation.  Here all of
them become *doubtful*: such a message may still be delivered or be dropped, and what becomes of
it shows.  A trace is accepted here exactly if some choice of marks accepts it there.

Rule: [RPB §6.1].  `AtLeastOnce` is the other recovery of [RPB §6.2], which has no automaton there:
a receiver's crash loses nothing, but what it had delivered before may be delivered again.
Departs: a process is owed what comes after its vector join time [RPB §5.3], so the recovery of a
receiver is its next `join`; an acknowledged message is doubtful only when no logger's disk holds
it any more; what a logger collected by age may be dropped [RPB §5.2].
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from semcast.specs.automaton import Action
from semcast.specs.loggers import join_vector, leaving_pid
from semcast.specs.reliable_multicast import ReliableMulticast, Time
from semcast.specs.violations import ViolationLog
from semcast.terms.events import (
    ACKNOWLEDGE,
    AGE,
    APPEND,
    CRASH,
    DISK,
    JOIN,
    LEAVE,
    RECLAIM,
    RECOVER,
    Event,
)
from semcast.terms.ids import Rank, Seq
from semcast.terms.messages import DataMessage

BLOCK: Final = "block"
LOST: Final = "lost"


class MulticastWithCrashes(ReliableMulticast):
    """Invariant: `doubtful[i]` holds sent messages of i whose sender crashed before they were
    acknowledged, or that were acknowledged and then lost with every disk that had them."""

    def __init__(self, n: int, relation: str, ledger: ViolationLog) -> None:
        super().__init__(n, relation, ledger)
        self.up = [True] * n
        self.member = [False] * n
        self.join_time: list[Time] = [{} for _ in range(n)]
        self.doubtful: list[set[Seq]] = [set() for _ in range(n)]
        self.acknowledged: list[set[Seq]] = [set() for _ in range(n)]
        self.holders: dict[tuple[Rank, Seq], set[Rank]] = {}
        self.aged = [0] * n

    def actions(self, plan: Sequence[Sequence[DataMessage]]) -> tuple[Action, ...]:
        """Joins come first and again after each recovery."""

        def processes() -> Iterator[tuple[Rank]]:
            return ((i,) for i in range(self.n))

        return (
            *super().actions(plan),
            Action("crash", processes, self.can_crash, self.crash, pick_weight=0.03),
            Action("recover", processes, self.can_recover, self.recover, fair=True),
            Action("rejoin", processes, self.can_rejoin, self.rejoin, fair=True),
            Action("drop", self.waiting, self.can_drop, self.drop),
        )

    def handlers(self) -> Mapping[str, Callable[[Event], None]]:
        """The events that are its actions."""
        return {
            **super().handlers(),
            JOIN: lambda e: self.join(e.pid, join_vector(e)),
            LEAVE: lambda e: self.leave(leaving_pid(e)),
            CRASH: self.on_crash,
            RECOVER: lambda e: self.recover(e.pid),
            APPEND: lambda e: self.append(e.pid, e.sender, e.seq),
            ACKNOWLEDGE: lambda e: self.acknowledge(e.sender, e.seq),
            RECLAIM: self.on_reclaim,
        }

    def on_crash(self, event: Event) -> None:
        """With DISK, what its disk held counts no more."""
        if self._holds(self.can_crash(event.pid), "crash", event):
            self.crash(event.pid)
        if event.note == DISK:
            for (i, seq), holders in self.holders.items():
                holders.discard(event.pid)
                if not holders and seq in self.acknowledged[i]:
                    self.doubtful[i].add(seq)

    def on_reclaim(self, event: Event) -> None:
        """Age spares nobody; stability is judged by `collection_safety`."""
        if event.note == AGE:
            self.aged[event.sender] = max(self.aged[event.sender], event.seq)

    def on_skip(self, event: Event) -> None:
        """drop(m): only what is doubtful, too old, superseded or declined."""
        arguments = event.pid, event.sender, event.seq
        if event.note not in (AGE, BLOCK, LOST):
            super().on_skip(event)
        elif event.seq in self.buffer[event.sender][event.pid] and self._holds(
            self.can_drop(*arguments), f"skip ({event.note})", event
        ):
            self.drop(*arguments)

    def owed(self, i: Rank, j: Rank) -> Iterable[Seq]:
        """What is certain, and only to a member that is up."""
        if not (self.up[j] and self.member[j]):
            return ()
        return (s for s in self.buffer[i][j] if not self.can_drop(j, i, s))

    def can_send(self, i: Rank, m: DataMessage) -> bool:
        """A process that is down says nothing."""
        return self.up[i] and super().can_send(i, m)

    def can_receive(self, j: Rank, i: Rank, seq: Seq) -> bool:
        """m waits for a member that is up, and is after its join time."""
        return self.up[j] and self.member[j] and super().can_receive(j, i, seq)

    def can_crash(self, i: Rank) -> bool:
        """status(i) = up."""
        return self.up[i]

    def crash(self, i: Rank) -> None:
        """What i sent and nobody promised is in doubt; as a receiver i must join again."""
        self.up[i] = self.member[i] = False
        self.doubtful[i] |= self.sent[i].keys() - self.acknowledged[i]
        self._tell(CRASH, i)

    def can_recover(self, i: Rank) -> bool:
        """status(i) = down."""
        return not self.up[i]

    def recover(self, i: Rank) -> None:
        """It may send again; as a receiver it returns with its next `join`."""
        self.up[i] = True
        self._tell(RECOVER, i)

    def can_rejoin(self, j: Rank) -> bool:
        """Whoever is up may be made a member anew, with a time of now."""
        return self.up[j] and not self.member[j]

    def rejoin(self, j: Rank) -> None:
        """Owed from here on."""
        time = {i: max(self.sent[i], default=0) for i in range(self.n)}
        note = " ".join(f"{i}:{seq}" for i, seq in time.items())
        self._tell(JOIN, j, note=note)
        self.join(j, time)

    def join(self, j: Rank, time: Time) -> None:
        """What is not after `time` is owed to j no more [RPB §5.3].

        Sponsors may be behind those of an earlier life; then it is owed what it was not.
        """
        for i in range(self.n):
            first, before = time.get(i, 0), self.join_time[j].get(i, 0)
            waiting = {seq for seq in self.buffer[i][j] if seq > first}
            again = {seq for seq in self.sent[i] if first < seq <= before}
            self.buffer[i][j] = waiting | (again - self.received[i][j])
        self.member[j] = True
        self.join_time[j] = time

    def leave(self, j: Rank) -> None:
        """Owed nothing more."""
        self.member[j] = False

    def append(self, logger: Rank, i: Rank, seq: Seq) -> None:
        """One more disk holds it."""
        self.holders.setdefault((i, seq), set()).add(logger)

    def acknowledge(self, i: Rank, seq: Seq) -> None:
        """It is promised, even if its sender has crashed since, unless all copies are lost."""
        self.acknowledged[i].add(seq)
        if self.holders.get((i, seq)):
            self.doubtful[i].discard(seq)
        else:
            self.doubtful[i].add(seq)

    def can_drop(self, j: Rank, i: Rank, seq: Seq) -> bool:
        """drop(m)_i,j: marked TRUE, or collected by age."""
        return seq in self.buffer[i][j] and (seq in self.doubtful[i] or seq <= self.aged[i])


class AtLeastOnce(MulticastWithCrashes):
    """A member stays one across its crashes; `again[i][j]` may be delivered, once in each life."""

    def __init__(self, n: int, relation: str, ledger: ViolationLog) -> None:
        super().__init__(n, relation, ledger)
        self.again: list[list[set[Seq]]] = [[set() for _ in range(n)] for _ in range(n)]
        self.skipped: list[list[set[Seq]]] = [[set() for _ in range(n)] for _ in range(n)]

    def on_skip(self, event: Event) -> None:
        """In this life."""
        super().on_skip(event)
        self.skipped[event.sender][event.pid].add(event.seq)

    def crash(self, i: Rank) -> None:
        """All it delivered or skipped may come again: how far its cursor was is not shown."""
        is_member = self.member[i]
        super().crash(i)
        self.member[i] = is_member
        for sender in range(self.n):
            self.again[sender][i] = self.received[sender][i] | self.skipped[sender][i]

    def can_receive(self, j: Rank, i: Rank, seq: Seq) -> bool:
        """m waits for j, or for its second time in this life."""
        again = self.up[j] and self.member[j] and seq in self.again[i][j]
        return again or super().can_receive(j, i, seq)

    def receive(self, j: Rank, i: Rank, seq: Seq) -> None:
        """Once in a life."""
        self.again[i][j].discard(seq)
        super().receive(j, i, seq)

    def waiting(self) -> Iterator[tuple[Rank, Rank, Seq]]:
        """What waits for the first time, then what may come again."""
        yield from super().waiting()
        for i in range(self.n):
            for j in range(self.n):
                for seq in sorted(self.again[i][j]):
                    yield j, i, seq
