"""The tables of protocols and orders: who the members are, and which properties are guaranteed.

A new protocol or order has its line here, and everything that depends on a fact about it asks for
the fact, not for the name.  Services on top of a group have their lines, too.

Rule: S-SM, S-RM [SRM fig. 2-3], order over them [SRM §4.4]; S-VSM, primary-backup [SVS §4.1],
[SVS fig. 1]; VS [VSD app. A], replicated data [VSD §3-5]; L and rpbcast [RPB §2.1, §5.2, §6.1].
pbcast delivers with high probability only [RPB §1.3], so it promises no delivery.
Departs: with changing views, Semantic View Synchrony takes the place of Causal Completeness, which
needs members that stay until the end of the run.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from semcast.terms.errors import ConfigError, unknown_value

QUORUM_SETS: Final = "quorum_sets"
PARAMETERS: Final = ("copies", "recovery", "servers", QUORUM_SETS)  # of a recipe, for a run

FIXED: Final = "fixed"  # The members are the same as long as the group runs.
PRIMARY: Final = "primary"  # Views change; each is decided by a majority of the one before.
PARTS: Final = "parts"  # Views change; every part of a split group has its own.
FOUNDERS: Final = "founders"  # As `PARTS`, but a view is primary if it has enough of the founders.
OPEN: Final = "open"  # Subscribers come and go, and numbers go on after a restart.


class OrderFacts(NamedTuple):
    """What an order guarantees under any protocol.  If it `gives_places`, all messages have places
    in one sequence.  If it `needs_items`, only relations over items go with it."""

    promises: frozenset[str]
    gives_places: bool = False
    needs_items: bool = False


class ProtocolFacts(NamedTuple):
    """What a protocol guarantees under any of its `orders`; `members` is a constant from above."""

    promises: frozenset[str]
    orders: tuple[str, ...]
    members: str


_AT_MOST_ONCE: Final = frozenset({"integrity", "at_most_once"})
_SENDER_RELIABLE: Final = _AT_MOST_ONCE | {"sender_reliability", "purge_safety"}
_RELIABLE: Final = _SENDER_RELIABLE | {"validity", "agreement", "fifo_completeness"}
_VIEWS: Final = _AT_MOST_ONCE | {"view_order", "sending_view_delivery"}
_VIEW_SYNCHRONOUS: Final = _VIEWS | {
    *("semantic_view_synchrony", "semantic_integrity", "purge_safety", "primary_order"),
}
_PARTITIONABLE: Final = _VIEWS | {"fifo_order", "item_order", "prefix_delivery", "confirmation"}
_LOGGED: Final = _AT_MOST_ONCE | {"reliable_delivery", "collection_safety", "durability"}
_SERVICE: Final = frozenset({"exactly_once_requests"})
_IN_ORDER: Final = frozenset({"fifo_order", "item_order"})

BY_ORDER: Final[Mapping[str, OrderFacts]] = {
    "none": OrderFacts(frozenset()),
    "fifo": OrderFacts(_IN_ORDER),
    "item": OrderFacts(frozenset({"item_order"}), needs_items=True),
    "causal": OrderFacts(_IN_ORDER | {"causal_order", "causal_completeness"}),
    "total": OrderFacts(
        frozenset({"total_order", "item_order"}), gives_places=True, needs_items=True
    ),
}
BY_PROTOCOL: Final[Mapping[str, ProtocolFacts]] = {
    "s-sm": ProtocolFacts(_SENDER_RELIABLE, ("fifo", "item"), FIXED),
    "s-rm": ProtocolFacts(_RELIABLE, ("fifo", "item", "causal"), FIXED),
    "sm": ProtocolFacts(_SENDER_RELIABLE, ("fifo", "item"), FIXED),
    "rm": ProtocolFacts(_RELIABLE, ("fifo", "item", "causal"), FIXED),
    "s-vsm": ProtocolFacts(_VIEW_SYNCHRONOUS, ("fifo", "item", "causal", "total"), PRIMARY),
    "vsm": ProtocolFacts(_VIEW_SYNCHRONOUS, ("fifo", "item", "causal", "total"), PRIMARY),
    "vs": ProtocolFacts(_PARTITIONABLE, ("total",), PARTS),
    "lbrm": ProtocolFacts(_LOGGED, ("none", "fifo"), OPEN),
    "pbcast": ProtocolFacts(_AT_MOST_ONCE, ("none", "fifo"), OPEN),
    "rpbcast": ProtocolFacts(_LOGGED, ("none", "fifo"), OPEN),
    "primary-backup": ProtocolFacts(
        _VIEW_SYNCHRONOUS | _SERVICE | {"acknowledged_survives", "replica_equality"},
        ("fifo",),
        PRIMARY,
    ),
    "replicated-data": ProtocolFacts(
        _PARTITIONABLE
        | _SERVICE
        | {"primary_order", "sequential_consistency", "never_blocked", "refused_never_executed"},
        ("total",),
        FOUNDERS,
    ),
}
PROPERTIES: Final = frozenset().union(
    *(order.promises for order in BY_ORDER.values()),
    *(protocol.promises for protocol in BY_PROTOCOL.values()),
)


def promised(protocol: str, order: str) -> frozenset[str]:
    """The names of the properties that `protocol` under `order` guarantees."""
    if protocol not in BY_PROTOCOL:
        raise unknown_value("protocol", protocol, BY_PROTOCOL)
    if order not in BY_ORDER:
        raise unknown_value("order", order, BY_ORDER)
    facts = BY_PROTOCOL[protocol]
    if order == "causal" and protocol in ("s-sm", "sm"):
        raise ConfigError(f"order: causal needs protocol s-rm or rm, not {protocol}")
    if order not in facts.orders:
        raise ConfigError(f"order: {protocol} supports {' or '.join(facts.orders)}, not {order}")
    found = facts.promises | BY_ORDER[order].promises
    return found - {"causal_completeness"} if "view_order" in found else found


def protocols_with(*members: str) -> tuple[str, ...]:
    """The protocols whose members are one of these."""
    return tuple(name for name, facts in BY_PROTOCOL.items() if facts.members in members)


def orders_of(protocols: Iterable[str]) -> tuple[str, ...]:
    """The orders that any of these protocols has, in the order of the table."""
    found = {order for name in protocols for order in BY_PROTOCOL[name].orders}
    return tuple(order for order in BY_ORDER if order in found)


def is_replicated(protocol: str) -> bool:
    """Whether members keep the messages of others for retransmission, as in every view."""
    facts = BY_PROTOCOL.get(protocol)
    return facts is not None and ("agreement" in facts.promises or "view_order" in facts.promises)


def refuse_impossible(protocol: str, order: str) -> None:
    """Raise `ConfigError` if both are known and no group can have had them together."""
    if protocol in BY_PROTOCOL and order in BY_ORDER:
        promised(protocol, order)


def check_runnable(protocol: str, order: str) -> None:
    """Raise `ConfigError` unless a fixed group can have this protocol and order."""
    fixed = protocols_with(FIXED)
    if protocol not in fixed:
        raise unknown_value("protocol", protocol, fixed)
    if order not in orders_of(fixed):
        raise unknown_value("order", order, orders_of(fixed))
    promised(protocol, order)
