"""First transmissions: every own message once, in order, in full datagrams, under a cap."""

import pytest

from semcast.core.outbox import split_into_datagrams
from semcast.core.recipe import Recipe
from semcast.kernel import HEADER_BYTES
from semcast.terms.ids import EVERYONE
from semcast.terms.messages import (
    Data,
    DataMessage,
    FrontierVote,
    Nack,
    PurgeNotice,
    StabilityGossip,
    Update,
    WindowEmpty,
)

WIDE = 100 * HEADER_BYTES


def sizes(transit, target=1):
    return [len(d.messages) for _, t, d in transit if t == target and isinstance(d, Data)]


def sent(transit, target=1):
    return [m.seq for _, t, d in transit if t == target and isinstance(d, Data) for m in d.messages]


@pytest.mark.parametrize(
    ("payloads", "datagram_bytes", "cut"),
    [
        ([], 100, []),
        ([0], 100, [1]),
        ([0] * 4, 4 * HEADER_BYTES, [4]),
        ([0] * 5, 4 * HEADER_BYTES, [4, 1]),
        ([500], 100, [1]),
        ([0, 500, 0], 100, [1, 1, 1]),
        ([10, 10, 10], 2 * (HEADER_BYTES + 10), [2, 1]),
    ],
)
def test_messages_are_cut_into_what_fits(payloads, datagram_bytes, cut):
    messages = [DataMessage(0, seq, payload=bytes(n)) for seq, n in enumerate(payloads, start=1)]
    parts = split_into_datagrams(messages, datagram_bytes)
    assert [len(part) for part in parts] == cut
    assert [m for part in parts for m in part] == messages


def test_bitmaps_count_towards_the_size():
    messages = [DataMessage(0, 200 + seq, covers=b"\1" * 76) for seq in range(4)]
    assert [len(part) for part in split_into_datagrams(messages, 2 * (HEADER_BYTES + 76))] == [2, 2]


@pytest.mark.parametrize("name", ["x" * 12, "\N{SNOWMAN}" * 4])
def test_names_count_towards_the_size_as_they_are_written(name):
    messages = [DataMessage(0, 1 + seq, name=name) for seq in range(4)]
    assert [len(part) for part in split_into_datagrams(messages, 2 * (HEADER_BYTES + 12))] == [2, 2]


def test_a_batch_leaves_at_once_in_full_datagrams(wire):
    w = wire(Recipe(members=2, datagram_bytes=4 * HEADER_BYTES))
    w.items(0, *range(10))
    assert sizes(w.transit) == [4, 4, 2]
    assert sent(w.transit) == list(range(1, 11))


def test_datagrams_go_to_everyone():
    from random import Random

    from semcast.core.member import Member
    from semcast.terms.effects import Effects

    out = Effects(recording=False)
    Member(Recipe(members=3), 0, Random(1)).submit([Update()], 0.0, out)
    assert [target for target, _ in out.send] == [EVERYONE]


def test_alone_nothing_is_sent(wire):
    w = wire(Recipe(members=1))
    w.items(0, 1, 2)
    w.run()
    assert w.sent == 0
    assert w.seqs(0) == [1, 2]


def test_messages_wait_for_company_as_long_as_told(wire):
    w = wire(Recipe(members=2, coalesce_s=0.001, datagram_bytes=WIDE))
    w.items(0, 1)
    w.now = 0.0005
    w.items(0, 2)
    assert w.transit == []
    assert w.deadline == 0.001
    w.tick()
    assert sent(w.transit) == [1, 2]


def test_a_full_datagram_does_not_wait(wire):
    w = wire(Recipe(members=2, coalesce_s=1.0, datagram_bytes=2 * HEADER_BYTES))
    w.items(0, 1, 2, 3)
    assert sent(w.transit) == [1, 2]
    while w.now < 1.0:
        assert sent(w.transit) == [1, 2]
        w.tick()
    assert sent(w.transit) == [1, 2, 3]


def test_a_flush_sends_at_once_what_waits_for_company(wire):
    w = wire(Recipe(members=2, coalesce_s=1.0, datagram_bytes=WIDE))
    w.items(0, 1)
    w.items(0, 2)
    assert not w.members[0].outbox.is_empty
    w.flush(0)
    assert sizes(w.transit) == [2]
    assert w.members[0].outbox.is_empty
    w.transit.clear()
    w.items(0, 3)
    assert w.transit == []  # The next one waits again,
    w.flush(0)
    w.flush(0)
    assert sizes(w.transit) == [1]  # and leaves once.


def test_a_flush_is_no_faster_than_the_cap(wire):
    size = 10 * HEADER_BYTES
    w = wire(Recipe(members=2, datagram_bytes=size, bandwidth_max=float(size), coalesce_s=0.1))
    w.members[1].stability.period_s = w.members[0].stability.period_s = 1e6
    left = []
    for step in range(1001):
        w.now = step / 100
        if step < 400:
            w.items(0, step)
        w.flush(0)
        if w.deadline <= w.now:
            w.tick()
        left += [w.now] * sum(sizes(w.transit))
        w.transit.clear()
    assert len(left) >= 100
    for count, when in enumerate(left, start=1):
        assert count <= 10 + 10 * when + 0.1  # a datagram saved up, then ten messages a second


def test_what_each_peer_has_reached_of_the_own_stream_is_known(wire):
    w = wire(Recipe(members=3))
    outbox = w.members[0].outbox
    w.items(0, *range(9))
    assert outbox.peer_frontier == {1: 0, 2: 0}
    w.transit.clear()
    w.hand(1, 0, Nack(0, ((5, 9),), 5, 1))
    assert outbox.peer_frontier == {1: 4, 2: 0}
    w.hand(1, 0, Nack(0, ((3, 9),), 5, 2))  # It came late.
    w.hand(2, 0, StabilityGossip((FrontierVote(0, 7, 0, b"", 0),)))
    assert outbox.peer_frontier == {1: 4, 2: 7}
    w.run()
    assert outbox.peer_frontier == {1: 9, 2: 9}  # since all of it is stable
    w.forget(0, 2)
    assert outbox.peer_frontier == {1: 9}


def test_a_cap_spaces_datagrams_out(wire):
    """Never faster than bandwidth_max: 100 datagrams' worth of bytes take their time."""
    size = 10 * HEADER_BYTES
    w = wire(Recipe(members=2, datagram_bytes=size, bandwidth_max=float(size)))
    w.items(0, *range(50))
    times = []
    while len(times) < 5:
        times += [w.now] * len(sizes(w.transit))
        w.transit.clear()
        w.tick()
    assert times == pytest.approx([0.0, 1.0, 2.0, 3.0, 4.0])


def test_an_idle_cap_saves_up_one_datagram_and_no_more(wire):
    size = 10 * HEADER_BYTES
    w = wire(Recipe(members=2, datagram_bytes=size, bandwidth_max=float(size)))
    w.now = 1000.0
    w.items(0, *range(30))
    assert sizes(w.transit) == [10]


def test_a_message_larger_than_a_datagram_is_paid_for_too(wire):
    w = wire(Recipe(members=2, datagram_bytes=100, bandwidth_max=100.0))
    w.send(0, Update(payload=bytes(1000 - HEADER_BYTES)))
    assert w.transit == []
    while not sizes(w.transit):
        w.tick()
    assert 9.0 <= w.now <= 10.0


def test_what_was_purged_while_it_waited_for_bandwidth_leaves_as_a_notice(wire):
    size = 2 * HEADER_BYTES
    w = wire(
        Recipe(
            members=2,
            protocol="s-sm",
            buffer=4,
            datagram_bytes=size,
            bandwidth_max=float(size),
            period_s=1000.0,
        )
    )
    w.items(0, 0, 0, 1, 1, 1)
    while w.members[0].outbox.sent < w.members[0].outbox.last:
        w.tick()
    datagrams = [d for _, _, d in w.transit if isinstance(d, Data)]
    left = [m.seq for d in datagrams for m in d.messages]
    gone = {seq for d in datagrams for p in d.notices for seq in range(p.first, p.last + 1)}
    assert gone
    assert sorted({*left, *gone}) == [1, 2, 3, 4, 5]
    assert all(
        isinstance(p, PurgeNotice) and p.witness in left for d in datagrams for p in d.notices
    )
    w.lose = lambda source, target, datagram: False
    w.run(until=w.now + 1)
    assert w.seqs(1) == left


def test_window_empty_tells_where_the_stream_ended(wire):
    """So that the loss of its tail is noticed at once [SRB §2.5]."""
    w = wire(Recipe(members=2, period_s=0.03))
    w.items(0, 1, 2)
    w.transit.clear()  # both messages are lost
    ends = []
    while not ends and w.now < 1:
        w.tick()
        ends = [d for _, _, d in w.transit if isinstance(d, WindowEmpty)]
        w.transit.clear()  # and so is all gossip
    assert ends == [WindowEmpty(0, 2)]
    w.hand(0, 1, ends[0])
    assert w.members[1].receiver.gaps
    w.run()
    assert w.seqs(1) == [1, 2]


def test_a_stream_that_is_stable_needs_no_end(wire):
    w = wire(Recipe(members=2, period_s=0.03))
    w.items(0, 1)
    w.members[0].stability.period_s = w.members[1].stability.period_s = 0.001
    seen = []
    w.lose = lambda source, target, datagram: seen.append(type(datagram)) or False
    w.run()
    assert WindowEmpty not in seen
    assert Data in seen
