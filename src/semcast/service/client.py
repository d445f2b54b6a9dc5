"""The client of a replicated service [SVS §5.1].

It sends a request to all servers, of which only the primary answers, and later requests to that
server alone; when no answer comes it asks all again.  It sends one request at a time and numbers
them, so the servers execute a request once even if it arrives twice.  Before its first request it
opens a session.  Servers that have forgotten the session say so; they do not execute the request.
A client that gives up does not know whether its request was executed.  The servers ignore that
request once they know a later number, so it cannot take effect after the next one.
"""

from collections.abc import Sequence
from random import Random
from typing import Any

from semcast.service.recipe import ServiceRecipe
from semcast.terms.effects import Effects
from semcast.terms.errors import LocalProtocolError
from semcast.terms.ids import EVERYONE, NEVER, SEQ_MAX, Incarnation, Pid, Seq
from semcast.terms.machine import Command, LeaveGroup, Machine, Status, Withdraw
from semcast.terms.messages import Update
from semcast.terms.outputs import ROOM, Answered, Ended
from semcast.terms.service import FORGOTTEN, OPENING, UNANSWERED, Reply, Request
from semcast.terms.views import LEFT


class ServiceClient(Machine):
    """Lives as long as its process.  What is submitted is a request, and its answer is an output
    `Answered`."""

    def __init__(self, recipe: ServiceRecipe, life: Incarnation, rng: Random, now: float) -> None:
        self.recipe = recipe
        self.life = life
        self.rng = rng
        self.client = rng.randint(1, SEQ_MAX)
        self.number = OPENING
        self.opened = 0  # the place of the opening, which names the session; 0: not yet
        self.body: bytes | None = None  # of the request that waits for its answer
        self.asked = 0  # requests, over all sessions
        self.primary: Pid | None = None  # who answered last
        self.wait_s = recipe.retry_s
        self.give_up_at = NEVER
        self.is_refused = False
        self.deadline = NEVER

    def __repr__(self) -> str:
        return f"ServiceClient({self.life}, number={self.number}, waits={self.body is not None})"

    @property
    def sent(self) -> Seq:
        """How many requests there were."""
        return self.asked

    def submit(self, updates: Sequence[Update], now: float, out: Effects) -> int:
        """Ask, if nothing is being asked: takes one request."""
        if self.body is not None or not updates:
            self.is_refused = bool(updates)
            return 0
        self.body = updates[0].payload
        self.asked += 1
        self.give_up_at = now + self.recipe.give_up_s
        if self.opened:
            self.number += 1
        self._ask_again(now, out)
        return 1

    def _ask_again(self, now: float, out: Effects) -> None:
        self.wait_s = self.recipe.retry_s
        self._ask(now, out)

    def _ask(self, now: float, out: Effects) -> None:
        assert self.body is not None
        body = self.body if self.opened else b""
        request = Request(self.client, self.number, body, self.opened)
        to = EVERYONE if self.primary is None else (self.primary,)
        out.send.append((to, request))
        self.deadline = min(now + self.wait_s, self.give_up_at)
        self.wait_s = min(2 * self.wait_s, self.recipe.retry_max_s)

    def on_time(self, now: float, out: Effects) -> None:
        """No answer came: the primary may be another one now, or there is none."""
        if now >= self.deadline:
            self.primary = None
            if now >= self.give_up_at:
                self._answer(UNANSWERED, b"", out)
            else:
                self._ask(now, out)

    def on_datagrams(self, source: Pid, datagrams: Sequence[Any], now: float, out: Effects) -> None:
        """Of all that servers say, only answers are for a client."""
        for datagram in datagrams:
            if isinstance(datagram, Reply) and datagram.client == self.client:
                self._on_reply(source, datagram, now, out)

    def _on_reply(self, source: Pid, reply: Reply, now: float, out: Effects) -> None:
        if self.body is None or reply.number != self.number:
            return  # A second answer to an earlier request.
        self.primary = source
        if reply.status == FORGOTTEN:
            self.client = self.rng.randint(1, SEQ_MAX)
            self.number, self.opened = OPENING, 0
        elif not self.opened:
            self.number, self.opened = OPENING + 1, reply.opened
            self._ask_again(now, out)
            return
        self._answer(reply.status, reply.body, out)

    def _answer(self, status: str, body: bytes, out: Effects) -> None:
        self.body, self.deadline = None, NEVER
        out.outputs.append(Answered(status, body))
        if self.is_refused:
            self.is_refused = False
            out.outputs.append(ROOM)

    def on_command(self, command: Command, now: float, out: Effects) -> None:
        """Withdraw the request that is being asked; or go, and wait for no answer any more."""
        if isinstance(command, Withdraw):
            if self.body is not None and command.request == self.asked:
                self._answer(UNANSWERED, b"", out)
        elif isinstance(command, LeaveGroup):
            self.body, self.deadline = None, NEVER
            out.outputs.append(Ended(LEFT))
        else:
            raise LocalProtocolError(f"{type(command).__name__}: not for a client")

    def status(self, now: float) -> Status:
        """How it is doing."""
        return Status(sent=self.asked, is_blocked=self.body is not None)
