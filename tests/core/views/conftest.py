"""A few members, a fake network and a clock: examples that say what happens step by step."""

import heapq
from itertools import count
from random import Random

import pytest

from semcast.core.views.member import ViewMember
from semcast.core.views.recipe import ViewRecipe
from semcast.terms.effects import Effects
from semcast.terms.messages import EVERYONE, Submission
from semcast.terms.views import Life


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
        lives = tuple(Life(pid, 1) for pid in pids)
        for life in lives:
            self.add(*life, founders=lives if founders and self.recipe.is_primary else ())
        self.run(0.3)
        return self

    def add(self, pid, inc=1, founders=(), ready=1 << 60):
        member = self.members[pid] = ViewMember(self.recipe, Life(pid, inc), Random(pid), self.now)
        self.log.setdefault(pid, [])
        self.confirmed.setdefault(pid, [])
        if founders:
            self.do(pid, member.found, founders)
        self.do(pid, member.on_ready, ready)

    def do(self, pid, handler, *args):
        out = Effects(recording=True)
        result = handler(*args, self.now, out)
        self._carry_out(pid, out)
        return result

    def send(self, pid, *items, keep=False):
        submissions = [Submission(b"x", item, never_purge=keep) for item in items]
        return self.do(pid, self.members[pid].multicast, submissions)

    def crash(self, pid):
        del self.members[pid]

    def _carry_out(self, pid, out):
        self.events += out.events
        for to, datagram in out.send:
            self.sent.append((self.now, pid, to, datagram))
            for peer in list(self.members) if to == EVERYONE else [to]:
                lost = (pid, peer) in self.cut or self.lose(pid, peer, datagram)
                if peer != pid and peer in self.members and not lost:
                    at = self.now + 0.0005 + 0.0005 * self._rng.random()
                    self._at(at, peer, "on_datagram", pid, datagram)
        place = 0
        for upto, install in out.installs:
            self._deliver(pid, out, place, upto)
            place = upto
            self.log[pid].append((install.view.id, install.state))
            self._shown[pid] = install.view
            if install.wants_state:
                self._at(self.now, pid, "on_state", install.view.id, self.state_of(pid))
        self._deliver(pid, out, place, len(out.deliver))
        self.confirmed[pid] += out.confirmed
        self._at(max(self.members[pid].deadline, self.now), pid, "on_time")

    def _deliver(self, pid, out, first, last):
        for message in out.deliver[first:last]:
            sender = self._shown[pid].members[message.sender].pid
            self.log[pid].append((sender, message.seq, message.item))

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
