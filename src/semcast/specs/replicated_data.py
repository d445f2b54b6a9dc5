"""The specifications S and D of the replicated data service as automata, and the mapping of the
servers' state to them [VSD fig. 2, fig. 4].

An execution is checked along its events: an action whose precondition does not hold is a violation.
After every step DS must map D to S, and TD the servers to D.
Another judge checks the answers.  Here the number of a state stands for the state, since the
sequence of updates determines it.

Departs: updates have answers and clients pipeline, so map, last and delay are by request: last(c)
is over the requests of c that were answered.  A request that its client gave up (a later one was
answered, and this one never will be) continues without a client.  A client takes its answer at
reply; that a server sends one is no action of S, for the network may lose it.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import Final

from semcast.specs.history import EventHandler
from semcast.specs.service import RequestId
from semcast.specs.violations import ViolationLog
from semcast.terms.events import EXECUTE, JOIN, PASSED, QUERY, REPLY, REQUEST, TAKEN, UPDATE, Event
from semcast.terms.ids import Rank

PENDING: Final = "pending"
ANSWERED: Final = "answered"


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
        return self.map.get(r) == PENDING

    def update(self, r: RequestId) -> None:
        """Eff: dbs := dbs + u(last of dbs), map(c) := ok, last(c) := |dbs| - 1."""
        self.length += 1
        self.map[r] = ANSWERED

    def can_query(self, r: RequestId, index: int) -> bool:
        """Pre: q = map(c), last(c) <= l <= |dbs| - 1."""
        return self.map.get(r) == PENDING and self.last[r[0]] <= index <= self.length

    def query(self, r: RequestId, index: int) -> None:
        """Eff: map(c) := q(dbs[l]), last(c) := l."""
        self.map[r] = ANSWERED
        self.last[r[0]] = index


class SpecificationD(SpecificationS):
    """D: an update is executed, and its client gets to know of it later; `delay` has the state
    that an update made whose client has not been served."""

    def __init__(self) -> None:
        super().__init__()
        self.delay: dict[RequestId, int] = {}

    def can_update(self, r: RequestId) -> bool:
        """Pre: u = map(c), c is not in delay."""
        return super().can_update(r) and r not in self.delay

    def update(self, r: RequestId) -> None:
        """Eff: dbs := dbs + u(last of dbs), delay(c) := |dbs| - 1."""
        self.length += 1
        self.delay[r] = self.length

    def can_service(self, r: RequestId) -> bool:
        """Pre: c is in delay."""
        return r in self.delay

    def service(self, r: RequestId) -> None:
        """Eff: map(c) := ok, last(c) := delay(c), delay(c) := ⊥."""
        self.map[r] = ANSWERED
        self.last[r[0]] = self.delay.pop(r)


def mapped(d: SpecificationD) -> tuple[int, dict[RequestId, str]]:
    """DS [VSD lemma 1]: dbs = d.dbs, map = overlay(d.map, {c ↦ ok | c in d.delay})."""
    return d.length, {**d.map, **dict.fromkeys(d.delay, ANSWERED)}


class Refinement:
    """Runs S and D along the events of the servers and clients of a store.

    TD [VSD lemma 2]: done is the longest sequence of executed updates; delay has those of it whose
    client does not know.  Here it is what `_executed` and `_served` say, and must be D's.
    """

    def __init__(self, ledger: ViolationLog) -> None:
        self.s = SpecificationS()
        self.d = SpecificationD()
        self.checked = 0  # steps
        self._ledger = ledger
        self._executed: dict[Rank, int] = {}
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
        self._executed[event.pid] = event.version
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
            if self.d.delay[request] != index or index <= self.d.last[request[0]]:
                self._report(event, f"service of {request} is not enabled at {index}")
            self.d.service(request)
            self.s.last[request[0]] = index
            self._served.add(request)
        elif self.d.can_query(request, index) and self.s.can_query(request, index):
            self.d.query(request, index)
            self.s.query(request, index)
        else:
            last = self.d.last[request[0]]
            what = f"{request} at {index}, its client has seen {last} of {self.d.length}"
            self._report(event, f"query of {what}")
        self._compare(event)

    def _compare(self, event: Event) -> None:
        """DS(D) = S, and TD of the servers = D, as far as this step touched them."""
        self.checked += 1
        if self.d.length != self.s.length or len(self._done) != self.d.length:
            self._report(event, f"{len(self._done)} updates, {self.d.length} in D")
        request = event.client, event.request
        of_d = ANSWERED if request in self.d.delay else self.d.map.get(request)
        if of_d != self.s.map.get(request) or self.d.last[request[0]] != self.s.last[request[0]]:
            self._report(event, f"D and S differ on {request}")

    def on_end(self) -> None:
        """The whole of both mappings."""
        if mapped(self.d) != (self.s.length, self.s.map) or self.d.last != self.s.last:
            self._ledger.add("refinement", "DS does not map D to S")
        waiting = {each for each in self._done if each is not None} - self._served
        if waiting != set(self.d.delay):
            self._ledger.add("refinement", "TD does not map the servers to D")

    def _report(self, event: Event, what: str) -> None:
        self._ledger.add("refinement", f"process {event.pid}: {what}", event)
