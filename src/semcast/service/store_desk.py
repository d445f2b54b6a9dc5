"""Serves the clients of one server of the store: updates, queries, answers [VSD fig. 7].

Updates of own clients are multicast in a primary view, and answered when this server executes them.
Queries are answered here, or multicast and answered by the members of the view in turn; then the
answer comes back on a reliable channel.
"""

from collections import deque
from typing import Any, Final

from semcast.service.client_lines import ClientLine, ClientLines, PendingRequest
from semcast.service.point_to_point import PointToPoint
from semcast.service.replica_state import digest_of, encode_value
from semcast.service.store_messages import (
    QueryAnswer,
    QueryBatch,
    QueryEntry,
    UpdateEntry,
    encode_message,
    entries_of,
    update_batch,
)
from semcast.service.store_recipe import StoreRecipe
from semcast.service.store_replica import StoreReplica
from semcast.terms.effects import Effects
from semcast.terms.events import EXECUTE, PASSED, QUERY, REFUSE, REPLY, REQUEST, UPDATE, Event
from semcast.terms.ids import Incarnation, Pid
from semcast.terms.service import FAILED, FORGOTTEN
from semcast.terms.store import REFUSED, UNKNOWN, StoreAnswer, StoreRequest

MARGIN_BYTES: Final = 512  # of a message, for what stands beside the requests
ENTRY_BYTES: Final = 48  # of a request, beside its command
SILENT_RETRIES: Final = 5  # after which a client that waits has gone
BATCHES_MAX: Final = 64  # that one input executes


class StoreDesk:
    """Lives as long as one incarnation of the server."""

    def __init__(
        self, recipe: StoreRecipe, life: Incarnation, replica: StoreReplica, channels: PointToPoint
    ) -> None:
        self.recipe = recipe
        self.life = life
        self.replica = replica
        self.channels = channels
        group = recipe.group.recipe_of(1)
        silent_s = SILENT_RETRIES * recipe.retry_max_s
        self.lines = ClientLines(recipe.sessions_max, silent_s, group.datagram_bytes)
        self.request_bytes = group.message_bytes - MARGIN_BYTES
        self.outgoing: deque[tuple[ClientLine, PendingRequest]] = deque()  # updates to multicast
        self.asking: dict[int, None] = {}  # clients that may have a query to be answered next
        self.assigned: deque[tuple[QueryEntry, Incarnation]] = deque()  # and whose clients ask
        self.query_counter = 0
        self.queries_served = 0
        self.has_resumed = False
        self.has_caught_up = False  # in this life: with all that an earlier one may have shown

    def __repr__(self) -> str:
        return f"StoreDesk({self.lines}, outgoing={len(self.outgoing)})"

    def enter(self) -> None:
        """newview: queries of others are dropped, own ones are issued again; what own clients have
        seen is safe."""
        for line in self.lines:
            self.replica.raise_safe(line.last, line.level)
            for pending in line.pending:
                pending.sent_in, pending.is_issued = 0, False
            if line.query is not None:
                self.asking[line.client] = None
        self.assigned.clear()
        self.outgoing.clear()
        self.query_counter = 0
        self.has_resumed = False

    def on_request(self, source: Pid, request: StoreRequest, now: float, out: Effects) -> None:
        """A client asks."""
        found = self.lines.on_request(source, request, now)
        if found is None:
            return
        line, new = found
        if line.last > self.replica.safe:
            self.replica.raise_safe(line.last, line.level)
        for pending in new:
            if pending.body and out.events is not None:  # The others open sessions.
                note = UPDATE if pending.is_update else QUERY
                about = {"note": note, "version": line.last}
                self._record(REQUEST, line.client, pending.number, out, **about)
            if len(pending.body) + ENTRY_BYTES > self.request_bytes:
                bytes_max = self.request_bytes - ENTRY_BYTES
                text = f"the request has {len(pending.body)} bytes, and {bytes_max} are the maximum"
                answer = StoreAnswer(pending.number, FAILED, encode_value(text), line.last)
                self.lines.answer(line, pending, answer)
        if line.query is not None:  # It is new, or the client has withdrawn what was before it.
            self.asking[line.client] = None
        self._issue(line, out)

    def _issue(self, line: ClientLine, out: Effects) -> None:
        """Multicast updates in a primary view; elsewhere answer them at once."""
        if not self.has_resumed:
            return
        may_update = self._may_update()
        for pending in line.next_updates():
            if may_update:
                pending.is_issued = True
                self.outgoing.append((line, pending))
                continue
            status = UNKNOWN if pending.was_sent else REFUSED
            self.lines.answer(line, pending, StoreAnswer(pending.number, status, b"", 0))
            if pending.body:
                self._record(REFUSE, line.client, pending.number, out, note=status)
            self.asking[line.client] = None

    def _may_update(self) -> bool:
        return self.replica.is_primary

    def _answer(
        self, line: ClientLine, pending: PendingRequest, answer: StoreAnswer, out: Effects
    ) -> None:
        self.lines.answer(line, pending, answer)
        line.saw(answer.index, self.replica.level)
        if line.pending:
            self.asking[line.client] = None
        if out.events is None or not pending.body or answer.status == FORGOTTEN:
            return
        number, digest = answer.number, digest_of(answer.body)
        self._record(REPLY, line.client, number, out, version=answer.index, digest=digest)

    def resume(self, out: Effects) -> None:
        """The view is established: issue updates again that are not in the base, or say that they
        cannot be issued."""
        replica = self.replica
        if self.has_resumed or not replica.is_established:
            return
        is_at_base = replica.is_in_place and replica.executed == replica.safe
        if is_at_base or not replica.is_primary:
            self.has_resumed = True
            for line in self.lines:
                self._issue(line, out)

    def execute(self, out: Effects) -> bool:
        """update: what is safe, a bounded number of batches at a time; returns whether there is
        more."""
        replica, lines, execute = self.replica, self.lines.lines, self.replica.state.execute
        for _ in range(BATCHES_MAX):
            batch = replica.next_batch()
            if batch is None:
                return False
            for entry in entries_of(batch.payload):
                answer, is_new = execute(entry)
                client, number = entry[0], entry[1]
                if out.events is not None:
                    note, place = UPDATE if is_new else PASSED, replica.executed
                    self._record(EXECUTE, client, number, out, note=note, position=place)
                line = lines.get(client)
                if line is not None and answer is not None:
                    pending = line.find(number)
                    if pending is not None:
                        self._answer(line, pending, answer, out)
        return replica.next_batch() is not None

    # Queries

    def serve(self, out: Effects) -> None:
        """Answer the queries that were assigned to this server, and those of own clients."""
        if self.assigned:
            self._answer_assigned(out)
        if not self.asking or self.recipe.reads == "rotate" or not self._may_read():
            return
        waiting: dict[int, None] = {}
        while self.asking:
            client, _ = self.asking.popitem()
            line = self.lines.get(client)
            while line is not None and (query := line.query) is not None:
                if not self._answer_here(line, query, out):
                    waiting[client] = None
                    break
                self.asking.pop(client, None)
            if line is not None:
                self._issue(line, out)
        self.asking = waiting

    def _may_read(self) -> bool:
        """Not before this life has worked in a view: what an earlier one executed and showed may
        not be known to be safe on the own disk."""
        replica = self.replica
        if not self.has_caught_up and replica.is_established and replica.is_in_place:
            self.has_caught_up = replica.executed == replica.safe
        return self.has_caught_up

    def _answer_here(self, line: ClientLine, query: PendingRequest, out: Effects) -> bool:
        """query, where it arrived: in the state that this server has, if that is new enough."""
        found = self._evaluate(line.client, query.number, line.last, query.body, out)
        if found is None:
            return False
        self._answer(line, query, found, out)
        return True

    def _evaluate(
        self, client: int, number: int, last: int, body: bytes, out: Effects, origin: Pid = -1
    ) -> StoreAnswer | None:
        replica = self.replica
        if not self._is_new_enough(last):
            return None
        found = replica.state.query(body)
        if found is None:
            return None
        self.queries_served += 1
        index = replica.executed
        self._record(EXECUTE, client, number, out, note=QUERY, version=index, peer=origin)
        return StoreAnswer(number, *found, index)

    def _is_new_enough(self, last: int) -> bool:
        return self.replica.has_state and self.replica.executed >= last

    def _rotated(self) -> list[tuple[ClientLine, PendingRequest]]:
        """Queries of own clients that the members of the view shall answer in turn."""
        found: list[tuple[ClientLine, PendingRequest]] = []
        replica = self.replica
        if self.recipe.reads != "rotate" or not (replica.is_established and replica.is_in_place):
            return found
        for client in list(self.asking):
            line = self.lines.get(client)
            query = None if line is None else line.query
            if line is None or query is None or query.sent_in == replica.view.id:
                del self.asking[client]
            elif self._is_known_here(line):
                found.append((line, query))
        return found

    def _is_known_here(self, line: ClientLine) -> bool:
        """Whether this server, and with it every member of its view that is in place, has what the
        client has seen."""
        replica = self.replica
        if line.last <= replica.executed:
            return True
        return line.last <= replica.log.length and line.level <= replica.level

    def on_queries(self, batch: QueryBatch, origin: Incarnation, out: Effects) -> None:
        """gprcv: the members that have the state answer in turn; the counter goes up before the
        test."""
        plan = self.replica.plan
        assert plan is not None
        members = [life for life in self.replica.view.members if life.pid in plan.core]
        for query in batch.queries:
            self.query_counter += 1
            if members[self.query_counter % len(members)] == self.life:
                self.assigned.append((query, origin))
                client, number, last, _ = query
                # It is safe, as the server knows that asks: both began the view with one history.
                self.replica.raise_safe(last, self.replica.level)
                about = {"version": last, "position": self.replica.log.length, "peer": origin.pid}
                self._record(REQUEST, client, number, out, note=QUERY, **about)

    def _answer_assigned(self, out: Effects) -> None:
        """query and ptpsnd."""
        for _ in range(len(self.assigned)):
            query, origin = self.assigned.popleft()
            client, number, last, body = query
            found = self._evaluate(client, number, last, body, out, origin.pid)
            if found is None:
                self.assigned.append((query, origin))
                continue
            view = self.replica.view.id
            answer = QueryAnswer(view, client, number, found.status, found.body, found.index)
            if origin == self.life:
                self.on_answer(answer, out)
            else:
                self.channels.send(origin, encode_message(answer), out)

    def on_answer(self, answer: QueryAnswer, out: Effects) -> None:
        """ptprcv: an answer of another view is not for this server any more."""
        line = self.lines.get(answer.client)
        if answer.view != self.replica.view.id or line is None:
            return
        query = line.query
        if query is not None and query.number == answer.number and query.sent_in == answer.view:
            about = answer.number, answer.status, answer.body, answer.index
            self._answer(line, query, StoreAnswer(*about), out)
            self._issue(line, out)

    # Batches

    @property
    def has_outgoing(self) -> bool:
        """Whether there may be something for `next_batch`."""
        return bool(self.outgoing) or (self.recipe.reads == "rotate" and bool(self.asking))

    def next_batch(self) -> tuple[bytes, list[PendingRequest]] | None:
        """The payload of the next multicast, and which requests it has; `on_sent` follows."""
        entries: list[UpdateEntry] = []
        requests: list[PendingRequest] = []
        size = 0
        for line, pending in self.outgoing:
            size += len(pending.body) + ENTRY_BYTES
            if requests and size > self.request_bytes:
                break
            requests.append(pending)
            entry = line.client, pending.number, line.oldest, line.opened, pending.body
            entries.append(entry)
        if entries:
            return update_batch(entries), requests
        queries: list[QueryEntry] = []
        for line, query in self._rotated():
            size += len(query.body) + ENTRY_BYTES
            if requests and size > self.request_bytes:
                break
            requests.append(query)
            queries.append((line.client, query.number, line.last, query.body))
        return (encode_message(QueryBatch(tuple(queries))), requests) if queries else None

    def on_sent(self, requests: list[PendingRequest]) -> None:
        """The group has taken these."""
        for request in requests:
            request.sent_in, request.was_sent = self.replica.view.id, True
            if request.is_update:
                self.outgoing.popleft()

    def _record(self, kind: str, client: int, number: int, out: Effects, **more: Any) -> None:
        """Record an event about a request."""
        if out.events is None:
            return
        pid, inc = self.life
        of_request = {"client": client, "request": number, **more}
        view = self.replica.view.id
        out.events.append(Event(kind, pid, inc=inc, view=view, **of_request))
