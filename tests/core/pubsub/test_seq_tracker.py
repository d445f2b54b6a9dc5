"""What is here, what is missing, and the signature of it [RPB §3.3, §5.1]."""

from hypothesis import given
from hypothesis import strategies as st

from semcast.core.pubsub.seq_tracker import SeqTracker

SEQS = st.integers(1, 30)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("take"), SEQS),
        st.tuples(st.just("learn"), SEQS),
        st.tuples(st.just("settle"), SEQS, st.integers(0, 5)),
    ),
    max_size=40,
)


@given(st.integers(0, 10), STEPS)
def test_each_number_is_taken_once_settled_or_missing(start, steps) -> None:
    """[RPB §3.3, Properties 3.4 and 3.5], with settled numbers as a fourth case."""
    tracker = SeqTracker()
    stream = tracker.open_stream(7, start)
    taken: list[int] = []
    settled: list[int] = []
    for what, seq, *more in steps:
        if what == "take":
            if tracker.receive(7, seq):
                taken.append(seq)
        elif what == "learn":
            tracker.learn_last(7, seq)
        else:
            for first, last in tracker.resolve(7, max(seq, start + 1), seq + more[0]):
                settled += range(first, last + 1)
        missing = [n for n in range(1, 60) if n in stream.missing]
        accounted = sorted([*taken, *settled, *missing])
        assert accounted == list(range(start + 1, stream.last + 1))
        assert stream.frontier == (min(missing) - 1 if missing else stream.last)
        assert bool(missing) == (7 in tracker.gaps)


@given(st.lists(st.tuples(st.integers(0, 4), SEQS), max_size=30), st.randoms())
def test_equal_knowledge_has_equal_signatures_however_it_came(facts, shuffled) -> None:
    """[RPB §5.1]: a signature says which last numbers are known, whatever the order."""
    one, other = SeqTracker(), SeqTracker()
    for sender, last in facts:
        one.learn_last(sender, last)
    again = list(facts)
    shuffled.shuffle(again)
    for sender, last in again:
        other.receive(sender, last)
    assert one.signature == other.signature
    assert one.signature_without([0, 1]) == other.signature_without([1, 0])
    if facts:
        one.learn_last(facts[0][0], 31)
        assert one.signature != other.signature
        assert one.signature_without([facts[0][0]]) == other.signature_without([facts[0][0]])


def test_a_stream_is_idle_again_after_some_rounds() -> None:
    tracker = SeqTracker()
    tracker.receive(3, 1)
    for _ in range(4):
        assert list(tracker.active) == [3]
        tracker.on_round()
    assert not tracker.active
