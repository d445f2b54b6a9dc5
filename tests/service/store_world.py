"""Servers and clients of a store, with disks and a clock; the network delivers at once."""

from collections import deque
from random import Random

from semcast.core.views.recipe import ViewRecipe
from semcast.service.commands import encode_request
from semcast.service.replica_state import decode_value
from semcast.service.store_client import StoreClient
from semcast.service.store_disk import StoredState
from semcast.service.store_recipe import StoreRecipe
from semcast.service.store_server import StoreServer
from semcast.terms.effects import Effects
from semcast.terms.ids import EVERYONE, Incarnation
from semcast.terms.messages import Update
from semcast.terms.outputs import Answered, Withdrawn
from semcast.terms.records import Records
from semcast.terms.store import WITHDRAWN

READY = 2**40


class DamagedRecords(Records):
    """Records of which some are None: they cannot be read."""

    def numbered(self):
        return ((n, record) for n, record in super().numbered() if record is not None)

    @property
    def missing(self):
        return [(n, n) for n, record in super().numbered() if record is None]


class StoreWorld:
    """Servers are 0 to n - 1, clients follow.  `lost(source, to, datagram)` drops datagrams; a disk
    in `slow` syncs only when it is told."""

    def __init__(self, servers=3, clients=1, **settings):
        times = {"timeout_s": 0.2, "patience_s": 0.1}
        group = ViewRecipe(protocol="vs", order="total", overflow="exclude", **times)
        founders = tuple(range(servers))
        given = {"founders": founders, "group": group, "retry_s": 0.05}
        self.recipe = StoreRecipe(**(given | settings))
        self.now = 0.0
        self.lost = lambda source, to, datagram: False
        self.answers = {pid: [] for pid in range(servers + clients)}
        self.sent = []
        self.disks = {pid: [] for pid in founders}
        self.unsynced = {pid: deque() for pid in founders}
        self.slow = set()
        self.lives = dict.fromkeys(range(servers + clients), 0)
        self.nodes = {}
        for pid in founders:
            self.start(pid)
        for pid in range(servers, servers + clients):
            client = StoreClient(self.recipe, Incarnation(pid, 1), Random(pid), 0.0)
            client.server = 0
            self.nodes[pid] = client
        self.run(0.5)

    def start(self, pid):
        """A server begins, with what its disk holds."""
        self.lives[pid] += 1
        life = Incarnation(pid, self.lives[pid])
        stored = StoredState(self.recipe.sessions_max, DamagedRecords(list(self.disks[pid])))
        self.nodes[pid] = StoreServer(self.recipe, life, Random(pid), self.now, stored)
        self.enter(pid, "on_ready", READY)

    def crash(self, pid):
        """A server stops; what was not synced is gone."""
        del self.nodes[pid]
        self.unsynced[pid].clear()

    def enter(self, pid, handler, *args):
        out = Effects(recording=False)
        getattr(self.nodes[pid], handler)(*args, self.now, out)
        assert not out.refused
        for output in out.outputs:
            if isinstance(output, Answered):
                body = decode_value(output.body) if output.body else None
                self.answers[pid].append((output.status, body))
            elif isinstance(output, Withdrawn):
                self.answers[pid].append((WITHDRAWN, output.request))
        if out.persist:
            self.unsynced[pid].extend(out.persist)
        for to, datagram in out.send:
            for other in list(self.nodes) if to is EVERYONE else to:
                self.sent.append((pid, other, datagram))
                if other == pid or other not in self.nodes or self.lost(pid, other, datagram):
                    continue
                self.enter(other, "on_datagrams", pid, [datagram])
        if pid in self.unsynced and pid not in self.slow:
            self.sync(pid)

    def sync(self, pid):
        """What was written is on disk now."""
        if self.unsynced[pid]:
            last = self.unsynced[pid][-1][0]
            self.disks[pid] += [record for _, record in self.unsynced[pid]]
            self.unsynced[pid].clear()
            self.enter(pid, "on_persisted", last)

    def ask(self, pid, *request):
        self.enter(pid, "submit", [Update(encode_request(request))])

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
        return self.nodes[pid].replica.state.items

    def part(self, *groups):
        """Servers hear only those of their group; clients hear all."""
        place = {pid: i for i, group in enumerate(groups) for pid in group}

        def is_lost(source, to, datagram):
            return source in place and to in place and place[source] != place[to]

        self.lost = is_lost
