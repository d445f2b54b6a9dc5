"""The client of a replicated store [VSD fig. 3], which need not wait for one answer before it asks
the next.

It talks to one server, and goes to another when no answer comes or when the server cannot update.
A new update goes only to a server that has answered since the client came to it: else nobody could
say whether a server that is gone has it.
It takes its token along: how far it has seen, and which of its requests were answered.  So it never
reads an older state than before, and an update that it sends again runs once.  Answers are taken in
the order of the requests.  Before its first update it opens a session by an empty request.  A
request that nobody waits for any more is dropped, unless it is an update that a server may have.
"""

from collections import deque
from collections.abc import Sequence
from random import Random
from typing import Any, Final

import msgspec

from semcast.service.commands import is_update
from semcast.service.replica_state import digest_of
from semcast.service.store_recipe import StoreRecipe
from semcast.terms.effects import Effects
from semcast.terms.errors import LocalProtocolError
from semcast.terms.events import GIVEN_UP, REFUSE, REPLY, TAKEN, Event
from semcast.terms.ids import NEVER, SEQ_MAX, Incarnation, Pid, Seq
from semcast.terms.machine import Command, LeaveGroup, Machine, Status, Withdraw
from semcast.terms.messages import Update
from semcast.terms.outputs import ROOM, Answered, Ended, Withdrawn
from semcast.terms.service import DONE, FORGOTTEN
from semcast.terms.store import (
    DATAGRAM_BYTES,
    REFUSED,
    UNKNOWN,
    StoreAnswer,
    StoreBundle,
    StoreReply,
    StoreRequest,
)
from semcast.terms.views import LEFT

TRIES_MAX: Final = 2  # at one server, before the next one
ROUNDS_MAX: Final = 16  # after which waits do not get longer
OPENING_BODY: Final = b""


class SentRequest(msgspec.Struct, gc=False):
    """A request that is not answered; without a body it opens the session.  `asked` counts those of
    the application.  One that `is_withdrawn` is not sent, and goes when it is the first."""

    number: int
    body: bytes
    is_update: bool
    asked: int
    sends: int = 0
    is_withdrawn: bool = False


class StoreClient(Machine):
    """Lives as long as its process.  What is submitted is a request, and its answer is an output
    `Answered`; answers come in the order of the requests."""

    def __init__(
        self,
        recipe: StoreRecipe,
        life: Incarnation,
        rng: Random,
        now: float,
        beside: "StoreClient | None" = None,
    ) -> None:
        """`beside` is another client of the process: this one begins at its server, so that their
        requests can travel together."""
        self.recipe = recipe
        self.life = life
        self.client = rng.randint(1, SEQ_MAX)
        founders = rng.sample(recipe.founders, len(recipe.founders))
        self.route: Sequence[Pid] = founders if beside is None else beside.route
        self.moves = 0  # along the route since the last answer
        self.server: Pid = self.route[0] if beside is None else beside.server
        self.opened = self.last = self.level = 0  # the token
        self.number = 0  # of the last request
        self.asked = 0  # requests of the application
        self.pending: deque[SentRequest] = deque()
        self.early: dict[int, StoreAnswer] = {}  # answers of this server, before their turn
        self.sent_upto = 0  # the last number that this server was sent
        self.tries = 0
        self.is_met = False  # this server has answered since the client came to it
        self.is_leaving = False  # this server cannot update
        self.wait_s = recipe.retry_s
        self.is_refused = False
        self.deadline = NEVER

    def __repr__(self) -> str:
        return f"StoreClient({self.life}, last={self.last}, waits={len(self.pending)})"

    @property
    def sent(self) -> Seq:
        """How many requests there were."""
        return self.asked

    def submit(self, updates: Sequence[Update], now: float, out: Effects) -> int:
        """Ask as many as may be on their way at once."""
        accepted = 0
        for update in updates:
            if len(self.pending) >= self.recipe.pipeline:
                self.is_refused = True
                break
            self._add(update.payload)
            accepted += 1
        self._send(now, out)
        return accepted

    def _add(self, body: bytes) -> None:
        if self._lacks_session and is_update(body):
            self._append(OPENING_BODY)
        self._append(body)

    @property
    def _lacks_session(self) -> bool:
        return not self.opened and all(sent.body for sent in self.pending)

    def _append(self, body: bytes) -> None:
        self.number += 1
        self.asked += bool(body)
        request = SentRequest(self.number, body, not body or is_update(body), self.asked)
        self.pending.append(request)

    def _send(self, now: float, out: Effects) -> None:
        """Send what this server was not sent.  Nothing follows an opening before its answer, and no
        update follows a query: if the query had to be asked again, it would see the update.
        Servers know that the number of a withdrawn request was skipped when it is before the
        oldest."""
        bodies: list[bytes] = []
        size = 0
        has_query = False
        for sent in self.pending:
            if sent.is_update and (has_query or self._is_held(sent)):
                break
            has_query |= not sent.is_update
            if sent.number > self.sent_upto:
                if sent.is_withdrawn:
                    break
                if size > DATAGRAM_BYTES:
                    self._send_bodies(bodies, out)
                    bodies, size = [], 0
                bodies.append(sent.body)
                sent.sends += 1
                size += len(sent.body) + 8
                self.sent_upto = sent.number
            if not sent.body:
                break
        is_first = not self.is_met and self.deadline == NEVER and not self._has_outstanding
        if bodies or (is_first and self.pending):
            self._send_bodies(bodies, out)
        if self.pending:
            self.deadline = min(self.deadline, now + self.wait_s)

    def _send_bodies(self, bodies: list[bytes], out: Effects) -> None:
        """The last of these is the last that was sent.  Without any, the server learns which
        answers are not awaited any more, and says that it is there."""
        token, oldest = (self.opened, self.last, self.level), self._oldest
        first = self.sent_upto - len(bodies) + 1 if bodies else oldest
        request = StoreRequest(self.client, *token, oldest, first, tuple(bodies))
        out.send.append(((self.server,), request))

    def _is_held(self, sent: SentRequest) -> bool:
        """Whether the update cannot be sent now."""
        if sent.sends or not sent.body:
            return False
        return not self.opened or not self.is_met or self.is_leaving

    @property
    def _has_outstanding(self) -> bool:
        """Whether this server was sent something that it has not answered."""
        return bool(self.pending) and self.pending[0].number <= self.sent_upto

    @property
    def _oldest(self) -> int:
        """The first request whose answer is awaited."""
        return self.pending[0].number if self.pending else self.number + 1

    def on_time(self, now: float, out: Effects) -> None:
        """No answer came: ask again, or ask another server."""
        if now < self.deadline:
            return
        self.tries += 1
        self.deadline = NEVER
        if self.tries >= TRIES_MAX:
            self._move()
        self.sent_upto = 0
        self._send(now, out)

    def _move(self) -> None:
        """From now on talk to the next server; if none has answered, more slowly in every round."""
        self.moves += 1
        place = (self.route.index(self.server) + 1) % len(self.route)
        self.server = self.route[place]
        rounds = min(self.moves // len(self.route), ROUNDS_MAX)
        self.wait_s = min(self.recipe.retry_s * 2**rounds, self.recipe.retry_max_s)
        self.tries = self.sent_upto = 0
        self.is_met = self.is_leaving = False
        self.early.clear()

    def on_datagrams(self, source: Pid, datagrams: Sequence[Any], now: float, out: Effects) -> None:
        """Of all that servers say, only answers are for a client."""
        for datagram in datagrams:
            # Of another client in a bundle: of an earlier one, or one that shares its socket.
            for part in datagram.parts if type(datagram) is StoreBundle else (datagram,):
                if isinstance(part, StoreReply) and part.client == self.client:
                    self._on_reply(source, part, now, out)

    def _on_reply(self, source: Pid, reply: StoreReply, now: float, out: Effects) -> None:
        if source != self.server:
            return  # It was asked before this client went elsewhere.
        if not self.is_met:
            self.is_met, self.tries, self.deadline = True, 0, NEVER
        pending, early, oldest = self.pending, self.early, self._oldest
        for answer in reply.answers:
            if answer.number >= oldest:  # else it has come before
                early[answer.number] = answer
        is_first = True
        while pending and (next_one := early.pop(pending[0].number, None)) is not None:
            if not pending[0].is_update and next_one.index < self.last:
                break  # This client has seen more since, at another server.
            if is_first:
                self.tries = self.moves = 0
                self.wait_s, self.deadline = self.recipe.retry_s, NEVER
                is_first = False
            self._take(pending.popleft(), next_one, reply.level, out)
            if pending:
                self._skip(out)
        if self.is_leaving and not self._has_outstanding:
            self._move()
        if pending:
            self._send(now, out)

    def _take(self, sent: SentRequest, answer: StoreAnswer, level: int, out: Effects) -> None:
        """An answer, in the order of the requests."""
        status = answer.status
        if status == REFUSED and sent.sends > 1:
            status = UNKNOWN  # A server that did not answer may have multicast it.
        if status in (REFUSED, UNKNOWN):
            self.is_leaving = True
        elif status == FORGOTTEN:
            self.opened = 0
        else:
            if answer.index > self.last:
                self.last = answer.index
            if level > self.level:
                self.level = level
        if sent.body:
            self._answer(sent, status, answer, out)
        elif status == DONE:
            self.opened = answer.index

    def _skip(self, out: Effects) -> None:
        """Pass over what was withdrawn.  Updates behind an opening that failed were not sent;
        refuse them in their turn."""
        while self.pending:
            first = self.pending[0]
            if first.is_withdrawn:
                self.pending.popleft()
                self._make_room(out)
            elif self._lacks_opening(first):
                self.pending.popleft()
                self._answer(first, REFUSED, StoreAnswer(first.number, REFUSED, b"", 0), out)
            else:
                return

    def _lacks_opening(self, sent: SentRequest) -> bool:
        """Whether the update cannot be sent, because its session was not opened."""
        return sent.is_update and bool(sent.body) and not self.opened and not sent.sends

    def _answer(self, sent: SentRequest, status: str, answer: StoreAnswer, out: Effects) -> None:
        out.outputs.append(Answered(status, answer.body))
        if status in (REFUSED, UNKNOWN, FORGOTTEN):
            self._note_refused(sent, TAKEN if status == REFUSED else GIVEN_UP, out)
        elif out.events is not None:
            event = Event(REPLY, self.life.pid, note=TAKEN, version=answer.index)
            event.digest = digest_of(answer.body)
            event.client, event.request = self.client, sent.number
            out.events.append(event)
        self._make_room(out)

    def _note_refused(self, sent: SentRequest, note: str, out: Effects) -> None:
        """Record what the application is told: TAKEN, that the update is never executed."""
        if out.events is not None:
            event = Event(REFUSE, self.life.pid, note=note)
            event.client, event.request = self.client, sent.number
            out.events.append(event)

    def _make_room(self, out: Effects) -> None:
        if self.is_refused:
            self.is_refused = False
            out.outputs.append(ROOM)

    def on_command(self, command: Command, now: float, out: Effects) -> None:
        """Withdraw a request; or go, and wait for no answer any more."""
        if isinstance(command, Withdraw):
            self._withdraw(command.request, now, out)
        elif isinstance(command, LeaveGroup):
            self.pending.clear()
            self.deadline = NEVER
            out.outputs.append(Ended(LEFT))
        else:
            raise LocalProtocolError(f"{type(command).__name__}: not for a client")

    def _withdraw(self, request: int, now: float, out: Effects) -> None:
        """Drop a request that nobody waits for, if it changes nothing or nobody has it."""
        for sent in self.pending:
            if sent.asked == request and sent.body and not sent.is_withdrawn:
                break
        else:
            return
        if not self._may_withdraw(sent):
            return
        sent.is_withdrawn = True
        if sent.is_update:
            self._note_refused(sent, TAKEN, out)
        out.outputs.append(Withdrawn(request))
        self._skip(out)
        if not self.pending:
            self.deadline = NEVER
        if sent.sends:
            self._send_bodies([], out)
        self._send(now, out)

    def _may_withdraw(self, sent: SentRequest) -> bool:
        """An update that was sent stays: a server may have it, and must not take it after later
        ones."""
        return not (sent.is_update and sent.sends)

    def status(self, now: float) -> Status:
        """How it is doing; `version` is the last update that it has seen."""
        return Status(sent=self.asked, is_blocked=bool(self.pending), version=self.last)
