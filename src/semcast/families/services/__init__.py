"""Replicated services on groups: primary-backup [SVS §5]."""

from collections.abc import Iterable, Mapping
from random import Random
from typing import TYPE_CHECKING, Any, Final

from semcast.core.views.recipe import ViewRecipe
from semcast.families.family import Family, fields_from
from semcast.service.recipe import PRIMARY_BACKUP, ServiceRecipe
from semcast.terms.ids import Incarnation
from semcast.terms.promises import orders_of, promised
from semcast.wire import SERVICE_CODEC

if TYPE_CHECKING:
    from semcast.families.testing import Testing
    from semcast.service.client import ServiceClient


def machine(
    recipe: ServiceRecipe, life: Incarnation, rng: Random, now: float, records: Iterable[Any]
) -> "ServiceClient":
    """A client.  A server needs a service, too: whoever runs one makes a `Replica`."""
    from semcast.service.client import ServiceClient

    return ServiceClient(recipe, life, rng, now)


def assemble(settings: Mapping[str, Any]) -> ServiceRecipe:
    """The service on a group with the settings of a live member."""
    group = fields_from(ViewRecipe, {**settings, "protocol": "s-vsm"})
    return ServiceRecipe(order=settings["order"], group=group)


def testing() -> "Testing":
    """What the simulator needs."""
    from semcast.families.services.testing import TESTING

    return TESTING


SERVICES: Final = Family(
    name="services",
    protocols=(PRIMARY_BACKUP,),
    orders=orders_of((PRIMARY_BACKUP,)),
    recipe=ServiceRecipe,
    machine=machine,
    codec=SERVICE_CODEC,
    promises=promised,
    testing=testing,
    group_type="service",
    assemble=assemble,
)
