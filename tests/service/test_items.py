"""`Items` are a dictionary for the service, in three layers: applied, ahead, written."""

import pytest

from semcast.service.replica_state import Items, encode_value


class CountedNames(dict):
    """Counts how often somebody goes through all of it."""

    passes = 0

    def keys(self):
        self.passes += 1
        return super().keys()

    def __iter__(self):
        self.passes += 1
        return super().__iter__()


def filled(applied=3, ahead=2, written=2):
    """Items n0, n1, ... in three layers."""
    names = iter(range(applied + ahead + written))
    layer = CountedNames((f"n{next(names)}", encode_value(0)) for _ in range(applied))
    items = Items(layer)
    for _ in range(ahead):
        items[f"n{next(names)}"] = 0
    items.take_writes()
    items.update((f"n{n}", 0) for n in names)
    return items, layer


@pytest.mark.parametrize("empty", [Items.clear, lambda items: [items.popitem() for _ in range(60)]])
def test_removing_all_items_does_not_merge_the_layers_for_each(empty):
    items, layer = filled(20, 20, 20)
    empty(items)
    assert (len(items), list(items), bool(items)) == (0, [], False)
    assert layer.passes <= 1
    with pytest.raises(KeyError, match="there are no items"):
        items.popitem()
    writes = items.take_writes()
    assert set(writes) == {f"n{n}" for n in range(60)}
    assert set(writes.values()) == {None}


def test_the_last_item_is_popped():
    items, _ = filled()
    items["new"] = "x"
    assert items.popitem() == ("new", "x")
    assert items.popitem()[0] == "n6"


def test_what_is_iterated_over_may_be_written():
    items, _ = filled()
    for name in items:
        items[name + "x"] = 1
        del items[name]
    assert list(items) == [f"n{n}x" for n in range(7)]
    assert len(items) == 7


def test_a_write_counts_after_the_layers_were_merged():
    items, _ = filled()
    assert len(items) == 7
    items["a"] = 1
    del items["n0"], items["n4"], items["n6"]
    assert list(items) == ["n1", "n2", "n3", "n5", "a"]
    items.undo()
    assert list(items) == ["n0", "n1", "n2", "n3", "n4"]


def test_between_requests_the_replicated_state_is_seen():
    applied = {"a": encode_value(1)}
    items = Items(applied)
    assert list(items) == ["a"]
    applied["b"] = encode_value(2)
    assert (list(items), len(items)) == (["a", "b"], 2)
    items["c"] = 3
    assert len(items) == 3
    items.take_writes()
    applied |= {"c": encode_value(3), "d": encode_value(4)}
    items.catch_up()
    assert list(items) == ["a", "b", "c", "d"]
