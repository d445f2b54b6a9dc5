"""An order and a relation that only this test knows.

An order is one value for the machines and one line in the table of promises.  A relation is one
value for the machines, one for the monitors, and one line in the table of relations.
"""

from dataclasses import replace

import pytest

from semcast.core.order import ORDERS, Order
from semcast.core.order.fifo import FifoQueue
from semcast.core.order.protocols import Ordering
from semcast.core.recipe import Recipe
from semcast.core.relation import RELATIONS, RelationKind
from semcast.core.relation.item import TagAnnotator
from semcast.core.relation.protocols import SemanticIndex
from semcast.families import families, register, unregister
from semcast.families.fixed import FIXED
from semcast.sim.run import run
from semcast.sim.swarm import draw, run_seed
from semcast.specs.relation import MEANINGS
from semcast.terms import promises, relations
from semcast.terms.errors import ConfigError
from semcast.terms.events import PURGE
from semcast.terms.relations import EVERYTHING, RelationFacts


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
    facts = promises.BY_PROTOCOL["s-rm"]
    offering = facts._replace(orders=(*facts.orders, "newest"))
    monkeypatch.setitem(ORDERS, "newest", Order(NewestFirst))
    monkeypatch.setitem(promises.BY_ORDER, "newest", promises.OrderFacts(frozenset()))
    monkeypatch.setitem(promises.BY_PROTOCOL, "s-rm", offering)
    before = families()
    unregister(FIXED)
    register(replace(FIXED, orders=(*FIXED.orders, "newest")))
    yield
    for each in families():
        unregister(each)
    for each in before:  # in the order that help texts and errors list them
        register(each)


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


@pytest.fixture
def _one_before(monkeypatch):
    monkeypatch.setitem(RELATIONS, "one-before", RelationKind(TagAnnotator, SupersedesTheOneBefore))
    monkeypatch.setitem(relations.RELATIONS, "one-before", RelationFacts(EVERYTHING))
    monkeypatch.setitem(MEANINGS, "one-before", (is_one_before, sweep_one_before))


def is_one_before(old, new):
    return old.seq == new.seq - 1


def sweep_one_before(newest_first, delivered):
    missing, settled = [], None
    for m in newest_first:
        if m.seq in delivered or (m.seq + 1 == settled and not m.keep):
            settled = m.seq
        else:
            missing.append(m.seq)
    return missing


@pytest.mark.usefixtures("_one_before")
def test_a_relation_from_outside_decides_what_is_purged(wire):
    w = wire(Recipe(members=2, relation="one-before"), ready=())
    w.items(0, *range(5))
    w.run()
    w.ready(1, 9)
    assert [(e.seq, e.by_seq) for e in w.kinds(PURGE, 1)] == [(1, 2), (2, 3), (3, 4), (4, 5)]
    assert w.seqs(1) == [5]


def test_without_it_the_relation_is_unknown():
    with pytest.raises(ConfigError, match="one-before"):
        Recipe(members=2, relation="one-before")


@pytest.mark.usefixtures("_one_before")
def test_the_swarm_draws_and_judges_a_relation_from_outside():
    cases = [draw("s-rm", seed) for seed in range(60)]
    drawn = [case for case in cases if case.recipe.relation == "one-before"]
    assert len(drawn) > 3
    purges = []
    for case in drawn:
        assert (
            run(case, lambda event: event.kind == PURGE and purges.append(event)).violations == ()
        )
    assert len(purges) > 100


@pytest.mark.usefixtures("_one_before")
def test_a_purge_of_what_it_does_not_replace_is_noticed(monkeypatch):
    monkeypatch.setattr(
        SupersedesTheOneBefore,
        "obsoleted_by",
        lambda self, message: [seq for seq in self.held if seq == message.seq - 2],
    )
    found = [run_seed("s-rm", None, seed).violations for seed in range(60)]
    assert any("purge_safety" in violation for violations in found for violation in violations)


@pytest.mark.usefixtures("_newest")
def test_the_swarm_judges_an_order_from_outside(monkeypatch):
    """As the table says that it keeps FIFO order, the newest first is a violation."""
    promising = promises.OrderFacts(frozenset({"fifo_order"}))
    monkeypatch.setitem(promises.BY_ORDER, "newest", promising)
    cases = [draw("s-rm", seed, "newest") for seed in range(80)]
    plain = [case for case in cases if case.recipe.relation == "none"]
    assert any("fifo_order" in found for case in plain for found in run(case).violations)
    monkeypatch.setitem(ORDERS, "newest", Order(FifoQueue))
    outcomes = [run(case) for case in cases[:20]]
    assert [outcome.violations for outcome in outcomes if outcome.violations] == []
    assert sum(outcome.obligations["fifo_order"] for outcome in outcomes) > 100


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
