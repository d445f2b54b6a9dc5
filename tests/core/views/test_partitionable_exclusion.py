"""Under overflow "exclude" a component goes on without a member that holds it up."""

from random import Random

from semcast.core.member import Member
from semcast.core.views.failure_detector import FailureDetector
from semcast.core.views.partitionable import EXCLUSIONS, PartitionableViews
from semcast.core.views.recipe import ViewRecipe
from semcast.terms.effects import Effects
from semcast.terms.ids import Incarnation
from semcast.terms.views import Consent, GroupView, Heartbeat, Invite

LIVES = tuple(Incarnation(pid, 1) for pid in range(3))
RECIPE = ViewRecipe(protocol="vs", order="total", overflow="exclude", exclude_after_s=0.5)


def in_view():
    """Process 0 in a view of three, which all hear each other."""
    failure_detector = FailureDetector(RECIPE, 0.0)
    policy = PartitionableViews(RECIPE, LIVES[0], failure_detector)
    policy.promised = 1 << 40
    view = GroupView(policy.promised, LIVES, (0, 0, 0))
    policy.enter(Member(RECIPE.recipe_of(3), 0, Random(0), view), True, 0.0)
    hear(policy, 0.0)
    return policy


def hear(policy, now, *, wants_gone=()):
    for pid in (1, 2):
        policy.failure_detector.on_message(pid, now)
        gone = wants_gone if pid == 1 else ()
        policy.on_heartbeat(
            pid, Heartbeat(1, policy.view.id, True, False, gone), now, Effects(recording=False)
        )


def invited(policy, now):
    out = Effects(recording=False)
    policy.on_time(now, out)
    return next(
        (datagram.members for _, datagram in out.send if isinstance(datagram, Invite)), None
    )


def test_a_member_that_another_wants_gone_is_left_out_of_the_next_view():
    policy = in_view()
    assert invited(policy, 0.1) is None
    hear(policy, 0.2, wants_gone=(LIVES[2],))
    invited(policy, 0.2)
    assert invited(policy, 0.3) == LIVES[:2]


def test_so_is_one_that_this_member_wants_gone():
    policy = in_view()
    policy.to_exclude = (LIVES[2],)
    invited(policy, 0.2)
    policy.to_exclude = ()
    assert invited(policy, 0.3) == LIVES[:2]


def test_no_view_is_made_with_it_for_a_while():
    policy = in_view()
    hear(policy, 0.2, wants_gone=(LIVES[2],))
    invitation = Invite(policy.view.id + (1 << 40), LIVES)
    for now, answers in ((0.3, 0), (0.3 + EXCLUSIONS * 0.5, 1)):
        out = Effects(recording=False)
        policy.on_time(now, Effects(recording=False))
        policy.on_datagram(2, invitation, now, out)
        assert sum(isinstance(datagram, Consent) for _, datagram in out.send) == answers


def test_one_that_has_gone_on_to_another_view_is_not_left_out_for_ever():
    """Its view with others holds up nothing here, and there is no view but one with it."""
    policy = in_view()
    gone_on = Heartbeat(1, policy.view.id + 1, True, False)
    policy.on_heartbeat(2, gone_on, 0.1, Effects(recording=False))
    invitation = Invite(policy.view.id + (1 << 40), LIVES)
    policy.to_exclude = (LIVES[2],)
    out = Effects(recording=False)
    policy.on_time(0.2, out)
    policy.on_datagram(1, invitation, 0.2, out)
    assert [type(datagram) for _, datagram in out.send] == [Consent]
