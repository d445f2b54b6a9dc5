"""Replay against a twin that follows the definition of the kinds word by word."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from semcast.terms.errors import ConfigError
from semcast.terms.messages import Update
from semcast.workloads.distances import distances, links, never_obsolete
from semcast.workloads.replay import ReplayRow, replay, row_distances, row_links

# Keys that look like each other's generations are the ones to get wrong: the tenth of "a" is
# not the first of "a1".
TENTH: list[tuple[str, str, int | None, int]] = [
    *[("a", "C", None, 0)] * 10,
    ("a", "U", None, 0),
    ("a1", "U", None, 0),
]
keys = st.sampled_from(["a", "b", "a@0", "a@1", "a@1@0", ""])
rows = st.lists(st.tuples(keys, st.sampled_from("UUUCDR"), st.none(), st.integers(0, 20)))


def superseded_by(stream: list[ReplayRow], place: int) -> int | None:
    """The row that this one supersedes: the sentence, literally."""
    key, kind, *_ = stream[place]
    if kind not in ("U", "D"):
        return None
    for earlier in range(place - 1, -1, -1):
        other, what, *_ = stream[earlier]
        if other == key and what in ("C", "D"):
            return None
        if other == key and what == "U":
            return earlier
    return None


def obsoletes(older: Update, newer: Update) -> bool:
    return newer.item is not None and newer.item == older.item and not older.never_purge


@given(rows)
@example(TENTH)
def test_distances_are_those_of_the_definition(stream: list[ReplayRow]) -> None:
    targets = [superseded_by(stream, place) for place in range(len(stream))]
    expected = [0 if t is None else place - t for place, t in enumerate(targets)]
    assert list(row_distances(stream)) == expected
    assert list(distances(links(replay(stream)))) == expected
    lost = {target for target in targets if target is not None}
    share = 1 - len(lost) / len(stream) if stream else 1
    assert never_obsolete(row_links(stream)) == pytest.approx(share)


@given(rows)
def test_tags_say_the_transitive_closure_and_nothing_else(stream: list[ReplayRow]) -> None:
    sent = list(replay(stream))
    for newer in range(len(stream)):
        closure = set()
        step = superseded_by(stream, newer)
        while step is not None:
            closure.add(step)
            step = superseded_by(stream, step)
        assert closure == {older for older in range(newer) if obsoletes(sent[older], sent[newer])}


def test_what_is_never_superseded_says_so() -> None:
    stream: list[ReplayRow] = [("k", kind, None, 9) for kind in "UCDR"]
    assert [message.never_purge for message in replay(stream)] == [False, True, True, True]
    assert [message.item is None for message in replay(stream)] == [False, True, False, True]
    assert [len(message.payload) for message in replay(stream)] == [9] * 4


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (("k", "X", None, 1), "kind: unknown value 'X'; allowed: U, C, D, R"),
        (("k", "U", None, -1), "size: -1 is not allowed, must be 0 or more"),
    ],
)
def test_bad_rows(row: ReplayRow, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        list(replay([row]))
