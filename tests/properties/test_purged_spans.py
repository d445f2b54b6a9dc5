"""Holes against a plain table from message to witness."""

from hypothesis import given
from hypothesis import strategies as st

from semcast.core.purged_spans import PurgedSpans

SEQ = st.integers(1, 30)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), SEQ, st.integers(0, 8), SEQ),
        st.tuples(st.just("forget"), SEQ),
        st.tuples(st.just("forget_last")),
    ),
    max_size=30,
)


@given(STEPS)
def test_holes_say_what_a_table_would(steps):
    holes, twin = PurgedSpans(), {}
    for step in steps:
        if step[0] == "add":
            _, first, length, witness = step
            if length:
                holes.add(first, first + length, witness)
            else:
                holes.add_singles([(first, witness)])
            for seq in range(first, first + length + 1):
                twin[seq] = witness
            widen(twin, first, first + length)
        elif step[0] == "forget":
            holes.forget(step[1])
            twin = {seq: witness for seq, witness in twin.items() if seq > step[1]}
        elif twin:
            holes.drop_furthest()
            last = max(twin)
            while last in twin:
                del twin[last]
                last -= 1
    check(holes, twin)


def widen(twin, first, last):
    """Touching ranges are one range, whose witness is the latest of all it came from."""
    while first - 1 in twin:
        first -= 1
    while last + 1 in twin:
        last += 1
    latest = max(twin[seq] for seq in range(first, last + 1))
    twin.update(dict.fromkeys(range(first, last + 1), latest))


def check(holes, twin):
    for seq in range(45):
        hole = holes.find(seq)
        if seq not in twin:
            assert hole is None
            continue
        assert hole is not None
        assert all(other in twin for other in range(hole.first, hole.last + 1))
        assert hole.first - 1 not in twin
        assert hole.last + 1 not in twin
    assert holes.firsts == [hole.first for hole in holes.holes] == sorted(holes.firsts)


@given(STEPS)
def test_a_witness_never_comes_before_one_that_was_given(steps):
    """Merging keeps the later witness, which vouches for all of the range."""
    holes, given_to = PurgedSpans(), {}
    for step in steps:
        if step[0] == "add":
            _, first, length, witness = step
            holes.add(first, first + length, witness)
            for seq in range(first, first + length + 1):
                given_to[seq] = max(witness, given_to.get(seq, 0))
        elif step[0] == "forget":
            holes.forget(step[1])
            given_to = {seq: w for seq, w in given_to.items() if seq > step[1]}
    for seq, witness in given_to.items():
        hole = holes.find(seq)
        assert hole is not None
        assert hole.witness >= witness
