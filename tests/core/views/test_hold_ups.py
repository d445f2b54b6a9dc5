"""Who holds a member up, and whether it runs often enough: what holds most of the time counts."""

from random import Random

import pytest

from semcast.core.member import Member
from semcast.core.views.hold_ups import HoldUps
from semcast.core.views.recipe import ViewRecipe
from semcast.terms.ids import Incarnation
from semcast.terms.views import GroupView

LIVES = tuple(Incarnation(pid, 1) for pid in range(3))
RECIPE = ViewRecipe(protocol="vs", order="total", overflow="exclude", exclude_after_s=0.5)


def sender(**reached):
    """A member that has sent 100 messages, of which peers have so many."""
    member = Member(RECIPE.recipe_of(3), 0, Random(0), GroupView(1, LIVES, (0, 0, 0)))
    member.outbox.last = 100
    for peer, frontier in zip((1, 2), reached.values(), strict=True):
        member.outbox.on_peer_frontier(peer, frontier)
    return member


def refused_mostly(member, *, for_s, share=0.9):
    """Whom a sender wants put out that is refused for this share of the time."""
    hold_ups, now = HoldUps(RECIPE, 0.0), 0.0
    while now < for_s:
        hold_ups.on_submit(True, member, now)
        hold_ups.on_submit(False, member, now + 0.01 * share)
        now += 0.01
    hold_ups.on_submit(True, member, now)
    return hold_ups.expelled(member, now)


def test_a_member_that_takes_a_message_now_and_then_is_put_out():
    member = sender(fast=98, slow=10)
    assert refused_mostly(member, for_s=0.5) == ()
    assert refused_mostly(member, for_s=0.7) == (LIVES[2],)


def test_nobody_is_put_out_for_less_than_half_of_the_time():
    assert refused_mostly(sender(fast=98, slow=10), for_s=5.0, share=0.45) == ()


def test_nobody_is_put_out_if_the_sender_offers_more_than_all_take():
    """A sender that is always refused, as fast as the group takes messages."""
    assert refused_mostly(sender(fast=40, slow=20), for_s=5.0) == ()


def test_nobody_is_put_out_if_now_one_and_now_another_is_far_behind():
    members = sender(one=98, other=10), sender(one=10, other=98)
    hold_ups, now = HoldUps(RECIPE, 0.0), 0.0
    for beat in range(500):
        now = beat / 100
        hold_ups.on_submit(True, members[beat % 2], now)
        hold_ups.on_submit(False, members[beat % 2], now + 0.009)
    assert hold_ups.expelled(members[0], now + 0.01) == ()


def test_who_takes_nothing_is_put_out_even_if_another_is_as_far_behind():
    member, hold_ups = sender(one=10, other=9), HoldUps(RECIPE, 0.0)
    hold_ups.on_submit(True, member, 0.0)
    assert hold_ups.expelled(member, 0.4) == ()
    assert hold_ups.expelled(member, 0.5) == (LIVES[2],)


def test_a_new_view_forgives():
    member, hold_ups = sender(one=10, other=90), HoldUps(RECIPE, 0.0)
    hold_ups.on_submit(True, member, 0.0)
    hold_ups.enter(0.4)
    assert hold_ups.expelled(member, 0.6) == ()


@pytest.mark.parametrize(
    ("stopped_s", "is_late"), [(0.04, False), (0.075, True)], ids=["busy", "a quarter"]
)
def test_a_process_that_is_stopped_most_of_the_time_is_late(stopped_s, is_late):
    hold_ups, found = HoldUps(RECIPE, 0.0), []
    for beat in range(20):
        hold_ups.on_run(beat / 10, beat / 10 + stopped_s)
        found.append(hold_ups.is_late(beat / 10 + stopped_s))
    assert found[-1] is is_late
    assert not found[5]


def test_it_is_late_until_it_has_made_up_for_it():
    hold_ups = HoldUps(RECIPE, 0.0)
    hold_ups.on_run(0.0, 0.8)
    assert hold_ups.is_late(0.8)
    assert hold_ups.is_late(1.5)
    assert not hold_ups.is_late(1.7)
