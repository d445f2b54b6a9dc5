"""Random executions of a replicated service."""

from random import Random

from semcast.terms.events import EXECUTE, JOIN, QUERY, RECOVER, REPLY, REQUEST, UPDATE

from .execution import Execution
from .faults import spoil

NAMES = (
    "exactly_once_requests",
    "sequential_consistency",
    "acknowledged_survives",
    "replica_equality",
    "never_blocked",
    "refused_never_executed",
)
CHANGES = {
    EXECUTE: ("position", "version", "request", "note"),
    REPLY: ("version", "digest", "request"),
    JOIN: ("version",),
    RECOVER: ("version",),
}
SERVERS, CLIENTS = (0, 1, 2), (10, 11, 12)


class Service:
    """Three servers that go through the same updates, and clients that ask any of them."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.run = Execution("replicated-data", "total", "none", 3)
        self.updates = []
        self.version = dict.fromkeys(SERVERS, 0)
        self.inc = dict.fromkeys(SERVERS, 1)
        self.last = dict.fromkeys(CLIENTS, 0)
        self.asked = dict.fromkeys(CLIENTS, 0)

    def say(self, kind: str, pid: int, **told) -> None:
        self.run.say(kind, pid, inc=self.inc[pid], **told)

    def play(self) -> None:
        steps = (self.update, self.query, self.query, self.catch_up, self.take_over)
        for _ in range(self.rng.randrange(3, 30)):
            self.rng.choice(steps)(self.rng.choice(SERVERS))

    def catch_up(self, pid: int) -> None:
        """The next update that the server has not executed."""
        if self.version[pid] < len(self.updates):
            client, request = self.updates[self.version[pid]]
            self.version[pid] += 1
            told = {"client": client, "request": request, "position": self.version[pid]}
            self.say(EXECUTE, pid, note=UPDATE, **told)

    def update(self, pid: int) -> None:
        client, request = self.ask(pid)
        self.updates.append((client, request))
        while self.version[pid] < len(self.updates):
            self.catch_up(pid)
        self.answer(pid, client, request, len(self.updates))

    def query(self, pid: int) -> None:
        client, request = self.ask(pid)
        while self.version[pid] < self.last[client]:
            self.catch_up(pid)
        version = self.version[pid]
        self.say(EXECUTE, pid, note=QUERY, client=client, request=request, version=version)
        self.answer(pid, client, request, version)

    def ask(self, pid: int) -> tuple[int, int]:
        client = self.rng.choice(CLIENTS)
        self.asked[client] += 1
        self.say(REQUEST, pid, client=client, request=self.asked[client])
        return client, self.asked[client]

    def answer(self, pid: int, client: int, request: int, version: int) -> None:
        self.last[client] = version
        told = {"client": client, "request": request, "version": version}
        for server in (pid, self.rng.choice(SERVERS))[: self.rng.randint(1, 2)]:
            self.say(REPLY, server, digest=1000 * client + request, **told)

    def take_over(self, pid: int) -> None:
        """The server recovers, or is given the state of another."""
        if self.rng.random() < 0.5:
            self.inc[pid] += 1
            self.say(RECOVER, pid, version=self.version[pid])
        else:
            self.version[pid] = max(self.version.values())
            self.say(JOIN, pid, version=self.version[pid])


def drawn() -> list[Execution]:
    """One in three is sound."""
    rng, runs = Random(1), []
    for number in range(900):
        service = Service(rng)
        service.play()
        if number % 3:
            spoil(rng, service.run.events, CHANGES)
        service.run.number()
        runs.append(service.run)
    return runs


def without_a_witness() -> Execution:
    """A query that does not tell the version it read."""
    run = Execution("replicated-data", "total", "none", 1)
    run.say(EXECUTE, 0, note=UPDATE, client=7, request=1, position=1)
    run.say(EXECUTE, 0, note=QUERY, client=7, request=2)
    run.number()
    return run
