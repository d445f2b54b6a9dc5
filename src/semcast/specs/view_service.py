"""VS as an automaton: views, one queue in each, prefixes of it, and what all have delivered.

An execution is checked along its trace, in the order of occurrence: an action whose precondition
does not hold is a violation.  The same automaton runs under `execute`, which shows that it accepts
its own executions.  A place enters the queue when it is first delivered, for vs-order is internal.

Rule: [VSD app. A].
Departs: createview asks for an id that no view has had, not for one above all: separated components
cannot keep a global order, and since ids increase at each process, the traces are the same.  At
first there is no view.  A process here is an incarnation, and a view has at most one of each
process.  *Safe* is called *confirm*; it covers all places up to the one it names.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from semcast.specs.automaton import Action
from semcast.specs.history import Incarnation
from semcast.specs.violations import ViolationLog
from semcast.terms.events import CONFIRM, DELIVER, INSTALL, MULTICAST, ORDER, Event
from semcast.terms.ids import Rank, Seq
from semcast.terms.messages import DataMessage

MessageId: TypeAlias = tuple[Incarnation, Seq]


class ViewService:
    """The VS-machine.  `events` is the trace of an execution under `execute`.

    Invariant: next_safe[q, g] <= next[r, g] <= len(queue[g]) + 1 for all members q and r of g.
    """

    def __init__(self, ledger: ViolationLog) -> None:
        self.created: dict[int, tuple[Rank, ...]] = {}
        self.current_viewid: defaultdict[Incarnation, int] = defaultdict(int)
        self.pending: defaultdict[tuple[Incarnation, int], deque[Seq]] = defaultdict(deque)
        self.queue: defaultdict[int, list[MessageId]] = defaultdict(list)
        self.next: defaultdict[tuple[Rank, int], int] = defaultdict(lambda: 1)
        self.next_safe: defaultdict[tuple[Rank, int], int] = defaultdict(lambda: 1)
        self.events: list[Event] = []
        self._life: dict[tuple[Rank, int], int] = {}
        self._place: dict[tuple[int, MessageId], int] = {}
        self._message: dict[MessageId, DataMessage] = {}
        self._is_running = False
        self._ledger = ledger

    def handlers(self) -> Mapping[str, Callable[[Event], None]]:
        """The events that are its actions."""
        return {
            INSTALL: self.on_install,
            MULTICAST: self.on_multicast,
            DELIVER: self.on_deliver,
            CONFIRM: self.on_confirm,
        }

    def on_install(self, event: Event) -> None:
        """newview(v)_p, and before the first of them createview(v)."""
        p, g = (event.pid, event.inc), event.view
        if self.can_createview(g):
            self.createview(g, event.members)
        members = ", ".join(map(str, self.created[g]))
        state = f"view {g} has members {members} and it is in view {self.current_viewid[p]}"
        if self._holds(self.can_newview(p, g, event.members), "newview", event, state):
            self.newview(p, g)

    def on_multicast(self, event: Event) -> None:
        """gpsnd(m)_p; what only says the order is the implementation's own."""
        p, g = (event.pid, event.inc), event.view
        state = f"it is in view {self.current_viewid[p]}"
        if event.note != ORDER and self._holds(self.is_in(p, g), "gpsnd", event, state):
            self.gpsnd(p, event.seq)

    def on_deliver(self, event: Event) -> None:
        """gprcv(m)_p,q, and before the first of them vs-order(m, p, g)."""
        p, q, g = (event.sender, event.sender_inc), (event.pid, event.inc), event.view
        place = event.position
        if place == len(self.queue[g]) + 1:
            state = f"pending are {list(self.pending[p, g])[:3]}"
            if not self._holds(self.can_order(p, g, event.seq), "vs-order", event, state):
                return
            self.order(p, g, event.seq)
        state = (
            f"it is in view {self.current_viewid[q]}, next is place {self.next[q[0], g]}, "
            f"place {place} is of {self._at(g, place)}"
        )
        is_there = self._place.get((g, (p, event.seq))) == place
        if self._holds(is_there and self.can_gprcv(q, g, place), "gprcv", event, state):
            self.gprcv(q, g, place)

    def on_confirm(self, event: Event) -> None:
        """safe(m)_p,q of every place up to that of the message."""
        q, g = (event.pid, event.inc), event.view
        place = self._place.get((g, ((event.sender, event.sender_inc), event.seq)), 0)
        behind = [r for r in self.created.get(g, ()) if self.next[r, g] <= place]
        state = (
            f"it is in view {self.current_viewid[q]}, the place is {place or 'none'}, "
            f"next is place {self.next_safe[q[0], g]}, behind are {behind}"
        )
        if 0 < place < self.next_safe[q[0], g] and self.is_in(q, g):
            return  # It was said already, of a later place.
        is_there = place > 0 and event.position in (0, place)
        if self._holds(is_there and self.can_safe(q, g, place), "safe", event, state):
            self.safe(q, g, place)

    def can_createview(self, g: int) -> bool:
        """Pre: no view of that id was created."""
        return g not in self.created

    def createview(self, g: int, members: tuple[Rank, ...]) -> None:
        """Eff: created := created ∪ {v}."""
        self.created[g] = members

    def can_newview(self, p: Incarnation, g: int, members: tuple[Rank, ...]) -> bool:
        """Pre: v is created, p in v.set, v.id > current_viewid[p]."""
        return (
            self.created.get(g) == members
            and p[0] in members
            and g > self.current_viewid[p]
            and self._life.get((p[0], g), p[1]) == p[1]
        )

    def newview(self, p: Incarnation, g: int) -> None:
        """Eff: current_viewid[p] := v.id."""
        self.current_viewid[p] = g
        self._life[p[0], g] = p[1]
        self._tell(Event(INSTALL, p[0], inc=p[1], view=g, members=self.created[g]))

    def is_in(self, p: Incarnation, g: int) -> bool:
        """Whether g is the current view of p, which is in one."""
        return g == self.current_viewid[p] != 0

    def gpsnd(self, p: Incarnation, seq: Seq) -> None:
        """Eff: append m to pending[p, current_viewid[p]]."""
        g = self.current_viewid[p]
        self.pending[p, g].append(seq)
        self._tell(Event(MULTICAST, p[0], p[0], seq, self._message.get((p, seq)), view=g))

    def can_order(self, p: Incarnation, g: int, seq: Seq) -> bool:
        """Pre: m is head of pending[p, g]."""
        pending = self.pending[p, g]
        return bool(pending) and pending[0] == seq

    def order(self, p: Incarnation, g: int, seq: Seq) -> None:
        """Eff: remove it from pending[p, g], append (m, p) to queue[g]."""
        self.pending[p, g].popleft()
        self.queue[g].append((p, seq))
        self._place[g, (p, seq)] = len(self.queue[g])

    def can_gprcv(self, q: Incarnation, g: int, place: int) -> bool:
        """Pre: g = current_viewid[q], the place is next[q, g] and in queue[g]."""
        return self.is_in(q, g) and place == self.next[q[0], g] <= len(self.queue[g])

    def gprcv(self, q: Incarnation, g: int, place: int) -> None:
        """Eff: next[q, g] := next[q, g] + 1."""
        self.next[q[0], g] = place + 1
        self._tell_of(DELIVER, q, g, place)

    def can_safe(self, q: Incarnation, g: int, place: int) -> bool:
        """Pre: g = current_viewid[q], it is in queue[g] and not behind next_safe[q, g], and
        next[r, g] > place for all members r."""
        return (
            self.is_in(q, g)
            and self.next_safe[q[0], g] <= place <= len(self.queue[g])
            and all(self.next[r, g] > place for r in self.created[g])
        )

    def safe(self, q: Incarnation, g: int, place: int) -> None:
        """Eff: next_safe[q, g] := place + 1."""
        self.next_safe[q[0], g] = place + 1
        self._tell_of(CONFIRM, q, g, place)

    def actions(
        self, plan: Sequence[Sequence[DataMessage]], views: Mapping[int, tuple[Rank, ...]]
    ) -> tuple[Action, ...]:
        """What may happen when process i multicasts `plan[i]` and `views` may be created."""
        self._is_running = True
        self._message = {((m.sender, 1), m.seq): m for row in plan for m in row}
        left = {(i, 1): deque(m.seq for m in row) for i, row in enumerate(plan)}

        def heads(queues: Mapping[Incarnation, deque[Seq]]) -> Iterator[tuple[Incarnation, Seq]]:
            return ((p, seqs[0]) for p, seqs in queues.items() if seqs)

        def send(p: Incarnation, seq: Seq) -> None:
            left[p].popleft()
            self.gpsnd(p, seq)

        def places(
            following: Mapping[tuple[Rank, int], int],
        ) -> Iterator[tuple[Incarnation, int, int]]:
            return ((q, g, following[q[0], g]) for q, g in list(self.current_viewid.items()))

        return (
            Action("createview", views.items, lambda g, _: self.can_createview(g), self.createview),
            Action(
                "newview",
                lambda: ((p, g) for p in left for g in self.created),
                lambda p, g: self.can_newview(p, g, self.created[g]),
                self.newview,
            ),
            Action("gpsnd", lambda: heads(left), lambda p, _: self.current_viewid[p] > 0, send),
            Action(
                "vs-order",
                lambda: ((p, g, seqs[0]) for (p, g), seqs in self.pending.items() if seqs),
                self.can_order,
                self.order,
                fair=True,
            ),
            Action("gprcv", lambda: places(self.next), self.can_gprcv, self.gprcv, fair=True),
            Action("safe", lambda: places(self.next_safe), self.can_safe, self.safe, fair=True),
        )

    def _at(self, g: int, place: int) -> str:
        if not 0 < place <= len(self.queue[g]):
            return "nobody"
        (sender, _), seq = self.queue[g][place - 1]
        return f"{sender}:{seq}"

    def _tell_of(self, kind: str, q: Incarnation, g: int, place: int) -> None:
        (sender, inc), seq = self.queue[g][place - 1]
        event = Event(kind, q[0], sender, seq, inc=q[1], sender_inc=inc, view=g, position=place)
        if kind == DELIVER:
            event.message = self._message.get(((sender, inc), seq))
        self._tell(event)

    def _tell(self, event: Event) -> None:
        if self._is_running:  # A trace that is checked exists already.
            self.events.append(event)

    def _holds(self, enabled: bool, action: str, event: Event, state: str) -> bool:
        """Whether the precondition holds; where it does not, that is a violation."""
        if not enabled:
            of = f" of {event.sender}:{event.seq}" if event.sender >= 0 else ""
            at = f"process {event.pid} in view {event.view}"
            what = f"{action}{of} at {at} is not enabled: {state}"
            self._ledger.add("view_service", what, event)
        return enabled
