"""The replicated store on a partitionable group [VSD §5]."""

from collections.abc import Mapping
from random import Random
from typing import TYPE_CHECKING, Any, Final

from semcast.core.views.recipe import ViewRecipe
from semcast.families.family import Family, fields_from
from semcast.service.store_messages import StoreRecord
from semcast.service.store_recipe import REPLICATED_DATA, StoreRecipe
from semcast.terms.ids import Incarnation
from semcast.terms.promises import orders_of, promised
from semcast.terms.records import Records
from semcast.wire import STORE_CODEC

if TYPE_CHECKING:
    from semcast.families.testing import Testing
    from semcast.service.store_server import StoreServer


def machine(
    recipe: StoreRecipe, life: Incarnation, rng: Random, now: float, records: Records
) -> "StoreServer":
    """A server.  Whoever runs a client makes a `StoreClient`."""
    from semcast.service.store_disk import StoredState
    from semcast.service.store_server import StoreServer

    return StoreServer(recipe, life, rng, now, StoredState(recipe.sessions_max, records))


def assemble(settings: Mapping[str, Any]) -> StoreRecipe:
    """The store on a group with the settings of a live member."""
    group = fields_from(ViewRecipe, {**settings, "protocol": "vs", "order": "total"})
    own = {name: settings[name] for name in settings if name != "group"}
    made: StoreRecipe = fields_from(StoreRecipe, {**own, "group": group})
    return made


def testing() -> "Testing":
    """What the simulator needs."""
    from semcast.families.store.testing import TESTING

    return TESTING


STORE: Final = Family(
    name="store",
    protocols=(REPLICATED_DATA,),
    orders=orders_of((REPLICATED_DATA,)),
    recipe=StoreRecipe,
    machine=machine,
    codec=STORE_CODEC,
    promises=promised,
    testing=testing,
    record=StoreRecord,
    group_type="service",
    assemble=assemble,
)
