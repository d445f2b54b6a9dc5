"""A message leaves by purge only while one that makes it obsolete is in the same buffer."""

import pytest

from semcast import kernel
from semcast.core.purging import PurgingBuffer
from semcast.core.recipe import Recipe
from semcast.terms.messages import Data, Message
from semcast.wire import encode


@pytest.fixture
def buffer():
    made = PurgingBuffer(Recipe(members=1))
    for seq, item in enumerate("abab", start=1):
        made.add(Message(0, seq, item=ord(item)))
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
        buffer.add(Message(0, seq, item=1))
    assert pairs(buffer.purge(3)) == [(1, 2), (2, 3)]


def test_messages_without_an_item_are_unrelated():
    buffer = PurgingBuffer(Recipe(members=1))
    for seq in (1, 2):
        buffer.add(Message(0, seq))
        buffer.purge(seq)
    assert list(buffer.held) == [1, 2]
    buffer.remove(1)


def test_an_emptied_buffer_keeps_nothing(buffer):
    for seq in (1, 2, 3, 4):
        buffer.remove(seq)
    buffer.settle(4)
    assert not buffer.held
    assert not buffer.unapplied
    assert not buffer.index.held


def batch(first, last, item=None):
    messages = tuple(Message(0, seq, item, payload=b"x") for seq in range(first, last + 1))
    return kernel.scan(encode(Data(messages)))


def is_whole(runs):
    return [isinstance(run, kernel.Batch) for run in runs]


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
    buffer.add(Message(0, 1, 7))
    buffer.add_run(batch(2, 3, item=7))
    buffer.add(Message(0, 4))
    buffer.add_run(batch(5, 6, item=8))
    assert list(buffer.held) == [1, 2, 3, 4, 5, 6]
    assert [m.seq for m in buffer.would_purge(Message(0, 7, 7))] == [1, 2, 3]
    assert buffer.remove(5) == Message(0, 5, 8, payload=b"x")
