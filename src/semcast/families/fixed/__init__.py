"""Fixed groups: semantic sender-reliable and reliable multicast [SRM fig. 2-3]."""

from collections.abc import Iterable
from random import Random
from typing import TYPE_CHECKING, Any, Final

from semcast.core.member import Member
from semcast.core.recipe import Recipe
from semcast.families.family import Family
from semcast.terms import promises
from semcast.terms.ids import Incarnation
from semcast.wire import GROUP_CODEC

if TYPE_CHECKING:
    from semcast.families.testing import Testing

PROTOCOLS: Final = promises.protocols_with(promises.FIXED)


def machine(
    recipe: Recipe, life: Incarnation, rng: Random, now: float, records: Iterable[Any]
) -> Member:
    """The member whose rank is its process number; it has no second incarnation."""
    return Member(recipe, life.pid, rng)


def testing() -> "Testing":
    """What the simulator needs."""
    from semcast.families.fixed.testing import TESTING

    return TESTING


FIXED: Final = Family(
    name="fixed",
    protocols=PROTOCOLS,
    orders=promises.orders_of(PROTOCOLS),
    recipe=Recipe,
    machine=machine,
    codec=GROUP_CODEC,
    promises=promises.promised,
    testing=testing,
    group_type="fixed",
)
