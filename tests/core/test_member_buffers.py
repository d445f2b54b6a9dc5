"""One bound for everything held; at the bound purge, then refuse; only what waits is purged."""

from random import Random

import pytest

from semcast.core.member import Member
from semcast.core.member_buffers import MemberBuffers
from semcast.core.recipe import Recipe
from semcast.kernel import run_of
from semcast.terms.effects import Effects
from semcast.terms.events import DELIVER, DELIVERY, PURGE, RETRANSMISSION
from semcast.terms.messages import DataMessage, FrontierVote, StabilityGossip, Update
from semcast.terms.outputs import ROOM, delivered


class Books:
    """The buffers of member 0, and everything they ever gave out."""

    def __init__(self, **settings):
        self.recipe = Recipe(**{"members": 3, "buffer": 4} | settings)
        self.buffers = MemberBuffers(self.recipe, 0)
        self.out = Effects(recording=True)
        self.last = [0] * self.recipe.members

    def admit(self, sender, item=None, size=0, keep=False):
        message = DataMessage(
            sender, self.last[sender] + 1, item=item, payload=bytes(size), never_purge=keep
        )
        admitted = self.buffers.admit(run_of([message]), sender, self.out)
        if sender == self.buffers.rank:
            self.buffers.purge_stored(sender, self.out)  # as a member does once it was sent
        self.last[sender] += admitted
        return bool(admitted)

    def ready(self, count):
        self.buffers.on_ready(count, self.out)

    @property
    def delivered(self):
        return [(m.sender, m.seq) for m in delivered(self.out.outputs)]

    @property
    def purged(self):
        return [(e.sender, e.seq, e.by_seq, e.note) for e in self.out.events if e.kind == PURGE]

    @property
    def sizes(self):
        return self.buffers.messages, self.buffers.bytes, self.buffers.held_by_sender


def test_a_ready_application_takes_a_message_at_once():
    books = Books(protocol="s-sm")
    books.ready(1)
    assert books.admit(1, size=10)
    assert books.delivered == [(1, 1)]
    assert books.sizes == (0, 0, [0, 0, 0])


def test_a_message_handed_straight_on_is_never_purged():
    """On the stock mix 26 % of a datagram is superseded inside it; a ready member misses none."""
    books = Books(buffer=1000)
    books.ready(100)
    for _ in range(100):
        assert books.admit(1, item=1)
    assert len(books.delivered) == 100
    assert books.purged == []


def test_what_waits_is_purged_for_delivery_without_being_safe():
    books = Books(buffer=1000)
    for _ in range(3):
        books.admit(1, item=1)
    assert books.purged == [(1, 1, 2, DELIVERY), (1, 2, 3, DELIVERY)]
    assert books.buffers.messages == 3  # still kept for the others
    books.ready(9)
    assert books.delivered == [(1, 3)]


def test_a_message_in_queue_and_store_counts_once():
    books = Books()
    books.admit(1, size=10)
    assert books.sizes == (1, 10, [0, 1, 0])
    books.ready(1)
    assert books.sizes == (1, 10, [0, 1, 0])
    books.buffers.on_stable(1, 1, books.out)
    assert books.sizes == (0, 0, [0, 0, 0])


def test_stable_but_undelivered_still_counts():
    books = Books()
    books.admit(1, size=10)
    books.buffers.on_stable(1, 1, books.out)
    assert books.sizes == (1, 10, [0, 1, 0])
    books.ready(1)
    assert books.sizes == (0, 0, [0, 0, 0])


def test_s_sm_keeps_nothing_of_others():
    books = Books(protocol="s-sm")
    books.ready(9)
    books.admit(1)
    books.admit(0)
    assert books.sizes == (1, 0, [1, 0, 0])


@pytest.mark.parametrize("protocol", ["s-rm", "rm"])
def test_at_the_bound_what_may_not_be_purged_pushes_back(protocol):
    books = Books(protocol=protocol)
    assert [books.admit(0, item=i) for i in range(5)] == [True] * 4 + [False]
    assert books.buffers.messages == 4


def test_the_bound_holds_for_bytes():
    books = Books(buffer_bytes=100)
    assert books.admit(1, size=60)
    assert books.admit(1, size=40)
    assert not books.admit(1, size=1)
    assert books.admit(1, size=0)


def test_each_sender_of_whom_nothing_is_held_gets_one_more():
    """Or two streams each fill the buffer that the other needs: deadlock by flow control."""
    books = Books()
    for item in range(4):
        books.admit(0, item=item)
    assert [books.admit(1), books.admit(1)] == [True, False]
    assert [books.admit(2), books.admit(2)] == [True, False]
    assert books.buffers.messages == 4 + 2


def test_one_message_larger_than_the_bound_is_taken_alone():
    books = Books(buffer_bytes=100)
    assert books.admit(1, size=500)
    assert not books.admit(1, size=1)


def test_at_the_bound_a_message_takes_the_room_of_what_it_supersedes():
    books = Books(protocol="s-sm")
    for item in range(4):
        assert books.admit(1, item=item)
    assert not books.admit(1, item=99)
    assert books.admit(1, item=2)
    assert books.buffers.messages == 4


def test_what_is_superseded_here_but_kept_for_others_is_no_room():
    books = Books()
    for item in range(4):
        assert books.admit(1, item=item)
    assert not books.admit(1, item=2)
    assert books.buffers.messages == 4


def test_the_senders_own_message_takes_the_room_of_what_it_supersedes():
    books = Books(protocol="s-sm")
    books.ready(99)
    for item in range(4):
        assert books.admit(0, item=item)
    assert not books.admit(0, item=99)
    assert books.admit(0, item=2)
    assert books.buffers.messages == 4


def test_by_bytes_the_swap_must_fit_too():
    books = Books(protocol="s-sm", buffer_bytes=100)
    books.admit(1, item=1, size=40)
    books.admit(1, item=2, size=50)
    assert not books.admit(1, item=1, size=51)
    assert books.admit(1, item=1, size=50)
    assert books.buffers.bytes == 100


def test_under_s_rm_what_is_not_safe_gives_no_room():
    books = Books()
    books.ready(99)
    for _ in range(4):
        assert books.admit(0, item=1)
    assert not books.admit(0, item=1)
    books.buffers.on_safe(0, 4, books.out)
    assert [seq for _, seq, _, note in books.purged if note == RETRANSMISSION] == [1, 2, 3]
    assert books.admit(0, item=1)


def test_uncongested_nothing_is_purged_for_retransmission():
    books = Books(buffer=100)
    books.ready(99)
    for _ in range(49):
        books.admit(0, item=1)
    books.buffers.on_safe(0, 49, books.out)
    assert books.purged == []
    books.admit(0, item=2)
    assert len(books.purged) == 48


@pytest.mark.parametrize(("congested_at", "first"), [(0.0, 2), (0.25, 2), (0.5, 2), (0.75, 3)])
def test_congestion_begins_where_the_recipe_says(congested_at, first):
    books = Books(protocol="s-sm", congested_at=congested_at)
    books.ready(99)
    while not books.purged:
        books.admit(0, item=1)
    assert books.last[0] == first


def test_bytes_congest_as_well():
    books = Books(protocol="s-sm", buffer=1000, buffer_bytes=100)
    books.ready(9)
    books.admit(0, item=1, size=20)
    assert not books.buffers.is_congested
    books.admit(0, item=1, size=30)
    assert books.purged == [(0, 1, 2, RETRANSMISSION)]


def test_lazy_purges_at_the_bound_only():
    books = Books(protocol="s-sm", purge="lazy")
    for _ in range(4):
        books.admit(1, item=1)
    assert books.purged == []
    assert books.admit(1, item=1)
    assert [(seq, by) for _, seq, by, _ in books.purged] == [(1, 2), (2, 3), (3, 4)]


def test_room_is_announced_to_a_sender_that_was_refused_and_to_no_other():
    books = Books()
    books.ready(99)
    for item in range(4):
        books.admit(0, item=item)
    books.buffers.on_stable(0, 1, books.out)
    assert ROOM not in books.out.outputs
    books.buffers.has_refused = True
    books.buffers.on_stable(0, 2, books.out)
    assert ROOM in books.out.outputs


@pytest.mark.parametrize("protocol", ["s-sm", "s-rm", "sm", "rm"])
@pytest.mark.parametrize("purge", ["eager", "lazy"])
@pytest.mark.parametrize("relation", ["item", "all"])
def test_in_the_end_nothing_is_held(protocol, purge, relation):
    """Delivered and stable: every counter and container is back at zero."""
    books = Books(protocol=protocol, purge=purge, relation=relation, buffer=8)
    for step in range(60):
        books.admit(step % 3, item=step % 4, size=step % 5, keep=step % 7 == 0)
        if step % 5 == 0:
            books.ready(1)
        if step % 6 == 0:
            for sender in range(3):
                books.buffers.on_safe(sender, books.last[sender], books.out)
    books.ready(1000)
    for sender in range(3):
        books.buffers.on_stable(sender, books.last[sender], books.out)
    assert books.sizes == (0, 0, [0, 0, 0])
    for kept in books.buffers.store.streams.values():
        assert not kept.buffer.held
        assert not kept.buffer.unapplied
        assert not kept.holes
        assert not getattr(kept.buffer.index, "held", None)
    assert len(books.buffers.queue) == 0


def test_the_own_stream_takes_its_share_among_those_that_are_active():
    books = Books(protocol="rm", buffer=8)
    while books.admit(0):
        pass
    assert books.sizes[2] == [8, 0, 0], "alone it may have everything"
    books = Books(protocol="rm", buffer=8)
    assert books.admit(1)
    while books.admit(0):
        pass
    assert books.sizes[2] == [4, 1, 0], "the rest is for the other"
    while books.admit(1):
        pass
    assert books.sizes[2] == [4, 4, 0]


def test_a_share_makes_room_when_another_sender_falls_silent():
    books = Books(protocol="rm", buffer=4)
    books.ready(9)
    books.admit(1)
    while books.admit(0):
        pass
    books.buffers.has_refused = True
    books.buffers.on_stable(1, 1, books.out)
    assert ROOM in books.out.outputs
    assert books.admit(0)


def test_the_own_stream_keeps_to_the_window():
    """What is not stable may all wait in somebody's socket."""
    out = Effects(recording=False)
    member = Member(Recipe(members=2, relation="none", window_bytes=100), 0, Random(1))
    member.on_ready(100, 0.0, out)
    assert member.submit([Update(bytes(30)) for _ in range(6)], 0.0, out) == 4
    assert member.submit([Update(b"x")], 0.0, out) == 0
    assert ROOM not in out.outputs
    member.on_datagrams(1, (StabilityGossip((FrontierVote(0, 2, 2, b"\x02", 0),)),), 0.0, out)
    assert ROOM in out.outputs
    assert member.submit([Update(bytes(300))], 0.0, out) == 1


class TestWithoutEcho:
    @pytest.mark.parametrize("ready", [0, 1])
    def test_own_messages_are_delivered_to_nobody_and_wait_for_nobody(self, ready):
        books = Books(echo=False)
        books.ready(ready)
        for _ in range(3):
            assert books.admit(0, item=1, size=5)
        assert books.delivered == []
        assert [e.seq for e in books.out.events if e.kind == DELIVER] == [1, 2, 3]
        assert books.buffers.delivered == [3, 0, 0]
        assert (books.buffers.ready, len(books.buffers.queue)) == (ready, 0)
        assert books.purged == [], "nothing waits for delivery"
        assert books.sizes == (3, 15, [3, 0, 0]), "they are kept for the others"
        books.buffers.on_stable(0, 3, books.out)
        assert books.sizes == (0, 0, [0, 0, 0])

    def test_the_messages_of_others_are_handed_over_as_ever(self):
        books = Books(echo=False)
        books.admit(1, item=1)
        books.admit(0, item=1)
        books.admit(1, item=1)
        books.ready(5)
        assert books.delivered == [(1, 2)]
        assert [output.skipped for output in books.out.outputs] == [1]
        assert books.buffers.ready == 4

    @pytest.mark.parametrize("ready", [0, 2, 100])
    def test_a_batch_passes_whoever_reads(self, ready):
        out = Effects(recording=True)
        member = Member(Recipe(members=2, buffer=10, relation="none", echo=False), 0, Random(1))
        member.on_ready(ready, 0.0, out)
        assert member.submit([Update(b"x", n) for n in range(12)], 0.0, out) == 10
        assert not out.outputs
        assert [e.seq for e in out.events if e.kind == DELIVER] == list(range(1, 11))
        assert member.buffers.ready == ready
        assert member.buffers.messages == 10
