"""Random executions of groups that go from view to view."""

from random import Random

from semcast.specs.relation import ViewRelation, as_carried, make_view_relation
from semcast.terms.events import (
    CONFIRM,
    CRASH,
    DELIVER,
    DELIVERY,
    INSTALL,
    LEAVE,
    MULTICAST,
    NOT_PRIMARY,
    ORDER,
    PURGE,
    RECOVER,
)

from .execution import RELATIONS, Execution, random_message
from .faults import spoil

_SHARED = ("view_order", "sending_view_delivery", "primary_order", "total_order")
NAMES_SYNCHRONOUS = (
    *_SHARED,
    *("semantic_view_synchrony", "semantic_integrity", "purge_safety"),
)
NAMES_PARTITIONABLE = (*_SHARED, "prefix_delivery", "confirmation")
CHANGES = {
    INSTALL: ("view", "members", "members", "note"),
    MULTICAST: ("view",),
    DELIVER: ("view", "position", "position"),
    CONFIRM: ("seq", "view"),
    PURGE: ("position",),
    LEAVE: ("inc",),
}


class Group:
    """A group that goes from view to view; in each, messages are delivered by position."""

    def __init__(self, rng: Random, protocol: str, relation: str) -> None:
        self.rng = rng
        self.is_synchronous = protocol == "s-vsm"
        order = rng.choice(("total", "total", "fifo")) if self.is_synchronous else "total"
        complete = rng.random() < 0.8
        self.run = Execution(protocol, order, relation, rng.randint(2, 5), complete=complete)
        self.inc = dict.fromkeys(range(self.run.n), 1)
        self.seq: dict[tuple[int, int], int] = {}
        self.relation: ViewRelation
        self.view = 0

    def play(self) -> None:
        members = list(range(self.run.n))
        views = self.rng.randint(1, 4)
        for left in reversed(range(views)):
            members = self.in_view(members, is_last=not left)
            for pid in range(self.run.n):
                if pid not in members and self.rng.random() < 0.4:
                    self.inc[pid] += 1
                    self.run.say(RECOVER, pid, inc=self.inc[pid])
                    members = [*members, pid]

    def in_view(self, members: list[int], *, is_last: bool) -> list[int]:
        rng, self.view = self.rng, self.view + rng_step(self.rng)
        self.relation = make_view_relation(self.run.relation, self.run.order)
        is_minor = not self.is_synchronous and 2 * len(members) <= self.run.n
        late = rng.sample(members, len(members))
        for pid in late:
            told = {"view": self.view, "members": tuple(members)}
            self.run.say(INSTALL, pid, inc=self.inc[pid], note=NOT_PRIMARY * is_minor, **told)
        sent: list = []
        done = dict.fromkeys(members, 0)
        confirmed = 0
        for _ in range(rng.randrange(30)):
            pid = rng.choice(members)
            if rng.random() < 0.05:
                self.multicast(pid, note=ORDER)
            elif rng.random() < 0.4:
                sent.append(self.multicast(pid))
                self.relation.on_position(name(sent[-1]), len(sent))
            elif done[pid] < len(sent):
                self.deliver(pid, sent[done[pid]], done[pid] + 1)
                done[pid] += 1
            elif not self.is_synchronous and min(done.values()) > confirmed:
                self.confirm(pid, sent[confirmed])
                confirmed += 1
        majority = len(members) // 2 + 1
        voters = rng.sample(members, rng.randint(majority, len(members)))
        leavers = rng.sample(voters[1:], rng.choice((0, 0, 1)) if voters[1:] else 0)
        for pid in leavers:
            self.run.say(LEAVE, pid, inc=self.inc[pid], view=self.view)
        survivors = sorted(set(voters) - set(leavers))
        if self.is_synchronous:
            self.flush(survivors, sent, done, is_last=is_last)
        for pid in set(members) - set(voters):
            self.run.say(CRASH, pid, inc=self.inc[pid])
        return survivors

    def multicast(self, pid: int, note: str = ""):
        sender = pid, self.inc[pid]
        seq = self.seq[sender] = self.seq.get(sender, 0) + 1
        m = random_message(self.rng, self.run.relation, pid, seq)
        told = {"inc": sender[1], "sender_inc": sender[1], "view": self.view}
        self.run.say(MULTICAST, pid, sender=pid, seq=seq, message=m, note=note, **told)
        if not note:
            self.relation.on_multicast((sender, seq), as_carried(m))
        return m, sender[1]

    def deliver(self, pid: int, sent, position: int) -> None:
        m, sender_inc = sent
        told = {"inc": self.inc[pid], "sender_inc": sender_inc, "view": self.view}
        if self.run.order == "total":
            told["position"] = position
        self.run.say(DELIVER, pid, sender=m.sender, seq=m.seq, message=m, **told)

    def confirm(self, pid: int, sent) -> None:
        m, sender_inc = sent
        told = {"inc": self.inc[pid], "sender_inc": sender_inc, "view": self.view}
        self.run.say(CONFIRM, pid, sender=m.sender, seq=m.seq, **told)

    def flush(self, survivors, sent: list, done: dict[int, int], *, is_last: bool) -> None:
        """All survivors get to one place, leaving out what is obsolete there."""
        until = len(sent)
        if not is_last:
            until = self.rng.randint(max(done[pid] for pid in survivors), until)
        for pid in survivors:
            kept = list(range(done[pid], until))
            for place in list(kept):
                if self.rng.random() < 0.7:
                    fewer = [*range(done[pid]), *(one for one in kept if one != place)]
                    if self.is_enough(fewer, sent[:until]):
                        kept.remove(place)
                        self.purge(pid, place, sent[:until])
            for place in kept:
                self.deliver(pid, sent[place], place + 1)

    def is_enough(self, places: list[int], sent: list) -> bool:
        missing = self.relation.unsatisfied({name(sent[place]) for place in places})
        return not missing & {name(one) for one in sent}

    def purge(self, pid: int, place: int, sent: list) -> None:
        """Tell where it stood, unless it was purged when it waited for its place."""
        m, sender_inc = sent[place]
        told = {"inc": self.inc[pid], "sender_inc": sender_inc, "view": self.view}
        by_own = any(one == (m.sender, sender_inc, m.item) for one in map(line, sent[place + 1 :]))
        if self.run.order == "total" and not (by_own and self.rng.random() < 0.5):
            told["position"] = place + 1
        self.run.say(PURGE, pid, sender=m.sender, seq=m.seq, note=DELIVERY, **told)


def line(sent):
    m, sender_inc = sent
    return m.sender, sender_inc, m.item


def name(sent):
    m, sender_inc = sent
    return (m.sender, sender_inc), m.seq


def rng_step(rng: Random) -> int:
    return rng.choice((1, 1, 2))


def drawn(*protocols: str) -> list[Execution]:
    """One in three is sound."""
    rng, runs = Random(1), []
    for number in range(900):
        protocol = rng.choice(protocols)
        relation = rng.choice(RELATIONS) if protocol == "s-vsm" else "none"
        group = Group(rng, protocol, relation)
        group.play()
        if number % 3:
            spoil(rng, group.run.events, CHANGES)
        group.run.number()
        runs.append(group.run)
    return runs
