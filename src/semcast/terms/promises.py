"""The table of guarantees: which protocol under which order guarantees which properties.

`PROTOCOLS` and `ORDERS` are those that a group of `core/member.py` can run with.  The table has the
protocols of all recorded executions, also those of services on top of a group.

Rule: S-SM, S-RM [SRM fig. 2-3], order over them [SRM §4.4]; S-VSM, primary-backup [SVS §4.1],
[SVS fig. 1]; VS [VSD app. A], replicated data [VSD §3-5]; L and rpbcast [RPB §2.1, §5.2, §6.1].
pbcast delivers with high probability only [RPB §1.3], so it promises no delivery.
Departs: with changing views, Semantic View Synchrony takes the place of Causal Completeness, which
needs members that stay until the end of the run.
"""

from collections.abc import Mapping
from typing import Final

from semcast.terms.errors import ConfigError, unknown_value

PROTOCOLS: Final = ("s-sm", "s-rm", "sm", "rm")
ORDERS: Final = ("fifo", "item", "causal")

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
_BY_ORDER: Final[Mapping[str, frozenset[str]]] = {
    "none": frozenset(),
    "fifo": _IN_ORDER,
    "item": frozenset({"item_order"}),
    "causal": _IN_ORDER | {"causal_order", "causal_completeness"},
    "total": frozenset({"total_order", "item_order"}),
}
# What a protocol promises under any order, and the orders it can have.
_BY_PROTOCOL: Final[Mapping[str, tuple[frozenset[str], tuple[str, ...]]]] = {
    "s-sm": (_SENDER_RELIABLE, ("fifo", "item")),
    "sm": (_SENDER_RELIABLE, ("fifo", "item")),
    "s-rm": (_RELIABLE, ("fifo", "item", "causal")),
    "rm": (_RELIABLE, ("fifo", "item", "causal")),
    "s-vsm": (_VIEW_SYNCHRONOUS, ("fifo", "item", "causal", "total")),
    "vsm": (_VIEW_SYNCHRONOUS, ("fifo", "item", "causal", "total")),
    "vs": (_PARTITIONABLE, ("total",)),
    "lbrm": (_LOGGED, ("none", "fifo")),
    "pbcast": (_AT_MOST_ONCE, ("none", "fifo")),
    "rpbcast": (_LOGGED, ("none", "fifo")),
    "primary-backup": (
        _VIEW_SYNCHRONOUS | _SERVICE | {"acknowledged_survives", "replica_equality"},
        ("fifo",),
    ),
    "replicated-data": (
        _PARTITIONABLE
        | _SERVICE
        | {"primary_order", "sequential_consistency", "never_blocked", "refused_never_executed"},
        ("total",),
    ),
}
PROPERTIES: Final = frozenset().union(
    *_BY_ORDER.values(), *(promises for promises, _ in _BY_PROTOCOL.values())
)
COMBINATIONS: Final = tuple(
    (protocol, order) for protocol, (_, orders) in _BY_PROTOCOL.items() for order in orders
)


def promised(protocol: str, order: str) -> frozenset[str]:
    """The names of the properties that `protocol` under `order` guarantees."""
    if protocol not in _BY_PROTOCOL:
        raise unknown_value("protocol", protocol, _BY_PROTOCOL)
    if order not in _BY_ORDER:
        raise unknown_value("order", order, _BY_ORDER)
    promises, orders = _BY_PROTOCOL[protocol]
    if order == "causal" and protocol in ("s-sm", "sm"):
        raise ConfigError(f"order: causal needs protocol s-rm or rm, not {protocol}")
    if order not in orders:
        raise ConfigError(f"order: {protocol} supports {' or '.join(orders)}, not {order}")
    found = promises | _BY_ORDER[order]
    return found - {"causal_completeness"} if "view_order" in found else found


def refuse_impossible(protocol: str, order: str) -> None:
    """Raise `ConfigError` if both are known and no group can have had them together."""
    if protocol in _BY_PROTOCOL and order in _BY_ORDER:
        promised(protocol, order)


def check_runnable(protocol: str, order: str) -> None:
    """Raise `ConfigError` unless a group can be run with this protocol and order."""
    if protocol not in PROTOCOLS:
        raise unknown_value("protocol", protocol, PROTOCOLS)
    if order not in ORDERS:
        raise unknown_value("order", order, ORDERS)
    promised(protocol, order)
