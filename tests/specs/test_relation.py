"""The relation's sweeps and walks against a deliberately dumb twin that builds the closure."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semcast.specs.relation import (
    MEANINGS,
    ObsolescenceRelation,
    PositionRelation,
    as_carried,
    make_view_relation,
)
from semcast.terms.declared import Declared
from semcast.terms.errors import ConfigError
from semcast.terms.messages import DataMessage

LENGTH = 9


@st.composite
def streams(draw: st.DrawFn) -> tuple[str, list[DataMessage], set[int]]:
    relation = draw(st.sampled_from(list(MEANINGS)))
    messages = []
    for seq in range(1, draw(st.integers(0, LENGTH)) + 1):
        back = draw(st.lists(st.integers(1, LENGTH + 2), max_size=3, unique=True))
        bits = sum(1 << (distance - 1) for distance in back).to_bytes(2, "little")
        messages.append(
            DataMessage(
                sender=0,
                seq=seq,
                item=draw(st.sampled_from((None, 1, 2))),
                covers=bits if relation == "bitmap" else tuple(back),
                never_purge=draw(st.integers(0, 4)) == 0,
            )
        )
    delivered = draw(st.sets(st.integers(1, LENGTH)))
    return relation, messages, delivered & {m.seq for m in messages}


def dumb_direct(
    relation: str, old: DataMessage, new: DataMessage, messages: list[DataMessage]
) -> bool:
    if old.seq >= new.seq:
        return False
    distance = new.seq - old.seq
    match relation:
        case "none":
            return False
        case "all":
            return True
        case "item":
            return old.item is not None and old.item == new.item
        case "bitmap":
            return f"{int.from_bytes(new.covers, 'little'):064b}"[::-1][distance - 1] == "1"
        case "list":
            return distance in new.covers
    request = [m for m in messages if m.seq <= new.seq]  # of the update-fin `new`
    fins = [m.seq for m in request if m.item is None]
    if new.seq not in fins:
        return False
    first = max([seq for seq in fins if seq < new.seq], default=0) + 1
    items = {m.item for m in request if m.seq >= first and m.item is not None}
    return old.seq < first and old.item in items


def dumb_closure(relation: str, messages: list[DataMessage]) -> set[tuple[int, int]]:
    pairs = {
        (old.seq, new.seq)
        for old, new in itertools.product(messages, repeat=2)
        if dumb_direct(relation, old, new, messages)
    }
    kept = {m.seq for m in messages if m.never_purge}
    while True:
        more = {(a, d) for (a, b), (c, d) in itertools.product(pairs, repeat=2) if b == c}
        if more <= pairs:
            return {(old, new) for old, new in pairs if old not in kept}
        pairs |= more


def learned(relation: str, messages: list[DataMessage]) -> ObsolescenceRelation:
    obsolescence = ObsolescenceRelation(relation)
    for m in messages:
        obsolescence.on_multicast(as_carried(m))
    return obsolescence


@settings(max_examples=300)
@given(streams())
def test_agrees_with_the_dumb_closure(stream: tuple[str, list[DataMessage], set[int]]) -> None:
    relation, messages, delivered = stream
    fast, closure = learned(relation, messages), dumb_closure(relation, messages)
    seqs = [m.seq for m in messages]
    for old, new in itertools.product(messages, repeat=2):
        direct = dumb_direct(relation, old, new, messages) and not old.never_purge
        assert fast.directly(0, old.seq, new.seq) == direct
        assert fast.obsoletes(0, old.seq, new.seq) == ((old.seq, new.seq) in closure)
    assert fast.unsatisfied(0, delivered) == tuple(
        seq
        for seq in seqs
        if seq not in delivered and not any((seq, by) in closure for by in delivered)
    )


@settings(max_examples=300)
@given(st.data())
def test_over_places_it_agrees_with_the_dumb_closure(data: st.DataObject) -> None:
    names = [((sender, 1), seq) for sender in (0, 1) for seq in (1, 2, 3, 4)]
    items = {name: data.draw(st.sampled_from((None, 1, 2))) for name in names}
    kept = data.draw(st.sets(st.sampled_from(names), max_size=2))
    order = sorted(data.draw(st.permutations(names)), key=lambda name: name[1])  # FIFO, merged
    placed = {name: place for place, name in enumerate(order, 1) if data.draw(st.booleans())}
    delivered = data.draw(st.sets(st.sampled_from(sorted(placed)))) if placed else set()
    relation = PositionRelation()
    for (sender, inc), seq in names:
        name = (sender, inc), seq
        relation.on_multicast(name, Declared(sender, seq, items[name], name in kept))
    for name, place in placed.items():
        relation.on_position(name, place)

    def is_before(old: tuple, new: tuple) -> bool:
        """The place of `new`, and that of `old` or the next of its sender and item."""
        sender, seq = old
        following = [
            placed[sender, later]
            for later in range(seq, 5)
            if items[sender, later] == items[old] and (sender, later) in placed
        ]
        if not following or new not in placed:
            return False
        return following[0] < placed[new] or (old not in placed and following[0] == placed[new])

    def is_obsolete(old: tuple, new: tuple) -> bool:
        is_same = items[old] is not None and items[old] == items[new]
        return old not in kept and is_same and is_before(old, new)

    assert relation.unsatisfied(delivered) == {
        name
        for name in names
        if name not in delivered and not any(is_obsolete(name, by) for by in delivered)
    }


def test_only_items_under_total_order_are_related_across_senders() -> None:
    a, b = ((0, 1), 1), ((1, 1), 1)
    for relation, order, missing in (
        ("item", "total", set()),
        ("item", "fifo", {a}),
        ("all", "total", {a}),
        ("none", "total", {a}),
    ):
        among = make_view_relation(relation, order)
        for place, name in enumerate((a, b), 1):
            among.on_multicast(name, Declared(name[0][0], 1, item=7))
            among.on_position(name, place)
        assert among.unsatisfied({b}) == missing, (relation, order)


def test_bits_count_from_one_and_bytes_are_little_endian() -> None:
    fast = learned("bitmap:16", [DataMessage(0, seq) for seq in range(1, 12)])
    fast.on_multicast(as_carried(DataMessage(0, 12, covers=b"\x01\x02")))  # distances 1 and 10
    assert [seq for seq in range(1, 12) if fast.directly(0, seq, 12)] == [2, 11]


def test_a_sweep_bridges_numbers_that_were_never_multicast() -> None:
    fast = learned(
        "bitmap", [DataMessage(0, 1), DataMessage(0, 2), DataMessage(0, 5, covers=b"\x08")]
    )
    assert fast.unsatisfied(0, {5}) == (2,)


def test_streams_of_two_senders_are_unrelated() -> None:
    fast = learned("all", [DataMessage(0, 1), DataMessage(1, 2)])
    assert not fast.obsoletes(0, 1, 2)
    assert fast.unsatisfied(0, set()) == (1,)
    assert fast.unsatisfied(1, {2}) == ()


def test_what_was_never_multicast_neither_obsoletes_nor_is_missing() -> None:
    fast = learned("all", [DataMessage(0, 1)])
    assert not fast.obsoletes(0, 1, 2)
    assert not fast.obsoletes(7, 1, 2)
    assert fast.unsatisfied(7, {1}) == ()


@pytest.mark.parametrize("relation", ["item", "all", "bitmap", "list"])
def test_a_hot_item_of_ten_thousand_updates_is_one_sweep(relation: str) -> None:
    covers = {"bitmap": b"\x01", "list": (1,)}.get(relation, b"")
    count = 10_000
    fast = learned(
        relation, [DataMessage(0, s, item=1, covers=covers) for s in range(1, count + 1)]
    )
    assert fast.unsatisfied(0, {count}) == ()
    assert fast.unsatisfied(0, {count - 1}) == (count,)
    assert fast.obsoletes(0, 1, count)


def test_a_dense_relation_is_walked_without_visiting_every_path() -> None:
    """Each message obsoletes all before it but the first: 2^60 paths, none of them to it."""
    fast = learned("list", [DataMessage(0, s, covers=tuple(range(1, s - 1))) for s in range(1, 61)])
    assert not fast.obsoletes(0, 1, 60)
    assert fast.obsoletes(0, 2, 60)


def test_unknown_relations_are_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="unknown value 'newest'; allowed: none, item"):
        ObsolescenceRelation("newest")
