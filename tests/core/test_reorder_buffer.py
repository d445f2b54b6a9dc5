"""What came ahead of a gap: a table and its runs say the same."""

from hypothesis import given
from hypothesis import strategies as st

from semcast.core.reorder_buffer import ReorderBuffer
from semcast.kernel import run_of
from semcast.terms.messages import DataMessage

steps = st.lists(
    st.tuples(st.sampled_from(["run", "pop", "take"]), st.integers(1, 30), st.integers(1, 5))
)


@given(steps)
def test_it_agrees_with_a_plain_set(steps) -> None:
    early, twin = ReorderBuffer(), set()
    for action, seq, count in steps:
        numbers = range(seq, seq + count)
        if action == "run":
            early.add(run_of([DataMessage(0, number) for number in numbers]))
            twin |= {*numbers}
        elif action == "pop" and seq in twin:
            assert early.pop(seq).seq == seq
            twin.remove(seq)
        elif action == "take" and twin >= {*numbers}:
            early.remove_run(numbers[0], numbers[-1])
            twin -= {*numbers}
        assert set(early) == twin
        assert len(early) == len(twin)
        assert early.last == max(twin, default=0)
        assert [seq in early for seq in range(40)] == [seq in twin for seq in range(40)]
        if seq in twin:
            taken = early.run(seq, seq + 3)
            assert taken.first == seq
            assert {*range(seq, seq + taken.count)} <= twin
            assert taken.count == 4 or seq + taken.count not in twin
        found = [n for first, last in early.spans for n in range(first, last + 1)]
        assert found == sorted(twin)
        for absent in {*range(40)} - twin:
            assert early.next_after(absent) == min((n for n in twin if n > absent), default=None)
