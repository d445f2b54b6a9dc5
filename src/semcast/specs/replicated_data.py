"""The specifications S and D of the replicated data service as automata, and the mapping of the
servers' state to them [VSD fig. 2, fig. 4].

An execution is checked along its events: an action whose precondition does not hold is a violation.
After every step DS must map D to S, and TD the servers to D.
Another judge checks the answers.  Here the number of a state stands for the state, since the
sequence of updates determines it.

Departs: updates have answers and clients pipeline, so map and delay are by request, and the overlay
of last(c) takes the latest of the delayed updates of c.  A request that its client gave up goes on
without a client, which has witnessed nothing of it; one that was refused is not pending any more.
A client takes its answer at reply; that a server sends one is no action of S, for the network may
lose it.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import Final

from semcast.specs.history import EventHandler
from semcast.specs.service import RequestId
from semcast.specs.violations import ViolationLog
from semcast.terms.events import (
    EXECUTE,
    GIVEN_UP,
    JOIN,
    PASSED,
    QUERY,
    REFUSE,
    REPLY,
    REQUEST,
    TAKEN,
    UPDATE,
    Event,
)

PENDING: Final = "pending"
ALONE: Final = "pending without its client"
ANSWERED: Final = "answered"
REFUSED: Final = "refused"


class SpecificationS:
    """S: the database has gone through `length` updates.  `map` has what each request waits for,
    `last` the state that each client has witnessed."""

    def __init__(self) -> None:
        self.length = 0
        self.map: dict[RequestId, str] = {}
        self.last: defaultdict[int, int] = defaultdict(int)

    def request(self, r: RequestId) -> None:
        """Eff: map(c) := r."""
        self.map.setdefault(r, PENDING)

    def can_update(self, r: RequestId) -> bool:
        """Pre: u = map(c)."""
        return self.map.get(r) in (PENDING, ALONE)

    def update(self, r: RequestId) -> None:
        """Eff: dbs := dbs + u(last of dbs), map(c) := ok, last(c) := |dbs| - 1."""
        self.length += 1
        if self.map[r] != ALONE:
            self.last[r[0]] = self.length
        self.map[r] = ANSWERED

    def can_query(self, r: RequestId, index: int) -> bool:
        """Pre: q = map(c), last(c) <= l <= |dbs| - 1."""
        return self.map.get(r) == PENDING and self.last[r[0]] <= index <= self.length

    def query(self, r: RequestId, index: int) -> None:
        """Eff: map(c) := q(dbs[l]), last(c) := l."""
        self.map[r] = ANSWERED
        self.last[r[0]] = index

    def abandon(self, r: RequestId, witnessed: int) -> None:
        """The client gives r up: it has witnessed nothing of it, but what it had beside."""
        if self.map.get(r) != ANSWERED:
            self.map[r] = ALONE
        self.last[r[0]] = witnessed

    def can_refuse(self, r: RequestId) -> bool:
        """It was not executed."""
        return self.map.get(r) != ANSWERED

    def refuse(self, r: RequestId) -> None:
        """The client is told that r was not made, and never will be."""
        self.map[r] = REFUSED


class SpecificationD(SpecificationS):
    """D: an update is executed, and its client gets to know of it later; `delay` has, by client and
    number, the state that an update made whose client has not been served."""

    def __init__(self) -> None:
        super().__init__()
        self.delay: defaultdict[int, dict[int, int]] = defaultdict(dict)

    def can_update(self, r: RequestId) -> bool:
        """Pre: u = map(c), c is not in delay."""
        return super().can_update(r) and not self.can_service(r)

    def update(self, r: RequestId) -> None:
        """Eff: dbs := dbs + u(last of dbs), delay(c) := |dbs| - 1."""
        self.length += 1
        if self.map[r] == ALONE:
            self.map[r] = ANSWERED
        else:
            self.delay[r[0]][r[1]] = self.length

    def can_service(self, r: RequestId) -> bool:
        """Pre: c is in delay."""
        return r[1] in self.delay[r[0]]

    def service(self, r: RequestId) -> None:
        """Eff: map(c) := ok, last(c) := delay(c), delay(c) := ⊥."""
        self.map[r] = ANSWERED
        self.last[r[0]] = self.delay[r[0]].pop(r[1])

    def give_up(self, r: RequestId) -> None:
        """The client will not be served."""
        is_executed = self.delay[r[0]].pop(r[1], None) is not None
        self.map[r] = ANSWERED if is_executed else ALONE

    def can_refuse(self, r: RequestId) -> bool:
        """It was not executed."""
        return super().can_refuse(r) and not self.can_service(r)

    def witnessed(self, client: int) -> int:
        """overlay(last, delay) at the client."""
        return max(self.delay[client].values(), default=self.last[client])


def mapped(d: SpecificationD) -> tuple[int, dict[RequestId, str], dict[int, int]]:
    """DS [VSD lemma 1]: dbs = d.dbs, map = overlay(d.map, {c ↦ ok | c in d.delay}), last =
    overlay(d.last, d.delay)."""
    done = {(client, number): ANSWERED for client in d.delay for number in d.delay[client]}
    clients = {*d.last, *d.delay}
    return d.length, {**d.map, **done}, {client: d.witnessed(client) for client in clients}


class Refinement:
    """Runs S and D along the events of the servers and clients of a store.

    TD [VSD lemma 2]: done is the longest sequence of executed updates; delay has those of it whose
    client does not know.  Here it is what `_done` and `_served` say, and must be D's.
    """

    def __init__(self, ledger: ViolationLog) -> None:
        self.s = SpecificationS()
        self.d = SpecificationD()
        self.checked = 0  # steps
        self._ledger = ledger
        self._done: list[RequestId | None] = []
        self._served: set[RequestId] = set()
        self._highest: defaultdict[int, int] = defaultdict(int)  # by client, the last answered

    def handlers(self) -> Mapping[str, EventHandler]:
        """The events that are steps, or that it learns from."""
        return {
            REQUEST: self.on_request,
            EXECUTE: self.on_execute,
            JOIN: self.on_join,
            REPLY: self.on_reply,
            REFUSE: self.on_refuse,
        }

    def on_request(self, event: Event) -> None:
        """request(r)_c, the first time that it reaches a server."""
        if event.peer < 0:
            request = event.client, event.request
            self.s.request(request)
            self.d.request(request)
            self._compare(event)

    def on_join(self, event: Event) -> None:
        """A server begins with a state, which is one that there was."""
        if event.version > self.d.length:
            what = f"begins with version {event.version}, and there were {self.d.length}"
            self._report(event, what)

    def on_execute(self, event: Event) -> None:
        """update(c, u)_p: the first server that executes it is leading, the others follow."""
        if event.note == QUERY:
            if event.version > self.d.length:
                self._report(event, f"read version {event.version} of {self.d.length}")
            return
        place, request = event.position, (event.client, event.request)
        entry = request if event.note == UPDATE else None
        if place <= len(self._done):
            if self._done[place - 1] != entry:
                self._report(event, f"executed another update at {place} than the others")
            return
        if place != len(self._done) + 1:
            self._report(event, f"executed update {place} of {len(self._done)}")
        self._done.append(entry)
        if event.note == PASSED:
            self.s.length += 1  # An update that changes nothing, and that nobody waits for.
            self.d.length += 1
        else:
            can = self.s.can_update(request) and self.d.can_update(request)
            if can:
                self.s.update(request)
                self.d.update(request)
            else:
                self._report(event, f"update of {request} is not enabled")
        self._compare(event)

    def on_reply(self, event: Event) -> None:
        """A client takes an answer: service(c) or query(c, q, l), and then reply(o)_c."""
        if event.note != TAKEN:
            return
        request, index = (event.client, event.request), event.version
        before = self._highest[event.client]
        if request[1] <= before:
            self._report(event, f"{request} was answered after {before}")
        self._highest[event.client] = max(before, request[1])
        if self.d.can_service(request):
            place = self.d.delay[request[0]][request[1]]
            if place != index or index <= self.d.last[request[0]]:
                self._report(event, f"service of {request} is not enabled at {index}")
            self.d.service(request)
            self._served.add(request)
        elif self.d.can_query(request, index) and self.s.can_query(request, index):
            self.d.query(request, index)
            self.s.query(request, index)
        else:
            last = self.d.last[request[0]]
            what = f"{request} at {index}, its client has seen {last} of {self.d.length}"
            self._report(event, f"query of {what}")
        self._compare(event)

    def on_refuse(self, event: Event) -> None:
        """A client is told that an update was not made, or that nobody knows."""
        request = event.client, event.request
        if event.note == TAKEN:
            if not (self.d.can_refuse(request) and self.s.can_refuse(request)):
                self._report(event, f"{request} was refused, and it was executed")
                return
            self.d.refuse(request)
            self.s.refuse(request)
        elif event.note == GIVEN_UP:
            self.d.give_up(request)
            self.s.abandon(request, self.d.witnessed(request[0]))
            self._served.add(request)
        else:
            return  # What a server says, the client may not hear.
        self._compare(event)

    def _compare(self, event: Event) -> None:
        """DS(D) = S, and TD of the servers = D, as far as this step touched them."""
        self.checked += 1
        if self.d.length != self.s.length or len(self._done) != self.d.length:
            self._report(event, f"{len(self._done)} updates, {self.d.length} in D")
        request = event.client, event.request
        of_d = ANSWERED if self.d.can_service(request) else self.d.map.get(request)
        witnessed = self.d.witnessed(request[0])
        if of_d != self.s.map.get(request) or witnessed != self.s.last[request[0]]:
            self._report(event, f"D and S differ on {request}")

    def on_end(self) -> None:
        """The whole of both mappings."""
        if mapped(self.d) != (self.s.length, self.s.map, self.s.last):
            self._ledger.add("refinement", "DS does not map D to S")
        waiting = {each for each in self._done if each is not None} - self._served
        delay = self.d.delay
        if waiting != {(client, number) for client in delay for number in delay[client]}:
            self._ledger.add("refinement", "TD does not map the servers to D")

    def _report(self, event: Event, what: str) -> None:
        self._ledger.add("refinement", f"process {event.pid}: {what}", event)
