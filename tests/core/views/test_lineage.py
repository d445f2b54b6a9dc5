"""Groups that were founded apart: nothing of one reaches the other, and who follows whom."""

import pytest

from semcast.core.views.lineage import RIVALS_MAX, LineageGuard
from semcast.core.views.recipe import ViewRecipe
from semcast.terms.effects import Effects
from semcast.terms.errors import LocalProtocolError
from semcast.terms.ids import Incarnation
from semcast.terms.messages import Data, DataMessage, Update
from semcast.terms.outputs import Rival
from semcast.terms.views import (
    EXCLUDED,
    MEMBER,
    MINORITY,
    Decided,
    GroupView,
    Heartbeat,
    OrderProgress,
    Prepare,
    Stamped,
    StateRequest,
    ViewEnvelope,
    ViewProposal,
)

RECIPE = ViewRecipe(timeout_s=0.5, timeout_max_s=2.0, patience_s=1.0)
VIEW = GroupView(3, (Incarnation(1, 5), Incarnation(2, 7)), (0, 0), lineage=40)
BEAT = Heartbeat(7, 3, primary=True)
SAID = ViewEnvelope(3, Data((DataMessage(0, 1),)))


def guard(view=VIEW):
    made = LineageGuard(RECIPE, Incarnation(1, 5))
    if view is not None:
        made.enter(view)
    return made


@pytest.mark.parametrize(
    "datagram", [SAID, BEAT, OrderProgress(3, 1, 1), Prepare(3, 2), StateRequest(3, 0)]
)
def test_the_own_lineage_is_admitted(datagram):
    made = guard()
    assert made.admits(2, Stamped(40, 7, datagram), 0.0)
    assert not made.discarded


@pytest.mark.parametrize(
    "datagram", [SAID, BEAT, OrderProgress(3, 1, 1), Prepare(3, 2), StateRequest(3, 0)]
)
def test_another_lineage_is_discarded_and_counted(datagram):
    made = guard()
    assert not made.admits(2, Stamped(41, 7, datagram), 0.0)
    assert made.discarded == {"lineage": 1}


def test_of_who_has_no_lineage_only_the_heartbeat_is_heard():
    made = guard()
    assert made.admits(9, Stamped(0, 1, Heartbeat(1, 0)), 0.0)
    assert not made.admits(9, Stamped(0, 1, SAID), 0.0)


def test_a_joiner_hears_every_lineage():
    made = guard(None)
    proposal = ViewProposal(VIEW, (0, 0), 1, ())
    assert made.admits(2, Stamped(41, 7, BEAT), 0.0)
    assert made.admits(2, Stamped(40, 7, Decided(2, proposal, 0)), 0.0)


def test_an_earlier_incarnation_is_discarded_from_the_first_word_on():
    made = guard()
    assert not made.admits(2, Stamped(40, 6, BEAT), 0.0)
    assert made.discarded == {"incarnation": 1}


def test_a_later_incarnation_does_not_speak_for_the_member_that_it_was():
    made = guard()
    assert made.admits(2, Stamped(40, 8, Heartbeat(8, 4)), 0.0)
    assert not made.admits(2, Stamped(40, 8, SAID), 0.0)
    assert not made.admits(2, Stamped(40, 7, SAID), 0.0), "and the earlier one is over"


def rival(made, since, until, step=0.1):
    now = since
    while now <= until:
        made.admits(9, Stamped(41, 1, Heartbeat(1, 1, primary=True)), now)
        now += step


def test_a_rival_that_stays_is_reported_once():
    made, out = guard(), Effects(recording=False)
    rival(made, 0.0, 1.0)
    made.poll(True, 1.0, out)
    assert out.outputs == [], "it may just have been woken"
    rival(made, 1.0, 2.1)
    made.poll(True, 2.1, out)
    made.poll(True, 2.2, out)
    assert out.outputs == [Rival(41)]


def test_a_minority_follows_a_rival_that_stays():
    made, out = guard(), Effects(recording=False)
    rival(made, 0.0, 1.9)
    assert made.poll(False, 0.5, out) == 0
    assert made.poll(False, 1.9, out) == 0, "it may just have been woken, and be nobody's group"
    rival(made, 1.9, 2.1)
    assert made.poll(False, 2.1, out) == 41
    assert made.poll(False, 5.0, out) == 0, "it is gone again"


def test_a_minority_does_not_follow_at_once():
    made, out = guard(), Effects(recording=False)
    rival(made, 0.0, 2.1)
    assert made.poll(False, 2.1, out) == 0
    rival(made, 2.1, 3.0)
    assert made.poll(False, 3.0, out) == 0
    assert made.poll(False, 3.1, out) == 41


def test_a_rival_in_no_primary_view_is_not_followed():
    made = guard()
    made.admits(9, Stamped(41, 1, Heartbeat(1, 1)), 0.0)
    assert not made.rivals


def test_rivals_are_bounded_and_those_that_are_gone_make_room():
    made = guard()
    for lineage in range(100, 200):
        made.admits(9, Stamped(lineage, 1, Heartbeat(1, 1, primary=True)), 0.0)
    assert len(made.rivals) == RIVALS_MAX
    made.admits(9, Stamped(300, 1, Heartbeat(1, 1, primary=True)), 2.1)
    assert list(made.rivals) == [300]


def test_what_was_due_before_an_error_leaves_stamped(world):
    """Otherwise nobody could decode it."""
    group = world(multicast={"coalesce_s": 0.005, "message_bytes": 100}).start([1, 2, 3])
    member, out = group.members[1], Effects(recording=False)
    member.submit([Update(b"a")], group.now, out)
    with pytest.raises(LocalProtocolError):
        member.submit([Update(bytes(200))], group.now + 0.006, out)
    assert out.send
    assert all(isinstance(said, Stamped) for _, said in out.send)


def test_what_an_input_sends_is_stamped_once():
    made, out = guard(), Effects(recording=False)
    out.send += [((2, 3), SAID), ((2,), BEAT)]
    made.stamp(out)
    made.stamp(out)
    (audience, first), (_, second) = out.send
    assert audience == (2, 3)
    assert (first.lineage, first.inc, first.datagram) == (40, 5, SAID)
    assert second.datagram is BEAT


def test_what_goes_to_each_member_by_unicast_is_one_entry(world):
    """Otherwise each copy would be encoded and sealed by itself."""
    group = world(multicast={"unicast": True}).start([1, 2, 3])
    first = len(group.sent)
    group.send(1, 7)
    group.run(0.001)
    told = [(to, said) for _, _, to, said in group.sent[first:] if isinstance(said, ViewEnvelope)]
    assert [to for to, said in told if isinstance(said.datagram, Data)] == [[2, 3]]


def test_a_member_that_slept_through_a_new_founding_follows_it(world):
    """Its view 1 and theirs have nothing in common but the number."""
    group = world().start([1, 2, 3])
    sleeper = group.members.pop(1)
    for pid in (2, 3):
        group.crash(pid)
    lives = (Incarnation(2, 2), Incarnation(3, 2), Incarnation(4, 1))
    for life in lives:
        group.add(*life, founders=lives, lineage=77)
    group.send(3, 5, 6)
    group.run(0.5)
    group.members[1] = sleeper
    group.log[1].clear()
    group.do(1, sleeper.on_time)
    group.send(3, 7, 8)
    group.run(0.3)
    assert not group.messages(1)
    group.run(1.0)
    assert sleeper.phase == MINORITY
    group.run(6.0)
    assert sleeper.phase == EXCLUDED
    assert sleeper.followed == 77
    assert sleeper.guard.discarded["lineage"] > 0


def test_two_primary_groups_stay_apart(world):
    group = world().start([1, 2])
    lives = (Incarnation(3, 1), Incarnation(4, 1))
    for life in lives:
        group.add(*life, founders=lives, lineage=77)
    group.run(15.0)
    assert [group.members_of(pid) for pid in (1, 2, 3, 4)] == [[1, 2], [1, 2], [3, 4], [3, 4]]
    assert all(member.phase == MEMBER for member in group.members.values())
