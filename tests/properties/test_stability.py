"""Gossip with loss, duplication and stale datagrams: what is agreed is true of the real frontiers.

And it completes, once everybody's gossip gets through, whatever happened before.
"""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from semcast.core.stability import QuorumDetector
from semcast.terms.effects import Effects
from semcast.terms.ids import NEVER
from semcast.terms.messages import SafetyGossip, StabilityGossip


class Group:
    """Detectors whose gossip stays in `sent`, from where any of it may arrive at any time."""

    def __init__(self, members, quorum, rng, fanout):
        self.rng = rng
        self.quorum = quorum
        self.now = 0.0
        self.sent = []
        kind = StabilityGossip if quorum is None else SafetyGossip
        self.detectors = [
            QuorumDetector(
                rank, members, quorum, [0] * members, Random(rng.random()), 1.0, fanout, kind
            )
            for rank in range(members)
        ]

    def advance(self, rank, sender, by):
        """Nobody's frontier passes the sender's own."""
        frontier = self.detectors[rank].frontier
        limit = frontier[sender] + by
        if rank != sender:
            limit = min(limit, self.detectors[sender].frontier[sender])
        if limit > frontier[sender]:
            frontier[sender] = limit
            self.detectors[rank].on_frontier(sender, self.now)

    def speak(self, rank):
        one = self.detectors[rank]
        if one.deadline == NEVER:
            return []
        self.now = max(self.now, one.deadline)
        out = Effects(recording=False)
        one.on_time(self.now, out)
        said = [(rank, target, datagram) for to, datagram in out.send for target in to]
        self.sent += said
        return said

    def arrive(self, source, target, datagram):
        self.detectors[target].on_gossip(source, datagram.votes, self.now)

    def check(self):
        """`agreed` was reached by the frontiers of a quorum."""
        needed = len(self.detectors) if self.quorum is None else self.quorum
        for one in self.detectors:
            for sender, agreed in enumerate(one.agreed):
                reached = sum(d.frontier[sender] >= agreed for d in self.detectors)
                assert reached >= needed, (sender, agreed, self.detectors)


@given(
    seed=st.integers(0, 2**32),
    members=st.integers(1, 5),
    quorum=st.one_of(st.none(), st.integers(1, 5)),
    fanout=st.integers(1, 4),
)
@settings(max_examples=150)
def test_what_is_agreed_is_true_and_completes(seed, members, quorum, fanout):
    quorum = quorum and min(quorum, members)
    rng = Random(seed)
    group = Group(members, quorum, rng, fanout)
    for _ in range(80):
        action = rng.choice(["advance", "advance", "speak", "arrive", "arrive", "toggle"])
        rank = rng.randrange(members)
        if action == "advance":
            group.advance(rank, rng.randrange(members), rng.randint(1, 4))
        elif action == "speak":
            group.speak(rank)
        elif action == "arrive" and group.sent:
            group.arrive(*rng.choice(group.sent))  # again, late, or never
        elif action == "toggle" and quorum is not None:
            group.detectors[rank].enable(rng.random() < 0.5, range(members), group.now)
        group.check()
    ends = [one.frontier[one.rank] for one in group.detectors]
    for rank in range(members):
        group.detectors[rank].enable(True, range(members), group.now)
        for sender in range(members):
            group.advance(rank, sender, 10**6 if rank != sender else 0)
    for _ in range(400):
        spoken = [said for rank in range(members) for said in group.speak(rank)]
        for said in spoken:
            group.arrive(*said)
            group.check()
        if not spoken:
            break
    else:
        raise AssertionError(f"still talking: {group.detectors}")
    for one in group.detectors:
        assert one.agreed == ends
        assert not one.unagreed
        assert not one.to_update


@given(seed=st.integers(0, 2**32), members=st.integers(2, 5))
@settings(max_examples=60)
def test_without_the_forgotten_stability_speaks_for_the_rest(seed, members):
    rng = Random(seed)
    group = Group(members, None, rng, fanout=3)
    gone = rng.randrange(members)
    rest = [rank for rank in range(members) if rank != gone]
    for rank in range(members):
        group.advance(rank, rank, rng.randint(1, 9))
    for rank in rest:
        for sender in rest:
            group.advance(rank, sender, rng.randint(0, 9))
    for rank in rest:
        group.detectors[rank].forget(gone)
    for _ in range(200):
        for rank in rest:
            for source, target, datagram in group.speak(rank):
                assert target != gone
                group.arrive(source, target, datagram)
    for rank in rest:
        for sender in rest:
            lowest = min(group.detectors[other].frontier[sender] for other in rest)
            assert group.detectors[rank].agreed[sender] == lowest
