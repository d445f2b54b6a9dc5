"""Ids of partitionable views: no two lives give the same one, and they only go up."""

from hypothesis import given
from hypothesis import strategies as st

from semcast.core.views.failure_detector import FailureDetector
from semcast.core.views.partitionable import PartitionableViews
from semcast.core.views.recipe import ViewRecipe
from semcast.terms.ids import PID_MAX, SEQ_MAX, Incarnation

INC_MAX = 2**31 - 1  # what a trace can hold
PIDS = st.integers(0, PID_MAX)
INCS = st.integers(1, INC_MAX)
COUNT_MAX = 1 << 20


def ids(pid: int, inc: int, heard: int = 0) -> tuple[int, int]:
    """The first view of a life, and one that it would form after it heard of another."""
    recipe = ViewRecipe()
    views = PartitionableViews(recipe, Incarnation(pid, inc), FailureDetector(recipe, 0.0))
    first = views.start().id
    views.highest = heard
    return first, views._new_id()


def test_lives_that_agree_in_their_last_bits_differ() -> None:
    assert ids(3, 1000)[0] != ids(3, 1256)[0]


@given(PIDS, INCS, INCS)
def test_two_lives_of_a_process_never_give_one_id(pid: int, one: int, other: int) -> None:
    assert (ids(pid, one)[0] == ids(pid, other)[0]) == (one == other)


@given(PIDS, PIDS, INCS)
def test_two_processes_in_the_same_life_never_do(one: int, other: int, inc: int) -> None:
    assert (ids(one, inc)[0] == ids(other, inc)[0]) == (one == other)


@given(st.tuples(st.integers(0, 254), INCS), st.tuples(st.integers(0, 254), INCS))
def test_nor_any_lives_of_a_group_numbered_from_0(
    one: tuple[int, int], other: tuple[int, int]
) -> None:
    assert (ids(*one)[0] == ids(*other)[0]) == (one == other)


@given(PIDS, INCS, PIDS, INCS)
def test_an_id_is_above_every_one_heard_of(pid: int, inc: int, other: int, its: int) -> None:
    first, heard = ids(pid, inc)[0], ids(other, its)[0]
    assert first < ids(pid, inc, heard)[1] > heard


@given(PIDS, INCS, PIDS, INCS)
def test_a_million_views_fit(pid: int, inc: int, other: int, its: int) -> None:
    heard = ids(other, its)[0] * COUNT_MAX
    assert heard < ids(pid, inc, heard)[1] <= SEQ_MAX
