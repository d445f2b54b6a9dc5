"""Positions: the same at every member, whatever it purged."""

from semcast.core.order.total import QuorumCount, TotalOrderQueue
from semcast.core.recipe import Recipe
from semcast.kernel import run_of
from semcast.terms.messages import DataMessage


def queue(relation="item", members=3):
    return TotalOrderQueue(Recipe(members=members, relation=relation))


def push(placed, sender, *seqs, item=None, keep=False):
    for seq in seqs:
        placed.push(run_of([DataMessage(sender, seq, item=item, never_purge=keep)]))


def mark(placed, seq, *runs):
    placed.push(run_of([DataMessage(0, seq, never_purge=True, after=runs)]))


def drain(placed):
    placed.final_upto = placed.last
    taken = []
    while placed.has_next:
        message = placed.pop()
        taken.append((placed.position, message.sender, message.seq))
    return taken


def test_what_waits_for_its_place_is_not_handed_out():
    placed = queue()
    push(placed, 1, 1, 2)
    placed.final_upto = 99
    assert not placed.has_next
    assert len(placed) == 2


def test_runs_are_placed_one_after_the_other():
    placed = queue()
    push(placed, 1, 1, 2)
    push(placed, 2, 1)
    placed.assign_positions([(2, 1), (1, 2)])
    assert drain(placed) == [(1, 2, 1), (2, 1, 1), (3, 1, 2)]


def test_a_purged_message_leaves_its_position_empty():
    """Total order is equal relative order of what is delivered [SRM §4.4]."""
    everything, purged = queue(), queue()
    for placed in (everything, purged):
        push(placed, 1, 1, 2, 3)
    assert purged.remove_unordered([DataMessage(1, 2), DataMessage(1, 9)]) == 1
    for placed in (everything, purged):
        placed.assign_positions([(1, 3)])
    assert drain(everything) == [(1, 1, 1), (2, 1, 2), (3, 1, 3)]
    assert drain(purged) == [(1, 1, 1), (3, 1, 3)]


def test_order_messages_take_no_position():
    placed = queue()
    push(placed, 0, 1)
    mark(placed, 2, (0, 1))
    push(placed, 0, 3)
    placed.assign_positions([(0, 3)])
    assert drain(placed) == [(1, 0, 1), (2, 0, 3)]


def test_a_later_position_purges_an_earlier_one_of_another_sender():
    placed = queue()
    push(placed, 1, 1, item=7)
    push(placed, 2, 1, item=7)
    placed.assign_positions([(1, 1), (2, 1)])
    assert placed.purge() == [], "their order is not final"
    placed.final_upto = 2
    ((old, position, by),) = placed.purge()
    assert (old.sender, position, by.sender) == (1, 1, 2)
    assert not placed.holds(old)
    assert drain(placed) == [(2, 2, 1)]


def test_nothing_purges_a_message_that_is_to_be_kept_nor_with_the_empty_relation():
    kept, strict = queue(), queue(relation="none")
    push(kept, 1, 1, item=7, keep=True)
    push(kept, 2, 1, item=7)
    push(strict, 1, 1, item=7)
    push(strict, 2, 1, item=7)
    for placed in (kept, strict):
        placed.assign_positions([(1, 1), (2, 1)])
        placed.final_upto = 2
        assert placed.purge() == []
        assert drain(placed) == [(1, 1, 1), (2, 2, 1)]


def test_what_was_handed_out_is_not_purged_any_more():
    placed = queue()
    push(placed, 1, 1, item=7)
    placed.assign_positions([(1, 1)])
    assert drain(placed) == [(1, 1, 1)]
    push(placed, 2, 1, item=7)
    placed.assign_positions([(2, 1)])
    placed.final_upto = 2
    assert placed.purge() == []


def test_positions_open_with_the_order_message_that_gave_them():
    placed = queue()
    push(placed, 1, 1, 2)
    mark(placed, 1, (1, 1))
    mark(placed, 2, (1, 2))
    placed.finalize(1)
    assert placed.has_next
    placed.pop()
    assert not placed.has_next
    placed.finalize(2)
    assert placed.has_next


def test_enough_reports_agree():
    count = QuorumCount(4, 2)
    count.on_report(0, 5)
    assert count.agreed == 0
    count.on_report(3, 3)
    assert count.agreed == 3
    count.on_report(3, 2)
    assert count.agreed == 3, "an old report"
    count.on_report(1, 9)
    assert count.agreed == 5
