"""The relations: what a message replaces, and how it carries that.

What a relation means stands in two places, on purpose: `core/relation/` purges by it, and
`specs/relation.py` judges what was purged.  Everything else asks this table.  Recorded runs may
name a relation with a parameter ("bitmap:32"), which only the sender needed.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from semcast.terms.errors import ConfigError, unknown_value
from semcast.terms.promises import BY_ORDER

ITEM: Final = "item"  # the earlier messages of its item
LISTED: Final = "listed"  # the messages that the application lists
REQUESTS: Final = "requests"  # as the end of a request, earlier updates of the same items
EVERYTHING: Final = "everything"  # all earlier messages
NOTHING: Final = "nothing"


class RelationFacts(NamedTuple):
    """`replaces` is one of the constants above.  `covers` is the type in which a message carries
    the distances to what it replaces: bytes for a bitmap, a tuple, or None if it carries none."""

    replaces: str
    covers: type[bytes] | type[tuple[int, ...]] | None = None


RELATIONS: Final[Mapping[str, RelationFacts]] = {
    "item": RelationFacts(ITEM),
    "bitmap": RelationFacts(LISTED, bytes),
    "list": RelationFacts(LISTED, tuple),
    "all": RelationFacts(EVERYTHING),
    "update-fin": RelationFacts(REQUESTS, tuple),
    "none": RelationFacts(NOTHING),
}


def base_name(relation: str) -> str:
    """The relation without its parameter."""
    return relation.partition(":")[0]


def facts_of(relation: str) -> RelationFacts:
    """What is known of a relation; refuse one that nobody knows."""
    if (name := base_name(relation)) not in RELATIONS:
        raise unknown_value("relation", relation, RELATIONS)
    return RELATIONS[name]


def relations_that(*replace: str) -> tuple[str, ...]:
    """The names of the relations that replace one of these."""
    return tuple(name for name, each in RELATIONS.items() if each.replaces in replace)


def check_order(order: str, relation: str) -> None:
    """Refuse a relation that does not go with the order."""
    if BY_ORDER[order].needs_items and relation not in (allowed := relations_that(ITEM, NOTHING)):
        raise ConfigError(f"order: {order} needs relation {' or '.join(allowed)}, not {relation}")


def is_by_place(order: str, relation: str) -> bool:
    """Whether the newest message of an item is the one at the last place, whoever sent it."""
    has_places = order in BY_ORDER and BY_ORDER[order].gives_places
    return has_places and base_name(relation) in relations_that(ITEM)
