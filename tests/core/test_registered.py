"""An order and a relation that only this test knows: registering a value is all it takes."""

import pytest

from semcast.core.order import ORDERS, Order
from semcast.core.order.fifo import FifoQueue
from semcast.core.order.protocols import Ordering
from semcast.core.recipe import Recipe
from semcast.core.relation import RELATIONS, RelationKind
from semcast.core.relation.item import TagAnnotator
from semcast.core.relation.protocols import SemanticIndex
from semcast.terms import promises
from semcast.terms.errors import ConfigError
from semcast.terms.events import PURGE


class NewestFirst(FifoQueue):
    """What came last leaves first."""

    def _pop(self):
        self.slots.move_to_end(next(reversed(self.slots)), last=False)
        return super()._pop()


class SupersedesTheOneBefore(SemanticIndex):
    """Every message makes its predecessor obsolete, and no other."""

    def __init__(self, settings):
        self.held = set()

    def add(self, message):
        self.held.add(message.seq)

    def remove(self, message):
        self.held.remove(message.seq)

    def obsoleted_by(self, message):
        return [message.seq - 1] if message.seq - 1 in self.held else []


@pytest.fixture
def _newest(monkeypatch):
    offered, allowed = promises._BY_PROTOCOL["s-rm"]
    monkeypatch.setitem(ORDERS, "newest", Order(NewestFirst))
    monkeypatch.setattr(promises, "ORDERS", (*promises.ORDERS, "newest"))
    monkeypatch.setitem(promises._BY_ORDER, "newest", frozenset())
    monkeypatch.setitem(promises._BY_PROTOCOL, "s-rm", (offered, (*allowed, "newest")))


@pytest.mark.usefixtures("_newest")
def test_an_order_from_outside_decides_what_is_next(wire):
    w = wire(Recipe(members=2, order="newest", relation="none"), ready=())
    w.items(0, *range(4))
    w.run()
    assert not w.delivered[1]
    for _ in range(4):
        w.ready(1, 1)
    assert w.seqs(1) == [4, 3, 2, 1]


def test_without_it_the_order_is_unknown():
    with pytest.raises(ConfigError, match="newest"):
        Recipe(members=2, order="newest")


def test_a_relation_from_outside_decides_what_is_purged(wire, monkeypatch):
    monkeypatch.setitem(RELATIONS, "one-before", RelationKind(TagAnnotator, SupersedesTheOneBefore))
    w = wire(Recipe(members=2, relation="one-before"), ready=())
    w.items(0, *range(5))
    w.run()
    w.ready(1, 9)
    assert [(e.seq, e.by_seq) for e in w.kinds(PURGE, 1)] == [(1, 2), (2, 3), (3, 4), (4, 5)]
    assert w.seqs(1) == [5]


def test_without_it_the_relation_is_unknown():
    with pytest.raises(ConfigError, match="one-before"):
        Recipe(members=2, relation="one-before")


class AfterTheFirst(Ordering):
    """Every message of the second member comes after the first member's first one."""

    def __init__(self, recipe, view, rank, *_):
        self.rank = rank

    def after(self):
        return ((0, 1),) if self.rank else ()


@pytest.fixture
def _after_the_first(monkeypatch, _newest):
    monkeypatch.setitem(ORDERS, "newest", Order(FifoQueue, AfterTheFirst, come_after=True))


@pytest.mark.usefixtures("_after_the_first")
def test_an_order_from_outside_may_say_what_a_message_comes_after(wire):
    w = wire(Recipe(members=3, order="newest", relation="none"))
    w.items(0, 1)
    w.run()
    w.items(1, 1)
    w.run()
    assert [message.after for message in w.delivered[2]] == [(), ((0, 1),)]
