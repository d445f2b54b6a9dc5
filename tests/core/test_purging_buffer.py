"""A message leaves by purge only while one that makes it obsolete is in the same buffer."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semcast import kernel
from semcast.core.purging_buffer import PurgingBuffer
from semcast.core.recipe import Recipe
from semcast.terms.messages import Data, DataMessage
from semcast.wire import encode


@pytest.fixture
def buffer():
    made = PurgingBuffer(Recipe(members=1))
    for seq, item in enumerate("abab", start=1):
        made.add(DataMessage(0, seq, item=ord(item)))
    return made


def pairs(purged):
    return [(message.seq, by) for message, by in purged]


def test_nothing_is_purged_until_somebody_asks(buffer):
    assert list(buffer.held) == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("horizon", "purged", "held"),
    [
        (0, [], [1, 2, 3, 4]),
        (2, [], [1, 2, 3, 4]),
        (3, [(1, 3)], [2, 3, 4]),
        (4, [(1, 3), (2, 4)], [3, 4]),
        (99, [(1, 3), (2, 4)], [3, 4]),
    ],
)
def test_messages_purge_up_to_the_horizon(buffer, horizon, purged, held):
    assert pairs(buffer.purge(horizon)) == purged
    assert list(buffer.held) == held


def test_a_horizon_may_come_in_steps_and_again(buffer):
    assert pairs(buffer.purge(3)) == [(1, 3)]
    assert pairs(buffer.purge(3)) == []
    assert pairs(buffer.purge(4)) == [(2, 4)]


def test_a_message_that_left_purges_nothing(buffer):
    """TP4, TP5: both are in the buffer [SRB §2.3]."""
    buffer.remove(3)
    assert pairs(buffer.purge(99)) == [(2, 4)]
    assert list(buffer.held) == [1, 4]


def test_a_message_that_left_is_not_purged(buffer):
    buffer.remove(1)
    assert pairs(buffer.purge(99)) == [(2, 4)]


def test_what_has_settled_purges_nothing_and_is_not_remembered(buffer):
    assert [[m.seq for m in run] for run in buffer.remove_range(1, 3)] == [[1, 2, 3]]
    assert [m.seq for m in buffer.unapplied] == [4]
    assert pairs(buffer.purge(99)) == []
    assert list(buffer.held) == [4]


def test_a_chain_is_purged_link_by_link():
    buffer = PurgingBuffer(Recipe(members=1))
    for seq in (1, 2, 3):
        buffer.add(DataMessage(0, seq, item=1))
    assert pairs(buffer.purge(3)) == [(1, 2), (2, 3)]


def test_messages_without_an_item_are_unrelated():
    buffer = PurgingBuffer(Recipe(members=1))
    for seq in (1, 2):
        buffer.add(DataMessage(0, seq))
        buffer.purge(seq)
    assert list(buffer.held) == [1, 2]
    buffer.remove(1)


def test_an_emptied_buffer_keeps_nothing(buffer):
    for seq in (1, 2, 3, 4):
        buffer.remove(seq)
    buffer.drop_unapplied(4)
    assert not buffer.held
    assert not buffer.unapplied
    assert not buffer.index.held


def batch(first, last, item=None):
    messages = tuple(DataMessage(0, seq, item, payload=b"x") for seq in range(first, last + 1))
    return kernel.parse_run(encode(Data(messages)))[0]


def is_whole(runs):
    return [isinstance(run, kernel.Run) for run in runs]


def test_batches_stay_whole_until_they_are_let_go():
    buffer = PurgingBuffer(Recipe(members=1))
    for first in (1, 4, 7):
        buffer.add_run(batch(first, first + 2, item=1))
    assert buffer.purge(0) == []
    runs = buffer.remove_range(1, 5)
    assert [[m.seq for m in run] for run in runs] == [[1, 2, 3], [4, 5]]
    assert is_whole(runs) == [True, True]
    assert pairs(buffer.purge(7)) == [(6, 7)]
    runs = buffer.remove_range(6, 9)
    assert [[m.seq for m in run] for run in runs] == [[7, 8, 9]]
    assert is_whole(runs) == [False]


@pytest.mark.parametrize(("relation", "stays"), [("item", True), ("none", True), ("all", False)])
def test_batches_without_items_are_looked_into_only_if_they_may_purge(relation, stays):
    buffer = PurgingBuffer(Recipe(members=1, relation=relation))
    buffer.add_run(batch(1, 3))
    assert pairs(buffer.purge(9)) == ([] if stays else [(1, 2), (2, 3)])
    assert is_whole(buffer.remove_range(1, 3)) == [stays]


def test_who_looks_finds_single_messages():
    buffer = PurgingBuffer(Recipe(members=1))
    buffer.add(DataMessage(0, 1, 7))
    buffer.add_run(batch(2, 3, item=7))
    buffer.add(DataMessage(0, 4))
    buffer.add_run(batch(5, 6, item=8))
    assert list(buffer.held) == [1, 2, 3, 4, 5, 6]
    assert [m.seq for m in buffer.would_purge(DataMessage(0, 7, 7))] == [1, 2, 3]
    assert buffer.remove(5) == DataMessage(0, 5, 8, payload=b"x")


class Twice:
    """The same stream in two buffers: one is given batches, the other single messages."""

    def __init__(self, relation):
        recipe = Recipe(members=1, relation=relation)
        self.whole, self.opened = PurgingBuffer(recipe), PurgingBuffer(recipe)
        self.last = self.gone = 0

    def add(self, items, as_batch):
        first = self.last + 1
        run = [DataMessage(0, first + n, i, payload=bytes(9 * n)) for n, i in enumerate(items)]
        self.last += len(run)
        self.opened.add_run(kernel.run_of(run))
        packed = kernel.parse_run(encode(Data(tuple(run))))[0]
        self.whole.add_run(packed if as_batch else kernel.run_of(run))

    def purge(self, horizon):
        assert self.whole.purge(horizon) == self.opened.purge(horizon)

    def remove(self, last):
        last = min(last, self.last)
        taken = [
            [m for run in buffer.remove_range(self.gone + 1, last) for m in run]
            for buffer in (self.whole, self.opened)
        ]
        assert taken[0] == taken[1]
        self.gone = max(self.gone, last)

    def look(self, seq, last, limit):
        """By what is easily told, step by step."""
        assert self.whole.holds(seq) == (seq in self.opened.held)
        found, last = [], max(seq, min(last, self.last))
        while run := self.whole.run_from(seq + len(found), last, limit - len(found)):
            found += run
        expected = []
        while len(expected) < limit and seq <= last and seq in self.opened.held:
            expected.append(self.opened.held[seq])
            seq += 1
        assert found == expected

    def fill(self, seq, room):
        """A datagram, as an outbox does."""
        messages, size = [], 0
        while True:
            run, taken = self.whole.take_fitting(
                seq + len(messages), self.last, room - size, not messages
            )
            if not run:
                break
            messages += run
            size += taken
        assert (messages, size) == kernel.take_fitting(self.opened.held, seq, self.last, room, True)


places = st.integers(1, 40)
steps = st.one_of(
    st.tuples(st.just("add"), st.lists(st.none() | st.integers(0, 3), min_size=1), st.booleans()),
    st.tuples(st.just("add"), st.lists(st.integers(0, 3), min_size=1), st.just(True)),
    st.tuples(st.just("add"), st.lists(st.none(), min_size=1), st.just(True)),
    st.tuples(st.just("purge"), places),
    st.tuples(st.just("remove"), places),
    st.tuples(st.just("look"), places, places, st.integers(0, 9)),
    st.tuples(st.just("fill"), places, st.integers(1, 300)),
)


@given(relation=st.sampled_from(["item", "all", "none"]), steps=st.lists(steps, max_size=20))
@settings(max_examples=500)
def test_whole_or_opened_nobody_can_tell(relation, steps):
    both = Twice(relation)
    for name, *values in steps:
        getattr(both, name)(*values)
    assert list(both.whole.held.items()) == list(both.opened.held.items())
    assert both.whole.unapplied == both.opened.unapplied
    both.purge(both.last)


def test_looking_and_sending_open_nothing():
    buffer = PurgingBuffer(Recipe(members=1))
    for first in (1, 4, 7):
        buffer.add_run(batch(first, first + 2, item=1))
    assert [m.seq for m in buffer.run_from(5, 9, 9)] == [5, 6]
    assert buffer.holds(9)
    assert not buffer.holds(10)
    head, _ = buffer.take_fitting(1, 9, 2 * kernel.size_of(DataMessage(0, 1, payload=b"x")), True)
    assert [m.seq for m in head] == [1, 2]
    assert [[m.seq for m in run] for run in buffer.remove_range(1, 9)] == [
        [1, 2],
        [3],
        [4, 5, 6],
        [7, 8, 9],
    ]


def test_what_is_left_of_a_batch_that_was_cut_still_purges():
    buffer = PurgingBuffer(Recipe(members=1))
    buffer.add_run(batch(1, 4, item=1))
    buffer.take_fitting(1, 4, 2 * kernel.size_of(DataMessage(0, 1, payload=b"x")), True)
    buffer.remove_range(1, 2)
    assert pairs(buffer.purge(4)) == [(3, 4)]
