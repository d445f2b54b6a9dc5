"""Plain and compiled: the same answers and refusals, the same traces left in the arguments."""

import sys
from collections import deque
from collections.abc import Callable
from copy import copy
from enum import StrEnum
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from semcast import kernel
from semcast.runtime.group import Update
from semcast.runtime.mailbox import Message as Letter
from semcast.terms.messages import Message, Submission


class Symbol(StrEnum):
    """An application may call its items so."""

    ACME = "acme"


EDGES = [0, 1, -1, 1 << 31, (1 << 63) - 1, 1 << 63, 1 << 64, 1 << 200, -(1 << 63)]
numbers = st.integers(0, 4) | st.sampled_from(EDGES)
names = st.sampled_from(["", "a", "é", "\N{SNOWMAN}" * 3, "a" * 1025, Symbol.ACME])
payloads = st.binary(max_size=20) | st.sampled_from([bytearray(b"abc"), memoryview(b"ab")])
wrong = st.sampled_from([None, 3, 2.5, object, [], "x", b"x", (1,)])
messages = st.builds(
    Message,
    sender=numbers,
    seq=numbers,
    item=st.none() | numbers,
    covers=st.binary(max_size=3) | st.tuples(numbers),
    keep=st.booleans(),
    deps=st.just(()) | st.just(((0, 1),)),
    payload=payloads,
    name=names,
)
submissions = st.builds(
    Submission,
    payload=payloads,
    item=st.none() | numbers,
    obsoletes=st.just(()) | st.tuples(numbers),
    never_purge=st.booleans(),
    name=names,
)


@st.composite
def runs(draw: st.DrawFn) -> list[Any]:
    """Messages of one sender in order, now and then with something else among them."""
    sender, first = draw(numbers), draw(numbers)
    count = draw(st.integers(0, 6))
    run: list[Any] = [Message(sender, first + n, n % 2, payload=bytes(n)) for n in range(count)]
    for stranger in draw(st.lists(messages, max_size=2)):
        run.insert(draw(st.integers(0, len(run))), stranger)
    return run


broken = st.builds(Message, wrong, wrong, wrong, wrong, wrong, wrong, wrong, wrong)
hostile = st.lists(messages | broken | wrong, max_size=4)
sequences = runs() | runs().map(tuple) | hostile | hostile.map(tuple)
held = sequences.map(lambda run: {getattr(m, "seq", 0): m for m in run if _is_key(m)})
updates = st.lists(
    st.builds(Update, payloads | wrong, st.none() | names | wrong, st.booleans(), st.just(()))
)


by_items = st.dictionaries(numbers, st.lists(numbers, min_size=1, max_size=3).map(sorted))


def _is_key(message: object) -> bool:
    return isinstance(getattr(message, "seq", 0), int)


ARGUMENTS: dict[str, st.SearchStrategy[tuple[Any, ...]]] = {
    "fields": st.tuples(messages | broken, submissions),
    "size_of": st.tuples(messages | broken | wrong),
    "sizes_of": st.tuples(sequences),
    "payload_bytes": st.tuples(sequences),
    "letter_bytes": st.tuples(st.lists(st.builds(Letter, names, names, payloads | wrong, numbers))),
    "in_order": st.tuples(sequences, numbers, numbers),
    "is_ordinary": st.tuples(sequences, numbers),
    "latest_of": st.tuples(sequences, numbers),
    "is_plain": st.tuples(sequences),
    "tagged": st.tuples(sequences),
    "compose": st.tuples(
        st.just(Message), numbers, numbers, st.lists(submissions | wrong, max_size=4), numbers
    ),
    "fill": st.tuples(held, numbers, numbers, numbers, st.booleans()),
    "take_range": st.tuples(held, st.integers(0, 9), st.integers(0, 9) | st.just(1 << 70)),
    "settle": st.tuples(sequences.map(deque), numbers),
    "index_tagged": st.tuples(sequences.map(deque), numbers, held, by_items),
    "unindex_tagged": st.tuples(sequences, numbers, by_items),
    "purge_tagged": st.tuples(sequences.map(deque), numbers, held, by_items),
    "letters": st.tuples(
        st.just(Letter),
        st.lists(names, max_size=3),
        st.lists(numbers, max_size=3),
        sequences,
        st.lists(numbers, max_size=6),
    ),
    "submissions": st.tuples(st.just(Submission), updates, st.dictionaries(names, numbers)),
}


def _copy(argument: Any) -> Any:
    if isinstance(argument, dict):
        return {key: copy(value) for key, value in argument.items()}
    return copy(argument)


def outcome(function: Callable[..., Any], arguments: tuple[Any, ...]) -> object:
    """What it returned, or that it refused, and what became of its arguments."""
    mine = tuple(_copy(argument) for argument in arguments)
    try:
        answer = function(*mine)
    except (TypeError, AttributeError, IndexError, KeyError, ValueError):
        return "refused"
    return type(answer), answer, mine


def test_every_function_is_compared() -> None:
    assert ARGUMENTS.keys() == kernel.FUNCTIONS


@pytest.mark.parametrize("name", sorted(ARGUMENTS))
@given(data=st.data())
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_both_builds_agree(compiled: ModuleType, name: str, data: st.DataObject) -> None:
    arguments = data.draw(ARGUMENTS[name])
    plain = outcome(getattr(kernel.plain, name), arguments)
    assert outcome(getattr(compiled, name), arguments) == plain


def test_nothing_is_kept_or_lost(compiled: ModuleType) -> None:
    """Counts of references are the compiler's to get right; a wrong one shows only much later."""
    run = [Message(1, seq, seq, payload=bytes([seq]), name=f"n{seq}") for seq in range(1, 9)]
    before = [sys.getrefcount(each) for each in [*run, *(message.payload for message in run)]]
    for _ in range(100):
        compiled.sizes_of(run)
        compiled.in_order(run, 1, 0)
        compiled.letters(Letter, ["ada", "bob"], [0, 0], run, ())
        compiled.fill({message.seq: message for message in run}, 1, 8, 1000, True)
    assert [sys.getrefcount(e) for e in [*run, *(m.payload for m in run)]] == before
