"""A message leaves by purge only while one that makes it obsolete is in the same buffer."""

import pytest

from semcast.core.purging import PurgingBuffer
from semcast.core.recipe import Recipe
from semcast.terms.messages import Message


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
    assert [m.seq for m in buffer.remove_range(1, 3)] == [1, 2, 3]
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
