"""One server of a primary-backup service [SVS fig. 1], on a group with views.

The primary executes a request.  It multicasts one message for each item that the request wrote,
and then a *fin*, which carries the reply.  A backup gathers these updates, applies them when their
*fin* comes, and acknowledges that.  When all backups have, the primary answers the client.
The primary applies its own updates when the group delivers them back to it.  Until then only later
requests see them; if the view changes first, all servers forget them.

Departs from figure 1, which loses replies or waits for ever in five cases (docs/decisions/0033):
- The primary answers a repeated request only once the request is complete.
- A request is complete when each backup of the view has acknowledged it, not when as many
  acknowledgements have come as there are backups.
- An acknowledgement names the view and the *fin*.
- A request whose *fin* was delivered before a server enters the next view is complete then.
- The primary was in the view before, and serves once it has applied everything of that view.
"""

from collections import deque
from collections.abc import Sequence
from random import Random
from typing import Any, Final

import msgspec

from semcast.core.views.member import ViewMember
from semcast.service.executor import Executor, Service
from semcast.service.group_service import GroupService
from semcast.service.recipe import ServiceRecipe
from semcast.service.replaced_requests import ReplacedRequests
from semcast.service.replica_state import (
    ClientSession,
    Fin,
    ReplicaState,
    decode_fin,
    digest_of,
)
from semcast.terms.effects import Effects
from semcast.terms.errors import LocalProtocolError, RemoteProtocolError
from semcast.terms.events import EXECUTE, REPLY, UPDATE, Event
from semcast.terms.ids import NEVER, SEQ_MAX, Incarnation, Pid, Seq
from semcast.terms.machine import Command, LeaveGroup, Status, SupplyState
from semcast.terms.messages import DataMessage, Update
from semcast.terms.outputs import Delivery, Installed
from semcast.terms.service import (
    BACKUP,
    DONE,
    FORGOTTEN,
    OPENING,
    PRIMARY,
    Applied,
    AskApplied,
    Reply,
    Request,
)
from semcast.terms.views import MEMBER, NO_VIEW, Stamped

UNSENT_MAX: Final = 1024  # updates at which no more requests are executed until the group took them


class PendingReply(msgspec.Struct):
    """A request that was executed and is not complete.  `seq` is the number of its *fin*, `source`
    the process that asked last."""

    fin: Fin
    source: Pid
    seq: Seq = 0
    version: int = 0  # once it is applied here


class Replica(GroupService):
    """Lives as long as one incarnation of the process.  `view` is the one its state is in."""

    def __init__(
        self, recipe: ServiceRecipe, life: Incarnation, rng: Random, now: float, service: Service
    ) -> None:
        self.recipe = recipe
        self.life = life
        super().__init__(ViewMember(recipe.group, life, rng, now))
        self.state = ReplicaState(recipe)
        message_bytes = recipe.group.recipe_of(1).message_bytes
        self.executor = Executor(service, self.state.items, message_bytes, recipe.packs_updates)
        self.view = NO_VIEW
        self.primary: Incarnation | None = None
        self.is_leaving = False
        # At a backup: the last fin of the view that it applied, and whether to say so.
        self.applied: Seq = 0
        self.owes_answer = False
        # At the primary:
        self.waiting: dict[int, tuple[Request, Pid]] = {}  # by client, not executed yet
        self.unsent: deque[Update] = deque()  # of requests that were executed
        self.pending: deque[PendingReply] = deque()  # of which those that have yet to be
        self.unnumbered: deque[PendingReply] = deque()  # multicast, and
        self.unapplied: deque[PendingReply] = deque()  # delivered here
        self.replaced = ReplacedRequests()  # if each request is one message
        self.in_progress: dict[int, PendingReply] = {}  # the same by client
        self.acknowledged: dict[Pid, Seq] = {}
        self.executed_at = now
        self.ask_at = NEVER
        self.ask_s = recipe.retry_s  # after which backups are asked again
        self.is_unflushed = False  # the group may hold updates back for company
        self.is_held_up = False  # there was no room for all updates

    def __repr__(self) -> str:
        role = "primary" if self.is_primary else "backup"
        return f"Replica({self.life}, {role}, version={self.state.version}, {self.group})"

    @property
    def is_primary(self) -> bool:
        """Whether it is the one that executes, in the view that it has entered."""
        return self.primary == self.life

    # Inputs: each goes to the group first, if it concerns the group

    def submit(self, updates: Sequence[Update], now: float, out: Effects) -> int:
        """Not at a server."""
        raise LocalProtocolError("a server multicasts only what requests have written")

    def on_datagrams(self, source: Pid, datagrams: Sequence[Any], now: float, out: Effects) -> None:
        """Requests, acknowledgements, and what the group has to say."""
        of_group: list[Stamped] = []
        for datagram in datagrams:
            if isinstance(datagram, Stamped):
                of_group.append(datagram)
            elif isinstance(datagram, Request):
                self._on_request(source, datagram, out)
            elif isinstance(datagram, Applied):
                self._on_applied(source, datagram)
            elif isinstance(datagram, AskApplied):
                self._on_ask(source, datagram)
        mark = self._begin(out)
        if of_group:
            self.group.on_datagrams(source, of_group, now, out)
        self._settle(mark, now, out)

    def on_command(self, command: Command, now: float, out: Effects) -> None:
        """Found the group, or leave it."""
        self.is_leaving |= isinstance(command, LeaveGroup)
        super().on_command(command, now, out)

    def status(self, now: float) -> Status:
        """How its group is doing, and who is primary in the view that it has entered."""
        role, primary = PRIMARY if self.is_primary else BACKUP, self.primary and self.primary.pid
        status, version = self.group.status(now), self.state.version
        return msgspec.structs.replace(status, role=role, primary=primary, version=version)

    # Requests, at the primary

    def _on_request(self, source: Pid, request: Request, out: Effects) -> None:
        """Lines 1 to 4 of the figure: keep the request for `_serve`, or send the reply again."""
        if not self.is_primary or self.is_leaving:
            return
        session = self.state.sessions.get(request.client)
        pending = self.in_progress.get(request.client)
        if session is not None and session.number > request.number:
            return  # It was answered, and its client has gone on.
        if session is not None and self._answers(session, request):
            about = request.client, request.number, session.status, session.reply
            fin = Fin(*about, 0, session.opened)
            self._reply(PendingReply(fin, source, version=session.version), out)
        elif pending is not None:
            pending.source = source
        elif len(self.waiting) < self.recipe.sessions_max:  # Else the client asks again.
            self.waiting[request.client] = request, source

    def _answers(self, session: ClientSession, request: Request) -> bool:
        """Whether the session has the reply, and it may be sent."""
        is_again = session.number == request.number and request.opened in (session.opened, 0)
        return is_again and self._is_complete(request)

    def _is_complete(self, request: Request) -> bool:
        """Whether every server of this view has applied it, in this view or before."""
        return request.client not in self.in_progress

    def _serve(self, now: float, out: Effects) -> None:
        """Lines 5 to 9: execute what waits, as long as the group has room for the updates."""
        while self.is_primary and self.group.phase == MEMBER:
            while self.waiting and not self.is_leaving and len(self.unsent) < UNSENT_MAX:
                client = next(iter(self.waiting))
                self._execute(*self.waiting.pop(client), now)
            if not self.unsent or not self._submit(now, out):
                return

    def _execute(self, request: Request, source: Pid, now: float) -> None:
        client, number = request.client, request.number
        session = self.state.sessions.get(client)
        if number == OPENING:
            status, reply = DONE, b""
        elif session is None or session.opened != request.opened:
            status, reply = FORGOTTEN, b""
        else:
            status, reply = self.executor.run(request.body)
        elapsed_ms = max(0, int((now - self.executed_at) * 1000))
        self.executed_at += elapsed_ms / 1000
        fin = Fin(client, number, status, reply, elapsed_ms, request.opened)
        updates, names = self.executor.updates()
        obsoletes: tuple[Seq, ...] = ()
        if self.recipe.packs_updates and names:
            obsoletes = self.replaced.replace(names, self.group.sent + len(self.unsent) + 1)
        self.unsent.extend((*updates, self.executor.finish(fin, obsoletes)))
        pending = PendingReply(fin, source)
        for queue in (self.pending, self.unnumbered, self.unapplied):
            queue.append(pending)
        self.in_progress[client] = pending

    def _multicast(self, now: float, out: Effects, *, flushes: bool) -> bool:
        """Execute requests that came together as one batch; go on with what there was no room
        for."""
        if flushes or self.unsent:
            self._serve(now, out)
        self.is_unflushed = self.is_unflushed and not flushes
        return not flushes and (self.is_unflushed or bool(self.waiting))

    def _submit(self, now: float, out: Effects) -> bool:
        """Multicast what requests have written; returns whether the group took all of it."""
        updates = self._next_request() if self.is_held_up else list(self.unsent)
        accepted = self.group.submit(updates, now, out)
        self.is_held_up = accepted < len(updates)
        for seq in range(self.group.sent - accepted + 1, self.group.sent + 1):
            if self.unsent.popleft().item is None:
                self.unnumbered.popleft().seq = seq
        self.is_unflushed |= accepted > 0
        self.ask_at = min(self.ask_at, now + self.ask_s)
        return not self.is_held_up

    def _next_request(self) -> list[Update]:
        """The rest of one request.  While there is no room for all, requests are offered one by
        one: under overflow "exclude" the group counts how long a sender has offered too much."""
        updates = []
        for update in self.unsent:
            updates.append(update)
            if update.item is None:
                break
        return updates

    # Acknowledgements

    def _on_applied(self, source: Pid, applied: Applied) -> None:
        """Lines 10 and 11: count it only if a backup of this view sent it for this view."""
        if self._is_of_view(applied) and (source, applied.inc) in self.view.members:
            known = self.acknowledged.get(source, 0)
            self.acknowledged[source] = max(known, applied.seq)

    def _on_ask(self, source: Pid, asked: AskApplied) -> None:
        if self._is_of_view(asked) and self.primary is not None and source == self.primary.pid:
            self.owes_answer = self.applied > 0

    def _is_of_view(self, datagram: Applied | AskApplied) -> bool:
        return (datagram.lineage, datagram.view) == (self.view.lineage, self.view.id)

    def _ask(self) -> None:
        """Ask the backups that have not acknowledged: the network may have lost it."""
        first = self.pending[0].seq if self.pending else 0
        if first:
            lacking = tuple(pid for pid in self._backups() if self.acknowledged.get(pid, 0) < first)
            self.to_send.append((lacking, AskApplied(self.view.lineage, self.view.id)))

    def _backups(self) -> list[Pid]:
        return [life.pid for life in self.view.members if life != self.life]

    def _complete(self, out: Effects) -> None:
        """Lines 12 and 13: answer every request that all backups have applied."""
        if not self.pending:
            return
        applied = min((self.acknowledged.get(pid, 0) for pid in self._backups()), default=SEQ_MAX)
        while self.pending and (first := self.pending[0]).version and first.seq <= applied:
            self._reply(self.pending.popleft(), out)
            self.ask_s = self.recipe.retry_s
        if not self.pending:
            self.ask_at = NEVER

    def _reply(self, pending: PendingReply, out: Effects) -> None:
        fin = pending.fin
        self.in_progress.pop(fin.client, None)
        opened = fin.opened or pending.version
        reply = Reply(fin.client, fin.number, fin.status, fin.reply, opened)
        self.to_send.append(((pending.source,), reply))
        digest = digest_of(fin.reply)
        self._record(REPLY, fin, out, version=pending.version, digest=digest)

    # What the group delivers

    def _work(self, now: float, out: Effects) -> None:
        self._complete(out)

    def _finish(self, now: float, out: Effects) -> None:
        """Ask backups that are silent, or acknowledge to the primary; set the timer."""
        if now >= self.ask_at:
            self._ask()
            self.ask_at = now + self.ask_s
            self.ask_s = min(2 * self.ask_s, self.recipe.retry_max_s)
        if self.owes_answer and self.primary is not None and not self.is_primary:
            view = self.view
            applied = Applied(view.lineage, view.id, self.life.inc, self.applied)
            self.to_send.append(((self.primary.pid,), applied))
        self.owes_answer = False
        self.deadline = min(self.group.deadline, self.ask_at, self.flush_at)

    def _on_delivery(self, delivery: Delivery, now: float, out: Effects) -> None:
        for message in delivery.run.messages():
            self._deliver(message, out)

    def _deliver(self, message: DataMessage, out: Effects) -> None:
        """Lines 14 to 21, which the primary carries out, too."""
        if self.view.members[message.sender] != self.primary:
            raise RemoteProtocolError(f"{self.view.members[message.sender]} is not the primary")
        if message.item is not None:
            for name, value in self.executor.written(message):
                self.state.gather(name, value)
            return
        fin = decode_fin(message.payload)
        self.state.finish(fin)
        place, peer = self.state.version, self.primary.pid
        self._record(EXECUTE, fin, out, note=UPDATE, position=place, peer=peer)
        self.applied, self.owes_answer = message.seq, True
        if self.is_primary:
            self._on_own(message.seq)

    def _on_own(self, seq: Seq) -> None:
        """The group delivered a *fin* back to the primary that sent it."""
        if self.unapplied and self.unapplied[0].seq == seq:
            self.unapplied.popleft().version = self.state.version
        if not self.unapplied:
            self.executor.items.catch_up()

    def _on_install(
        self, installed: Installed, event: Event | None, now: float, out: Effects
    ) -> None:
        """Enter a view: answer what was finished in the view before, forget the rest."""
        if installed.state is not None:
            before = self.state.restore(installed.state)
        else:
            before = self.view.members or installed.view.members
        self._end_view(out)
        self.view = installed.view
        self.primary = next(life for life in self.view.members if life in before)
        if not self.is_primary:
            self.waiting.clear()
        self.executed_at = now
        if event is not None:
            event.version, event.digest = self.state.version, self.state.digest()
        if installed.wants_state:
            supply = SupplyState(self.view.id, self.state.snapshot(before))
            self.group.on_command(supply, now, out)

    def _end_view(self, out: Effects) -> None:
        """All survivors have applied the same requests of the view, and none of the others."""
        self.state.drop_gathered()
        self.unsent.clear()
        self.is_held_up = False
        self.replaced.clear()
        for pending in self.pending:
            if pending.version:
                self._reply(pending, out)
        for queue in (self.pending, self.unnumbered, self.unapplied):
            queue.clear()
        self.in_progress.clear()
        self.acknowledged.clear()
        self.executor.items.catch_up()
        self.applied, self.owes_answer = 0, False
        self.ask_at, self.ask_s = NEVER, self.recipe.retry_s

    def _record(self, kind: str, fin: Fin, out: Effects, **more: Any) -> None:
        """Record an event about a request, unless it only opened or missed a session."""
        if out.events is None or fin.number == OPENING or fin.status == FORGOTTEN:
            return
        (pid, inc), view = self.life, self.view
        of_request = {"client": fin.client, "request": fin.number, **more}
        out.events.append(
            Event(kind, pid, inc=inc, view=view.id, lineage=view.lineage, **of_request)
        )
