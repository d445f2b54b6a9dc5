"""Mistakes that were made once; each test failed before its mend."""

from random import Random

import pytest

from semcast.core.member import Member
from semcast.core.purging_buffer import PurgingBuffer
from semcast.core.recipe import Recipe
from semcast.core.stability import QuorumDetector
from semcast.terms.effects import Effects
from semcast.terms.errors import LocalProtocolError, RemoteProtocolError
from semcast.terms.ids import NEVER
from semcast.terms.messages import (
    Data,
    Datagram,
    DataMessage,
    Excluded,
    FrontierVote,
    Nack,
    SafetyGossip,
    StabilityGossip,
    Update,
    WindowEmpty,
)
from semcast.terms.outputs import Ended
from semcast.terms.views import EXCLUDED
from semcast.wire.codec import encode


@pytest.mark.parametrize("seed", [0, 1, 4])
def test_two_full_senders_do_not_wait_for_each_others_safety(wire, seed):
    """A member behind the candidate abstained, and safety waited for it, and it for safety."""
    w = wire(Recipe(members=3, buffer=30), seed=seed)
    w.down = {2}
    w.items(0, *[1] * 30)
    w.items(1, *[2] * 5)  # all obsolete but the last of each
    w.run(until=60.0)
    for member in w.members[:2]:
        assert member.receiver.frontier[:2] == [30, 5]


def test_lazy_purging_tells_a_sender_that_was_refused(wire):
    w = wire(Recipe(members=3, purge="lazy", buffer=8))
    w.down = {2}
    assert w.items(0, *[1] * 9) == 8
    w.run(until=5.0)
    assert 0 in w.roomy


def test_under_a_cap_what_was_purged_does_not_wait_to_be_sent(wire):
    recipe = Recipe(members=2, protocol="s-sm", buffer=10, bandwidth_max=1000.0)
    w = wire(recipe, recording=False)
    for _ in range(2000):
        w.items(0, 1)
    kept = w.members[0].buffers.store.stream(0)
    assert len(kept.buffer.held) <= 10
    assert len(kept.holes) <= 11
    w.run(until=60.0)
    assert w.seqs(1)[-1] == 2000


def test_an_excluded_member_asks_for_no_timer(wire):
    w = wire(Recipe(members=3), ready=[0, 1])
    w.items(2, 1)
    w.hand(0, 2, Excluded(2))
    w.ready(2, 1)
    assert w.members[2].deadline == NEVER


def test_an_impossible_declaration_does_not_strand_what_was_accepted(wire):
    w = wire(Recipe(members=2, relation="list"))
    out = Effects(recording=False)
    assert w.members[0].submit([Update(), Update(obsoletes=(7,))], 0.0, out) == 1
    assert [m.seq for _, d in out.send for m in d.messages] == [1]


def test_lazy_purging_keeps_the_bound_in_messages(wire):
    w = wire(Recipe(members=2, protocol="s-sm", purge="lazy", buffer=4), ready=[0])
    for number in range(20):
        w.items(0, number % 4)
        w.run(until=w.now + 1)
    assert w.most_held[1] <= 4


def test_lazy_purging_keeps_the_bound_in_bytes(wire):
    w = wire(Recipe(members=2, protocol="s-sm", purge="lazy", buffer_bytes=100))
    for _ in range(3):
        w.send(0, Update(item=1, payload=bytes(60)))
        assert w.members[0].buffers.bytes <= 100


def test_gossip_ends_where_agreement_came_before_the_frontier():
    one = QuorumDetector(0, 3, 2, [0, 0, 0], Random(1), 1.0, 3, SafetyGossip)
    one.on_gossip(1, (FrontierVote(1, 5, 0, b"", 5),), 0.0)
    one.frontier[1] = 5
    one.on_frontier(1, 1.0)
    for _ in range(5):
        if one.deadline < NEVER:
            one.on_time(one.deadline, Effects(recording=False))
    assert one.deadline == NEVER


def test_a_receiver_full_by_bytes_does_not_ask_without_pause(wire):
    w = wire(Recipe(members=2, buffer=100, buffer_bytes=100, protocol="s-sm"), ready=[0])
    w.send(0, Update(item=1, payload=bytes(60)))
    w.run(until=0.5)
    w.send(0, Update(item=2, payload=bytes(60)))
    before = w.sent
    w.run(until=1.5)
    assert w.sent - before < 150  # gossip goes on; it was 1,065
    w.ready(1, 10)
    w.run(until=3.0)
    assert w.seqs(1) == [1, 2]


@pytest.mark.parametrize("batch", [50, 300])
def test_fast_members_miss_nothing_of_a_batch_as_large_as_the_buffer(wire, batch):
    w = wire(Recipe(members=2, protocol="s-sm", buffer=100))
    sent = w.items(0, *[1] * batch)
    assert sent == batch, "what has left may be purged to make room"
    w.run()
    assert w.seqs(1) == list(range(1, batch + 1))


class Counted(int):
    """A sequence number that counts comparisons."""

    comparisons = 0

    def __lt__(self, other: int) -> bool:
        Counted.comparisons += 1
        return int.__lt__(self, other)

    __hash__ = int.__hash__


def test_an_item_of_many_values_is_purged_in_proportion():
    costs = {}
    for size in (100, 1000):
        buffer = PurgingBuffer(Recipe(members=3))
        for seq in range(1, size + 1):
            buffer.add(DataMessage(0, Counted(seq), item=1))
        Counted.comparisons = 0
        buffer.purge(size)  # safe reaches them all: each purges one
        costs[size] = Counted.comparisons
    assert costs[1000] <= 20 * costs[100]  # n log n; it was a hundred times as much


def test_a_request_without_fin_is_remembered_within_bounds(wire, monkeypatch):
    monkeypatch.setattr("semcast.core.relation.protocols.ITEMS_REMEMBERED", 50)
    w = wire(Recipe(members=2, relation="update-fin", buffer=10), recording=False)
    for _ in range(200):
        w.items(0, 1)
        w.run()
    assert len(w.members[0].sending.annotator.open[1]) <= 50


@pytest.mark.parametrize(
    "datagram",
    [
        Nack(9, ((1, 1),), 1, 1),
        Data((DataMessage(9, 1),)),
        Data((DataMessage(1, 1, after=((7, 1),)),)),
        WindowEmpty(9, 1),
        Excluded(2),
        StabilityGossip((FrontierVote(9, 1, 1, b"\2", 0),)),
        Data((DataMessage(1, 2, covers=(1,)),)),
    ],
)
def test_what_this_group_cannot_say_is_the_peers_error_and_changes_nothing(datagram: Datagram):
    member = Member(Recipe(members=2, relation="bitmap"), 0, Random(1))
    before, out = repr(member), Effects(recording=False)
    member.on_datagrams(1, (datagram,), 0.0, out)
    assert [type(error) for error in out.refused] == [RemoteProtocolError]
    assert repr(member) == before


def test_many_notices_fit_into_datagrams(wire):
    w = wire(Recipe(members=2, protocol="s-sm", buffer=10_000), recording=False)
    w.down = {1}
    for start in range(0, 18_000, 2):
        w.items(0, 0, start + 1)
    w.transit.clear()
    w.hand(1, 0, Nack(0, ((1, w.members[0].sent),), 10_000, 1))
    answers = [d for _, _, d in w.transit if isinstance(d, Data)]
    assert all(len(encode(d)) <= 1500 for d in answers)
    assert sum(len(d.notices) for d in answers) > 1000
    assert [d.nack_number for d in answers] == [0] * (len(answers) - 1) + [1]


def test_forgetting_releases_what_came_early_from_the_forgotten(wire):
    w = wire(Recipe(members=2, f=1))
    w.hand(1, 0, Data((DataMessage(1, 2),)))
    w.down = {1}
    w.forget(0, 1)
    w.run(until=5.0)
    assert w.members[0].buffers.messages == 0


def test_nobody_gossips_about_what_only_the_forgotten_had(wire):
    w = wire(Recipe(members=3, f=1))
    w.hand(2, 0, StabilityGossip((FrontierVote(2, 4, 4, b"\4", 0),)))
    w.down = {2}
    for rank in (0, 1):
        w.forget(rank, 2)
    w.run(until=20.0)
    assert all(not member.stability.unagreed for member in w.members[:2])


@pytest.mark.parametrize(
    "datagram",
    [Data((DataMessage(0, 1),)), StabilityGossip((FrontierVote(0, 5, 5, b"\2", 0),))],
)
def test_a_rank_that_another_process_has_used_is_not_used_again(datagram: Datagram):
    """A restarted process would give new messages old numbers."""
    member = Member(Recipe(members=2), 0, Random(1))
    out = Effects(recording=False)
    member.on_datagrams(1, (datagram,), 0.0, out)
    assert Ended(EXCLUDED) in out.outputs
    with pytest.raises(LocalProtocolError):
        member.submit([Update()], 0.0, out)


@pytest.mark.parametrize(
    "update",
    [
        Update(payload=bytes(70_000)),
        Update(bytes(64_000), "x" * 1000),
        Update(item=1 << 70),
        Update(item="x" * 1025),
    ],
)
def test_what_the_group_does_not_carry_is_refused_at_the_call(wire, update):
    w = wire(Recipe(members=2))
    with pytest.raises(LocalProtocolError, match=r"payload|item"):
        w.send(0, update)
    assert w.members[0].sent == 0


def test_the_cap_counts_every_copy(wire):
    recipe = Recipe(members=5, unicast=True, bandwidth_max=10_000.0, protocol="sm", buffer=500)
    w = wire(recipe, recording=False)
    w.send(0, *[Update(payload=bytes(76)) for _ in range(400)])
    left = 0
    while w.now < 1.0:
        left += sum(len(d.messages) for s, _, d in w.transit if s == 0 and isinstance(d, Data))
        w.transit.clear()
        w.tick()
    assert 80 <= left <= 130  # messages of about 100 bytes


def test_without_multicast_nothing_is_sent_to_everyone(wire):
    w = wire(Recipe(members=3, unicast=True))
    out = Effects(recording=False)
    w.members[0].submit([Update()], 0.0, out)
    w.members[0].on_time(10.0, out)
    assert {target for to, _ in out.send for target in to} == {1, 2}
    assert [list(to) for to, d in out.send if isinstance(d, WindowEmpty)] == [[1, 2]]


def test_a_puller_that_has_caught_up_is_sent_to_again(wire):
    w = wire(Recipe(members=3, unicast=True, buffer=80))
    outbox = w.members[0].outbox
    w.items(0, *[1] * 20)
    outbox.on_nack(1, Nack(0, ((1, 20),), 4, 1))
    assert 1 in outbox.pulling
    outbox.on_nack(1, Nack(0, ((21, 21),), 4, 2))
    assert 1 not in outbox.pulling


def test_a_large_message_travels_where_it_is_allowed(wire):
    w = wire(Recipe(members=2, message_bytes=1 << 20))
    w.send(0, Update(payload=bytes(1_000_000)))
    w.run()
    assert [len(m.payload) for m in w.delivered[1]] == [1_000_000]
    with pytest.raises(LocalProtocolError, match="maximum is 1048576"):
        w.send(0, Update(payload=bytes(1 << 20)))
