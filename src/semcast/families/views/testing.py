"""What the simulator needs of groups with views."""

from collections.abc import Iterable, Sequence
from typing import Final

from semcast.families.case import AnyCase
from semcast.families.testing import Habits, Testing
from semcast.families.views.draw import ViewCase, draw
from semcast.families.views.judge import ViewReferee
from semcast.families.views.knowledge import Knower
from semcast.families.views.mutants import MUTANTS
from semcast.families.views.scenarios import SCENARIOS
from semcast.terms.ids import Incarnation
from semcast.terms.machine import Command, FoundGroup
from semcast.terms.views import Stamped, ViewEnvelope


def begins(case: AnyCase, life: Incarnation) -> Sequence[Command]:
    """The first incarnations of the founders are in one view from the start."""
    founders = tuple(Incarnation(pid, 1) for pid in range(case.more.founders))
    return (FoundGroup(founders, 1),) if life in founders else ()


def kinds(stamped: Stamped) -> Iterable[str]:
    """What a failpoint calls a datagram: by its own name, and by that of what it encloses."""
    inner = stamped.datagram
    yield type(inner).__name__.lower()
    if isinstance(inner, ViewEnvelope):
        yield type(inner.datagram).__name__.lower()


def habits(case: AnyCase) -> Habits:
    """Applications know the last word on everything, and hand it over."""
    recipe, more = case.recipe, case.more
    return Habits(
        new_state=lambda: Knower(recipe.order, recipe.relation),
        snapshot=more.snapshot,
        back_after_s=more.back_after_s,
    )


TESTING: Final = Testing(
    case=ViewCase,
    draw=draw,
    referee=ViewReferee,
    begins=begins,
    kinds=kinds,
    habits=habits,
    reach=lambda recipe: int(recipe.recipe_of(1).k),
    scenarios=SCENARIOS,
    mutants=MUTANTS,
)
