"""What a trace has said so far, shared by the monitors of one run.

Monitors look at an event before the history records it, so "before" means before.
"""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from semcast.specs.relation import Obsolescence
from semcast.terms.events import CRASH, DELIVER, LEAVE, MULTICAST, Event
from semcast.terms.messages import Rank, Seq

Watch: TypeAlias = Callable[[Event], None]


class History:
    """One per run of the processes 0 to n - 1.  Grows with the multicasts and deliveries.

    Invariant: the first multicast under a number is what that number means; another one is for a
    monitor to judge.
    """

    __slots__ = ("_missing", "crashed", "delivered", "forgotten", "multicast", "n", "relation")

    def __init__(self, relation: str, n: int) -> None:
        self.n = n
        self.relation = Obsolescence(relation)
        self.multicast: list[dict[Seq, Event]] = [{} for _ in range(n)]  # [sender][seq]
        self.delivered: list[list[dict[Seq, Event]]] = [  # [pid][sender][seq]
            [{} for _ in range(n)] for _ in range(n)
        ]
        self.forgotten: set[Rank] = set()  # by anybody: it is a claim about the group
        self.crashed: set[Rank] = set()
        self._missing: dict[tuple[Rank, Rank], tuple[Seq, ...]] = {}

    def watches(self) -> Mapping[str, Watch]:
        """Which events change the history, and how."""
        return {
            MULTICAST: self.on_multicast,
            DELIVER: self.on_deliver,
            LEAVE: self.on_leave,
            CRASH: self.on_crash,
        }

    def on_multicast(self, event: Event) -> None:
        """Learn a message and its place in the relation."""
        if event.message is not None and event.seq not in self.multicast[event.sender]:
            self.multicast[event.sender][event.seq] = event
            self.relation.on_multicast(event.message)

    def on_deliver(self, event: Event) -> None:
        """Learn who delivered what."""
        self.delivered[event.pid][event.sender][event.seq] = event

    def on_leave(self, event: Event) -> None:
        """`event.pid` goes on without `event.peer`."""
        self.forgotten.add(event.peer)

    def on_crash(self, event: Event) -> None:
        """Processes do not recover [SRB §2.1]."""
        self.crashed.add(event.pid)

    def begin_life(self, event: Event) -> None:
        """What an earlier life of the process delivered may be delivered again [RPB §6.2]."""
        self.delivered[event.pid] = [{} for _ in range(self.n)]

    def owed(self, correct: frozenset[Rank]) -> list[Rank]:
        """The processes that liveness speaks of: correct, and forgotten by nobody.

        The papers know no forgetting; who was excluded is owed nothing and owes nothing.
        """
        return sorted(correct - self.crashed - self.forgotten)

    def unsatisfied(self, pid: Rank, sender: Rank) -> tuple[Seq, ...]:
        """The sender's messages m for which `pid` delivered no m' ⊒ m.  For a finished trace."""
        key = pid, sender
        if key not in self._missing:
            delivered = self.delivered[pid][sender]
            self._missing[key] = self.relation.unsatisfied(sender, delivered.keys())
        return self._missing[key]
