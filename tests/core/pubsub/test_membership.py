"""Approximate membership: merging, leaving, wrong beginnings, target selection."""

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semcast.core.pubsub.member_table import MemberTable
from semcast.core.pubsub.recipe import PubsubRecipe
from semcast.core.pubsub.target_selection import TargetSelection
from semcast.terms.machine import JoinGroup, LeaveGroup
from semcast.terms.pubsub import DISCONNECTED, ENTRIES_MAX, LEFT, MEMBER, MemberEntry, MemberList

RECIPE = PubsubRecipe(members=12, founders=6, loggers=(0, 8))
ENTRIES = st.builds(
    MemberEntry,
    st.integers(0, 11),
    st.sampled_from([MEMBER, DISCONNECTED, LEFT]),
    st.integers(0, 5),
)


@given(st.lists(ENTRIES, max_size=30), st.randoms())
def test_merging_gives_the_same_in_any_order(entries, shuffled) -> None:
    one, other = MemberTable(RECIPE, 0), MemberTable(RECIPE, 1)
    for entry in entries:
        one.merge(entry)
    again = entries * 2
    shuffled.shuffle(again)
    for entry in again:
        other.merge(entry)
    assert one.overrides == other.overrides
    assert one.signature == other.signature
    everybody = [one.entry(pid) for pid in range(12)]
    assert one.owed == sum(e is not None and e.status != LEFT for e in everybody)
    there = {e.pid for e in everybody if e is not None and e.status == MEMBER and e.pid}
    rng = Random(1)
    drawn = {one.random_peer(rng) for _ in range(400)}
    assert drawn == (there or {None})


@given(st.lists(ENTRIES, max_size=30), st.lists(ENTRIES, max_size=30), st.sets(st.integers(1, 5)))
def test_one_exchange_makes_two_rosters_equal(known, knows, strangers) -> None:
    """[RPB §5.3]: full information is exchanged when signatures disagree."""
    one, other = MemberTable(RECIPE, 7, strangers), MemberTable(RECIPE, 6)
    for entry in known:
        one.merge(entry)
    for entry in knows:
        other.merge(entry)
    for members in one.digest(wants_answer=True):
        for entry in members.entries:
            other.merge(entry)
        for entry in other.newer_entries(members):
            one.merge(entry)
    assert one.signature == other.signature
    assert one.overrides == other.overrides


def test_a_large_roster_is_told_in_parts() -> None:
    recipe = PubsubRecipe(members=3000, founders=1)
    roster, other = MemberTable(recipe, 0), MemberTable(recipe, 1)
    for pid in range(1, 3000, 2):
        roster.merge(MemberEntry(pid, MEMBER, 1))
    for pid in range(2, 3000, 2):
        other.merge(MemberEntry(pid, MEMBER, 1))
    parts = roster.digest(wants_answer=True)
    assert len(parts) > 1
    assert all(len(part.entries) <= ENTRIES_MAX for part in parts)
    assert [part.first for part in parts[1:]] == [part.last + 1 for part in parts[:-1]]
    for part in parts:
        for entry in part.entries:
            other.merge(entry)
    assert sum(len(other.newer_entries(part)) for part in parts) >= ENTRIES_MAX


def test_who_leaves_takes_no_knowledge_of_its_sponsored_along(group) -> None:
    """Member 1 alone sponsored 3 and leaves: the logger strikes it only once it knows of 3."""
    wire = group(PubsubRecipe(members=4, founders=3, sponsors=1), sync_s=0.0)
    wire.lose = lambda source, target, datagram: {source, target} != {1, 3}
    wire.tell(3, JoinGroup())
    wire.run(5)
    assert wire.kinds("join", 3)
    assert wire.people[0].roster.entry(3) is None
    wire.lose = lambda source, target, datagram: {source, target} != {0, 1}
    wire.tell(1, LeaveGroup())
    wire.run(5)
    assert wire.people[1].membership.state == "outside"
    assert wire.people[0].roster.entry(1).status == LEFT
    assert wire.people[0].roster.entry(3).status == MEMBER


def test_leaving_and_joining_again_delivers_nothing_twice(group) -> None:
    """The new sponsors may not have heard of what the old subscription delivered."""
    wire = group(PubsubRecipe(members=3), sync_s=0.0)
    wire.lose = lambda source, target, datagram: source == 1 and target == 0
    wire.send(1, None, None)
    wire.run(0.1)
    assert wire.seqs(2, 1) == [1, 2]
    wire.tell(2, LeaveGroup())
    wire.run(0.5)
    wire.tell(2, JoinGroup())
    wire.run(1)
    wire.lose = lambda source, target, datagram: False
    wire.send(1, None)
    wire.run(10)
    assert wire.seqs(2, 1) == [1, 2, 3]
    assert wire.kinds("join", 2)[-1].note == "1:2"


def test_of_itself_each_process_alone_knows(group) -> None:
    wire = group(PubsubRecipe(members=3), sync_s=0.0)
    wire.hand(1, 2, MemberList(2, 2, (MemberEntry(2, LEFT, 7),), False))
    wire.run(10)
    assert wire.people[2].membership.freshness > 7
    assert all(p.roster.entry(2).status == MEMBER for p in wire.people)


def test_wrong_beginnings_are_corrected_by_gossip(group) -> None:
    wire = group(PubsubRecipe(members=6), sync_s=0.0, unaware_of=(2, 3))
    assert wire.people[1].roster.entry(3).status == LEFT
    wire.run(30)
    assert len({p.roster.signature for p in wire.people}) == 1
    assert wire.people[1].roster.entry(3) == MemberEntry(3, MEMBER, 0)


def test_near_members_are_drawn_more_often() -> None:
    """[RPB §7.5]: uniform, linear and quadratic in the round-trip time."""
    shares = {}
    for bias in ("uniform", "linear", "quadratic"):
        recipe = PubsubRecipe(members=5, selection=bias)
        selection = TargetSelection(recipe, MemberTable(recipe, 0), Random(1))
        for peer, trip in ((1, 0.01), (2, 0.02), (3, 0.1)):
            selection.on_asked(peer, 0.0)
            selection.on_answer(peer, trip)
        drawn = Counter(selection.pick() for _ in range(4000))
        assert 0 not in drawn
        shares[bias] = [drawn[peer] / 4000 for peer in (1, 2, 3, 4)]
    near, _, far, unknown = zip(*shares.values(), strict=True)
    assert near[0] < near[1] < near[2]
    assert far[0] > far[1] > far[2] > 0
    assert all(0.05 < share < near[place] + 0.02 for place, share in enumerate(unknown))


TRIPS = (0.01, 0.02, 0.04, 0.1)
FARTHEST = 1.1 * max(TRIPS)
WEIGHTS = {
    "uniform": lambda trip: 1.0,
    "linear": lambda trip: 1 - trip / FARTHEST,
    "quadratic": lambda trip: (1 - trip / FARTHEST) ** 2,
    "inverse": lambda trip: 1 / trip**1.5,
}


@pytest.mark.parametrize("bias", WEIGHTS)
@pytest.mark.parametrize("loggers", [(2,), (2, 9)])
def test_every_peer_has_its_share_and_a_logger_an_equal_one(bias: str, loggers) -> None:
    """[RPB §4.2, §7.5]; a logger is drawn as often as if all were drawn alike."""
    recipe = PubsubRecipe(
        members=17, loggers=loggers, copies=1, selection=bias, selection_power=1.5
    )
    selection = TargetSelection(recipe, MemberTable(recipe, 0), Random(7))
    trips = {peer: TRIPS[peer % len(TRIPS)] for peer in range(1, 17)}
    for peer, trip in trips.items():
        selection.on_asked(peer, 0.0)
        selection.on_answer(peer, trip)
    draws, alike = 60_000, 1 / len(trips)
    drawn = Counter(selection.pick() for _ in range(draws))
    weights = {p: WEIGHTS[bias](trip) for p, trip in trips.items() if p not in loggers}
    rest = (1 - len(loggers) * alike) / sum(weights.values())
    for peer in trips:
        share = alike if peer in loggers else weights[peer] * rest
        assert abs(drawn[peer] / draws - share) < 4 * (share / draws) ** 0.5, (peer, share)


def test_where_all_others_are_loggers_one_is_drawn() -> None:
    recipe = PubsubRecipe(members=3, loggers=(1, 2), copies=1, selection="linear")
    selection = TargetSelection(recipe, MemberTable(recipe, 0), Random(7))
    for peer, trip in ((1, 0.01), (2, 0.1)):
        selection.on_asked(peer, 0.0)
        selection.on_answer(peer, trip)
    assert {selection.pick() for _ in range(100)} == {1, 2}


def test_a_member_that_can_reach_loggers_alone_picks_one_after_few_draws() -> None:
    """Nobody can stand in for them; that took 65,536 draws."""
    recipe = PubsubRecipe(members=3, loggers=(0, 1), selection="quadratic")
    draws: list[float] = []

    class Counted(Random):
        def random(self) -> float:
            draws.append(super().random())
            return draws[-1]

    selection = TargetSelection(recipe, MemberTable(recipe, 2), Counted(1))
    for logger in (0, 1):
        selection.on_asked(logger, 0.0)
        selection.on_answer(logger, 0.1 * (logger + 1))
    assert {selection.pick() for _ in range(20)} == {0, 1}
    assert len(draws) < 20 * 1000
