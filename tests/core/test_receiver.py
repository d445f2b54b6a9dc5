"""In order, without gaps; a gap is passed only on an explicit notice."""

import pytest

from semcast import kernel
from semcast.core.member_buffers import MemberBuffers
from semcast.core.receiver import Receiver
from semcast.core.recipe import Recipe
from semcast.core.reorder_buffer import ReorderBuffer
from semcast.terms.effects import Effects
from semcast.terms.events import DISCARD, RECEIVE, SKIP
from semcast.terms.messages import DataMessage, PurgeNotice
from semcast.terms.outputs import delivered


class Desk:
    """The receiver of member 0, which hears of the stream of member 1."""

    def __init__(self, ready=99, **settings):
        recipe = Recipe(**{"members": 3, "protocol": "s-sm", "buffer": 8} | settings)
        self.buffers = MemberBuffers(recipe, 0)
        self.receiver = Receiver(recipe, 0, self.buffers)
        self.out = Effects(recording=True)
        self.buffers.on_ready(ready, self.out)

    def hear(self, *seqs, sender=1, after=()):
        messages = tuple(DataMessage(sender, seq, item=seq, after=after) for seq in seqs)
        for run in kernel.runs_of(messages):
            self.receiver.on_run(run, sender, self.out)

    def notice(self, first, last, witness, sender=1):
        self.receiver.on_notices((PurgeNotice(sender, first, last, witness),), sender, self.out)

    def recorded(self, kind):
        return [e.seq for e in self.out.events if e.kind == kind]

    @property
    def delivered(self):
        return [m.seq for m in delivered(self.out.outputs)]

    def missing(self, sender=1, limit=64):
        return self.receiver.missing(sender, limit)

    @property
    def frontier(self):
        return self.receiver.frontier[1]


def test_messages_in_order_pass():
    desk = Desk()
    desk.hear(1, 2, 3)
    assert desk.delivered == desk.recorded(RECEIVE) == [1, 2, 3]
    assert desk.frontier == 3
    assert not desk.receiver.gaps


def test_what_comes_early_waits_and_is_received_in_order():
    desk = Desk()
    desk.hear(3, 2)
    assert desk.delivered == []
    assert desk.receiver.reordered_count == desk.buffers.messages == 2
    desk.hear(1)
    assert desk.delivered == desk.recorded(RECEIVE) == [1, 2, 3]
    assert desk.receiver.reordered_count == desk.buffers.messages == 0
    assert not desk.receiver.gaps


def test_duplicates_are_discarded_wherever_the_first_copy_is():
    desk = Desk()
    desk.hear(1, 3)
    desk.hear(1, 3)
    assert desk.recorded(DISCARD) == [1, 3]
    assert desk.delivered == [1]


@pytest.mark.parametrize(
    ("heard", "known", "missing"),
    [
        ([], 0, ()),
        ([], 5, ((1, 5),)),
        ([1, 2], 2, ()),
        ([2], 2, ((1, 1),)),
        ([1, 4], 4, ((2, 3),)),
        ([3, 6], 8, ((1, 2), (4, 5), (7, 8))),
    ],
)
def test_what_is_missing_is_named_in_ranges(heard, known, missing):
    desk = Desk()
    desk.hear(*heard)
    desk.receiver.learn_sent(1, known)
    assert desk.missing() == missing
    assert bool(desk.receiver.gaps) == bool(missing)


def test_the_first_ranges_are_named_up_to_a_limit():
    desk = Desk(buffer=100)
    desk.hear(2, 4, 6, 8)
    assert desk.missing(limit=2) == ((1, 1), (3, 3))


def test_a_gap_is_passed_on_a_notice_only():
    """Never by guessing: that 3 obsoletes 1 does not make 1 skipped [SRB §2.2]."""
    desk = Desk()
    desk.hear(3)
    desk.notice(1, 1, 3)
    assert (desk.frontier, desk.recorded(SKIP)) == (1, [1])
    assert desk.missing() == ((2, 2),)
    desk.notice(2, 2, 3)
    assert (desk.frontier, desk.delivered) == (3, [3])


def test_a_notice_ahead_of_the_frontier_waits():
    desk = Desk()
    desk.notice(2, 4, 9)
    assert desk.frontier == 0
    assert desk.missing()[0][0] == 1
    desk.hear(1)
    assert (desk.frontier, desk.recorded(SKIP)) == (4, [2, 3, 4])
    assert desk.missing() == ((5, 9),)


def test_skipping_does_not_wait_for_the_witness():
    """The witness may itself be purged later; it only says how far the stream goes."""
    desk = Desk()
    desk.notice(1, 3, 7)
    assert desk.frontier == 3
    assert desk.receiver.known[1] == 7
    assert desk.receiver.gaps


def test_a_notice_of_what_was_passed_changes_nothing():
    desk = Desk()
    desk.hear(1, 2, 3)
    desk.notice(1, 2, 3)
    assert desk.recorded(SKIP) == []
    assert desk.frontier == 3
    assert len(desk.receiver.notices[1]) == 0


def test_a_purged_message_that_came_all_the_same_is_delivered():
    desk = Desk()
    desk.hear(3)
    desk.notice(1, 4, 5)
    assert desk.recorded(SKIP) == [1, 2, 4]
    assert desk.delivered == [3]
    assert desk.frontier == 4


def test_a_notice_over_the_frontier_skips_only_what_lies_ahead():
    desk = Desk()
    desk.hear(1, 2)
    desk.notice(1, 4, 5)
    assert desk.recorded(SKIP) == [3, 4]


def test_skipped_ranges_are_told_on_under_s_rm_and_not_under_s_sm():
    for protocol, told in (("s-rm", 1), ("s-sm", 0)):
        desk = Desk(protocol=protocol)
        desk.notice(1, 3, 7)
        store = desk.buffers.store
        assert len(store.find(1, ((1, 3),), 3, 9)[1]) == told


def test_notices_ahead_are_bounded_and_the_nearest_stay():
    desk = Desk(buffer=4)
    for seq in range(20, 1, -2):
        desk.notice(seq, seq, seq + 1)
    assert [hole.first for hole in desk.receiver.notices[1].holes] == [2, 4, 6, 8]


def test_what_is_early_gives_way_to_what_is_missing():
    """A full buffer never blocks its own head."""
    desk = Desk(ready=0, buffer=4)
    desk.hear(5, 4, 3, 2)
    desk.hear(1)
    assert desk.frontier >= 1
    assert desk.buffers.messages == 4
    assert sum(last - first + 1 for first, last in desk.missing()) >= 1


def test_an_early_message_may_fill_the_bound_to_the_byte():
    for size, kept in ((100, [2]), (101, [])):
        desk = Desk(ready=0, buffer_bytes=100)
        run = kernel.run_of([DataMessage(1, 2, payload=bytes(size))])
        desk.receiver.on_run(run, 1, desk.out)
        assert list(desk.receiver.reorder[1]) == kept


def test_early_messages_of_one_stream_give_way_to_the_head_of_another():
    desk = Desk(ready=0, buffer=4)
    desk.hear(4, 3, 2)
    desk.hear(1, sender=2)
    desk.hear(2, sender=2)
    assert desk.receiver.frontier == [0, 0, 2]
    assert desk.receiver.reordered_count == 2
    assert desk.buffers.messages == 4


def test_what_gave_way_is_missing_again():
    desk = Desk(ready=0, buffer=4)
    desk.hear(3, 2)
    desk.hear(1, 2, 3, 4, sender=2)
    assert desk.receiver.frontier[2] == 4
    assert desk.missing(1) == ((1, 3),)


def test_without_room_the_next_message_is_discarded_and_stays_missing():
    desk = Desk(ready=0, buffer=2)
    desk.hear(1, 2, 3)
    assert desk.recorded(DISCARD) == [3]
    assert desk.missing() == ((3, 3),)


def test_a_message_waits_for_its_causal_predecessors():
    """Under causal order the frontier waits too, so it speaks for them [SRM §4.4]."""
    desk = Desk(protocol="s-rm", order="causal")
    desk.hear(1, after=((2, 2),))
    assert desk.receiver.frontier == [0, 0, 0]
    assert desk.missing(1) == ()
    assert desk.missing(2) == ((1, 2),)
    desk.hear(1, sender=2)
    assert desk.receiver.frontier == [0, 0, 1]
    desk.hear(2, sender=2)
    assert [(m.sender, m.seq) for m in delivered(desk.out.outputs)] == [(2, 1), (2, 2), (1, 1)]
    assert not desk.receiver.gaps


def test_a_skipped_predecessor_is_as_good_as_a_received_one():
    desk = Desk(protocol="s-rm", order="causal")
    desk.hear(1, after=((2, 1),))
    desk.notice(1, 1, 2, sender=2)
    assert desk.receiver.frontier[1] == 1


def test_chains_of_waiting_streams_resolve_in_one_go():
    desk = Desk(protocol="s-rm", order="causal", members=4)
    desk.hear(1, sender=3, after=((2, 1),))
    desk.hear(1, sender=2, after=((1, 1),))
    desk.hear(1, sender=1)
    assert [m.sender for m in delivered(desk.out.outputs)] == [1, 2, 3]
    assert not desk.receiver.waiting


def test_moved_streams_are_noted_once():
    desk = Desk()
    desk.hear(1, 2)
    desk.notice(1, 3, 9, sender=2)
    assert list(desk.receiver.moved) == [1, 2]


def test_early_messages_are_gathered_once_when_they_have_to_pass_one_by_one(monkeypatch):
    """More than the bound is held, as when a view ends: each needs a decision of its own."""
    gathered = []
    run = ReorderBuffer.run

    def counted(*args):
        gathered.append(run(*args))
        return gathered[-1]

    monkeypatch.setattr(ReorderBuffer, "run", counted)
    desk = Desk(ready=0, protocol="rm", buffer=8)
    desk.buffers.exempt_upto[1] = 50
    desk.hear(*range(2, 51))
    assert desk.buffers.messages == 49
    desk.hear(1)
    assert desk.frontier == 50
    assert sum(each.count for each in gathered) <= 100


def test_early_messages_that_are_taken_count_as_before():
    desk = Desk(ready=3, protocol="rm", buffer=8)
    desk.hear(2, 3, 4, 5, 6)
    desk.hear(1)
    assert desk.frontier == 6
    assert desk.delivered == [1, 2, 3]
    assert (desk.buffers.messages, desk.receiver.reordered_count) == (6, 0)
    assert {e.buffered for e in desk.out.events if e.kind == RECEIVE} == {6}


def test_early_messages_that_nobody_has_to_keep_are_held_no_more():
    desk = Desk(protocol="sm")
    desk.hear(2, 3, 4)
    desk.hear(1)
    assert (desk.delivered, desk.buffers.messages) == ([1, 2, 3, 4], 0)
    assert [e.buffered for e in desk.out.events if e.kind == RECEIVE] == [3, 2, 1, 0]
