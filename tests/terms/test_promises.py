"""What is promised, by whom, and what can be run."""

import pytest

from semcast.core.recipe import Recipe
from semcast.terms.errors import ConfigError
from semcast.terms.promises import (
    BY_PROTOCOL,
    FIXED,
    PROPERTIES,
    check_runnable,
    is_replicated,
    orders_of,
    promised,
    protocols_with,
)


@pytest.mark.parametrize(
    ("protocol", "order", "promises", "not_promised"),
    [
        ("s-rm", "fifo", {"agreement", "fifo_order"}, {"total_order", "view_order"}),
        ("s-vsm", "fifo", {"semantic_view_synchrony", "primary_order"}, {"prefix_delivery"}),
        ("s-vsm", "causal", {"causal_order"}, {"causal_completeness"}),
        ("vs", "total", {"prefix_delivery", "confirmation", "fifo_order"}, {"primary_order"}),
        ("lbrm", "none", {"reliable_delivery", "durability"}, {"fifo_order"}),
        ("rpbcast", "fifo", {"collection_safety", "fifo_order"}, {"agreement"}),
        ("pbcast", "none", {"integrity", "at_most_once"}, {"reliable_delivery"}),
        ("primary-backup", "fifo", {"exactly_once_requests"}, {"sequential_consistency"}),
        ("replicated-data", "total", {"sequential_consistency", "primary_order"}, {"durability"}),
    ],
)
def test_who_promises_what(
    protocol: str, order: str, promises: set[str], not_promised: set[str]
) -> None:
    assert promises <= promised(protocol, order)
    assert not not_promised & promised(protocol, order)
    assert not_promised <= PROPERTIES


@pytest.mark.parametrize(
    ("protocol", "order", "says"),
    [
        ("lbrb", "fifo", "protocol: unknown value 'lbrb'; did you mean 'lbrm'.* s-sm, .*rpbcast"),
        ("s-rm", "lifo", "order: unknown value 'lifo'; did you mean 'fifo'.* none, fifo"),
        ("vs", "fifo", "order: vs supports total, not fifo"),
        ("lbrm", "total", "order: lbrm supports none or fifo, not total"),
        ("sm", "causal", "order: causal needs protocol s-rm or rm"),
        ("s-rm", "total", "order: s-rm supports fifo or item or causal, not total"),
    ],
)
def test_what_nobody_offers_is_refused(protocol: str, order: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        promised(protocol, order)


def test_only_some_of_what_is_known_can_be_run() -> None:
    fixed = protocols_with(FIXED)
    known = [(name, order) for name, facts in BY_PROTOCOL.items() for order in facts.orders]
    for protocol, order in known:
        if protocol in fixed and order in orders_of(fixed):
            check_runnable(protocol, order)
        else:
            with pytest.raises(ConfigError, match="unknown value"):
                Recipe(members=2, protocol=protocol, order=order)


def test_who_keeps_the_messages_of_others() -> None:
    keep = {"s-rm", "rm", "s-vsm", "vsm", "vs", "primary-backup", "replicated-data"}
    assert {protocol for protocol in BY_PROTOCOL if is_replicated(protocol)} == keep
    for protocol in ("s-sm", "s-rm", "sm", "rm", "s-vsm", "vsm"):
        in_view = protocol.endswith("vsm")
        recipe = Recipe(members=2, protocol=protocol, in_view=in_view)
        assert recipe.replicated is is_replicated(protocol)
