"""Ranges of purged messages: disjoint, sorted, never adjacent, each with its latest witness."""

import pytest

from semcast.core.purged_spans import PurgedSpan, PurgedSpans


def holes_of(*ranges):
    holes = PurgedSpans()
    for first, last, witness in ranges:
        holes.add(first, last, witness)
    return holes


@pytest.mark.parametrize(
    ("ranges", "merged"),
    [
        ([(1, 1, 5)], [(1, 1, 5)]),
        ([(1, 1, 5), (3, 3, 6)], [(1, 1, 5), (3, 3, 6)]),
        ([(3, 3, 6), (1, 1, 5)], [(1, 1, 5), (3, 3, 6)]),
        ([(1, 1, 9), (2, 2, 5)], [(1, 2, 9)]),
        ([(2, 2, 5), (1, 1, 9)], [(1, 2, 9)]),
        ([(1, 1, 5), (3, 3, 6), (2, 2, 4)], [(1, 3, 6)]),
        ([(1, 9, 20), (3, 4, 30)], [(1, 9, 30)]),
        ([(3, 4, 30), (1, 9, 20)], [(1, 9, 30)]),
        ([(1, 1, 2), (3, 3, 4), (7, 7, 8), (2, 5, 6)], [(1, 5, 6), (7, 7, 8)]),
        ([(4, 6, 9), (1, 2, 3), (2, 4, 5)], [(1, 6, 9)]),
    ],
)
def test_touching_ranges_merge_under_the_later_witness(ranges, merged):
    assert holes_of(*ranges).holes == [PurgedSpan(*row) for row in merged]


@pytest.mark.parametrize(
    ("seq", "first"), [(1, None), (2, 2), (4, 2), (5, None), (7, 7), (8, None)]
)
def test_at_finds_the_hole_around_a_message(seq, first):
    hole = holes_of((2, 4, 9), (7, 7, 9)).find(seq)
    assert (hole and hole.first) == first


@pytest.mark.parametrize(
    ("upto", "left"),
    [
        (0, [(2, 4, 9), (7, 8, 10)]),
        (1, [(2, 4, 9), (7, 8, 10)]),
        (2, [(3, 4, 9), (7, 8, 10)]),
        (4, [(7, 8, 10)]),
        (6, [(7, 8, 10)]),
        (7, [(8, 8, 10)]),
        (8, []),
        (99, []),
    ],
)
def test_forget_cuts_what_lies_below(upto, left):
    holes = holes_of((2, 4, 9), (7, 8, 10))
    holes.forget(upto)
    assert holes.holes == [PurgedSpan(*row) for row in left]
    assert holes.firsts == [row[0] for row in left]


def test_the_range_furthest_ahead_is_given_up_first():
    holes = holes_of((7, 8, 10), (2, 4, 9))
    holes.drop_furthest()
    assert holes.holes == [PurgedSpan(2, 4, 9)]
    assert len(holes) == len(holes.firsts) == 1
