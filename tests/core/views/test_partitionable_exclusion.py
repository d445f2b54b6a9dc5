"""Under overflow "exclude" a component goes on without a member that holds it up."""

from random import Random

from semcast.core.member import Member
from semcast.core.views.failure_detector import FailureDetector
from semcast.core.views.partitionable import ABSENCES, EXCLUSIONS, PartitionableViews
from semcast.core.views.recipe import ViewRecipe
from semcast.terms.effects import Effects
from semcast.terms.ids import Incarnation
from semcast.terms.views import Consent, GroupView, Heartbeat, Invite

LIVES = tuple(Incarnation(pid, 1) for pid in range(3))
RECIPE = ViewRecipe(protocol="vs", order="total", overflow="exclude", exclude_after_s=0.5)


def in_view(pid=0, **settings):
    """A process in a view of three, which all hear each other."""
    failure_detector = FailureDetector(RECIPE, 0.0)
    policy = PartitionableViews(RECIPE, LIVES[pid], failure_detector, **settings)
    policy.promised = 1 << 40
    view = GroupView(policy.promised, LIVES, (0, 0, 0))
    policy.enter(Member(RECIPE.recipe_of(3), pid, Random(0), view), True, 0.0)
    hear(policy, 0.0)
    return policy


def hear(policy, now, *, wants_gone=(), late=(), delivered=(0, 0, 0)):
    for pid in {0, 1, 2} - {policy.life.pid}:
        policy.failure_detector.on_message(pid, now)
        gone = wants_gone if pid == 1 else ()
        heartbeat = Heartbeat(
            1, policy.view.id, True, False, gone, 0, delivered[pid], late=pid in late
        )
        policy.on_heartbeat(pid, heartbeat, now, Effects(recording=False))


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


def test_one_that_has_delivered_more_than_who_waits_for_it_stays():
    policy = in_view()
    hear(policy, 0.1, delivered=(0, 7, 8))
    hear(policy, 0.2, wants_gone=(LIVES[2],), delivered=(0, 7, 8))
    invited(policy, 0.2)
    assert invited(policy, 0.3) is None


def test_nobody_is_left_out_if_the_others_are_too_few():
    policy = in_view(is_enough=lambda pids: len(pids) > 2)
    hear(policy, 0.2, wants_gone=(LIVES[2],))
    invited(policy, 0.2)
    assert invited(policy, 0.3) is None


def left_out_s(policy, at):
    """For how long it is left out that is wanted gone then."""
    invited(policy, at)  # Others may come back.
    hear(policy, at, wants_gone=(LIVES[2],))
    return policy.left_out_s(at)[2]


def test_who_is_slow_again_is_left_out_for_twice_as_long():
    policy, for_s = in_view(), EXCLUSIONS * 0.5
    assert left_out_s(policy, 1.0) == for_s
    assert left_out_s(policy, 4.0) == 2 * for_s
    assert left_out_s(policy, 10.0) == ABSENCES * for_s
    assert left_out_s(policy, 20.0) == ABSENCES * for_s
    assert left_out_s(policy, 60.0) == for_s


def test_who_does_not_answer_an_invitation_is_left_out_for_a_while():
    """Else the next view would wait for it again, and no view would work."""
    policy = in_view()
    policy.on_heartbeat(2, Heartbeat(1, 7), 0.1, Effects(recording=False))
    patience_s, now = RECIPE.patience_s, 0.1
    while (members := invited(policy, now)) is None:
        now += 0.1
        policy.failure_detector.on_message(1, now)
        policy.failure_detector.on_message(2, now)
    assert members == LIVES
    policy.on_datagram(1, Consent(policy.promised, 0), now, Effects(recording=False))
    invited(policy, now + patience_s)
    assert policy.next_view.members == LIVES[:2]
    assert policy.left_out_s(now + patience_s) == {2: 2 * patience_s}


def test_a_process_that_runs_too_seldom_comes_last_in_the_next_view():
    policy = in_view(pid=1)
    for now in (0.1, EXCLUSIONS * 0.5 - 0.1):
        hear(policy, now, late=(0,))
        assert invited(policy, now) is None, "The view is new."
    hear(policy, EXCLUSIONS * 0.5, late=(0,))
    invited(policy, EXCLUSIONS * 0.5)
    assert invited(policy, EXCLUSIONS * 0.5 + 0.1) == (LIVES[1], LIVES[2], LIVES[0])


def test_the_first_stays_if_all_run_too_seldom():
    policy = in_view(pid=1)
    policy.is_late = True
    hear(policy, 10.0, late=(0, 2))
    invited(policy, 10.0)
    assert invited(policy, 10.1) is None
