"""Primary views: who is in them, what they share, and what a change of view costs."""

from semcast.terms.events import INSTALL, SUSPECT
from semcast.terms.machine import LeaveGroup
from semcast.terms.messages import Data
from semcast.terms.views import (
    EXCLUDED,
    JOINING,
    LEFT,
    MEMBER,
    MINORITY,
    Accepted,
    Propose,
    StateChunk,
    ViewEnvelope,
)


def test_founders_are_in_the_first_view(world):
    group = world().start([1, 2, 3])
    assert [group.members_of(pid) for pid in (1, 2, 3)] == [[1, 2, 3]] * 3
    assert all(group.views(pid) == [1] for pid in (1, 2, 3))


def test_a_view_of_one(world):
    group = world(order="total").start([4])
    group.send(4, 1, 2)
    group.run(0.1)
    assert len(group.messages(4)) == 2


def test_a_crashed_member_is_put_out_within_a_second(world):
    group = world().start([1, 2, 3])
    group.crash(1)
    group.run(1.0)
    assert group.members_of(2) == group.members_of(3) == [2, 3]
    assert {e.peer for e in group.events if e.kind == SUSPECT} == {1}


def test_who_was_put_out_is_told_from_who_left(world):
    group = world().start([1, 2, 3, 4])
    assert group.members[1].status(group.now).excluded_s == {}
    group.crash(3)
    group.run(1.5)
    for pid in (1, 2, 4):
        [(silent, silent_s)] = group.members[pid].status(group.now).excluded_s.items()
        assert silent == 3
        assert group.recipe.timeout_s <= silent_s < 1.5
    group.tell(4, LeaveGroup())
    group.run(1.0)
    assert group.members_of(1) == [1, 2]
    assert group.members[1].status(group.now).excluded_s == {}


def test_the_crash_of_the_coordinator_in_mid_change_is_survived(world):
    group = world().start([1, 2, 3, 4, 5])
    group.crash(5)
    while not any(isinstance(sent[3], Propose) for sent in group.sent):
        group.run(0.001)
    group.crash(1)
    group.run(3.0)
    assert group.members_of(2) == group.members_of(3) == group.members_of(4) == [2, 3, 4]


def test_survivors_deliver_what_one_of_them_has(world):
    """Semantic View Synchrony with an empty relation is View Synchrony [SVS §4.1]."""
    group = world(protocol="vsm").start([1, 2, 3])
    group.cut |= {(1, 3)}
    group.send(1, 7, 8)
    group.run(0.002)
    group.crash(1)
    group.run(2.0)
    assert group.messages(2) == group.messages(3) == [(1, 1, 7), (1, 2, 8)]
    assert group.log[3][-1] == (2, None), "before the view is installed"


def test_a_message_that_no_survivor_has_is_delivered_by_none(world):
    group = world().start([1, 2, 3])
    group.cut |= {(1, 2), (1, 3)}
    group.send(1, 7)
    group.crash(1)
    group.run(2.0)
    assert group.members_of(2) == [2, 3]
    assert group.messages(2) == group.messages(3) == []


def test_nothing_fetched_is_delivered_before_the_decision(world):
    """Another ballot may cut shorter."""
    group = world(protocol="vsm").start([1, 2, 3, 4, 5])
    group.cut |= {(1, 3), (1, 4), (1, 5)}
    group.send(1, 7)
    group.run(0.002)
    group.crash(1)
    group.lose = lambda source, to, datagram: isinstance(datagram, ViewEnvelope)
    while not any(isinstance(sent[3], Propose) for sent in group.sent):
        group.run(0.001)
    group.lose = lambda source, to, datagram: isinstance(datagram, Accepted)
    group.run(2.0)
    assert group.messages(2) == [(1, 1, 7)]
    assert group.messages(3) == group.messages(4) == []
    group.lose = lambda source, to, datagram: False
    group.run(3.0)
    assert group.messages(3) == group.messages(4) == group.messages(5) == [(1, 1, 7)]


def test_a_joiner_starts_from_the_state_at_its_first_view(world):
    group = world().start([1, 2, 3])
    group.send(1, 5)
    group.run(0.1)
    group.state_of = lambda pid: str(len(group.messages(pid))).encode()
    group.add(9)
    group.run(0.5)
    group.send(2, 6)
    group.run(0.1)
    assert group.log[9] == [(2, b"1"), (2, 1, 6)]
    assert group.members[9].phase == MEMBER


def test_a_joiner_misses_nothing_while_its_state_comes(world):
    group = world().start([1, 2, 3])
    group.lose = lambda source, to, datagram: isinstance(datagram, StateChunk)
    group.add(9)
    group.run(0.5)
    assert group.members[9].phase == JOINING
    group.send(1, 5)
    group.run(0.5)
    group.lose = lambda source, to, datagram: False
    group.run(0.5)
    assert group.log[9] == [(2, b"state"), (1, 1, 5)]


def test_a_joiner_whose_donor_crashes_starts_over_at_a_later_view(world):
    group = world().start([1, 2, 3])
    group.lose = lambda source, to, datagram: isinstance(datagram, StateChunk)
    group.add(9)
    group.run(0.5)
    group.send(2, 5)
    group.run(0.1)
    group.crash(1)
    group.lose = lambda source, to, datagram: False
    group.state_of = lambda pid: b"later"
    group.run(2.0)
    assert group.log[9] == [(3, b"later")]


def test_who_comes_back_is_another_life(world):
    group = world().start([1, 2, 3])
    group.send(3, 5)
    group.run(0.1)
    group.crash(3)
    group.add(3, inc=2)
    group.run(1.0)
    assert group.members[3].view.members[-1] == (3, 2)
    assert group.send(3, 6) == 1
    group.run(0.1)
    assert group.messages(1)[-1] == (3, 1, 6)


def test_leaving_is_a_change_of_view_and_two_can_part(world):
    group = world().start([1, 2])
    group.tell(2, LeaveGroup())
    group.run(0.5)
    assert group.members[2].phase == LEFT
    assert group.members_of(1) == [1]
    group.tell(1, LeaveGroup())
    assert group.members[1].phase == LEFT


def test_everybody_can_leave_at_once(world):
    group = world().start([1, 2, 3])
    for pid in (1, 2, 3):
        group.tell(pid, LeaveGroup())
    group.run(2.0)
    assert [group.members[pid].phase for pid in (1, 2, 3)] == [LEFT] * 3


def test_a_minority_sends_nothing_and_the_majority_goes_on(world):
    group = world().start([1, 2, 3, 4, 5])
    group.cut |= {(a, b) for a in (1, 2) for b in (3, 4, 5)}
    group.cut |= {(b, a) for a in (1, 2) for b in (3, 4, 5)}
    group.run(2.0)
    assert group.members[1].phase == group.members[2].phase == MINORITY
    assert group.send(1, 5) == 0
    assert group.members_of(3) == [3, 4, 5]
    assert group.send(3, 6) == 1
    group.cut.clear()
    group.run(1.0)
    assert group.members[1].phase == EXCLUDED
    assert group.views(1) == [1]


def test_without_any_majority_the_view_goes_on_when_the_network_does(world):
    group = world().start([1, 2, 3])
    group.cut |= {(a, b) for a in (1, 2, 3) for b in (1, 2, 3)}
    group.run(2.0)
    assert {group.members[pid].phase for pid in (1, 2, 3)} == {MINORITY}
    group.cut.clear()
    group.run(3.0)
    assert {group.members[pid].phase for pid in (1, 2, 3)} == {MEMBER}
    assert group.send(1, 5) == 1


def test_a_slow_application_does_not_hold_up_the_view(world):
    group = world().start([1, 2, 3])
    group.do(3, group.members[3].on_ready, -(1 << 60))
    group.send(1, 5, 6, 7)
    group.run(0.1)
    group.crash(2)
    group.run(1.0)
    assert group.members_of(3) == [1, 3]
    assert group.log[3] == [(1, None)]
    group.do(3, group.members[3].on_ready, 99)
    assert group.log[3] == [(1, None), (1, 1, 5), (1, 2, 6), (1, 3, 7), (2, None)]


def test_the_flush_costs_what_is_live_not_what_was_sent(world):
    costs = []
    for updates in (60, 600):
        group = world(timeout_s=60.0, timeout_max_s=60.0, multicast={"buffer": 64})
        group.start([1, 2, 3, 4])
        group.lose = lambda source, to, d: to == 3 and isinstance(d, ViewEnvelope)
        for update in range(updates):
            group.send(1, update % 10)
            group.run(0.02)
        assert group.members[1].sent == updates
        before = len(group.sent)
        group.lose = lambda source, to, datagram: False
        group.tell(4, LeaveGroup())
        group.run(1.0)
        assert group.members_of(3) == [1, 2, 3]
        repaired = [
            len(d.datagram.messages)
            for _, _, to, d in group.sent[before:]
            if to == 3 and isinstance(d, ViewEnvelope) and isinstance(d.datagram, Data)
        ]
        costs.append(sum(repaired))
    assert max(costs) <= 30, "ten items are live"


def test_a_member_that_holds_up_a_full_buffer_is_put_out_only_if_that_was_chosen(world):
    for overflow, members in (("block", [1, 2, 3]), ("exclude", [1, 2])):
        group = world(overflow=overflow, multicast={"buffer": 8}).start([1, 2, 3])
        group.lose = lambda source, to, d: to == 3 and isinstance(d, ViewEnvelope)
        for item in range(30):
            group.send(1, item)
            group.run(0.1)
        group.run(2.0)
        assert group.members_of(1) == members, overflow


def test_installations_are_recorded_with_their_members(world):
    group = world().start([1, 2, 3])
    group.crash(3)
    group.run(1.0)
    installs = [(e.pid, e.view, e.members) for e in group.events if e.kind == INSTALL]
    assert installs[-1][1:] == (2, (1, 2))
