"""Of each message up to the frontier: the data, or the notice that it was purged, until stable."""

import pytest

from semcast import kernel
from semcast.core.recipe import Recipe
from semcast.core.retransmission_store import RetransmissionStore
from semcast.terms.messages import Data, DataMessage, PurgeNotice
from semcast.wire import encode


def store_of(text, **settings):
    store = RetransmissionStore(Recipe(**{"members": 3} | settings))
    for seq, letter in enumerate(text, start=1):
        store.add(kernel.run_of([DataMessage(0, seq, item=ord(letter))]))
    return store


def store_of_batches(*texts, **settings):
    store, seq = RetransmissionStore(Recipe(**{"members": 3} | settings)), 1
    for text in texts:
        run = tuple(DataMessage(0, seq + n, item=ord(letter)) for n, letter in enumerate(text))
        store.add(kernel.parse_run(encode(Data(run)))[0])
        seq += len(text)
    return store


def held(store):
    return list(store.stream(0).buffer.held)


def found(store, *ranges, frontier=99, limit=99):
    messages, notices = store.find(0, ranges, frontier, limit)
    return [m.seq for m in messages], notices


def test_nothing_is_purged_before_it_is_safe():
    store = store_of("aab")
    assert store.purge(0) == []
    assert held(store) == [1, 2, 3]


@pytest.mark.parametrize(("safe", "left"), [(1, [1, 2, 3]), (2, [2, 3]), (3, [3])])
def test_only_safe_messages_purge(safe, left):
    """TP5: m ⊏ m' and m' is safe [SRB §2.3]."""
    store = store_of("aaa")
    store.stream(0).safe = safe
    store.purge(0)
    assert held(store) == left


def test_under_s_sm_being_held_is_enough():
    store = store_of("aaa", protocol="s-sm")
    assert [(m.seq, by) for m, by in store.purge(0)] == [(1, 2), (2, 3)]


def test_a_purge_leaves_a_notice_under_its_witness():
    store = store_of("aab")
    store.stream(0).safe = 2
    store.purge(0)
    assert found(store, (1, 3)) == ([2, 3], [PurgeNotice(0, 1, 1, 2)])


def test_adjacent_notices_are_one_range():
    store = store_of("abab")
    store.stream(0).safe = 4
    store.purge(0)
    assert found(store, (1, 4)) == ([3, 4], [PurgeNotice(0, 1, 2, 4)])
    assert len(store.stream(0).holes) == 1


def test_an_answer_starts_where_the_question_does():
    store = store_of("abab")
    store.stream(0).safe = 4
    store.purge(0)
    assert found(store, (2, 3)) == ([3], [PurgeNotice(0, 2, 2, 4)])


def test_a_skipped_range_is_told_on():
    store = store_of("")
    store.add_notice(0, 1, 5, 9)
    store.add(kernel.run_of([DataMessage(0, 6, item=1)]))
    assert found(store, (1, 6)) == ([6], [PurgeNotice(0, 1, 5, 9)])


def test_stable_messages_and_notices_are_reclaimed():
    store = store_of("aabc")
    store.stream(0).safe = 2
    store.purge(0)
    assert [[m.seq for m in run] for run in store.reclaim(0, 3)] == [[2, 3]]
    assert held(store) == [4]
    assert found(store, (1, 4)) == ([4], [])
    kept = store.stream(0)
    assert len(kept.holes) == 0
    assert [m.seq for m in kept.buffer.unapplied] == [4]


def test_stability_never_goes_back():
    store = store_of("ab")
    store.reclaim(0, 2)
    assert store.reclaim(0, 1) == []
    assert store.stream(0).stable == 2


@pytest.mark.parametrize(
    ("ranges", "frontier", "limit", "answer"),
    [
        ([(1, 4)], 99, 99, [1, 2, 3, 4]),
        ([(1, 4)], 99, 2, [1, 2]),
        ([(1, 4)], 3, 99, [1, 2, 3]),
        ([(2, 2), (4, 4)], 99, 99, [2, 4]),
        ([(2, 2), (4, 4)], 99, 1, [2]),
        ([(3, 9)], 99, 99, [3, 4]),
        ([(7, 9)], 99, 99, []),
        ([], 99, 99, []),
    ],
)
def test_an_answer_keeps_to_the_ranges_the_limit_and_the_frontier(ranges, frontier, limit, answer):
    for store in (store_of("abcd"), store_of_batches("abcd"), store_of_batches("abc", "d")):
        assert found(store, *ranges, frontier=frontier, limit=limit) == (answer, [])


@pytest.mark.parametrize(
    ("ranges", "limit", "answer", "notices"),
    [
        ([(1, 9)], 99, [2, 4, 5, 6, 7, 8], [PurgeNotice(0, 1, 1, 2), PurgeNotice(0, 3, 3, 4)]),
        ([(1, 9)], 2, [2, 4], [PurgeNotice(0, 1, 1, 2), PurgeNotice(0, 3, 3, 4)]),
        ([(1, 9)], 1, [2], [PurgeNotice(0, 1, 1, 2), PurgeNotice(0, 3, 3, 4)]),
        ([(5, 5), (7, 7)], 99, [5, 7], []),
        ([(5, 5), (7, 7)], 1, [5], []),
        ([(5, 6), (1, 1)], 1, [5], []),
        ([(9, 9), (8, 8)], 99, [8], []),
    ],
)
def test_batches_answer_behind_what_was_opened(ranges, limit, answer, notices):
    """Beyond the limit nothing is told any more, as long as there is data to tell."""
    store = store_of_batches("aabb", "xxy", "z")
    store.stream(0).safe = 4
    store.purge(0)
    assert found(store, *ranges, limit=limit) == (answer, notices)
    assert is_whole(store.reclaim(0, 8)) == [False, True, True]


def is_whole(runs):
    return [isinstance(run, kernel.Run) for run in runs]


def test_batches_are_held():
    store = store_of_batches("ab", "c")
    assert [seq for seq in range(6) if store.holds(DataMessage(0, seq))] == [1, 2, 3]
    assert is_whole(store.reclaim(0, 9)) == [True, True]


def test_of_an_unknown_stream_there_is_nothing_to_tell():
    store = store_of("ab")
    assert store.find(1, ((1, 2),), 99, 99) == ([], [])
    assert not store.holds(DataMessage(1, 1))
