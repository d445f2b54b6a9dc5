"""A fake wire with disks: participants joined by a heap of what is under way.

Time moves from one arrival or deadline to the next.  `lose` decides what is lost; a disk makes
durable what was written, `sync_s` later, and a crash takes the rest.  Every datagram goes through
bytes, so whatever changes after it was sent cannot be seen.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import Any

from semcast.core.pubsub.participant import Participant
from semcast.core.pubsub.recipe import PubsubRecipe
from semcast.terms.effects import Effects
from semcast.terms.events import Event
from semcast.terms.ids import EVERYONE
from semcast.terms.machine import Command, JoinGroup
from semcast.terms.messages import Update
from semcast.terms.outputs import ROOM, PassedOver, delivered
from semcast.terms.records import ReadRequest, ReadResult, Records
from semcast.wire import PUBSUB_CODEC, encode

LATENCY_S = 0.001
ALWAYS_READY = 2**62


class Group:
    """One group; every input of a participant goes through here."""

    def __init__(
        self,
        recipe: PubsubRecipe,
        *,
        seed: int = 0,
        sync_s: float = 0.002,
        joining: bool = True,
        ready: int = ALWAYS_READY,
        **given: Any,
    ) -> None:
        self.recipe, self.ready = recipe, ready
        self.rng = Random(f"group/{seed}")
        self.seed = seed
        self.given = given
        self.sync_s = sync_s
        self.now = 0.0
        self.heap: list[tuple[float, int, str, Any]] = []
        self.count = 0
        self.events: list[Event] = []
        self.delivered: list[list[Any]] = [[] for _ in range(recipe.members)]
        self.passed_over: list[list[Any]] = [[] for _ in range(recipe.members)]
        self.reads = 0  # records that were read from disks
        self.records: list[list[Any]] = [[] for _ in range(recipe.members)]  # (ticket, record)
        self.durable: list[list[Any]] = [[] for _ in range(recipe.members)]
        self.inc = [0] * recipe.members
        self.down: set[int] = set()
        self.unplugged: set[int] = set()
        self.roomy: set[int] = set()
        self.sent: list[tuple[int, int, Any]] = []
        self.lose: Callable[[int, int, Any], bool] = lambda source, target, datagram: False
        self.delay: Callable[[], float] = lambda: LATENCY_S
        self.people = [self.born(pid) for pid in range(recipe.members)]
        if joining:
            for pid in range(recipe.founders):
                self.tell(pid, JoinGroup())

    def born(self, pid: int) -> Participant:
        rng = Random(f"{self.seed}/{pid}/{self.inc[pid]}")
        person = Participant(
            self.recipe,
            pid,
            rng,
            self.now,
            inc=self.inc[pid],
            records=Records([*self.durable[pid]]),
            **self.given,
        )
        out = Effects(recording=True)
        person.on_ready(self.ready, self.now, out)
        self.carry_out(pid, out)
        return person

    def do(self, pid: int, what: str, *args: Any) -> Any:
        """Call an input of a participant and carry out what it wants."""
        out = Effects(recording=True)
        try:
            return getattr(self.people[pid], what)(*args, self.now, out)
        finally:
            assert not out.refused
            self.carry_out(pid, out)

    def tell(self, pid: int, command: Command) -> None:
        """Decide something for a participant."""
        self.do(pid, "on_command", command)

    def send(self, pid: int, *items: int | None, payload: bytes = b"") -> int:
        """Multicast one message per item."""
        return self.do(pid, "submit", [Update(payload, item=item) for item in items])

    def hand(self, source: int, target: int, datagram: Any) -> Effects:
        """Give one datagram to a participant at once."""
        out = Effects(recording=True)
        self.people[target].on_datagrams(source, (datagram,), self.now, out)
        assert not out.refused
        effects = list(out.send)
        self.carry_out(target, out)
        out.send = effects
        return out

    def carry_out(self, pid: int, out: Effects) -> None:
        if out.persist:
            self.records[pid] += out.persist
            self.at(self.now + self.sync_s, "sync", (pid, self.inc[pid], out.persist[-1][0]))
        for request in out.read:
            self.at(self.now + self.sync_s, "fetch", (pid, self.inc[pid], request))
        self.delivered[pid] += delivered(out.outputs)
        self.passed_over[pid] += [each for each in out.outputs if isinstance(each, PassedOver)]
        self.events += out.events or ()
        if ROOM in out.outputs:
            self.roomy.add(pid)
        if pid in self.unplugged:
            return
        for to, datagram in out.send:
            self.sent += [(pid, target, datagram) for target in to]
            data = encode(datagram)
            targets = range(self.recipe.members) if to is EVERYONE else to
            for peer in targets:
                if peer != pid and not self.lose(pid, peer, datagram):
                    self.at(self.now + self.delay(), "arrive", (pid, peer, data))

    def at(self, when: float, what: str, args: Any) -> None:
        self.count += 1
        heappush(self.heap, (when, self.count, what, args))

    def arrive(self, source: int, target: int, data: bytes) -> None:
        if target not in self.down and target not in self.unplugged:
            self.do(target, "on_datagrams", source, (PUBSUB_CODEC.decode(data),))

    def sync(self, pid: int, inc: int, ticket: int) -> None:
        if pid in self.down or inc != self.inc[pid]:
            return
        done = [record for number, record in self.records[pid] if number <= ticket]
        self.records[pid] = [pair for pair in self.records[pid] if pair[0] > ticket]
        self.durable[pid] += done
        self.do(pid, "on_persisted", ticket)

    def fetch(self, pid: int, inc: int, request: ReadRequest) -> None:
        if pid not in self.down and inc == self.inc[pid]:
            found = {number: self.durable[pid][number - 1] for number in request.numbers}
            self.reads += len(found)
            self.do(pid, "on_read", ReadResult(found, request.purpose))

    def crash(self, pid: int, *, disk: bool = True) -> None:
        """`disk=False` takes the disk as well."""
        self.down.add(pid)
        self.records[pid].clear()
        if not disk:
            self.durable[pid].clear()

    def recover(self, pid: int, *, joining: bool = True) -> None:
        self.down.discard(pid)
        self.inc[pid] += 1
        self.people[pid] = self.born(pid)
        if joining:
            self.tell(pid, JoinGroup())

    def run(self, seconds: float) -> None:
        """Let that much time pass."""
        until = self.now + seconds
        while True:
            due = min(
                ((p.deadline, p.pid) for p in self.people if p.pid not in self.down),
                default=(float("inf"), -1),
            )
            if self.heap and self.heap[0][0] <= due[0]:
                if self.heap[0][0] > until:
                    break
                when, _, what, args = heappop(self.heap)
                self.now = max(self.now, when)
                getattr(self, what)(*args)
            elif due[0] <= until:
                self.now = max(self.now, due[0])
                self.do(due[1], "on_time")
                assert self.people[due[1]].deadline > self.now or self.heap, self.people[due[1]]
            else:
                break
        self.now = until

    def seqs(self, pid: int, sender: int = 0) -> list[int]:
        """The numbers that `pid` delivered of `sender`, in order of delivery."""
        return [m.seq for m in self.delivered[pid] if m.sender == sender]

    def kinds(self, kind: str, pid: int | None = None) -> list[Event]:
        """What was recorded of one kind."""
        return [e for e in self.events if e.kind == kind and pid in (None, e.pid)]

    def sends(self, kind: type, source: int | None = None) -> list[tuple[int, int, Any]]:
        """The datagrams of one type that were sent."""
        return [s for s in self.sent if isinstance(s[2], kind) and source in (None, s[0])]
