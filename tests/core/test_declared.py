"""A multicast event says what the application declared, whatever the annotator makes of it."""

from random import Random

import pytest

from semcast.core.member import Member
from semcast.core.pubsub.participant import Participant
from semcast.core.pubsub.recipe import PubsubRecipe
from semcast.core.recipe import Recipe
from semcast.core.relation.bitmap import BitmapAnnotator
from semcast.core.relation.item import ChainLimitAnnotator
from semcast.terms.declared import Declared, declared_by
from semcast.terms.effects import Effects
from semcast.terms.events import MULTICAST
from semcast.terms.ids import Incarnation
from semcast.terms.machine import JoinGroup
from semcast.terms.messages import Update
from semcast.terms.views import GroupView

LISTED = [
    Update(b"a"),
    Update(b"b", obsoletes=(1,)),
    Update(b"c", obsoletes=(2,), never_purge=True),
]


def declared_of(member, updates):
    out = Effects(recording=True)
    assert member.submit(updates, 0.0, out) == len(updates)
    return [declared_by(event) for event in out.events if event.kind == MULTICAST]


@pytest.mark.parametrize("relation", ["list", "bitmap"])
def test_only_what_was_listed_and_not_the_closure(relation: str) -> None:
    member = Member(Recipe(members=1, relation=relation, k=8), 0, Random(1))
    assert declared_of(member, LISTED) == [
        Declared(0, 1),
        Declared(0, 2, obsoletes=(1,)),
        Declared(0, 3, keep=True, obsoletes=(2,)),
    ]


def test_a_broken_annotator_does_not_change_it(monkeypatch) -> None:
    monkeypatch.setattr(BitmapAnnotator, "annotate", lambda *_: (9, b"\xff", False))
    member = Member(Recipe(members=1, relation="bitmap", k=8), 0, Random(1))
    assert declared_of(member, LISTED)[1:] == [
        Declared(0, 2, obsoletes=(1,)),
        Declared(0, 3, keep=True, obsoletes=(2,)),
    ]


def test_what_a_chain_limit_keeps_was_not_declared_to_be_kept(monkeypatch) -> None:
    member = Member(Recipe(members=1, chain_limit=1), 0, Random(1))
    same = [Update(b"x", item=4) for _ in range(4)]
    assert isinstance(member.sending.annotator, ChainLimitAnnotator)
    assert declared_of(member, same) == [Declared(0, seq, item=4) for seq in range(1, 5)]


def test_in_a_view_numbers_are_those_of_the_life() -> None:
    view = GroupView(3, (Incarnation(5, 2),), (10,))
    recipe = Recipe(members=1, relation="list")
    member = Member(recipe, 0, Random(1), view)
    of_now = [Update(b"a"), Update(b"b", obsoletes=(3, 11))]
    assert declared_of(member, of_now)[1] == Declared(5, 12, obsoletes=(3, 11))


def test_a_publisher_says_it_when_the_message_leaves() -> None:
    publisher = Participant(
        PubsubRecipe(members=2, protocol="pbcast", relation="list"), 1, Random(1), 0.0
    )
    out = Effects(recording=True)
    publisher.on_command(JoinGroup(), 0.0, out)
    publisher.submit(LISTED[:2], 0.0, out)
    publisher.on_persisted(100, 0.0, out)
    sent = [declared_by(event) for event in out.events if event.kind == MULTICAST]
    assert sent == [Declared(1, 1), Declared(1, 2, obsoletes=(1,))]
