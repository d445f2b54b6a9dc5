"""`semcast model gossip`: the recurrence, and the exact chain beside it."""

import pytest

POINT = {"--members": "100", "--reached": "1", "--mode": "pull", "--error": "1e-6"}


def words(**changed):
    given = {**POINT, **{f"--{name}": value for name, value in changed.items()}}
    return [word for option in given.items() for word in option]


def test_gossip_answers_by_recurrence_and_exactly(semcast):
    done = semcast("model", "gossip", *words(), "--json")
    answer = done.answer
    assert done.code == 0
    assert (answer["rounds"], answer["rounds_exact"]) == (13, 23)
    assert len(answer["probability"]) == 14
    assert answer["probability"][0] == 0
    assert answer["probability"][12] < 1 - 1e-6 < answer["probability"][13]


def test_gossip_lists_as_many_rounds_as_asked_for(semcast):
    answer = semcast("model", "gossip", *words(mode="push", rounds="3"), "--json").answer
    assert len(answer["probability"]) == len(answer["probability_exact"]) == 4
    assert answer["rounds"] == 26


def test_a_group_too_large_for_the_chain_is_answered_by_the_recurrence(semcast):
    answer = semcast("model", "gossip", *words(members="1000000"), "--json").answer
    assert answer["rounds"] > 20
    assert answer["rounds_exact"] is None


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"reached": "101"}, "reached: 101 is not within 1..100"),
        ({"members": "1"}, "members: 1 is not at least 2"),
        ({"mode": "shove"}, "mode: unknown value 'shove'; allowed: pull, push"),
        ({"error": "0"}, "error: 0.0 is not between 0 and 1"),
        ({"error": "nan"}, "error: nan is not between 0 and 1"),
        ({"rounds": "-1"}, "rounds: -1 is not within"),
    ],
)
def test_bad_input_is_one_clear_line_and_code_2(semcast, changed, message):
    done = semcast("model", "gossip", *words(**changed))
    assert done.code == 2
    [line] = done.err.splitlines()
    assert message in line
