"""Groups with changing views: primary-partition [SVS §4.1] and partitionable [VSD app. A]."""

from collections.abc import Iterable
from random import Random
from typing import TYPE_CHECKING, Any, Final

from semcast.core.views.recipe import PROTOCOLS, ViewRecipe
from semcast.families.family import Family
from semcast.terms.ids import Incarnation
from semcast.terms.promises import orders_of, promised
from semcast.wire import VIEW_CODEC

if TYPE_CHECKING:
    from semcast.core.views.member import ViewMember
    from semcast.families.testing import Testing


def machine(
    recipe: ViewRecipe, life: Incarnation, rng: Random, now: float, records: Iterable[Any]
) -> "ViewMember":
    """A member of no view yet."""
    from semcast.core.views.member import ViewMember

    return ViewMember(recipe, life, rng, now)


def testing() -> "Testing":
    """What the simulator needs."""
    from semcast.families.views.testing import TESTING

    return TESTING


VIEWS: Final = Family(
    name="views",
    protocols=PROTOCOLS,
    orders=orders_of(PROTOCOLS),
    recipe=ViewRecipe,
    machine=machine,
    codec=VIEW_CODEC,
    promises=promised,
    testing=testing,
    group_type="views",
)
