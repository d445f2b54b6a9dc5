"""What waits for the application: orders fifo and item, eager and lazy."""

import pytest

from semcast.core.order import ORDERS
from semcast.core.recipe import Recipe
from semcast.kernel import run_of
from semcast.terms.messages import DataMessage

KEEP = "!"


def queue_of(text, sender=0, **settings):
    """Queue one message per letter, its item; `!` after it: never purge; `-`: no item."""
    recipe = Recipe(**{"members": 2} | settings)
    queue = ORDERS[recipe.order].queue(recipe, ())
    seq = 0
    for letter, mark in zip(text, text[1:] + " ", strict=True):
        if letter == KEEP:
            continue
        seq += 1
        item = None if letter == "-" else ord(letter)
        queue.push(run_of([DataMessage(sender, seq, item=item, never_purge=mark == KEEP)]))
    return queue


def drain(queue):
    return [queue.pop(1)[0].seq for _ in range(len(queue))]


@pytest.mark.parametrize(
    ("text", "fifo", "item"),
    [
        ("abc", [1, 2, 3], [1, 2, 3]),
        ("aba", [2, 3], [3, 2]),
        ("abab", [3, 4], [3, 4]),
        ("abcaa", [2, 3, 5], [5, 2, 3]),
        ("a!ba", [1, 2, 3], [1, 2, 3]),  # the kept one is no place to take
        ("ab!a", [2, 3], [2, 3]),  # b may not be crossed
        ("aba!", [2, 3], [2, 3]),  # nor may a kept message itself move forward
        ("a-a", [2, 3], [2, 3]),  # what has no item is never obsolete
        ("a-ba", [2, 3, 4], [2, 3, 4]),
        ("-aba", [1, 3, 4], [1, 4, 3]),  # a barrier ahead is no hindrance
        ("ab!aca", [2, 4, 5], [2, 5, 4]),
    ],
)
def test_place_in_the_queue(text, fifo, item):
    """Under fifo the newest value goes to the tail, under item it takes the old one's place."""
    assert drain(queue_of(text)) == fifo
    assert drain(queue_of(text, order="item")) == item


def test_items_of_different_senders_are_different_items():
    queue = queue_of("a", order="item")
    queue.push(run_of([DataMessage(1, 1, item=ord("a"))]))
    assert len(queue) == 2


def test_a_barrier_of_one_sender_does_not_bind_another():
    queue = queue_of("a", order="item")
    queue.push(run_of([DataMessage(1, 1)]))
    queue.push(run_of([DataMessage(0, 2, item=ord("a"))]))
    assert [(m.sender, m.seq) for m in (queue.pop(1)[0], queue.pop(1)[0])] == [(0, 2), (1, 1)]


def test_eager_purges_at_the_push_and_says_what():
    queue = queue_of("ab")
    purged = queue.push(run_of([DataMessage(0, 3, item=ord("a"))]))
    assert [(m.seq, by) for m, by in purged] == [(1, 3)]


def test_lazy_purges_only_when_relieved():
    queue = queue_of("abab", purge="lazy")
    assert len(queue) == 4
    assert [(m.seq, by) for m, by in queue.purge_obsolete()] == [(1, 3), (2, 4)]
    assert drain(queue) == [3, 4]
    assert queue.purge_obsolete() == []


def test_lazy_forgets_what_was_handed_out():
    """A message that was delivered purges nothing and is remembered nowhere."""
    queue = queue_of("abab", purge="lazy")
    assert drain(queue) == [1, 2, 3, 4]
    assert not queue.by_sender[0].unapplied


@pytest.mark.parametrize("order", ["fifo", "item"])
def test_what_a_message_would_purge_is_found_without_doing_it(order):
    queue = queue_of("abc", order=order)
    would = queue.would_purge(DataMessage(0, 4, item=ord("b")))
    assert [m.seq for m in would] == [2]
    assert queue.would_purge(DataMessage(1, 1, item=ord("b"))) == []
    assert drain(queue) == [1, 2, 3]


@pytest.mark.parametrize("settings", [{}, {"order": "item"}, {"purge": "lazy"}], ids=str)
def test_an_emptied_queue_keeps_nothing(settings):
    queue = queue_of("abcabc-a!b", **settings)
    drain(queue)
    lane = queue.by_sender[0]
    assert not any((queue.slots, queue.slot_of[0], lane.held, lane.unapplied, lane.index.held))


def test_holds_means_here_and_now():
    queue = queue_of("ab")
    first, other = DataMessage(0, 1, item=ord("a")), DataMessage(1, 1)
    assert queue.holds(first)
    assert not queue.holds(other)
    queue.pop(1)
    assert not queue.holds(first)
