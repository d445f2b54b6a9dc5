"""The register finds a family by protocol, and refuses names and tags that are taken."""

from contextlib import contextmanager
from dataclasses import replace
from random import Random

import msgspec
import pytest

from semcast.families import ALIASES, families, find, protocols, register, unregister, wire_tags
from semcast.families.fixed import FIXED
from semcast.terms.errors import ConfigError
from semcast.terms.ids import Incarnation
from semcast.terms.messages import Data
from semcast.terms.records import Records
from semcast.terms.views import Stamped
from semcast.wire import GROUP_CODEC, PUBSUB_CODEC, VIEW_CODEC, Codec


class Shout(msgspec.Struct, frozen=True, array_like=True, tag=127):
    text: str


class Whisper(msgspec.Struct, frozen=True, array_like=True, tag=1):  # the tag of Data
    text: str


TOY = replace(FIXED, name="toy", protocols=("shout",), codec=Codec(Shout, {}))


@contextmanager
def registered(family):
    register(family)
    try:
        yield
    finally:
        unregister(family)


def test_every_protocol_is_found_and_makes_a_machine() -> None:
    recipes = {"fixed": {"members": 3}, "views": {}, "pubsub": {"members": 3}, "services": {}}
    recipes["store"] = {"founders": (0, 1, 2)}
    for protocol in protocols():
        family = find(protocol)
        order = "total" if protocol == "vs" else family.orders[0]
        recipe = family.recipe(protocol=protocol, order=order, **recipes[family.name])
        machine = family.machine(recipe, Incarnation(1, 1), Random(0), 0.0, Records())
        assert machine.status(0.0).sent == 0
        assert find(protocol, order) is family


def test_an_alias_is_a_protocol_with_an_order() -> None:
    for protocol, order in ALIASES.values():
        assert order in find(protocol, order).orders


def test_an_order_that_a_protocol_does_not_have_is_refused() -> None:
    with pytest.raises(ConfigError, match="causal needs protocol s-rm"):
        find("s-sm", "causal")
    with pytest.raises(ConfigError, match="order: s-rm supports fifo or item or causal, not total"):
        find("s-rm", "total")
    with pytest.raises(ConfigError, match="protocol: unknown value 'paxos'"):
        find("paxos")


def test_a_family_from_outside_is_found_while_it_is_registered() -> None:
    with registered(TOY):
        assert find("shout") is TOY
        assert families()[-1] is TOY
    with pytest.raises(ConfigError, match="shout"):
        find("shout")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "views"}, "family: the name 'views' is taken"),
        ({"protocols": ("s-rm",)}, "protocol: the name 's-rm' is taken by fixed"),
        ({"protocols": ("total",)}, "protocol: the name 'total' is taken by an alias"),
        ({"codec": Codec(Whisper, {})}, "tag: Whisper of toy has wire tag 1, which is that of"),
    ],
)
def test_what_is_taken_is_refused(changes, message) -> None:
    with pytest.raises(ConfigError, match=message):
        register(replace(TOY, **changes))
    assert len(families()) == 5


def test_tags_inside_other_datagrams_count() -> None:
    assert wire_tags(GROUP_CODEC)[1] is Data
    inside = wire_tags(VIEW_CODEC)
    assert inside[47] is Stamped
    assert inside[1] is Data
    assert not wire_tags(PUBSUB_CODEC).keys() & inside.keys()
