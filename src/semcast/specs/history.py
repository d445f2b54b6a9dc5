"""The events of a run so far, shared by its monitors.

The history records a multicast or a delivery before the monitors look at it, and tells them what
was there before.  At all other events it has only earlier ones.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import TypeAlias

from semcast.specs.relation import ObsolescenceRelation
from semcast.terms.declared import declared_by
from semcast.terms.events import CRASH, LEAVE, Event
from semcast.terms.ids import Rank, Seq

EventHandler: TypeAlias = Callable[[Event], None]
Incarnation: TypeAlias = tuple[Rank, int]  # a process, or a sender, and its incarnation
ProcessKey: TypeAlias = Rank | Incarnation


class History:
    """One per run of the processes 0 to n - 1.  Grows with the multicasts and deliveries.

    With views, who recovers is a new process [SVS §2] and its numbers start at 1 again: then a
    process is a life.  Without, what it did in an earlier life counts.

    Invariant: the first multicast under a number is what that number means; another one is for a
    monitor to judge.  While monitors look at a multicast or a delivery, `original` is an earlier
    multicast of its message; of a delivery, `place` is the process and the sender that it is of,
    and `before` an earlier delivery of the message there.
    """

    __slots__ = (
        "_by_life",
        "_missing",
        "before",
        "crashed",
        "delivered",
        "deliveries",
        "forgotten",
        "multicast",
        "multicasts",
        "n",
        "original",
        "place",
        "process",
        "relation",
        "sender",
    )

    def __init__(self, relation: str, n: int, *, by_life: bool = False) -> None:
        self.n = n
        self.multicasts = 0  # events, not messages
        self.deliveries = 0
        self.relation = ObsolescenceRelation(relation)
        self.multicast: defaultdict[ProcessKey, dict[Seq, Event]]  # [sender][seq]
        self.multicast = defaultdict(dict)
        self.delivered: defaultdict[ProcessKey, defaultdict[ProcessKey, dict[Seq, Event]]]
        self.delivered = defaultdict(lambda: defaultdict(dict))  # [process][sender][seq]
        self.forgotten: set[Rank] = set()  # by anybody: it is a claim about the group
        self.crashed: set[Rank] = set()
        self.place: tuple[ProcessKey, ProcessKey] = (0, 0)
        self.original: Event | None = None
        self.before: Event | None = None
        self._by_life = by_life
        self._missing: dict[tuple[Rank, Rank], tuple[Seq, ...]] = {}
        self.process: Callable[[Event], ProcessKey]  # whose event it is
        self.process = attrgetter("pid", "inc") if by_life else attrgetter("pid")
        self.sender: Callable[[Event], ProcessKey]  # whose message it speaks of
        self.sender = attrgetter("sender", "sender_inc") if by_life else attrgetter("sender")

    def handlers(self) -> Mapping[str, EventHandler]:
        """Which other events change the history, and how, after the monitors looked at them."""
        return {
            LEAVE: self.on_leave,
            CRASH: self.on_crash,
        }

    def on_multicast(self, event: Event) -> None:
        """Learn a message and its place in the relation."""
        self.multicasts += 1
        sender = (event.sender, event.sender_inc) if self._by_life else event.sender
        sent = self.multicast[sender]
        self.original = sent.get(event.seq)
        if event.message is not None and self.original is None:
            sent[event.seq] = event
            self.relation.on_multicast(declared_by(event), sender)

    def on_deliver(self, event: Event) -> None:
        """Learn who delivered what, and find for all monitors what was known of it before."""
        self.deliveries += 1
        process: ProcessKey = event.pid
        sender: ProcessKey = event.sender
        if self._by_life:
            process, sender = (event.pid, event.inc), (event.sender, event.sender_inc)
        self.place, seq = (process, sender), event.seq
        self.original = self.multicast[sender].get(seq)
        row = self.delivered[process][sender]
        self.before = row.get(seq)
        row[seq] = event

    def on_leave(self, event: Event) -> None:
        """`event.pid` goes on without `event.peer`."""
        self.forgotten.add(event.peer)

    def on_crash(self, event: Event) -> None:
        """Processes do not recover [SRB §2.1]."""
        self.crashed.add(event.pid)

    def source(self, event: Event) -> Event | None:
        """The multicast of the message that it speaks of."""
        return self.multicast[self.sender(event)].get(event.seq)

    def on_restart(self, event: Event) -> None:
        """What an earlier life of the process delivered may be delivered again [RPB §6.2]."""
        self.delivered.pop(event.pid, None)

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
