"""Random executions of a group with a fixed membership, sound or with one fault.

A group is a few processes with a frontier for each stream and a delivery queue; what a process may
do is drawn at random, and at the end everybody gets what is left.  Monitors judge an execution as
it would be read back from a trace.
"""

from dataclasses import dataclass
from random import Random
from typing import Any

from semcast.pipeline.check import causality, streams
from semcast.specs.relation import ObsolescenceRelation, as_carried
from semcast.terms.events import CRASH, DELIVERY, RETRANSMISSION, Event
from semcast.terms.messages import DataMessage

from .execution import Execution

NAMES = (*streams.RULES, *causality.NAMES)
SETTINGS = (
    *(("s-rm", "fifo", r) for r in ("item", "item", "item", "list", "bitmap", "all", "none")),
    *(("s-rm", "item", "item"), ("s-rm", "causal", "item"), ("s-rm", "causal", "list")),
    *(("s-sm", "fifo", "item"), ("s-sm", "fifo", "bitmap"), ("rm", "fifo", "none")),
)
NUMBERED = ("multicast", "receive", "deliver", "skip", "purge", "safe", "stable", "reclaim")


@dataclass
class Faulty(Execution):
    """One with the fault that was drawn for it."""

    fault: str = ""


class Group:
    """A sound group; `steps` lets it run, `drain` gives everybody what is left."""

    def __init__(self, rng: Random) -> None:
        n = rng.randint(1, 4)
        protocol, order, relation = rng.choice(SETTINGS)
        self.rng, self.n = rng, n
        f, complete = rng.randrange(n), rng.random() < 0.9
        self.run = Faulty(protocol, order, relation, n, f=f, complete=complete)
        self.relation = ObsolescenceRelation(relation)
        self.messages: list[list[DataMessage]] = [[] for _ in range(n)]
        self.needs: dict[DataMessage, list[int]] = {}
        self.frontier = [[0] * n for _ in range(n)]  # [pid][sender]
        self.queue: list[list[DataMessage]] = [[] for _ in range(n)]
        self.purged: set[tuple[int, int]] = set()
        self.live = set(range(n))

    def say(self, kind: str, pid: int, message: DataMessage | None = None, **told: Any) -> None:
        self.run.events.append(Event(kind, pid, message=message, **told))

    def steps(self, count: int) -> None:
        actions = [self.multicast, self.receive, self.receive, self.deliver, self.purge, self.claim]
        for _ in range(count):
            self.rng.choice(actions)(self.rng.choice(sorted(self.live)))
            if self.rng.random() < 0.01 and self.n - len(self.live) < self.run.f:
                self.crash()

    def drain(self) -> None:
        for _ in range(self.n * 8):  # Under causal order one may have to wait for the others.
            for pid in sorted(self.live):
                for sender in range(self.n):
                    self.receive_from(pid, sender)
        for pid in self.live:
            while self.queue[pid]:
                self.deliver(pid)

    def multicast(self, pid: int) -> None:
        seq, rng, relation = len(self.messages[pid]) + 1, self.rng, self.run.relation
        if seq > 8:
            return
        back = [d for d in range(1, min(seq, 5)) if rng.random() < 0.4]
        covers: bytes | tuple[int, ...] = tuple(back) if relation == "list" else b""
        if relation == "bitmap":
            covers = sum(1 << (d - 1) for d in back).to_bytes(
                (max(back, default=0) + 7) // 8, "big"
            )
        item = rng.choice((None, 1, 1, 2)) if relation == "item" else None
        message = DataMessage(pid, seq, item, covers, rng.random() < 0.1, payload=bytes([pid, seq]))
        self.messages[pid].append(message)
        self.relation.on_multicast(as_carried(message))
        self.needs[message] = self.frontier[pid].copy()
        self.say("multicast", pid, message, sender=pid, seq=seq)
        self.enqueue(pid, message)

    def receive(self, pid: int) -> None:
        self.receive_from(pid, self.rng.randrange(self.n))

    def receive_from(self, pid: int, sender: int) -> None:
        seq = self.frontier[pid][sender] + 1
        if sender == pid or seq > len(self.messages[sender]):
            return
        message = self.messages[sender][seq - 1]
        needs = zip(self.frontier[pid], self.needs[message], strict=True)
        if self.run.order == "causal" and any(has < need for has, need in needs):
            return
        if (sender, seq) in self.purged:
            self.say("skip", pid, sender=sender, seq=seq)
            self.frontier[pid][sender] = seq
        else:
            self.say("receive", pid, sender=sender, seq=seq)
            self.enqueue(pid, message)

    def enqueue(self, pid: int, message: DataMessage) -> None:
        self.frontier[pid][message.sender] = message.seq
        self.queue[pid].append(message)

    def deliver(self, pid: int) -> None:
        if self.queue[pid]:
            message = self.queue[pid].pop(0)
            self.say("deliver", pid, message, sender=message.sender, seq=message.seq)

    def purge(self, pid: int) -> None:
        sender = self.rng.randrange(self.n)
        reach = self.frontier[pid][sender]
        if reach < 2:
            return
        seq, by = sorted(self.rng.sample(range(1, reach + 1), 2))
        if not self.relation.obsoletes(sender, seq, by):
            return
        told = {"sender": sender, "seq": seq, "by_seq": by}
        here = {m.seq: m for m in self.queue[pid] if m.sender == sender}
        may_purge = pid == sender if self.run.protocol == "s-sm" else self.is_safe(sender, by)
        if seq in here and by in here:
            self.remove(self.queue[pid], here[seq], here[by])
            self.say("purge", pid, note=DELIVERY, **told)
        elif may_purge:
            self.purged.add((sender, seq))
            self.say("purge", pid, note=RETRANSMISSION, **told)

    def remove(self, queue: list[DataMessage], old: DataMessage, new: DataMessage) -> None:
        place = queue.index(old)
        queue.remove(old)
        between = [m for m in queue[place : queue.index(new)] if m.sender == new.sender]
        is_fixed = new.never_purge or any(
            m.never_purge or m.item in (None, new.item) for m in between
        )
        if self.run.order == "item" and not is_fixed:
            queue.remove(new)  # The newer value takes the older one's place.
            queue.insert(place, new)

    def claim(self, pid: int) -> None:
        sender = self.rng.randrange(self.n)
        seq = min(frontier[sender] for frontier in self.frontier)
        if seq:
            self.say(self.rng.choice(("stable", "reclaim")), pid, sender=sender, seq=seq)
        seq = sorted(frontier[sender] for frontier in self.frontier)[-1 - self.run.f]
        if seq:
            self.say("safe", pid, sender=sender, seq=seq)

    def crash(self) -> None:
        pid = self.rng.choice(sorted(self.live))
        self.live.remove(pid)
        self.say("crash", pid)
        if self.rng.random() < 0.3 and self.live:
            self.say("leave", min(self.live), peer=pid)

    def is_safe(self, sender: int, seq: int) -> bool:
        return sum(frontier[sender] >= seq for frontier in self.frontier) > self.run.f


def execution(seed: int) -> Faulty:
    """A sound one, or one with a fault, by the seed alone."""
    rng = Random(seed)
    group = Group(rng)
    group.steps(rng.randint(5, 90))
    if group.run.complete:
        group.drain()
    if group.run.events and rng.random() < 0.8:
        spoil(group.run, rng)
    crashes = (event.pid for event in group.run.events if event.kind == CRASH)
    group.run.crashed = frozenset(crashes)
    group.run.number()
    return group.run


def drawn() -> list[Faulty]:
    """One for each seed."""
    return [execution(seed) for seed in range(1500)]


def spoil(run: Faulty, rng: Random) -> None:
    """One fault."""
    events = run.events
    fault = run.fault = rng.choice(
        ("missing", "moved", "doubled", "number", "newer", "content", "process", "claim", "left")
    )
    kinds = sorted({event.kind for event in events} & set(NUMBERED))
    kind = rng.choice(kinds or [events[0].kind])
    place = rng.choice([i for i, event in enumerate(events) if event.kind == kind])
    event = events[place]
    anywhere = rng.randrange(len(events) + 1)
    if fault == "missing":
        del events[place]
    elif fault == "moved":
        events.insert(rng.randrange(len(events)), events.pop(place))
    elif fault == "doubled":
        events.insert(rng.randint(place + 1, len(events)), copy(event))
    elif fault == "number" and event.seq:
        events[place] = copy(event, seq=max(1, event.seq + rng.choice((-1, 1, 2))))
    elif fault == "newer" and event.by_seq:
        events[place] = copy(event, by_seq=max(1, event.by_seq + rng.choice((-2, -1, 1, 2))))
    elif fault == "content" and event.message is not None:
        change: dict[str, Any] = rng.choice(
            ({"item": rng.choice((None, 1, 2, 3))}, {"payload": b"?"}, {"never_purge": True})
        )
        events[place] = copy(event, message=copy(event.message, **change))
    elif fault == "process":
        events[place] = copy(event, pid=rng.randrange(run.n))
    elif fault == "claim":
        told = {"sender": rng.randrange(run.n), "seq": rng.randint(1, 8)}
        kind = rng.choice(("safe", "stable", "reclaim", "skip", "receive", "deliver"))
        events.insert(anywhere, Event(kind, rng.randrange(run.n), **told))
    elif fault == "left":
        events.insert(anywhere, Event("leave", rng.randrange(run.n), peer=rng.randrange(run.n)))


def copy(struct: Any, **changes: Any) -> Any:
    fields = {name: getattr(struct, name) for name in struct.__struct_fields__}
    return type(struct)(**{**fields, **changes})
