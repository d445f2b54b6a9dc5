"""Total order in a view, and across primary views."""

import pytest

from semcast.terms.events import DELIVER, MULTICAST
from semcast.terms.outputs import Confirmed, Delivery
from semcast.terms.views import MEMBER, OrderProgress, ViewEnvelope

PIDS = (1, 2, 3)


def places(group, pid):
    events = [e for e in group.events if e.kind == DELIVER and e.pid == pid]
    return [(e.view, e.position, e.sender, e.seq) for e in events]


@pytest.mark.parametrize("protocol", ["s-vsm", "vsm", "vs"])
def test_all_deliver_in_one_order(world, protocol):
    group = world(protocol, "total").start(PIDS)
    for round_ in range(20):
        for pid in PIDS:
            group.send(pid, 10 * round_ + pid)
        group.run(0.0004)
    group.run(0.5)
    assert places(group, 1) == places(group, 2) == places(group, 3)
    assert len(places(group, 1)) == 60
    assert [len(group.messages(pid)) for pid in PIDS] == [60] * 3, (
        "handed over, whatever set it off"
    )


def test_the_last_word_across_senders_is_the_same_everywhere(world):
    group = world(order="total").start(PIDS)
    group.do(3, group.members[3].on_ready, -(1 << 60))
    for _ in range(30):
        for pid in PIDS:
            group.send(pid, 7)
        group.run(0.003)
    group.run(0.2)
    group.do(3, group.members[3].on_ready, 1 << 60)
    assert places(group, 3)[-1] == places(group, 1)[-1]
    assert len(places(group, 3)) == 1, "whoever sent the others"
    assert len(places(group, 1)) == 90, "who is ready misses nothing"
    assert set(places(group, 3)) <= {*places(group, 1)} | {*places(group, 2)}


def test_nothing_is_delivered_before_enough_hold_it(world):
    """A sequencer cut off from the others must not deliver in an order that dies with it."""
    group = world(order="total").start(PIDS)
    group.lose = lambda source, to, datagram: source == 1 and isinstance(datagram, ViewEnvelope)
    group.send(1, 5)
    group.run(0.2)
    assert places(group, 1) == []
    group.crash(1)
    group.lose = lambda source, to, datagram: False
    group.run(1.5)
    assert places(group, 2) == places(group, 3) == []


def test_what_had_no_place_when_the_view_ended_gets_one_everywhere(world):
    group = world(order="total").start(PIDS)
    group.cut |= {(2, 1), (3, 1)}
    group.send(2, 5)
    group.send(3, 6)
    group.run(0.05)
    assert places(group, 2) == []
    group.crash(1)
    group.run(2.0)
    assert places(group, 2) == places(group, 3) == [(1, 1, 2, 1), (1, 2, 3, 1)]


def test_orders_are_multicasts_that_nobody_delivers(world):
    group = world(order="total").start(PIDS)
    group.send(2, 5)
    group.run(0.2)
    (order,) = [e for e in group.events if e.kind == MULTICAST and e.note == "order"]
    assert order.pid == 1
    assert len(places(group, 1)) == 1


def test_a_full_buffer_does_not_deadlock_the_order(world):
    group = world(order="total", multicast={"buffer": 3}).start(PIDS)
    sent = dict.fromkeys(PIDS, 0)
    for round_ in range(300):
        for pid in PIDS:
            sent[pid] += group.send(pid, 100 * round_ + pid)
        group.run(0.002)
    group.run(1.0)
    assert all(count > 5 for count in sent.values()), sent
    assert len(places(group, 1)) == sum(sent.values())
    assert places(group, 1) == places(group, 2) == places(group, 3)


def test_lost_reports_are_said_again(world):
    group = world(order="total").start(PIDS)
    group.lose = lambda source, to, datagram: isinstance(datagram, OrderProgress)
    group.send(2, 5)
    group.run(0.3)
    assert len(places(group, 2)) == 1


def test_confirmed_is_what_all_have_taken(world):
    """VS's *safe* [VSD app. A]."""
    group = world("vs", "total").start(PIDS)
    group.do(3, group.members[3].on_ready, -(1 << 60))
    group.send(1, 5)
    group.run(0.5)
    assert len(places(group, 1)) == 1
    assert not any(group.confirmed.values())
    group.do(3, group.members[3].on_ready, 1 << 60)
    group.run(0.5)
    view = group.members[1].view.id
    assert all(group.confirmed[pid] == [Confirmed(view, 1)] for pid in PIDS)


def test_components_go_on_apart_and_merge(world):
    group = world("vs", "total").start([1, 2, 3, 4])
    group.cut |= {(a, b) for a in (1, 2) for b in (3, 4)} | {(b, a) for a in (1, 2) for b in (3, 4)}
    group.run(1.0)
    assert group.members_of(1) == group.members_of(2) == [1, 2]
    assert group.members_of(3) == group.members_of(4) == [3, 4]
    assert group.send(1, 5) == group.send(4, 6) == 1
    group.run(0.3)
    assert group.messages(2)[-1][2] == 5
    assert group.messages(3)[-1][2] == 6
    group.cut.clear()
    group.run(2.0)
    assert {tuple(group.members_of(pid)) for pid in (1, 2, 3, 4)} == {(1, 2, 3, 4)}
    assert {group.members[pid].phase for pid in (1, 2, 3, 4)} == {MEMBER}
    assert all(group.views(pid) == sorted(set(group.views(pid))) for pid in (1, 2, 3, 4))


def test_without_echo_own_messages_take_their_places_unseen(world):
    group = world(order="total", multicast={"echo": False}).start(PIDS)
    carry_out, seen = group._carry_out, {pid: [] for pid in PIDS}

    def carrying_out(pid, out):
        seen[pid] += [each.position for each in out.outputs if isinstance(each, Delivery)]
        carry_out(pid, out)

    group._carry_out = carrying_out
    for round_ in range(10):
        for pid in PIDS:
            group.send(pid, 10 * round_ + pid)
        group.run(0.003)
    group.run(0.5)
    assert places(group, 1) == places(group, 2) == places(group, 3)
    assert len(places(group, 1)) == 30
    for pid in PIDS:
        others = [place for place in places(group, pid) if place[2] != pid]
        assert seen[pid] == [position for _, position, *_ in others]
        assert [(s, n) for s, n, _ in group.messages(pid)] == [(s, n) for *_, s, n in others]
