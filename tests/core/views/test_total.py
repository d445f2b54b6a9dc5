"""Total order in a view, and across primary views."""

import pytest

from semcast.core.order.total import LOAD_MESSAGES
from semcast.terms.events import DELIVER, MULTICAST
from semcast.terms.outputs import Confirmed, Delivery
from semcast.terms.views import MEMBER, Heartbeat, OrderProgress, ViewEnvelope

PIDS = (1, 2, 3)
HOP_S = 0.001  # the longest way of a datagram in these tests, the shortest is half of it
NEVER_S = 10.0  # a timer that no test lives to see


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


def orders(group):
    return [e for e in group.events if e.kind == MULTICAST and e.note == "order"]


def reports(group):
    return [(pid, to) for _, pid, to, said in group.sent if isinstance(said, OrderProgress)]


@pytest.mark.parametrize("members", [2, 3, 4, 5])
def test_an_idle_group_orders_without_a_timer(world, members):
    pids = range(1, members + 1)
    group = world(order="total", order_s=NEVER_S).start(pids)
    for sent in range(1, 7):
        sender = 1 + sent % members
        assert group.send(sender, sent)
        group.run(2 * HOP_S)
        if members < 5:  # where two holders are enough: sequencer and receiver
            assert all(len(places(group, pid)) == sent for pid in pids if pid > 1)
        group.run(HOP_S)
        assert [len(places(group, pid)) for pid in pids] == [sent] * members


def test_an_idle_group_confirms_without_a_timer(world):
    slow = {"period_s": NEVER_S}
    group = world("vs", "total", order_s=NEVER_S, multicast=slow).start(PIDS)
    for sent in range(1, 7):
        group.send(1 + sent % 3, sent)
        group.run(3 * HOP_S)
        assert [len(group.confirmed[pid]) for pid in PIDS] == [sent] * 3


def test_a_report_never_comes_before_its_delivery(world):
    group = world("vs", "total").start(PIDS)
    carry_out, taken = group._carry_out, dict.fromkeys(PIDS, 0)

    def carrying_out(pid, out):
        said = [each.datagram for _, each in out.send if isinstance(each.datagram, OrderProgress)]
        assert all(report.delivered <= taken[pid] for report in said)
        carry_out(pid, out)
        taken[pid] = len(group.messages(pid))

    group._carry_out = carrying_out
    for sent in range(30):
        group.send(1 + sent % 3, sent)
        group.run(0.0007)
    group.run(0.1)
    assert taken == dict.fromkeys(PIDS, 30)
    assert len(reports(group)) > 30


@pytest.mark.parametrize("protocol", ["s-vsm", "vs"])
def test_under_load_one_order_message_and_one_report_are_under_way(world, protocol):
    large = {"period_s": NEVER_S, "buffer": 5_000}
    group = world(protocol, "total", order_s=NEVER_S, multicast=large).start(PIDS)
    steps, step_s = 400, 0.00005
    for step in range(steps):
        for pid in PIDS:
            group.send(pid, step)
        group.run(step_s)
    group.run(20 * HOP_S)
    assert [len(places(group, pid)) for pid in PIDS] == [3 * steps] * 3
    seconds = steps * step_s
    assert seconds / (3 * HOP_S) < len(orders(group)) < seconds / HOP_S + 3, "one each round trip"
    by_member = [sum(source == pid for source, _ in reports(group)) for pid in PIDS]
    assert max(by_member) <= len(orders(group))
    if protocol == "s-vsm":
        assert {to for _, to in reports(group)} == {(1,)}, "nobody else needs them"


def test_under_heavy_load_an_order_message_waits_for_more_company(world):
    group = world(order="total", order_s=0.01).start(PIDS)
    group.send(1, *range(LOAD_MESSAGES + 1))
    group.run(3 * HOP_S)
    group.send(1, 1)
    assert len(orders(group)) == 1, "though all have reported the first"
    group.run(0.01)
    assert len(orders(group)) == 2
    group.send(1, 2)
    assert len(orders(group)) == 3, "the load is over"


def test_lost_reports_are_waited_for_no_longer_than_the_timer(world):
    group = world(order="total", order_s=0.01).start(PIDS)
    group.lose = lambda source, to, datagram: isinstance(datagram, OrderProgress | Heartbeat)
    group.send(2, 1)
    group.run(0.002)
    group.send(2, 2)
    group.run(0.006)
    assert len(orders(group)) == len(places(group, 3)) == 1
    group.run(0.004)
    assert len(orders(group)) == len(places(group, 3)) == 2


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
    (order,) = orders(group)
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
