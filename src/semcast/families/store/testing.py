"""What the simulator needs of the replicated store."""

from collections.abc import Iterable
from random import Random
from typing import Any, Final

from semcast.families.case import AnyCase
from semcast.families.store.draw import StoreCase, draw
from semcast.families.store.judge import StoreReferee
from semcast.families.store.mutants import MUTANTS
from semcast.families.store.scenarios import SCENARIOS
from semcast.families.store.script import ScriptedClient
from semcast.families.testing import Testing
from semcast.families.views.testing import kinds as kinds_in_group
from semcast.service.store_disk import StoredState
from semcast.service.store_server import StoreServer
from semcast.terms.ids import Incarnation
from semcast.terms.machine import Machine
from semcast.terms.records import Records
from semcast.terms.views import Stamped


def machine(case: AnyCase, life: Incarnation, rng: Random, now: float, records: Records) -> Machine:
    """A server or a client, by its number."""
    if life.pid < case.more.servers:
        stored = StoredState(case.recipe.sessions_max, records)
        return StoreServer(case.recipe, life, rng, now, stored)
    return ScriptedClient(case.recipe, life, rng, now, case.more.abandons)


def kinds(datagram: Any) -> Iterable[str]:
    """What a failpoint calls a datagram."""
    if isinstance(datagram, Stamped):
        return kinds_in_group(datagram)
    return (type(datagram).__name__.lower(),)


TESTING: Final = Testing(
    case=StoreCase,
    draw=draw,
    referee=StoreReferee,
    machine=machine,
    kinds=kinds,
    reach=lambda recipe: int(recipe.group.recipe_of(1).k),
    scenarios=SCENARIOS,
    mutants=MUTANTS,
)
