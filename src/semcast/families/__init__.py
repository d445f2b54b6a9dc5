"""Families of protocols: which there are, and what a driver needs of each."""

from semcast.families.family import (
    ALIASES,
    Family,
    default_order,
    families,
    find,
    joinable,
    protocols,
    register,
    unregister,
    wire_tags,
)
from semcast.families.fixed import FIXED
from semcast.families.pubsub import PUBSUB
from semcast.families.services import SERVICES
from semcast.families.store import STORE
from semcast.families.views import VIEWS

for _family in (FIXED, PUBSUB, VIEWS, SERVICES, STORE):
    register(_family)

__all__ = [
    "ALIASES",
    "Family",
    "default_order",
    "families",
    "find",
    "joinable",
    "protocols",
    "register",
    "unregister",
    "wire_tags",
]
