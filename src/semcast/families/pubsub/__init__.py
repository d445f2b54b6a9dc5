"""Publish/subscribe with gossip and loggers [RPB §3-6]."""

from random import Random
from typing import TYPE_CHECKING, Final

from semcast.core.pubsub.recipe import PROTOCOLS, PubsubRecipe
from semcast.families.family import Family
from semcast.terms.ids import Incarnation
from semcast.terms.promises import orders_of, promised
from semcast.terms.pubsub import Record
from semcast.terms.records import Records
from semcast.wire import PUBSUB_CODEC

if TYPE_CHECKING:
    from semcast.core.pubsub.participant import Participant
    from semcast.families.testing import Testing


def machine(
    recipe: PubsubRecipe, life: Incarnation, rng: Random, now: float, records: Records
) -> "Participant":
    """A participant that goes on from its records; participants count incarnations from 0."""
    from semcast.core.pubsub.participant import Participant

    return Participant(recipe, life.pid, rng, now, inc=life.inc - 1, records=records)


def testing() -> "Testing":
    """What the simulator needs."""
    from semcast.families.pubsub.testing import TESTING

    return TESTING


PUBSUB: Final = Family(
    name="pubsub",
    protocols=PROTOCOLS,
    orders=orders_of(PROTOCOLS),
    recipe=PubsubRecipe,
    machine=machine,
    codec=PUBSUB_CODEC,
    promises=promised,
    testing=testing,
    record=Record,
)
