"""Getting what is missing: NACK ranges under a window; the sender first, then any holder."""

from itertools import pairwise

import pytest

from semcast.core.recipe import Recipe
from semcast.terms.events import NACK, REPAIR
from semcast.terms.messages import (
    Data,
    DataMessage,
    FrontierVote,
    Nack,
    StabilityGossip,
    WindowEmpty,
)


def nacks(w):
    return [(s, t, d) for s, t, d in w.transit if isinstance(d, Nack)]


def gap(w, last=3):
    """Member 1 learns that member 0's stream goes up to `last`, of which it has nothing."""
    w.transit.clear()
    w.hand(0, 1, WindowEmpty(0, last))


def test_a_gap_is_asked_for_after_a_moment(wire):
    """The messages may merely have been overtaken: wait nack_delay_s."""
    w = wire(Recipe(members=2, nack_delay_s=0.002))
    w.now = 1.0
    gap(w)
    assert nacks(w) == []
    assert w.members[1].deadline == pytest.approx(1.002)
    w.tick()
    assert nacks(w) == [(1, 0, Nack(0, ((1, 3),), 4, 1))]


def test_a_gap_that_closes_in_time_is_not_asked_for(wire):
    w = wire(Recipe(members=2, period_s=1000.0))
    w.items(0, 1, 2, 3)
    (_, _, data), *_ = w.transit
    gap(w)
    w.hand(0, 1, data)
    while w.now < 5 and w.deadline < 5:
        w.tick()
    assert nacks(w) == []


def test_one_request_per_stream_is_under_way(wire):
    w = wire(Recipe(members=2))
    gap(w)
    w.tick()
    w.hand(0, 1, WindowEmpty(0, 9))
    assert len(nacks(w)) == 1


def test_silence_is_asked_into_again_after_ever_longer_times(wire):
    w = wire(Recipe(members=2, protocol="s-sm", period_s=1000.0, timeout_min_s=0.02))
    gap(w)
    times = []
    while len(times) < 6:
        w.tick()
        times += [w.now] * len(nacks(w))
        w.transit.clear()
    waits = [round(b - a, 6) for a, b in pairwise(times)]
    assert waits == [0.1, 0.2, 0.4, 0.8, 1.0]
    assert w.members[1].recovery.window.size == 1


def test_an_answer_lets_the_next_request_go_at_once(wire):
    w = wire(Recipe(members=2))
    gap(w, last=100)
    w.tick()
    ((_, _, first),) = nacks(w)
    w.transit.clear()
    messages = tuple(DataMessage(0, seq) for seq in range(1, 5))
    w.hand(0, 1, Data(messages, (), first.number))
    ((_, _, second),) = nacks(w)
    assert (first.limit, second.limit) == (4, 5 * (1400 // 24)), "of unknown size, then empty ones"
    assert second.spans == ((5, 100),)
    assert second.number != first.number


def test_what_answers_bring_does_not_make_hearsay_wait(wire):
    """Who hears of a stream only by gossip asks for the next part when an answer is complete."""
    w = wire(Recipe(members=2, period_s=1.0))
    w.hand(0, 1, StabilityGossip((FrontierVote(0, 100, 0, b"", 0),)))
    w.transit.clear()
    while not nacks(w):
        w.tick()
    ((_, _, first),) = nacks(w)
    w.transit.clear()
    w.hand(0, 1, Data(tuple(DataMessage(0, seq) for seq in range(1, 5)), (), first.number))
    assert [nack.spans for *_, nack in nacks(w)] == [((5, 100),)]


def test_on_hearsay_no_more_is_asked_for_than_a_member_lacks_that_keeps_up(wire):
    """Most of it may be on its way: who asks for more would be left to pull."""
    w = wire(Recipe(members=2, buffer=80))
    w.hand(0, 1, StabilityGossip((FrontierVote(0, 70, 0, b"", 0),)))
    w.transit.clear()
    while not nacks(w):
        w.tick()
    assert [nack.spans for *_, nack in nacks(w)] == [((1, w.recipe.far_behind_messages),)]


def test_a_late_answer_to_an_earlier_repetition_counts(wire):
    """Requests are numbered: each answer tells its own round trip."""
    w = wire(Recipe(members=2, period_s=1000.0))
    gap(w, last=100)
    w.tick()
    asked_at = w.now
    w.tick()
    w.transit.clear()
    w.hand(0, 1, Data((DataMessage(0, 1),), (), 1))
    ((*_, nack),) = nacks(w)
    assert nack.spans == ((2, 100),)
    assert w.members[1].recovery.window.smoothed_s == pytest.approx(w.now - asked_at)


def test_an_answer_to_nothing_that_was_asked_opens_nothing(wire):
    w = wire(Recipe(members=2, period_s=1000.0))
    gap(w, last=100)
    w.tick()
    w.transit.clear()
    size = w.members[1].recovery.window.size
    w.hand(0, 1, Data((DataMessage(0, 1),), (), 99))
    assert nacks(w) == []
    assert w.members[1].recovery.window.size == size


def test_the_repetitions_remembered_are_few(wire):
    w = wire(Recipe(members=2, protocol="s-sm", period_s=1000.0))
    gap(w)
    while w.now < 60:
        w.tick()
    assert len(nacks(w)) > 50
    assert len(w.members[1].recovery.pending[0].sent_at) == 8


def test_under_s_sm_only_the_sender_is_asked(wire):
    w = wire(Recipe(members=4, protocol="s-sm", period_s=1000.0))
    gap(w)
    while w.now < 60:
        w.tick()
    assert {target for _, target, _ in nacks(w)} == {0}


def test_under_s_rm_first_the_sender_then_who_claims_to_be_further_then_anyone(wire):
    w = wire(Recipe(members=5, period_s=1000.0), seed=3)
    gap(w)
    w.members[1].recovery.on_peer_frontier(3, 0, 3)
    targets = []
    while len(targets) < 30:
        w.tick()
        targets += [target for _, target, _ in nacks(w)]
        w.transit.clear()
    assert set(targets[0::3]) == {0}
    assert set(targets[1::3]) == {3}
    assert set(targets[2::3]) == {0, 2, 3, 4}


def test_of_those_who_claim_as_much_the_last_to_speak_is_asked(wire):
    """The first may have crashed since."""
    w = wire(Recipe(members=5, period_s=1000.0))
    gap(w)
    for peer, frontier in ((3, 3), (4, 3), (2, 1)):
        w.members[1].recovery.on_peer_frontier(peer, 0, frontier)
    while len(nacks(w)) < 2:
        w.tick()
    assert [target for _, target, _ in nacks(w)] == [0, 4]


def test_a_gap_that_closed_leaves_no_request_behind(wire):
    """The next gap is asked for after a moment, not after the old request's timeout."""
    w = wire(Recipe(members=2, period_s=1000.0))
    gap(w, last=1)
    w.tick()
    w.hand(0, 1, Data((DataMessage(0, 1),)))
    assert not w.members[1].recovery.pending
    w.transit.clear()
    asked_at = w.now
    w.hand(0, 1, WindowEmpty(0, 2))
    w.tick()
    assert len(nacks(w)) == 1
    assert w.now == pytest.approx(asked_at + w.recipe.nack_delay_s)


def test_a_forgotten_member_is_asked_no_more(wire):
    w = wire(Recipe(members=5, f=2, period_s=1000.0))
    gap(w)
    w.members[1].recovery.on_peer_frontier(3, 0, 3)
    w.forget(1, 0)
    w.forget(1, 3)
    assert not w.members[1].receiver.gaps, "nobody may have what is missing"
    w.members[1].receiver.learn_sent(0, 3)  # until somebody who is left says so
    while len(nacks(w)) < 30:
        w.tick()
    assert {target for _, target, _ in nacks(w)} == {2, 4}


def test_under_s_sm_a_forgotten_sender_leaves_nobody_to_ask(wire):
    w = wire(Recipe(members=3, protocol="s-sm", period_s=1000.0))
    gap(w)
    w.forget(1, 0)
    while w.deadline < 60:
        w.tick()
    assert nacks(w) == []


def test_lazy_purges_before_it_declines_to_ask(wire):
    """What is obsolete in a full queue is room."""
    w = wire(Recipe(members=2, protocol="s-sm", purge="lazy", buffer=8, period_s=1000.0), ready=[0])
    w.hand(0, 1, Data(tuple(DataMessage(0, seq, item=1) for seq in range(1, 9))))
    gap(w, last=20)
    w.tick()
    assert [d.limit for *_, d in nacks(w)] == [7]


@pytest.mark.parametrize(
    ("buffer", "held", "limit"),
    [
        (100, 0, 4),  # the window
        (100, 98, None),  # less than an eighth is free, and the application will make room
        (8, 5, 3),  # the room
        (8, 8, None),
        (4, 4, None),
    ],
)
def test_what_is_asked_for_fits(wire, buffer, held, limit):
    """With no room nothing is asked for: that is the flow control."""
    w = wire(Recipe(members=3, protocol="s-sm", buffer=buffer, period_s=1000.0), ready=[0])
    if held:
        w.hand(2, 1, Data(tuple(DataMessage(2, seq) for seq in range(1, held + 1))))
    gap(w, last=99)
    for _ in range(3):
        if w.deadline < 1.0:
            w.tick()
    asked = [d.limit for *_, d in nacks(w)]
    assert asked[:1] == ([] if limit is None else [limit])


def test_room_for_one_is_asked_for_where_nothing_of_the_sender_is_held(wire):
    """The reserve: a buffer full of others' messages for retransmission does not starve it."""
    w = wire(Recipe(members=3, buffer=4, period_s=1000.0))
    w.hand(2, 1, Data(tuple(DataMessage(2, seq) for seq in range(1, 5))))
    assert w.members[1].buffers.free_messages() == 0
    gap(w)
    w.tick()
    assert [d.limit for *_, d in nacks(w)] == [1]


def test_room_that_opens_is_used_at_once(wire):
    w = wire(Recipe(members=3, protocol="s-sm", buffer=4, period_s=1000.0), ready=[0])
    w.hand(0, 1, Data(tuple(DataMessage(0, seq) for seq in range(1, 6))))
    assert w.deadline > 0
    while w.deadline < 1:
        w.tick()
    assert nacks(w) == []
    w.ready(1, 2)
    ((*_, nack),) = nacks(w)
    assert (nack.spans, nack.limit) == (((5, 5),), 2)


def test_gossip_tells_where_a_stream_ends(wire):
    """Control messages are hints that the last message was lost [SRM §5.3]."""
    w = wire(Recipe(members=2))
    w.items(0, 1, 2)
    w.transit.clear()
    w.lose = lambda source, target, datagram: (
        not isinstance(datagram, StabilityGossip | Nack | Data)
    )
    w.run()
    assert w.seqs(1) == [1, 2]


def hearsay(w, last=3):
    """Member 0 claims in gossip, and only there, that its stream goes up to `last`."""
    w.hand(0, 1, StabilityGossip((FrontierVote(0, last, last, b"\x01", 0),)))


def asked_at(w):
    """When member 1 asks at last, if nothing more comes."""
    while not nacks(w):
        w.transit.clear()
        w.tick()
    return w.now


@pytest.mark.parametrize(("delay_s", "wait_s"), [(0.002, 0.5), (0.7, 0.7)])
def test_hearsay_is_asked_for_a_period_after_the_stream_stopped(wire, delay_s, wait_s):
    """It overtakes the messages that it is about."""
    w = wire(Recipe(members=2, period_s=0.5, nack_delay_s=delay_s))
    w.now = 1.0
    hearsay(w)
    assert asked_at(w) == pytest.approx(1.0 + wait_s)


def test_as_long_as_the_stream_moves_hearsay_shows_nothing(wire):
    w = wire(Recipe(members=2, period_s=0.5))
    for seq in range(1, 9):
        w.now = 1.0 + 0.4 * seq
        hearsay(w, seq + 3)
        w.hand(0, 1, Data((DataMessage(0, seq),)))
        assert nacks(w) == []
    assert asked_at(w) == pytest.approx(w.members[1].recovery.indirect_delay_s + 1.0 + 0.4 * 8)


def test_hearing_it_again_puts_nothing_off(wire):
    w = wire(Recipe(members=2, period_s=0.5))
    for tenth in range(10, 15):
        w.now = tenth / 10
        hearsay(w, tenth)
    assert asked_at(w) == pytest.approx(1.5)


def test_hearsay_that_came_true_is_not_asked_for(wire):
    w = wire(Recipe(members=2, period_s=0.5))
    w.now = 1.0
    hearsay(w)
    w.hand(0, 1, Data(tuple(DataMessage(0, seq) for seq in (1, 2, 3))))
    assert not w.members[1].receiver.gaps
    assert not w.members[1].recovery.gaps_since


@pytest.mark.parametrize("shown", [WindowEmpty(0, 3), Data((DataMessage(0, 3),))])
def test_what_has_left_its_sender_is_asked_for_soon_whatever_was_heard(wire, shown):
    w = wire(Recipe(members=2, period_s=0.5, nack_delay_s=0.002))
    w.now = 1.0
    hearsay(w)
    w.now = 1.1
    w.hand(0, 1, shown)
    assert 1.1 <= asked_at(w) <= 1.102 + 1e-9


def test_a_request_names_at_most_64_ranges(wire):
    w = wire(Recipe(members=2, buffer=1000))
    w.hand(0, 1, Data(tuple(DataMessage(0, 2 * n) for n in range(1, 101))))
    w.tick()
    ((*_, nack),) = nacks(w)
    assert nack.spans == tuple((2 * n - 1, 2 * n - 1) for n in range(1, 65))


def test_alone_there_is_nobody_to_ask(wire):
    w = wire(Recipe(members=1))
    w.members[0].receiver.learn_sent(0, 5)
    w.ready(0, 1)
    assert w.transit == []


def test_evidence_of_a_gap_is_no_evidence_of_what_was_only_heard(wire):
    w = wire(Recipe(members=2, period_s=0.5, nack_delay_s=0.002))
    w.now = 1.0
    hearsay(w, 100)
    w.hand(0, 1, Data((DataMessage(0, 1),)))
    w.now = 1.1
    w.hand(0, 1, Data((DataMessage(0, 3),)))  # 2 was merely overtaken.
    assert nacks(w) == []
    assert asked_at(w) == pytest.approx(1.102)
    assert nacks(w)[0][2].spans == ((2, 2),)


def test_a_request_and_its_answer_are_recorded(wire):
    """The numbers of data are plain, those of purge notices have a tilde."""
    w = wire(Recipe(members=2, protocol="s-sm", relation="item", buffer=4, period_s=1000.0))
    w.items(0, 7, 8, 7, 9)
    gap(w, last=4)
    w.items(0, 5)  # The buffer is full: the sender purges 1, which 3 made obsolete.
    w.transit.clear()
    w.tick()
    w.carry()
    (asked,), (answered,) = w.kinds(NACK, 1), w.kinds(REPAIR, 0)
    assert (asked.sender, asked.seq, asked.peer, asked.note) == (0, 1, 0, "1-4")
    assert (answered.sender, answered.seq, answered.peer) == (0, 1, 1)
    assert answered.note == "2-4 ~1"


def test_a_request_that_nobody_can_answer_leaves_no_repair(wire):
    w = wire(Recipe(members=2, protocol="s-sm", period_s=1000.0))
    gap(w)
    w.tick()
    w.carry()
    assert len(w.kinds(NACK, 1)) == 1
    assert w.kinds(REPAIR, 0) == []
