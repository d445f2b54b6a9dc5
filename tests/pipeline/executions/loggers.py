"""Random executions of loggers and their subscribers."""

from random import Random

from semcast.specs.relation import ObsolescenceRelation, as_carried
from semcast.terms.events import (
    ACKNOWLEDGE,
    AGE,
    APPEND,
    CRASH,
    DELIVER,
    DISK,
    JOIN,
    LEAVE,
    MULTICAST,
    RECEIVE,
    RECLAIM,
    RECOVER,
    SKIP,
)

from .execution import RELATIONS, Execution, random_message
from .faults import spoil

NAMES = ("reliable_delivery", "collection_safety", "durability")
CHANGES = {
    APPEND: ("seq",),
    ACKNOWLEDGE: ("seq",),
    RECLAIM: ("seq", "seq", "note"),
    JOIN: ("note", "note"),
    SKIP: ("note", "by_seq"),
    **dict.fromkeys((RECEIVE, DELIVER, LEAVE, CRASH, RECOVER), ()),
}
SENDERS, LOGGERS, SUBSCRIBERS = (0, 1), (2, 3), (4, 5, 6)


class Topic:
    """Two senders, two loggers, three subscribers; each step is sound."""

    def __init__(self, rng: Random) -> None:
        relation = rng.choice(RELATIONS)
        self.rng, self.copies = rng, rng.randint(1, 2)
        parameters = {"copies": str(self.copies)}
        self.run = Execution("rpbcast", "none", relation, 7, parameters=parameters)
        self.relation = ObsolescenceRelation(relation)
        self.sent = {sender: [] for sender in SENDERS}
        self.stored = {logger: set() for logger in LOGGERS}
        self.acknowledged = set()
        self.doubtful = set()  # not acknowledged when the sender crashed
        self.aged = dict.fromkeys(SENDERS, 0)
        self.reclaimed = dict.fromkeys(SENDERS, 0)
        self.vector = {}
        self.down = set()
        self.inc = dict.fromkeys(range(7), 1)
        self.has = {pid: set() for pid in SUBSCRIBERS}
        self.lost = {pid: set() for pid in SUBSCRIBERS}
        self.delivered = {pid: set() for pid in SUBSCRIBERS}

    def say(self, kind: str, pid: int, sender: int = -1, seq: int = 0, **told) -> None:
        self.run.say(kind, pid, sender=sender, seq=seq, inc=self.inc[pid], **told)

    def play(self) -> None:
        steps = (self.multicast,) * 4 + (self.append,) * 5 + (self.acknowledge,) * 3
        steps += (self.take,) * 6 + (self.reclaim,) * 2 + (self.come_or_go, self.fail)
        for _ in range(self.rng.randrange(5, 60)):
            self.rng.choice(steps)()
        for pid in sorted(self.vector.keys() - self.down):
            self.settle(pid)

    def multicast(self) -> None:
        sender = self.rng.choice(SENDERS)
        block = 3 if self.rng.random() < 0.1 else 1  # A sender that recovered skips a block.
        seq = max(self.sent[sender], default=0) + block
        message = random_message(self.rng, self.run.relation, sender, seq)
        self.sent[sender].append(seq)
        self.relation.on_multicast(as_carried(message))
        self.say(MULTICAST, sender, sender, seq, message=message)

    def anything(self):
        every = [(sender, seq) for sender in SENDERS for seq in self.sent[sender]]
        return self.rng.choice(every) if every else None

    def append(self) -> None:
        if message := self.anything():
            logger = self.rng.choice(LOGGERS)
            self.stored[logger].add(message)
            self.say(APPEND, logger, *message)

    def acknowledge(self) -> None:
        message = self.anything()
        if message and sum(self.is_held(*message, h) for h in self.stored.values()) >= self.copies:
            self.acknowledged.add(message)
            self.say(ACKNOWLEDGE, self.rng.choice((*LOGGERS, message[0])), *message)

    def is_held(self, sender: int, seq: int, held: set[tuple[int, int]]) -> bool:
        """The message itself, or what makes it obsolete."""
        return (sender, seq) in held or any(
            of == sender and self.relation.obsoletes(sender, seq, by) for of, by in held
        )

    def take(self) -> None:
        message, pid = self.anything(), self.rng.choice(SUBSCRIBERS)
        is_there = pid in self.vector and pid not in self.down
        if message and is_there and message not in self.has[pid]:
            self.has[pid].add(message)
            self.say(RECEIVE, pid, *message)
            if self.rng.random() < 0.7:
                self.deliver(pid, message)

    def deliver(self, pid: int, message: tuple[int, int]) -> None:
        self.delivered[pid].add(message)
        self.say(DELIVER, pid, *message)

    def reclaim(self) -> None:
        if message := self.anything():
            sender, seq = message
            owed = (
                (pid, (sender, each))
                for pid, vector in self.vector.items()
                for each in self.sent[sender]
                if vector.get(sender, 0) < each <= seq
            )
            is_safe = all(each in self.has[pid] for pid, each in owed)
            if is_safe:
                self.reclaimed[sender] = max(seq, self.reclaimed[sender])
            if is_safe or self.rng.random() < 0.2:
                note = "" if is_safe else AGE
                if note:
                    self.aged[sender] = max(seq, self.aged[sender])
                self.say(RECLAIM, self.rng.choice(LOGGERS), sender, seq, note=note)

    def come_or_go(self) -> None:
        pid = self.rng.choice(SUBSCRIBERS)
        if pid in self.down:
            return
        if pid in self.vector and self.rng.random() < 0.5:
            del self.vector[pid]
            by = self.rng.choice((pid, 2))
            self.say(LEAVE, by, peer=-1 if by == pid else pid)
        else:
            last = {s: max(self.sent[s], default=0) for s in SENDERS}
            vector = {s: self.rng.randint(self.reclaimed[s], last[s]) for s in SENDERS}
            self.vector[pid] = vector
            self.say(JOIN, pid, note=" ".join(f"{s}:{seq}" for s, seq in vector.items() if seq))

    def fail(self) -> None:
        pid = self.rng.choice(sorted({*SENDERS, *LOGGERS, *SUBSCRIBERS} - self.down))
        is_gone = pid in LOGGERS and self.rng.random() < 0.5
        self.say(CRASH, pid, note=DISK * is_gone)
        if is_gone:
            self.stored[pid].clear()
        if pid in SENDERS:
            self.doubtful |= {(pid, seq) for seq in self.sent[pid]} - self.acknowledged
        if pid not in SUBSCRIBERS or self.rng.random() < 0.7:
            self.inc[pid] += 1
            self.say(RECOVER, pid)
        else:
            self.down.add(pid)

    def settle(self, pid: int) -> None:
        """The subscriber gets the rest, or is told about it."""
        sent = {(sender, seq) for sender in SENDERS for seq in self.sent[sender]}
        owed = sent - (self.doubtful - self.acknowledged) - self.delivered[pid]
        for message in sorted(owed):
            if message[1] <= self.vector[pid].get(message[0], 0):
                continue
            how = self.rng.random()
            if how < 0.4 and self.is_gone(*message):
                self.lost[pid].add(message)
                self.say(SKIP, pid, *message, note=self.rng.choice(("lost", "age")))
            elif how > 0.5 or not self.is_replaced(pid, message):
                self.deliver(pid, message)
            else:
                self.say(SKIP, pid, *message, by_seq=message[1] + 1)

    def is_gone(self, sender: int, seq: int) -> bool:
        """Collected by age, or acknowledged and on no disk."""
        is_held = any((sender, seq) in held for held in self.stored.values())
        return seq <= self.aged[sender] or ((sender, seq) in self.acknowledged and not is_held)

    def is_replaced(self, pid: int, message: tuple[int, int]) -> bool:
        sender, seq = message
        told = {each for s, each in self.delivered[pid] | self.lost[pid] if s == sender}
        return seq not in self.relation.unsatisfied(sender, told)


def drawn() -> list[Execution]:
    """One in three is sound."""
    rng, runs = Random(1), []
    for number in range(900):
        topic = Topic(rng)
        topic.play()
        if number % 3:
            spoil(rng, topic.run.events, CHANGES)
        topic.run.number()
        runs.append(topic.run)
    return runs
