"""A few members, a fake network and a clock: examples that say what happens step by step."""

import heapq
from itertools import count
from random import Random

import pytest

from semcast.core.views.member import ViewMember
from semcast.core.views.recipe import ViewRecipe
from semcast.terms.effects import Effects
from semcast.terms.ids import EVERYONE, Incarnation
from semcast.terms.machine import FoundGroup, SupplyState
from semcast.terms.messages import Update
from semcast.terms.outputs import Confirmed, Installed, delivered

LINEAGE = 2**63 + 1


class World:
    """Processes by number; `log` has what each application saw, in order."""

    def __init__(self, protocol="s-vsm", order="fifo", multicast=None, **settings):
        self.recipe = ViewRecipe(
            protocol=protocol, order=order, multicast=multicast or {}, **settings
        )
        self.now = 0.0
        self.members = {}
        self.log = {}
        self.confirmed = {}
        self.events = []
        self.sent = []
        self.cut = set()  # pairs (from, to) between which everything is lost
        self.lose = lambda source, to, datagram: False
        self.state_of = lambda pid: b"state"
        self._shown = {}
        self._queue = []
        self._number = count()
        self._rng = Random(1)

    def start(self, pids, *, founders=True):
        lives = tuple(Incarnation(pid, 1) for pid in pids)
        for life in lives:
            self.add(*life, founders=lives if founders and self.recipe.is_primary else ())
        self.run(0.3)
        return self

    def add(self, pid, inc=1, founders=(), ready=1 << 60, lineage=LINEAGE):
        member = self.members[pid] = ViewMember(
            self.recipe, Incarnation(pid, inc), Random(pid), self.now
        )
        self.log.setdefault(pid, [])
        self.confirmed.setdefault(pid, [])
        if founders:
            self.tell(pid, FoundGroup(founders, lineage))
        self.do(pid, member.on_ready, ready)

    def do(self, pid, handler, *args):
        out = Effects(recording=True)
        result = handler(*args, self.now, out)
        assert not out.refused
        self._carry_out(pid, out)
        return result

    def tell(self, pid, command):
        self.do(pid, self.members[pid].on_command, command)

    def send(self, pid, *items, keep=False):
        updates = [Update(b"x", item, never_purge=keep) for item in items]
        return self.do(pid, self.members[pid].submit, updates)

    def crash(self, pid):
        del self.members[pid]

    def _carry_out(self, pid, out):
        self.events += out.events
        for to, datagram in out.send:
            self.sent.append((self.now, pid, to, datagram.datagram))
            for peer in list(self.members) if to is EVERYONE else to:
                lost = (pid, peer) in self.cut or self.lose(pid, peer, datagram.datagram)
                if peer != pid and peer in self.members and not lost:
                    at = self.now + 0.0005 + 0.0005 * self._rng.random()
                    self._at(at, peer, "on_datagrams", pid, (datagram,))
        for output in out.outputs:
            if isinstance(output, Installed):
                self._install(pid, output)
            elif isinstance(output, Confirmed):
                self.confirmed[pid].append(output)
            for message in delivered([output]):
                sender = self._shown[pid].members[message.sender].pid
                self.log[pid].append((sender, message.seq, message.item))
        self._at(max(self.members[pid].deadline, self.now), pid, "on_time")

    def _install(self, pid, installed):
        self.log[pid].append((installed.view.id, installed.state))
        self._shown[pid] = installed.view
        if installed.wants_state:
            supply = SupplyState(installed.view.id, self.state_of(pid))
            self._at(self.now, pid, "on_command", supply)

    def _at(self, at, pid, handler, *args):
        if at != float("inf"):
            entry = at, next(self._number), pid, self.members[pid], handler, args
            heapq.heappush(self._queue, entry)

    def run(self, seconds):
        until = self.now + seconds
        while self._queue and self._queue[0][0] <= until:
            self.now, _, pid, member, handler, args = heapq.heappop(self._queue)
            if self.members.get(pid) is not member:
                continue  # It crashed.
            if handler != "on_time" or member.deadline <= self.now:
                self.do(pid, getattr(member, handler), *args)
        self.now = until

    def views(self, pid):
        return [entry[0] for entry in self.log[pid] if len(entry) == 2]

    def messages(self, pid):
        return [entry for entry in self.log[pid] if len(entry) == 3]

    def members_of(self, pid):
        return [life.pid for life in self.members[pid].view.members]


@pytest.fixture
def world():
    return World
