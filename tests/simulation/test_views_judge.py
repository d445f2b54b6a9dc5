"""The judge of views: what it sees beside the monitors, on hand-made events."""

import pytest

from semcast.core.views.recipe import ViewRecipe
from semcast.families.views.judge import SafePurges, ViewReferee
from semcast.families.views.knowledge import Knower
from semcast.families.views.scenarios import case
from semcast.specs.violations import ViolationLog
from semcast.terms.events import INSTALL, MULTICAST, PURGE, RECEIVE, RETRANSMISSION, Event
from semcast.terms.ids import Incarnation
from semcast.terms.messages import DataMessage
from semcast.terms.outputs import Installed
from semcast.terms.views import GroupView

ONE, TWO = Incarnation(0, 1), Incarnation(1, 1)


def purges(*reached_by: int) -> list[str]:
    """0:1 is purged for 0:2 by its sender, in a view of 5."""
    ledger = ViolationLog()
    watches = SafePurges(ledger).handlers()
    watches[INSTALL](Event(INSTALL, 0, view=1, members=(0, 1, 2, 3, 4)))
    watches[MULTICAST](Event(MULTICAST, 0, 0, 2, view=1))
    for pid in reached_by:
        watches[RECEIVE](Event(RECEIVE, pid, 0, 2, view=1))
    watches[PURGE](Event(PURGE, 0, 0, 1, by_seq=2, note=RETRANSMISSION, view=1))
    return [violation.property for violation in ledger.stored]


def test_a_purge_waits_until_every_quorum_knows_what_it_is_for() -> None:
    assert purges() == purges(1) == ["safe_purge"]
    assert purges(1, 2) == []


def entering(
    judge: ViewReferee, life: Incarnation, application: Knower, state: bytes | None
) -> None:
    installation = Installed(GroupView(2, (ONE, TWO), (1, 0)), state, False)
    application.install(installation)
    judge.on_install(life, installation, application)


@pytest.mark.parametrize("misses", [False, True])
def test_a_joiner_begins_with_what_the_others_know(misses: bool) -> None:
    judge = ViewReferee(case(ViewRecipe(), size=2))
    first, joiner = (Knower("fifo", "item") for _ in range(2))
    installation = Installed(GroupView(1, (ONE,), (0,)), None, False)
    first.install(installation)
    judge.on_install(ONE, installation, first)
    before = first.state()
    first.deliver(DataMessage(0, 1, item=3), 0)
    entering(judge, ONE, first, None)
    entering(judge, TWO, joiner, before if misses else first.state())
    assert len(judge.found) == misses


def test_a_joiner_without_a_state_is_noticed() -> None:
    judge = ViewReferee(case(ViewRecipe(), size=2))
    entering(judge, TWO, Knower("fifo", "item"), None)
    assert judge.found == [f"state: {TWO} joined without a state, in view 2"]
