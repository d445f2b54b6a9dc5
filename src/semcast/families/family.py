"""What a family of protocols is, and the register of all families.

A driver and the simulator ask the register for a family by the name of a protocol; their code names
no family.  A family from outside the package is registered by one call of `register`.
Invariant: no two families have a protocol of the same name, or use the same wire tag for different
datagrams, so a datagram that reaches the wrong family is refused by its decoder.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import cache, partial
from random import Random
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from semcast.terms.errors import ConfigError, unknown_value
from semcast.terms.ids import Incarnation
from semcast.terms.machine import Machine
from semcast.terms.records import Records
from semcast.wire import Codec

if TYPE_CHECKING:
    from semcast.families.testing import Testing

MachineFactory: TypeAlias = Callable[[Any, Incarnation, Random, float, Records], Machine]
"""(recipe, incarnation, generator, now, records of its disk) → the machine of that incarnation."""

ALIASES: Final[Mapping[str, tuple[str, str]]] = {
    "causal": ("s-rm", "causal"),
    "total": ("s-vsm", "total"),
}
"""Names under which the swarm knows a protocol together with an order."""


def untested() -> "Testing":
    """Of a family that the simulator cannot run."""
    raise ConfigError("protocol: its family has no part for the simulator (Family.testing)")


@dataclass(frozen=True, kw_only=True)
class Family:
    """Protocols that one kind of machine runs.

    `promises(protocol, order)` returns the names of the guaranteed properties and refuses an order
    that the protocol does not have.  `group_type` says how a live group of it comes together: all
    members at once ("fixed"), or founders and joiners ("views"), the latter also if its members are
    servers ("service"); None: no live group yet.  `recipe` is a dataclass; `assemble` makes one of
    the settings of a live member, by default of those that are its fields.  `record` is the type of
    what its machines persist, None if they persist nothing.  `testing` loads what the simulator
    needs of it.
    """

    name: str
    protocols: tuple[str, ...]
    orders: tuple[str, ...]
    recipe: type[Any]
    machine: MachineFactory
    codec: Codec[Any]
    promises: Callable[[str, str], frozenset[str]]
    testing: Callable[[], "Testing"] = untested
    record: Any = None
    group_type: str | None = None
    assemble: Callable[[Mapping[str, Any]], Any] | None = None

    def live_recipe(self, settings: Mapping[str, Any]) -> Any:
        """The recipe of a live member; settings that it has no use for are left out."""
        return (self.assemble or partial(fields_from, self.recipe))(settings)


def fields_from(recipe: type[Any], settings: Mapping[str, Any]) -> Any:
    """A recipe from those settings that are its fields."""
    known = {each.name for each in fields(recipe)}
    return recipe(**{name: settings[name] for name in settings.keys() & known})


_FAMILIES: Final[dict[str, Family]] = {}


def register(family: Family) -> Family:
    """Add a family; refuse one whose name, protocol or wire tag is taken."""
    if family.name in _FAMILIES:
        raise ConfigError(f"family: the name {family.name!r} is taken")
    known = {protocol: other.name for other in families() for protocol in other.protocols}
    for protocol in family.protocols:
        if protocol in known or protocol in ALIASES:
            owner = known.get(protocol, "an alias")
            raise ConfigError(f"protocol: the name {protocol!r} is taken by {owner}")
    tags = {tag: kind for other in families() for tag, kind in wire_tags(other.codec).items()}
    for tag, kind in wire_tags(family.codec).items():
        if tags.get(tag, kind) is not kind:
            raise ConfigError(
                f"tag: {kind.__name__} of {family.name} has wire tag {tag}, "
                f"which is that of {tags[tag].__name__}"
            )
    _FAMILIES[family.name] = family
    return family


def unregister(family: Family) -> None:
    """Remove a family that a test registered."""
    del _FAMILIES[family.name]


def families() -> tuple[Family, ...]:
    """All families, in the order in which they were registered."""
    return tuple(_FAMILIES.values())


def protocols() -> tuple[str, ...]:
    """The protocols of all families."""
    return tuple(protocol for family in families() for protocol in family.protocols)


def joinable(group_type: str) -> tuple[str, ...]:
    """The protocols that a live group of this type can have."""
    found = (family for family in families() if family.group_type == group_type)
    return tuple(protocol for family in found for protocol in family.protocols)


def find(protocol: str, order: str | None = None) -> Family:
    """The family that runs a protocol; with `order`, refuse an order that it does not have."""
    for family in families():
        if protocol in family.protocols:
            if order is not None:
                family.promises(protocol, order)
                if order not in family.orders:
                    raise unknown_value("order", order, family.orders)
            return family
    raise unknown_value("protocol", protocol, protocols())


def default_order(protocol: str) -> str:
    """The first order of its family that a protocol has."""
    family = find(protocol)
    for order in family.orders:
        with suppress(ConfigError):
            family.promises(protocol, order)
            return order
    raise ConfigError(f"protocol: {protocol} has none of the orders of {family.name}")


@cache
def wire_tags(codec: Codec[Any]) -> dict[int | str, type[Any]]:
    """The tags of all datagrams that a codec decodes, those inside others included."""
    return dict(_tagged(msgspec.inspect.type_info(codec.datagrams)))


def _tagged(info: Any) -> Iterator[tuple[int | str, type[Any]]]:
    if isinstance(info, msgspec.inspect.UnionType):
        for each in info.types:
            yield from _tagged(each)
    elif isinstance(info, msgspec.inspect.StructType):
        if info.tag is not None:
            yield info.tag, info.cls
        for field in info.fields:
            yield from _tagged(field.type)
