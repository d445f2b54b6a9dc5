"""Plain and compiled: the same answers and refusals, the same traces left in the arguments."""

import sys
from collections import deque
from copy import copy
from dataclasses import dataclass
from enum import StrEnum
from types import FunctionType, ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from semcast import kernel
from semcast.runtime.application.mailbox import Message as Letter
from semcast.terms.messages import Data, DataMessage, Update
from semcast.wire import encode


class Symbol(StrEnum):
    """An application may call its items so."""

    ACME = "acme"


EDGES = [0, 1, -1, 1 << 31, (1 << 63) - 1, 1 << 63, 1 << 64, 1 << 200, -(1 << 63)]
numbers = st.integers(0, 4) | st.sampled_from(EDGES)
counts = st.integers(0, 200) | st.sampled_from([0, 1, 1 << 31, 1 << 62])  # C's own
names = st.sampled_from(["", "a", "é", "\N{SNOWMAN}" * 3, "a" * 1025, Symbol.ACME])
payloads = st.binary(max_size=20) | st.sampled_from([bytearray(b"abc"), memoryview(b"ab")])
wrong = st.sampled_from([None, 3, 2.5, object, [], "x", b"x", (1,)])
messages = st.builds(
    DataMessage,
    sender=numbers,
    seq=numbers,
    item=st.none() | numbers,
    covers=st.binary(max_size=3) | st.tuples(numbers),
    never_purge=st.booleans(),
    after=st.just(()) | st.just(((0, 1),)),
    payload=payloads,
    name=names,
)


@st.composite
def runs(draw: st.DrawFn) -> list[Any]:
    """Messages of one sender in order, now and then with something else among them."""
    sender, first = draw(numbers), draw(numbers)
    count = draw(st.integers(0, 6))
    run: list[Any] = [DataMessage(sender, first + n, n % 2, payload=bytes(n)) for n in range(count)]
    for stranger in draw(st.lists(messages, max_size=2)):
        run.insert(draw(st.integers(0, len(run))), stranger)
    return run


@dataclass(frozen=True)
class Encoded:
    """Bytes that each build reads by itself, and what they are if they are no batch."""

    run: tuple[Any, ...]

    def read(self, build: ModuleType) -> Any:
        found = build.parse_run(encode(Data(self.run)), 0)
        return self.run if found is None else found[0]


@dataclass(frozen=True)
class Labels:
    """Each build has its own; of some items the label is known already."""

    known: list[str]

    def read(self, build: ModuleType) -> Any:
        labels = build.ItemLabels()
        for item in self.known:
            labels.label(item)
        return labels


@st.composite
def datagrams(draw: st.DrawFn) -> bytes:
    """Usual first transmissions, in part with something wrong in their bytes."""
    first = draw(st.sampled_from([1, 100, 70_000, (1 << 40)]))
    run = [
        DataMessage(
            1, first + n, draw(st.none() | items), never_purge=draw(st.booleans()), name=name
        )
        for n, name in enumerate(draw(st.lists(names, max_size=4)))
    ]
    data = bytearray(encode(Data(tuple(run), safe=draw(st.integers(0, 200)))))
    for _ in range(draw(st.integers(0, 2))):
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return bytes(data[: draw(st.integers(0, len(data)))] if draw(st.booleans()) else data)


items = st.integers(-(1 << 63), (1 << 63) - 1)
usual = st.builds(
    lambda first, names: Encoded(
        tuple(
            DataMessage(1, first + n, n, payload=bytes(n), name=name)
            for n, name in enumerate(names)
        )
    ),
    st.integers(1, 4),
    st.lists(st.sampled_from(["", "a", "é"]), min_size=1, max_size=5),
)
broken = st.builds(DataMessage, wrong, wrong, wrong, wrong, wrong, wrong, wrong, wrong)
hostile = st.lists(messages | broken | wrong, max_size=4)
sequences = runs() | runs().map(tuple) | hostile | hostile.map(tuple)
taken = sequences | usual
held = sequences.map(lambda run: {getattr(m, "seq", 0): m for m in run if _is_key(m)})
broken_updates = st.builds(
    Update, payloads | wrong, st.none() | names | numbers | st.just("\ud800") | wrong, wrong, wrong
)
good_updates = st.builds(
    Update, st.binary(max_size=20), st.none() | st.sampled_from(["a", "é", "n" * 40]), st.booleans()
)
offered = st.lists(good_updates) | st.lists(good_updates | broken_updates | wrong)
labels = st.builds(Labels, st.lists(names))
sending = st.tuples(
    st.integers(0, 200),
    counts,
    offered | offered.map(tuple) | wrong,
    labels,
    counts,
    counts,
    counts,
)
by_items = st.dictionaries(numbers, st.lists(numbers, min_size=1, max_size=3).map(sorted))


def _is_key(message: object) -> bool:
    return isinstance(getattr(message, "seq", 0), int)


ARGUMENTS: dict[str, st.SearchStrategy[tuple[Any, ...]]] = {
    "fields": st.tuples(messages | broken, good_updates | broken_updates),
    "size_of": st.tuples(messages | broken | wrong),
    "parse_run": st.tuples(datagrams(), st.sampled_from([0, 0, 0, 1, 3, 1 << 40])),
    "concat_runs": st.tuples(st.lists(usual, min_size=1, max_size=3) | st.lists(taken, min_size=1)),
    "sizes_of": st.tuples(taken),
    "payload_bytes": st.tuples(taken),
    "payload_total": st.tuples(
        st.lists(st.builds(Letter, names, names, payloads | wrong, numbers))
    ),
    "run_of": st.tuples(sequences.map(list)),
    "runs_of": st.tuples(taken),
    "with_item": st.tuples(taken),
    "later_than": st.tuples(taken, st.integers(0, 9)),
    "build_run": sending,
    "pack_run": sending,
    "label_of": st.tuples(names | numbers | st.just("\ud800")),
    "take_fitting": st.tuples(held, numbers, numbers, numbers, st.booleans()),
    "pop_range": st.tuples(held, st.integers(0, 9), st.integers(0, 9) | st.just(1 << 70)),
    "drop_upto": st.tuples(sequences.map(deque), numbers),
    "index_tagged": st.tuples(sequences.map(deque), numbers, held, by_items),
    "unindex_tagged": st.tuples(sequences, numbers, by_items),
    "purge_tagged": st.tuples(sequences.map(deque), numbers, held, by_items),
}


def _copy(argument: Any, build: ModuleType) -> Any:
    if isinstance(argument, dict):
        return {key: copy(value) for key, value in argument.items()}
    if isinstance(argument, Encoded | Labels):
        return argument.read(build)
    if isinstance(argument, list):
        return [_copy(each, build) if isinstance(each, Encoded) else each for each in argument]
    return copy(argument)


def outcome(build: ModuleType, name: str, arguments: tuple[Any, ...]) -> object:
    """What it returned, or that it refused, and what became of its arguments."""
    mine = tuple(_copy(argument, build) for argument in arguments)
    try:
        answer = getattr(build, name)(*mine)
    except (TypeError, AttributeError, IndexError, KeyError, ValueError):
        return "refused"
    kind = "run" if isinstance(answer, build.Run) else type(answer)
    return kind, _told(answer, build), [_told(argument, build) for argument in mine]


def _told(value: Any, build: ModuleType) -> object:
    """The same of both builds, whose runs and labels are no relatives."""
    if isinstance(value, build.Run):
        told = (value.sender, value.first, value.count, value.payload_bytes, value.after)
        kind = value.is_packed, value.is_plain, value.is_tagged
        return "run", told, kind, value.to_msgpack() if value.is_packed else b"", value.messages()
    if isinstance(value, build.ItemLabels):
        return "labels", value.recent, value.older
    return [_told(each, build) for each in value] if type(value) in (tuple, list) else value


def test_every_function_is_compared() -> None:
    parts = (kernel.plain, kernel.packing, kernel.run)
    functions = {
        name
        for part in parts
        for name, value in vars(part).items()
        if isinstance(value, FunctionType)
        and value.__module__ == part.__name__
        and not name.startswith("_")
    }
    assert ARGUMENTS.keys() == functions


@pytest.mark.parametrize("name", sorted(ARGUMENTS))
@given(data=st.data())
@settings(
    max_examples=150,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_both_builds_agree(compiled: ModuleType, name: str, data: st.DataObject) -> None:
    arguments = data.draw(ARGUMENTS[name])
    assert outcome(compiled, name, arguments) == outcome(kernel.plain, name, arguments)


def test_nothing_is_kept_or_lost(compiled: ModuleType) -> None:
    """Counts of references are the compiler's to get right; a wrong one shows only much later."""
    run = [DataMessage(1, n, n, payload=bytes([n, n]), name=f"n{n}") for n in range(1, 9)]
    updates = [Update(message.payload, message.name) for message in run]
    labels = compiled.ItemLabels()
    known = [labels.label(update.item) for update in updates]
    watched = [labels, *run, *updates, *known]
    watched += [written for label in known for written in label[1:3]]
    watched += [part for update in updates for part in (update.payload, update.item)]
    before = [sys.getrefcount(each) for each in watched]
    for _ in range(100):
        compiled.sizes_of(run)
        compiled.run_of(run).app_messages(Letter, "ada", 0)
        compiled.runs_of(run)[0].slice_run(2, 5).to_msgpack()
        compiled.take_fitting({message.seq: message for message in run}, 1, 8, 1000, True)
        batch, _ = compiled.pack_run(1, 0, updates, labels, 8, 100, 100)
        assert compiled.pack_run(1, 4, updates[4:], labels, 2, 100, 100)[0] == batch[4:6]
        assert compiled.pack_run(1, 0, updates, labels, 0, 100, 100) == (None, 0)
        head, _ = batch.take_prefix(100, True)
        batch.behind(head).to_msgpack()
        assert compiled.build_run(1, 0, updates, labels, 8, 100, 100)[0] == batch
        labels.identify(updates[0])
    assert [sys.getrefcount(each) for each in watched] == before
