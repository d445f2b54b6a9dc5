"""The promises of a replicated service to its clients.

A client numbers its requests and waits for each reply before it asks again [SVS §5.1], [VSD §3].
A server records `execute` when it executes a request, and when it takes over an execution of
another server.  For an update the event has its position, once that is settled; for a query, the
version of the state that was read: the number of updates that had made it.

Rule: duplicates and failover of primary-backup [SVS fig. 1]; specification S [VSD fig. 2], by its
refinement: every server goes through the states in order, a client never goes back.
Rejected: sequential consistency from answers alone, which is NP-complete; without positions and
versions it is not judged.
"""

from collections import defaultdict
from collections.abc import Mapping
from itertools import pairwise
from typing import TypeAlias

from semcast.specs.history import EventHandler
from semcast.specs.violations import ViolationLog
from semcast.terms.events import (
    EXECUTE,
    INSTALL,
    JOIN,
    PASSED,
    QUERY,
    RECOVER,
    REFUSE,
    REPLY,
    REQUEST,
    TAKEN,
    UPDATE,
    Event,
)
from semcast.terms.ids import Rank
from semcast.terms.store import REFUSED, UNKNOWN

RequestId: TypeAlias = tuple[int, int]  # the client and its number
AtLife: TypeAlias = tuple[Rank, int, RequestId]  # a request at one life of a server
SOMEBODY = (-1, 0)  # a life that refuses nothing: one that may have multicast an update

NO_WITNESS = "positions and versions were not recorded, and without them it is NP-complete"


class ExactlyOnceRequests:
    """No server executes a request as an update twice, an update has one place, what is answered
    was executed, and all answers to one request are the same.

    An execution in a view that its server did not live to leave may be lost with it: then the
    request may have another place in a later view.
    """

    __slots__ = (
        *("_changes", "_entered", "_executed", "_ledger", "_moved", "_placed", "_replied"),
        *("_updated", "checked"),
    )

    def __init__(self, ledger: ViolationLog) -> None:
        self._ledger = ledger
        self.checked = 0  # updates executed, and answers
        self._executed: set[RequestId] = set()
        self._changes: set[RequestId] = set()  # those of them that are updates
        self._updated: dict[AtLife, Event] = {}
        self._placed: dict[RequestId, Event] = {}
        self._moved: list[tuple[Event, Event]] = []  # executions at different places
        self._entered: dict[tuple[Rank, int], int] = {}  # by life, the last view
        self._replied: dict[RequestId, Event] = {}

    def handlers(self) -> Mapping[str, EventHandler]:
        """The events it judges or learns from."""
        return {EXECUTE: self.on_execute, REPLY: self.on_reply, INSTALL: self.on_install}

    def on_install(self, event: Event) -> None:
        """Learn how far a server came."""
        self._entered[event.pid, event.inc] = event.view

    def on_execute(self, event: Event) -> None:
        """Compare with what this server executed, and with where others did."""
        request = event.client, event.request
        self._executed.add(request)
        if event.note != UPDATE:
            return
        self._changes.add(request)
        self.checked += 1
        first = self._updated.setdefault((event.pid, event.inc, request), event)
        if first is not event:
            self._report(event, "executed", "twice", first)
        if event.position:
            placed = self._placed.setdefault(request, event)
            if placed.position != event.position:
                self._moved.append((placed, event))
                self._placed[request] = max(placed, event, key=lambda each: each.view)

    def on_reply(self, event: Event) -> None:
        """Compare with the first answer."""
        self.checked += 1
        request = event.client, event.request
        first = self._replied.setdefault(request, event)
        if first.digest != event.digest and not self._is_query(request):
            self._report(event, "answered", f"differently from process {first.pid}", first)

    def _is_query(self, request: RequestId) -> bool:
        """Whether it was only ever read for: then each server may answer from its own state."""
        return request in self._executed and request not in self._changes

    def on_end(self) -> None:
        """An execution that was not lost has the place of all others; an answer comes from one."""
        for one, other in self._moved:
            before, after = (one, other) if one.view <= other.view else (other, one)
            last = self._entered.get((before.pid, before.inc), 0)
            if before.view == after.view or last > before.view:
                where = f"at position {other.position}, process {one.pid} at {one.position}"
                self._report(other, "executed", where, one)
        for request, reply in self._replied.items():
            if request not in self._executed:
                self._report(reply, "answered", "which no process executed")

    def _report(self, event: Event, did: str, how: str, before: Event | None = None) -> None:
        what = f"process {event.pid} {did} request {_name(event)}, {how}"
        self._ledger.add("exactly_once_requests", what, before, event)


class NeverBlocked:
    """A server that shall answer a query has all updates that the query's client has seen."""

    __slots__ = ("_ledger", "checked")

    def __init__(self, ledger: ViolationLog) -> None:
        self._ledger = ledger
        self.checked = 0  # queries that were assigned to a server

    def handlers(self) -> Mapping[str, EventHandler]:
        """The events it judges."""
        return {REQUEST: self.on_request}

    def on_request(self, event: Event) -> None:
        """Judge a query that one server has given to another, or to itself."""
        if event.note != QUERY or event.peer < 0:
            return
        self.checked += 1
        if event.position < event.version:
            has = f"with {event.position} updates, and its client has seen {event.version}"
            what = f"process {event.pid} was given request {_name(event)} {has}"
            self._ledger.add("never_blocked", what, event)


class RefusedNeverExecuted:
    """An update that its client was told is refused is executed nowhere, neither before nor after.
    Nor is one that every server which it reached has refused: a server refuses only what it did
    not multicast.  A server that has answered, be it `unknown`, may forget the client, and refuse
    the update when it comes again; the client knows that it was sent twice."""

    __slots__ = ("_executed", "_ledger", "_open", "_refused", "checked")

    def __init__(self, ledger: ViolationLog) -> None:
        self._ledger = ledger
        self.checked = 0  # refusals
        self._executed: dict[RequestId, Event] = {}
        self._refused: dict[RequestId, Event] = {}
        self._open: defaultdict[RequestId, set[tuple[Rank, int]]] = defaultdict(set)  # lives

    def handlers(self) -> Mapping[str, EventHandler]:
        """The events it judges or learns from."""
        requests = {REQUEST: self.on_request, REPLY: self.on_reply}
        return {**requests, REFUSE: self.on_refuse, EXECUTE: self.on_execute}

    def on_reply(self, event: Event) -> None:
        """A server that has answered may forget that."""
        if event.note != TAKEN:
            self._open[event.client, event.request].add(SOMEBODY)

    def on_request(self, event: Event) -> None:
        """The update has reached a server, which may multicast it."""
        if event.note == UPDATE:
            self._open[event.client, event.request].add((event.pid, event.inc))

    def on_refuse(self, event: Event) -> None:
        """A server refuses, or a client is told so."""
        request = event.client, event.request
        if event.note == TAKEN:
            self._refused[request] = event
        elif event.note == REFUSED:
            self._open[request].discard((event.pid, event.inc))
        else:
            if event.note == UNKNOWN:
                self._open[request].add(SOMEBODY)
            return
        self.checked += 1
        executed = self._executed.get(request)
        if executed is not None:
            self._judge(request, executed, executed, event)

    def on_execute(self, event: Event) -> None:
        """A server executes."""
        if event.note == UPDATE:
            request = event.client, event.request
            first = self._executed.setdefault(request, event)
            if first is event:
                self._judge(request, event, self._refused.get(request), event)

    def _judge(self, request: RequestId, executed: Event, *evidence: Event | None) -> None:
        is_refused = request in self._refused or (request in self._open and not self._open[request])
        if is_refused:
            what = f"process {executed.pid} executed request {_name(executed)}, which was refused"
            self._ledger.add("refused_never_executed", what, *evidence)


class SequentialConsistency:
    """There is one sequence of states; each server goes through it, and each client sees it move
    forward only, its own updates included.

    A client that asks again elsewhere may be answered twice from different states; then it counts
    which answer the client took, if clients recorded that.  What a client had seen is known to one
    life of a server, which counts the answers that it has sent: the client may not have got them.
    Invariant: `_version[p]` is the state that server p has.
    """

    __slots__ = (
        *("_accepted", "_asked", "_at", "_found", "_ledger", "_placed", "_read", "_replied"),
        *("_version", "checked", "reason"),
    )

    def __init__(self, ledger: ViolationLog) -> None:
        self._ledger = ledger
        self.checked = 0  # executions and answers
        self.reason = ""  # why it cannot be judged, if so
        self._found: list[tuple[str, Event | None, Event]] = []
        self._version: defaultdict[Rank, int] = defaultdict(int)
        self._at: dict[int, Event] = {}
        self._placed: dict[RequestId, Event] = {}
        self._read: set[tuple[RequestId, int]] = set()
        self._asked: dict[AtLife, int] = {}  # what the client had seen by then
        self._replied: dict[RequestId, list[Event]] = {}
        self._accepted: dict[RequestId, Event] = {}

    def handlers(self) -> Mapping[str, EventHandler]:
        """The events it judges or learns from."""
        return {
            REQUEST: self.on_request,
            EXECUTE: self.on_execute,
            REPLY: self.on_reply,
            JOIN: self.on_take_over,
            RECOVER: self.on_take_over,
        }

    def on_take_over(self, event: Event) -> None:
        """A server got, or kept, a state."""
        if event.version >= 0:
            self._version[event.pid] = event.version

    def on_request(self, event: Event) -> None:
        """A client says which state it has seen."""
        if event.peer < 0:
            asked = event.pid, event.inc, (event.client, event.request)
            self._asked[asked] = max(self._asked.get(asked, 0), event.version)

    def on_execute(self, event: Event) -> None:
        """An update makes the next state, a query reads the one that is there."""
        request, version = (event.client, event.request), self._version[event.pid]
        if event.note not in (UPDATE, PASSED):
            self._needs_witness(event.version >= 0)
            self._read.add((request, event.version))
            if event.version != version:
                self._add(event, f"read version {event.version} when it had {version}")
            return
        self._needs_witness(event.position > 0)
        if event.position != version + 1:
            self._add(event, f"put at position {event.position} when it had version {version}")
        self._version[event.pid] = event.position
        other = self._at.setdefault(event.position, event)
        if (other.client, other.request, other.note) != (*request, event.note):
            self._add(event, f"put at position {event.position}, where {_name(other)} is", other)
        if event.note == PASSED:
            return
        placed = self._placed.setdefault(request, event)
        if placed.position != event.position:
            where = f"at position {event.position} and at {placed.position}"
            self._add(event, f"put {where}", placed)

    def on_reply(self, event: Event) -> None:
        """Remember what was answered, and what the client took."""
        self._needs_witness(event.version >= 0)
        request = event.client, event.request
        if event.note == TAKEN:
            self._accepted[request] = event
        else:
            self._replied.setdefault(request, []).append(event)
            seen = self._asked.get((event.pid, event.inc, request), 0)
            if event.version < seen and request not in self._placed:
                what = f"answered by version {event.version}, and its client had seen {seen}"
                self._add(event, what)

    def on_end(self) -> None:
        """Follow each client through its answers."""
        first = {request: replies[0] for request, replies in self._replied.items()}
        for request, replies in sorted(self._replied.items()):
            for reply in replies:
                self._judge_origin(request, reply, first[request])
        for request, accepted in sorted(self._accepted.items()):
            offered = self._replied.get(request, ())
            if not any(one.version == accepted.version for one in offered):
                self._add(accepted, f"answered by version {accepted.version}, which no server sent")
        answers = sorted((self._accepted or first).items())
        for (_, before), (request, after) in pairwise(answers):
            if before.client != after.client:
                continue
            version_min = before.version + (request in self._placed)
            if after.version < version_min:
                why = f"after {_name(before)} was by version {before.version}"
                self._add(after, f"answered by version {after.version} {why}", before)
        if not self.reason:
            for found, earlier, event in self._found:
                self._ledger.add("sequential_consistency", f"request {found}", earlier, event)

    def _judge_origin(self, request: RequestId, reply: Event, first: Event) -> None:
        placed = self._placed.get(request)
        if placed is not None:
            if placed.position != reply.version:
                at = placed.position
                what = f"answered by version {reply.version}, but it is the update at {at}"
                self._add(reply, what)
        elif (request, reply.version) not in self._read:
            what = f"answered by version {reply.version}, which no process read for it"
            self._add(reply, what)
        if first.version != reply.version and not self._accepted:
            versions = f"{reply.version} and by {first.version}"
            self._add(reply, f"answered by version {versions}", first)

    def _needs_witness(self, present: bool) -> None:
        self.checked += 1
        if not present:
            self.reason = NO_WITNESS

    def _add(self, event: Event, what: str, first: Event | None = None) -> None:
        self._found.append((f"{_name(event)} was {what} at process {event.pid}", first, event))


def _name(event: Event) -> str:
    return f"{event.client}:{event.request}"
