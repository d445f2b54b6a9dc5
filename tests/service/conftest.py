"""Servers and clients of a service on a network that carries everything at once, and a clock."""

from random import Random

import pytest

from semcast.core.views.recipe import ViewRecipe
from semcast.service.client import ServiceClient
from semcast.service.recipe import ServiceRecipe
from semcast.service.replica import Replica
from semcast.service.replica_state import decode_value, encode_value
from semcast.terms.effects import Effects
from semcast.terms.ids import EVERYONE, Incarnation
from semcast.terms.machine import FoundGroup
from semcast.terms.messages import Update
from semcast.terms.outputs import Answered

LINEAGE = 7
READY = 2**40


class Bank:
    """Accounts are items."""

    def execute(self, request):
        name, amount = request
        balance = self.items.get(name, 0) + amount
        if balance < 0:
            self.items["debt"] = balance
            raise ValueError(f"{name} has only {balance - amount}")
        self.items[name] = balance
        self.items["last"] = name
        if amount == 0:
            del self.items[name]
        return balance


class World:
    """Servers are 0 to n - 1, clients follow; `lost(source, to, datagram)` drops datagrams."""

    def __init__(self, service=Bank, servers=3, clients=1, **settings):
        group = ViewRecipe(relation="update-fin", timeout_s=0.2)
        self.recipe = ServiceRecipe(**({"group": group, "retry_s": 0.05} | settings))
        self.now = 0.0
        self.lost = lambda source, to, datagram: False
        self.answers = {}
        self.sent = []
        founders = tuple(Incarnation(pid, 1) for pid in range(servers))
        self.nodes = {}
        for pid in range(servers + clients):
            life = Incarnation(pid, 1)
            rng = Random(pid)
            self.nodes[pid] = (
                Replica(self.recipe, life, rng, 0.0, service())
                if pid < servers
                else ServiceClient(self.recipe, life, rng, 0.0)
            )
        for pid in range(servers):
            self.enter(pid, "on_command", FoundGroup(founders, LINEAGE))
            self.enter(pid, "on_ready", READY)

    def enter(self, pid, handler, *args):
        out = Effects(recording=False)
        getattr(self.nodes[pid], handler)(*args, self.now, out)
        assert not out.refused
        self.answers.setdefault(pid, []).extend(
            (output.status, decode_value(output.body) if output.body else None)
            for output in out.outputs
            if isinstance(output, Answered)
        )
        for to, datagram in out.send:
            for other in list(self.nodes) if to is EVERYONE else to:
                self.sent.append((pid, other, datagram))
                if other == pid or other not in self.nodes or self.lost(pid, other, datagram):
                    continue
                self.enter(other, "on_datagrams", pid, [datagram])

    def ask(self, pid, request):
        self.enter(pid, "submit", [Update(encode_value(request))])
        self.run(0.0)  # Servers execute what has arrived when the event loop has turned.

    def run(self, seconds):
        end = self.now + seconds
        while True:
            due = min(self.nodes, key=lambda pid: self.nodes[pid].deadline)
            if self.nodes[due].deadline > end:
                self.now = end
                return
            self.now = max(self.now, self.nodes[due].deadline)
            self.enter(due, "on_time")

    def items(self, pid):
        state = self.nodes[pid].state
        return {name: decode_value(value) for name, value in state.items.items()}


@pytest.fixture
def world():
    return World
