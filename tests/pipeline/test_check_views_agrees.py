"""Views and total order: Spark finds what the monitors find, on sound and on broken executions."""

from random import Random

import pytest

from semcast.specs.relation import Obsolescence
from semcast.terms.events import CONFIRM, CRASH, DELIVER, INSTALL, MINORITY, MULTICAST, RECOVER

SHARED = ("view_order", "sending_view_delivery", "primary_order", "total_order")
CHANGES = {
    INSTALL: ("view", "members", "members", "note"),
    MULTICAST: ("view",),
    DELIVER: ("view", "position", "position"),
    CONFIRM: ("seq", "view"),
}


class Group:
    """A group that goes from view to view; in each, messages are delivered by position."""

    def __init__(self, executions, rng: Random, protocol: str, relation: str) -> None:
        self.executions, self.rng = executions, rng
        self.run = executions.Execution(protocol, "total", relation, rng.randint(2, 5))
        self.is_synchronous = protocol == "s-vsm"
        self.inc = dict.fromkeys(range(self.run.n), 1)
        self.seq: dict[tuple[int, int], int] = {}
        self.relations: dict[tuple[int, int], Obsolescence] = {}
        self.view = 0

    def play(self) -> None:
        members = list(range(self.run.n))
        for _ in range(self.rng.randint(1, 4)):
            survivors = self.in_view(members)
            members = survivors
            for pid in range(self.run.n):
                if pid not in members and self.rng.random() < 0.4:
                    self.inc[pid] += 1
                    self.run.say(RECOVER, pid, inc=self.inc[pid])
                    members = [*members, pid]

    def in_view(self, members: list[int]) -> list[int]:
        rng, self.view = self.rng, self.view + rng_step(self.rng)
        is_minor = not self.is_synchronous and 2 * len(members) <= self.run.n
        late = rng.sample(members, len(members))
        for pid in late:
            told = {"view": self.view, "members": tuple(members)}
            self.run.say(INSTALL, pid, inc=self.inc[pid], note=MINORITY * is_minor, **told)
        sent: list = []
        done = dict.fromkeys(members, 0)
        confirmed = 0
        for _ in range(rng.randrange(30)):
            pid = rng.choice(members)
            if rng.random() < 0.4:
                sent.append(self.multicast(pid))
            elif done[pid] < len(sent):
                self.deliver(pid, sent[done[pid]], done[pid] + 1)
                done[pid] += 1
            elif not self.is_synchronous and min(done.values()) > confirmed:
                self.confirm(pid, sent[confirmed])
                confirmed += 1
        majority = len(members) // 2 + 1
        survivors = rng.sample(members, rng.randint(majority, len(members)))
        if self.is_synchronous:
            self.flush(sorted(survivors), sent, done)
        for pid in set(members) - set(survivors):
            self.run.say(CRASH, pid, inc=self.inc[pid])
        return sorted(survivors)

    def multicast(self, pid: int):
        sender = pid, self.inc[pid]
        seq = self.seq[sender] = self.seq.get(sender, 0) + 1
        m = self.executions.message(self.rng, self.run.relation, pid, seq)
        self.relations.setdefault(sender, Obsolescence(self.run.relation)).on_multicast(m)
        told = {"inc": sender[1], "sender_inc": sender[1], "view": self.view}
        self.run.say(MULTICAST, pid, sender=pid, seq=seq, message=m, **told)
        return m, sender[1]

    def deliver(self, pid: int, sent, position: int) -> None:
        m, sender_inc = sent
        told = {"inc": self.inc[pid], "sender_inc": sender_inc, "view": self.view}
        self.run.say(DELIVER, pid, sender=m.sender, seq=m.seq, message=m, position=position, **told)

    def confirm(self, pid: int, sent) -> None:
        m, sender_inc = sent
        told = {"inc": self.inc[pid], "sender_inc": sender_inc, "view": self.view}
        self.run.say(CONFIRM, pid, sender=m.sender, seq=m.seq, **told)

    def flush(self, survivors: list[int], sent: list, done: dict[int, int]) -> None:
        """All survivors get to one place, leaving out what is obsolete there."""
        until = self.rng.randint(max(done[pid] for pid in survivors), len(sent))
        for pid in survivors:
            kept = list(range(done[pid], until))
            for place in list(kept):
                if self.rng.random() < 0.7:
                    fewer = [*range(done[pid]), *(one for one in kept if one != place)]
                    if self.is_enough(fewer, sent[:until]):
                        kept.remove(place)
            for place in kept:
                self.deliver(pid, sent[place], place + 1)

    def is_enough(self, places: list[int], sent: list) -> bool:
        for sender in {(m.sender, inc) for m, inc in sent}:
            have = {sent[p][0].seq for p in places if (sent[p][0].sender, sent[p][1]) == sender}
            missing = self.relations[sender].unsatisfied(sender[0], have)
            if {m.seq for m, inc in sent if (m.sender, inc) == sender} & set(missing):
                return False
        return True


def rng_step(rng: Random) -> int:
    return rng.choice((1, 1, 2))


@pytest.mark.parametrize(
    ("protocols", "names"),
    [
        (("s-vsm",), (*SHARED, "semantic_view_synchrony")),
        (("vs", "replicated-data"), (*SHARED, "prefix_delivery", "confirmation")),
    ],
)
def test_spark_finds_what_the_monitors_find(
    as_trace, executions, tmp_path, protocols, names
) -> None:
    rng, runs = Random(1), []
    for number in range(900):
        protocol = rng.choice(protocols)
        relation = rng.choice(executions.RELATIONS) if protocol == "s-vsm" else "none"
        group = Group(executions, rng, protocol, relation)
        group.play()
        if number % 3:
            executions.spoil(rng, group.run.events, CHANGES)
        group.run.number()
        runs.append(group.run)
    assert executions.disagreements(as_trace(tmp_path, runs), runs, names) == []
