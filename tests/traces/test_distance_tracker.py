"""The column `dist` against a twin that looks at every earlier message."""

from hypothesis import given
from hypothesis import strategies as st

from semcast.terms.messages import DataMessage
from semcast.terms.relations import RELATIONS
from semcast.traces.distance_tracker import DistanceTracker, covers_of, distances_covered

shapes = st.lists(
    st.tuples(
        st.integers(0, 1),  # sender
        st.sampled_from([None, 1, 2, -(2**63)]),  # item
        st.booleans(),  # keep
        st.one_of(st.binary(max_size=2), st.lists(st.integers(1, 9), unique=True).map(tuple)),
    ),
    max_size=15,
)


def obsoletes(relation: str, old: DataMessage, new: DataMessage) -> bool:
    if old.never_purge or old.sender != new.sender:
        return False
    if relation == "item":
        return new.item is not None and old.item == new.item
    if relation in ("all", "none"):
        return relation == "all"
    return new.seq - old.seq in distances_covered(new)


@given(st.sampled_from(list(RELATIONS)), shapes)
def test_distance_is_to_the_latest_message_made_obsolete(
    relation: str, stream: list[tuple[int, int | None, bool, bytes | tuple[int, ...]]]
) -> None:
    distances, sent = DistanceTracker(relation), []
    expected = {}
    for sender, item, keep, covers in stream:
        seq = 1 + sum(message.sender == sender for message in sent)
        new = DataMessage(sender, seq, item=item, never_purge=keep, covers=covers)
        distances.on_multicast(new)
        lost = [new.seq - old.seq for old in sent if obsoletes(relation, old, new)]
        expected[new.sender, new.seq] = min(lost, default=None)
        sent.append(new)
    assert {(m.sender, m.seq): distances.of(m) for m in sent} == expected


def test_distance_of_an_unseen_multicast_is_unknown() -> None:
    distances = DistanceTracker("item")
    assert distances.of(DataMessage(0, 3, item=1)) is None
    distances.on_multicast(DataMessage(0, 1, item=1))
    assert distances.of(DataMessage(0, 2, item=1)) is None


def test_bitmaps_and_lists_name_the_same_distances() -> None:
    """[SRM §3.2] the n-th position of the bitmap names the n-th preceding message."""
    bitmap = (1 << 0 | 1 << 8).to_bytes(2, "little")
    assert distances_covered(DataMessage(0, 10, covers=bitmap)) == (1, 9)
    assert distances_covered(DataMessage(0, 10, covers=(9, 1))) == (1, 9)
    assert covers_of([1, 9], "bitmap") == bitmap
    assert covers_of([1, 9], "list") == (1, 9)
    assert covers_of(None, "bitmap") == covers_of(None, "item") == b""
