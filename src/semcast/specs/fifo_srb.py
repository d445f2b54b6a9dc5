"""FIFO-SRB, the abstract algorithm: state of SRB figure 1, transitions of figures 2 and 3.

It keeps every message for ever and counts nothing; what it does is record, as trace events, what
the monitors judge.  So the properties are checked first against the algorithm that the proof is
about, and only then against implementations.

Rule: [SRB §2.3].
Departs: three misprints.  TE2 asks for |{j : c_j} ∪ {i}| < f, with which at most f - 1 crash; we
take <= f, as the model says.  TP3 delivers any data in Q_i, which breaks FIFO Order; we deliver
after the sender's earlier data in Q_i, as the FIFO queue of §2.5 does.  In next(m, S) the
quantified message is m', not m.  And two silences: TP1 takes each message once, in the order of a
given plan; m' of TP4 and TP5 is a parameter, so that the trace can name it.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias

from semcast.specs.automaton import Action
from semcast.specs.relation import ObsolescenceRelation, as_carried
from semcast.terms.events import (
    CRASH,
    DELIVER,
    DELIVERY,
    MULTICAST,
    PURGE,
    RECEIVE,
    RETRANSMISSION,
    SKIP,
    Event,
)
from semcast.terms.ids import Rank, Seq
from semcast.terms.messages import DataMessage

MessageId: TypeAlias = tuple[Rank, Seq]
Tagged: TypeAlias = dict[MessageId, str]
"""A set of pairs (m, o); no message is in it under both tags."""

D: Final = "D"  # The message contains data.
P: Final = "P"  # The message has been purged.


class FifoSrb:
    """n processes and their network.  `events` is the trace so far.

    Invariant: Π₁(Q_i) and Π₁(O_{i,j}) hold a complete prefix of each sender's stream, for every
    i and j [SRB §2.4, lemma 2].
    """

    def __init__(self, plan: Sequence[Sequence[DataMessage]], relation: str, f: int) -> None:
        """`plan[i]` is what process i may broadcast, in order of sequence numbers."""
        n = len(plan)
        self.n, self.f = n, f
        self.plan = plan
        self.message: dict[MessageId, DataMessage] = {
            (m.sender, m.seq): m for row in plan for m in row
        }
        self.relation = ObsolescenceRelation(relation)
        self.B: list[list[MessageId]] = [[] for _ in range(n)]
        self.D: list[list[MessageId]] = [[] for _ in range(n)]
        self.c: list[bool] = [False] * n
        self.O: list[list[Tagged]] = [[{} for _ in range(n)] for _ in range(n)]
        self.I: list[list[Tagged]] = [[{} for _ in range(n)] for _ in range(n)]
        self.Q: list[Tagged] = [{} for _ in range(n)]
        self.events: list[Event] = []

    def actions(self) -> tuple[Action, ...]:
        """The signature, with the fairness of [SRB §2.3]."""
        return (
            _action(self._plans, self.can_broadcast, self.broadcast),
            _action(self._arrivals, self.can_enqueue, self.enqueue, fair=True),
            _action(self._queued, self.can_deliver, self.deliver, fair=True),
            _action(self._queued_pairs, self.can_purge_q, self.purge_q),
            _action(self._outgoing_pairs, self.can_purge_r, self.purge_r),
            _action(self._in_transit, self.can_transmit, self.transmit, fair=True),
            # Rare, or everybody falls before there is anything to lose.
            _action(self._processes, self.can_crash, self.crash, eagerness=0.03),
        )

    def correct(self) -> frozenset[Rank]:
        """Whoever has not crashed."""
        return frozenset(i for i in range(self.n) if not self.c[i])

    def can_broadcast(self, i: Rank, m: MessageId) -> bool:
        """TP1, precondition [SRB fig. 3]."""
        return m not in self.O[i][i] and self.next(m, self.O[i][i]) and not self.c[i]

    def broadcast(self, i: Rank, m: MessageId) -> None:
        """TP1, effect."""
        self.B[i].append(m)
        self.O[i][i][m] = D
        self.relation.on_multicast(as_carried(self.message[m]))
        self._emit(MULTICAST, i, m, message=self.message[m])

    def can_enqueue(self, i: Rank, j: Rank, m: MessageId, o: str) -> bool:
        """TP2, precondition [SRB fig. 3]."""
        return (
            self.I[i][j].get(m) == o
            and m not in self.Q[i]
            and self.next(m, self.Q[i])
            and not self.c[i]
        )

    def enqueue(self, i: Rank, j: Rank, m: MessageId, o: str) -> None:
        """TP2, effect."""
        for k in range(self.n):
            if k != i:
                self.O[i][k][m] = o
        self.Q[i][m] = o
        self._emit(RECEIVE if o == D else SKIP, i, m, peer=j)

    def can_deliver(self, i: Rank, m: MessageId) -> bool:
        """TP3, precondition [SRB fig. 3], with `first` as mended."""
        return (
            self.Q[i].get(m) == D
            and m not in self.D[i]
            and self.first(m, self.Q[i], self.D[i])
            and not self.c[i]
        )

    def deliver(self, i: Rank, m: MessageId) -> None:
        """TP3, effect."""
        self.D[i].append(m)
        self._emit(DELIVER, i, m, message=self.message[m])

    def can_purge_q(self, i: Rank, m: MessageId, by: MessageId) -> bool:
        """TP4, precondition [SRB fig. 3]."""
        q = self.Q[i]
        return q.get(m) == D and q.get(by) == D and self.obsoletes(m, by) and not self.c[i]

    def purge_q(self, i: Rank, m: MessageId, by: MessageId) -> None:
        """TP4, effect."""
        self.Q[i][m] = P
        self._emit(PURGE, i, m, by_seq=by[1], note=DELIVERY)

    def can_purge_r(self, i: Rank, j: Rank, m: MessageId, by: MessageId) -> bool:
        """TP5, precondition [SRB fig. 3]."""
        o = self.O[i][j]
        return (
            o.get(m) == D
            and o.get(by) == D
            and self.obsoletes(m, by)
            and self.safe(by, i)
            and not self.c[i]
        )

    def purge_r(self, i: Rank, j: Rank, m: MessageId, by: MessageId) -> None:
        """TP5, effect."""
        self.O[i][j][m] = P
        self._emit(PURGE, i, m, by_seq=by[1], note=RETRANSMISSION, peer=j)

    def can_transmit(self, j: Rank, i: Rank, m: MessageId) -> bool:
        """TE1, precondition [SRB fig. 2]."""
        return m in self.O[j][i] and not self.c[j] and m not in self.I[i][j] and not self.c[i]

    def transmit(self, j: Rank, i: Rank, m: MessageId) -> None:
        """TE1, effect."""
        self.I[i][j][m] = self.O[j][i][m]

    def can_crash(self, i: Rank) -> bool:
        """TE2, precondition [SRB fig. 2], with <= as mended."""
        return not self.c[i] and sum(self.c) + 1 <= self.f

    def crash(self, i: Rank) -> None:
        """TE2, effect."""
        self.c[i] = True
        self.events.append(Event(CRASH, i))

    def next(self, m: MessageId, queue: Tagged) -> bool:
        """All predecessors of m are in the queue, as data or purged."""
        sender, seq = m
        return all((sender, s) in queue for s in range(1, seq))

    def first(self, m: MessageId, queue: Tagged, delivered: Sequence[MessageId]) -> bool:
        """No earlier data of m's sender still waits in the queue."""
        sender, seq = m
        earlier = ((sender, s) for s in range(1, seq))
        return all(e in delivered or queue.get(e) != D for e in earlier)

    def safe(self, m: MessageId, i: Rank) -> bool:
        """i has m from more than f processes: others that enqueued it, or itself, the sender."""
        return sum(m in self.I[i][j] for j in range(self.n)) > self.f

    def obsoletes(self, m: MessageId, by: MessageId) -> bool:
        """m ⊏ by."""
        return m[0] == by[0] and self.relation.obsoletes(m[0], m[1], by[1])

    def _processes(self) -> Iterator[tuple[Rank]]:
        return ((i,) for i in range(self.n))

    def _plans(self) -> Iterator[tuple[Rank, MessageId]]:
        return ((i, (m.sender, m.seq)) for i in range(self.n) for m in self.plan[i])

    def _in_transit(self) -> Iterator[tuple[Rank, Rank, MessageId]]:
        for j in range(self.n):
            for i in range(self.n):
                for m in self.O[j][i]:
                    yield j, i, m

    def _arrivals(self) -> Iterator[tuple[Rank, Rank, MessageId, str]]:
        for i in range(self.n):
            for j in range(self.n):
                for m, o in self.I[i][j].items():
                    yield i, j, m, o

    def _queued(self) -> Iterator[tuple[Rank, MessageId]]:
        return ((i, m) for i in range(self.n) for m in self.Q[i])

    def _queued_pairs(self) -> Iterator[tuple[Rank, MessageId, MessageId]]:
        return ((i, m, by) for i in range(self.n) for m, by in _pairs(self.Q[i]))

    def _outgoing_pairs(self) -> Iterator[tuple[Rank, Rank, MessageId, MessageId]]:
        for i in range(self.n):
            for j in range(self.n):
                for m, by in _pairs(self.O[i][j]):
                    yield i, j, m, by

    def _emit(
        self,
        kind: str,
        pid: Rank,
        m: MessageId,
        *,
        message: DataMessage | None = None,
        by_seq: Seq = 0,
        note: str = "",
        peer: Rank = -1,
    ) -> None:
        event = Event(kind, pid, m[0], m[1], message, by_seq, note, peer)
        if kind == MULTICAST and message is not None:
            event.declared = as_carried(message).obsoletes
        self.events.append(event)


def _pairs(queue: Tagged) -> Iterator[tuple[MessageId, MessageId]]:
    """Data of one sender, the earlier first."""
    data = [m for m, o in queue.items() if o == D]
    return ((m, by) for m in data for by in data if m[0] == by[0] and m[1] < by[1])


def _action(
    domain: Callable[[], Iterator[tuple[object, ...]]],
    precondition: Callable[..., bool],
    effect: Callable[..., None],
    *,
    fair: bool = False,
    eagerness: float = 1.0,
) -> Action:
    return Action(effect.__name__, domain, precondition, effect, fair, eagerness)
