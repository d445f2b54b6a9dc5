"""A server of the store that is alive and slow: the others go on, and what each rule is for."""

import pytest
from tests.service.store_world import StoreWorld

from semcast.core.views.partitionable import PartitionableViews
from semcast.families.store.scenarios import SCENARIOS
from semcast.service.exchange import Exchange
from semcast.service.store_messages import Expertise
from semcast.service.store_recipe import StoreRecipe
from semcast.sim.run import run
from semcast.terms.ids import Incarnation
from semcast.terms.service import DONE, PRIMARY, RECOVERING
from semcast.terms.store import Parcel
from semcast.terms.views import GroupView

LIVES = tuple(Incarnation(pid, 1) for pid in range(3))


@pytest.mark.parametrize(
    ("scenario", "rule", "without"),
    [
        ("slow-sequencer", "_runs_late", lambda *_: False),
        ("unresponsive", "_leave_out", lambda *_: None),
    ],
)
def test_updates_stop_without_the_rule(monkeypatch, scenario, rule, without):
    assert run(SCENARIOS[scenario]).violations == ()
    monkeypatch.setattr(PartitionableViews, rule, without)
    [violation] = run(SCENARIOS[scenario]).violations
    assert violation.startswith("pace: ")


def test_updates_go_on_while_a_server_takes_what_it_lacks():
    """It came back, and what is handed to it is lost for long."""
    w = StoreWorld()
    w.part((0, 1), (2,))
    w.run(1.0)
    w.ask(3, "set", b"a", b"1")
    w.run(0.5)
    w.lost = lambda source, to, datagram: to == 2 and isinstance(datagram, Parcel)
    w.run(2.0)
    w.ask(3, "set", b"a", b"2")
    w.run(1.0)
    assert w.answers[3] == [(DONE, True), (DONE, True)]
    assert [w.nodes[pid].status(w.now).role for pid in range(3)] == [PRIMARY, PRIMARY, RECOVERING]
    w.part()
    w.run(1.0)
    assert w.nodes[2].status(w.now).role == PRIMARY
    assert w.items(2) == w.items(0) == {b"a": b"2"}


def exchanged(**settings):
    """Three servers, of which the last lacks 5 of 12 updates and does not say that it has them."""
    recipe = StoreRecipe(founders=(0, 1, 2), **settings)
    exchange = Exchange(recipe, GroupView(9, LIVES, (0, 0, 0)))
    for pid, length in enumerate((12, 12, 7)):
        exchange.on_expertise(pid, Expertise(1, 0, length, length, True), pid + 1)
    exchange.confirmed = 3
    return exchange


def test_a_quorum_in_place_is_enough_where_a_quorum_confirms():
    assert exchanged().is_over


@pytest.mark.parametrize("settings", [{"confirm": "all"}, {"reads": "rotate"}])
def test_all_have_to_be_in_place_where_all_confirm_or_answer_in_turn(settings):
    exchange = exchanged(**settings)
    assert not exchange.is_over
    exchange.on_in_place(2, 4)
    assert not exchange.is_over
    exchange.confirmed = 4
    assert exchange.is_over


def test_servers_in_place_that_are_no_quorum_wait():
    exchange = exchanged(quorums=((0, 2), (1, 2)))
    assert not exchange.is_over
    exchange.on_in_place(2, 4)
    exchange.confirmed = 4
    assert exchange.is_over
