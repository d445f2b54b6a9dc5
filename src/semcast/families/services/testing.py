"""What the simulator needs of replicated services."""

from collections.abc import Iterable
from random import Random
from typing import Any, Final

from semcast.families.case import AnyCase
from semcast.families.services.draw import ServiceCase, draw
from semcast.families.services.judge import ServiceReferee
from semcast.families.services.ledger_service import LedgerService
from semcast.families.services.mutants import MUTANTS
from semcast.families.services.scenarios import SCENARIOS
from semcast.families.testing import Habits, Testing
from semcast.families.views.testing import begins
from semcast.families.views.testing import kinds as kinds_in_group
from semcast.service.client import ServiceClient
from semcast.service.replica import Replica
from semcast.terms.ids import Incarnation
from semcast.terms.machine import Machine
from semcast.terms.views import Stamped


def machine(
    case: AnyCase, life: Incarnation, rng: Random, now: float, records: Iterable[Any]
) -> Machine:
    """A server or a client, by its number."""
    if life.pid < case.more.servers:
        return Replica(case.recipe, life, rng, now, LedgerService(life.pid))
    return ServiceClient(case.recipe, life, rng, now)


def kinds(datagram: Any) -> Iterable[str]:
    """What a failpoint calls a datagram."""
    if isinstance(datagram, Stamped):
        return kinds_in_group(datagram)
    return (type(datagram).__name__.lower(),)


TESTING: Final = Testing(
    case=ServiceCase,
    draw=draw,
    referee=ServiceReferee,
    machine=machine,
    begins=begins,
    kinds=kinds,
    habits=lambda case: Habits(back_after_s=case.more.back_after_s),
    reach=lambda recipe: int(recipe.group.recipe_of(1).k),
    scenarios=SCENARIOS,
    mutants=MUTANTS,
)
