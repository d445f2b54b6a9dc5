"""What a server of the store owes its own clients while their requests are on their way: the
invariants I3 and I5 of VSD, fig. 8, along the events of a run.

Departs (docs/decisions/0035-replicated-data.md): clients move and pipeline, so a request is pending
at the life of a server that it reached, until that life answers it or its client says that it was
answered elsewhere.  An answer on a channel is in transit from the `execute` of the query on.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import TypeAlias

from semcast.specs.expertise import Reading, ToldExpertise, ViewNumber
from semcast.specs.history import EventHandler
from semcast.specs.service import RequestId
from semcast.specs.violations import ViolationLog
from semcast.terms.events import (
    CRASH,
    EXECUTE,
    GIVEN_UP,
    INSTALL,
    MULTICAST,
    QUERY,
    REFUSE,
    REPLY,
    REQUEST,
    TAKEN,
    UPDATE,
    Event,
)
from semcast.terms.ids import Rank
from semcast.terms.store import REFUSED

Life: TypeAlias = tuple[Rank, int]
AtServer: TypeAlias = tuple[Rank, RequestId]  # the server of the client, and the request


class PendingUpdates:
    """I3: an update that its server has multicast is pending there until the server executes it;
    then it is answered in the same step.  Only once the view in which it was multicast is lost may
    the server answer that it does not know; it never refuses it."""

    def __init__(self, ledger: ViolationLog, reading: Reading) -> None:
        self._ledger = ledger
        self._reading = reading
        self.checked = 0  # own updates that servers executed or refused
        self._sent: defaultdict[Life, dict[RequestId, ViewNumber]] = defaultdict(dict)
        self._answered: set[RequestId] = set()  # whose clients have been answered
        self._view: dict[Life, ViewNumber] = {}
        self._owed: dict[Life, Event] = {}

    def handlers(self) -> Mapping[str, EventHandler]:
        """The events it judges or learns from."""
        return {
            MULTICAST: self.on_multicast,
            EXECUTE: self.on_execute,
            REPLY: self.on_reply,
            REFUSE: self.on_refuse,
            INSTALL: self.on_install,
            CRASH: self.on_crash,
        }

    def on_multicast(self, event: Event) -> None:
        """gpsnd(c, u): from now on the update is pending."""
        self._settle(event)
        updates = self._reading(event)
        if updates is not None and not isinstance(updates, ToldExpertise):
            sent = self._sent[event.pid, event.inc]
            sent |= dict.fromkeys(updates, event.view)

    def on_execute(self, event: Event) -> None:
        """update(c, u) where it came from: the answer follows."""
        self._settle(event)
        life, request = (event.pid, event.inc), (event.client, event.request)
        if event.note == QUERY or self._sent[life].pop(request, None) is None:
            return
        self.checked += 1
        if event.note == UPDATE and request not in self._answered:
            self._owed[life] = event  # One that is passed over may be of a session that is gone.

    def on_reply(self, event: Event) -> None:
        """An answer, or a client that has taken one."""
        life, request = (event.pid, event.inc), (event.client, event.request)
        if event.note == TAKEN:
            self._answered.add(request)
            return
        owed = self._owed.pop(life, None)
        if owed is not None and (owed.client, owed.request) != request:
            self._report(owed)
        if request in self._sent[life]:
            what = f"process {event.pid} answered update {request}, which it has not executed"
            self._ledger.add("pending_updates", what, event)

    def on_refuse(self, event: Event) -> None:
        """The server does not know, or refuses; or the client was told so."""
        self._settle(event)
        life, request = (event.pid, event.inc), (event.client, event.request)
        if event.note in (TAKEN, GIVEN_UP):
            self._answered.add(request)
            return
        view = self._sent[life].pop(request, None)
        if view is None:
            return
        self.checked += 1
        if event.note == REFUSED:
            what = f"process {event.pid} refused update {request}, which it has multicast"
            self._ledger.add("pending_updates", what, event)
        elif view == self._view.get(life):
            what = f"process {event.pid} gave up update {request} in the view of its multicast"
            self._ledger.add("pending_updates", what, event)

    def on_install(self, event: Event) -> None:
        """newview."""
        self._settle(event)
        self._view[event.pid, event.inc] = event.view

    def on_crash(self, event: Event) -> None:
        """What was pending there is lost with it."""
        for life in [life for life in self._sent if life[0] == event.pid]:
            del self._sent[life]
            self._owed.pop(life, None)

    def on_end(self) -> None:
        """Nothing follows any more."""
        for owed in self._owed.values():
            self._report(owed)
        self._owed.clear()

    def _settle(self, event: Event) -> None:
        """Another action of the server: what it executed before is answered by now."""
        owed = self._owed.pop((event.pid, event.inc), None)
        if owed is not None:
            self._report(owed)

    def _report(self, owed: Event) -> None:
        what = f"process {owed.pid} executed its own update {(owed.client, owed.request)}"
        self._ledger.add("pending_updates", f"{what}, which was not pending any more", owed)


class AnswersInTransit:
    """I5: an answer on its way to the server of a client, as long as that is in the view in which
    the query was multicast, is to a query that is pending there (a, b); its index is no earlier
    than what the client had seen when it was asked (d), and no later than the longest history that
    was executed (e).  No other answer is taken.  (c), that it is the right one, is judged where
    the requests are executed again.  A server that has given up the line of a client for others may
    multicast a query of it twice; the answer that comes second finds nothing pending.
    """

    def __init__(self, ledger: ViolationLog) -> None:
        self._ledger = ledger
        self.checked = 0  # answers that were sent or taken
        self._waiting: defaultdict[Rank, set[RequestId]] = defaultdict(set)
        self._assigned: dict[tuple[Life, ViewNumber, AtServer], int] = {}  # what it had seen
        self._in_transit: defaultdict[AtServer, set[tuple[ViewNumber, int]]] = defaultdict(set)
        self._rotated: set[AtServer] = set()  # that were multicast for a server
        self._asked: set[AtServer] = set()
        self._again: set[AtServer] = set()  # of them those that came again, as if they were new
        self._answered: set[RequestId] = set()
        self._view: dict[Rank, ViewNumber] = {}
        self._executed = 0

    def handlers(self) -> Mapping[str, EventHandler]:
        """The events it judges or learns from."""
        return {
            REQUEST: self.on_request,
            EXECUTE: self.on_execute,
            REPLY: self.on_reply,
            REFUSE: self.on_refuse,
            INSTALL: self.on_install,
            CRASH: self.on_crash,
        }

    def on_request(self, event: Event) -> None:
        """A query reaches the server of its client, or the one that shall answer it."""
        request = event.client, event.request
        if event.note != QUERY:
            return
        if event.peer < 0:
            if (event.pid, request) in self._asked:
                self._again.add((event.pid, request))
            self._asked.add((event.pid, request))
            self._waiting[event.pid].add(request)
        else:
            key = (event.pid, event.inc), event.view, (event.peer, request)
            self._assigned[key] = event.version
            self._rotated.add((event.peer, request))

    def on_execute(self, event: Event) -> None:
        """query(c, q, l) and ptpsnd: from now on the answer is in transit."""
        if event.note != QUERY:
            self._executed = max(self._executed, event.position)
            return
        request, to = (event.client, event.request), event.peer
        last = self._assigned.pop(((event.pid, event.inc), event.view, (to, request)), None)
        if last is None:
            return
        self.checked += 1
        if event.version < last:
            self._report(event, f"of state {event.version}, and its client had seen {last}")  # (d)
        if event.version > self._executed:
            self._report(event, f"of state {event.version} of {self._executed}")  # (e)
        if self._view.get(to) != event.view:
            return  # It will be ignored.
        is_known = request in self._waiting[to] or (to, request) in self._again
        if not is_known and request not in self._answered:
            self._report(event, f"to process {to}, where it is not pending")  # (a), (b)
        self._in_transit[to, request].add((event.view, event.version))

    def on_reply(self, event: Event) -> None:
        """ptprcv: the server takes an answer that was in transit to it, of its view."""
        request = event.client, event.request
        if event.note == TAKEN:
            self._answered.add(request)
            return
        if request not in self._waiting[event.pid]:
            return  # an update
        self._waiting[event.pid].discard(request)
        if (event.pid, request) not in self._rotated:
            return  # It was answered without the others.
        self.checked += 1
        sent = self._in_transit.pop((event.pid, request), ())
        if (event.view, event.version) not in sent:
            self._report(event, f"of state {event.version}, which was not in transit in its view")

    def on_refuse(self, event: Event) -> None:
        """A client that was told something has no request pending, wherever it was."""
        if event.note in (TAKEN, GIVEN_UP):
            self._answered.add((event.client, event.request))

    def on_install(self, event: Event) -> None:
        """newview."""
        self._view[event.pid] = event.view

    def on_crash(self, event: Event) -> None:
        """Its clients' requests are not pending there any more."""
        self._waiting[event.pid].clear()
        self._view.pop(event.pid, None)

    def _report(self, event: Event, what: str) -> None:
        name = f"process {event.pid} answered query {(event.client, event.request)}"
        self._ledger.add("answers_in_transit", f"{name} {what}", event)
