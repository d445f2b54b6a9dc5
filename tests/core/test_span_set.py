"""Interval sets against plain sets."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from semcast.core.span_set import SpanSet, first_spans, spans_of

SPANS = st.tuples(st.integers(1, 40), st.integers(0, 8)).map(lambda s: (s[0], s[0] + s[1]))
STEPS = st.lists(st.tuples(st.sampled_from(["add", "remove"]), SPANS), max_size=30)


def numbers(spans) -> set[int]:
    return {n for first, last in spans for n in range(first, last + 1)}


@given(STEPS, SPANS)
def test_ranges_are_sets_of_numbers(steps, span) -> None:
    ranges, plain = SpanSet(), set[int]()
    for what, (first, last) in steps:
        some = set(range(first, last + 1))
        if what == "add":
            ranges.add(first, last)
            plain |= some
        else:
            assert numbers(ranges.remove(first, last)) == plain & some
            plain -= some
        assert numbers(ranges) == plain
        spans = list(ranges)
        assert all(a[1] + 1 < b[0] for a, b in pairwise(spans))
    asked = numbers([span])
    assert numbers(ranges.within(*span)) == plain & asked
    assert numbers(ranges.outside(*span)) == asked - plain
    assert all((n in ranges) == (n in plain) for n in range(50))


@given(st.sets(st.integers(1, 60)), st.integers(0, 20), st.integers(1, 5))
def test_take_is_bounded_by_numbers_and_spans(some, most, spans_max) -> None:
    spans = spans_of(sorted(some))
    taken = first_spans(spans, most, spans_max)
    assert len(taken) <= spans_max
    assert sorted(numbers(taken)) == sorted(some)[: len(numbers(taken))]
    assert len(numbers(taken)) <= most
