"""The clients of one process that share a socket, as one machine.

Each stays a client of its own, with its number, its session and its timers.  But what they ask in
one turn is one input, and so are the answers that come in one frame: an input for each request and
each answer would cost more than what the clients do in it.
"""

from collections.abc import Sequence
from itertools import count
from typing import Any

from semcast.terms.effects import Effects
from semcast.terms.errors import LocalProtocolError
from semcast.terms.ids import NEVER, Pid, Seq
from semcast.terms.machine import Command, Machine, Status
from semcast.terms.messages import Update
from semcast.terms.outputs import ClientOutputs
from semcast.terms.store import StoreBundle


class ClientSet(Machine):
    """Lives as long as the socket.  Inputs and outputs name a client by the key that `add` gave it.

    Invariant: `deadline` is at or before that of every client.
    """

    def __init__(self) -> None:
        self._clients: dict[int, Machine] = {}
        self.deadline = NEVER
        self._keys = count(1)
        self._key_of: dict[int, int] = {}  # by the number that the requests of a client have

    def __repr__(self) -> str:
        return f"ClientSet({list(self._clients.values())})"

    @property
    def sent(self) -> Seq:
        """How many requests there were."""
        return sum(client.sent for client in self._clients.values())

    @property
    def newest(self) -> Machine | None:
        """The client that began last."""
        return next(reversed(self._clients.values()), None)

    def add(self, client: Machine) -> int:
        """A client begins; returns its key."""
        key = next(self._keys)
        self._clients[key] = client
        return key

    def remove(self, key: int) -> None:
        """A client has ended."""
        del self._clients[key]
        self._key_of = {number: each for number, each in self._key_of.items() if each != key}

    def submit(self, updates: Sequence[Update], now: float, out: Effects) -> int:
        """Not without the key of a client."""
        raise LocalProtocolError("several clients share this machine: say which one asks")

    def ask(
        self, requests: Sequence[tuple[int, Sequence[Update]]], now: float, out: Effects
    ) -> list[int]:
        """Requests by client; returns how many of each the client has taken."""
        accepted = []
        for key, updates in requests:
            client, before = self._clients[key], (len(out.send), len(out.outputs))
            accepted.append(client.submit(updates, now, out))
            self._note(key, client, before, out)
        return accepted

    def on_datagrams(self, source: Pid, datagrams: Sequence[Any], now: float, out: Effects) -> None:
        """Answers; one of a client that has ended is for nobody."""
        clients, key_of = self._clients, self._key_of
        for datagram in datagrams:
            for part in datagram.parts if type(datagram) is StoreBundle else (datagram,):
                key = key_of.get(getattr(part, "client", 0))
                if key is not None:
                    client, before = clients[key], (len(out.send), len(out.outputs))
                    client.on_datagrams(source, (part,), now, out)
                    self._note(key, client, before, out)

    def on_time(self, now: float, out: Effects) -> None:
        """Time has passed."""
        self.deadline = NEVER
        for key, client in self._clients.items():
            before = len(out.send), len(out.outputs)
            if client.deadline <= now:
                client.on_time(now, out)
            self._note(key, client, before, out)

    def command(self, key: int, command: Command, now: float, out: Effects) -> None:
        """A decision about one client."""
        client, before = self._clients[key], (len(out.send), len(out.outputs))
        client.on_command(command, now, out)
        self._note(key, client, before, out)

    def _note(self, key: int, client: Machine, before: tuple[int, int], out: Effects) -> None:
        """After an input of a client: say whose outputs these are, and learn its number."""
        sends, outputs = before
        if len(out.send) > sends:
            for _, request in out.send[sends:]:
                self._key_of[request.client] = key
        if len(out.outputs) > outputs:
            own = tuple(out.outputs[outputs:])
            out.outputs[outputs:] = (ClientOutputs(key, own),)
        if client.deadline < self.deadline:
            self.deadline = client.deadline

    def status(self, now: float) -> Status:
        """How they are doing."""
        return Status(sent=self.sent)
