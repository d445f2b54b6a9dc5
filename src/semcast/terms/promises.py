"""Which protocol under which order guarantees which properties; the one table of it."""

from typing import Final

from semcast.terms.errors import ConfigError, one_of

PROTOCOLS: Final = ("s-sm", "s-rm", "sm", "rm")
ORDERS: Final = ("fifo", "item", "causal")

_SENDER_RELIABLE: Final = frozenset(
    {"integrity", "at_most_once", "sender_reliability", "purge_safety"}
)
_RELIABLE: Final = frozenset(
    {
        "integrity",
        "at_most_once",
        "sender_reliability",
        "validity",
        "agreement",
        "fifo_completeness",
        "purge_safety",
    }
)
_BY_PROTOCOL: Final = {
    "s-sm": _SENDER_RELIABLE,
    "sm": _SENDER_RELIABLE,
    "s-rm": _RELIABLE,
    "rm": _RELIABLE,
}
_BY_ORDER: Final = {
    "fifo": frozenset({"fifo_order", "item_order"}),
    "item": frozenset({"item_order"}),
    "causal": frozenset({"fifo_order", "item_order", "causal_order", "causal_completeness"}),
}
PROPERTIES: Final = frozenset().union(*_BY_PROTOCOL.values(), *_BY_ORDER.values())


def promised(protocol: str, order: str) -> frozenset[str]:
    """The names of the properties that `protocol` under `order` guarantees."""
    if protocol not in _BY_PROTOCOL:
        raise one_of("protocol", protocol, PROTOCOLS)
    if order not in _BY_ORDER:
        raise one_of("order", order, ORDERS)
    if order == "causal" and protocol in ("s-sm", "sm"):
        raise ConfigError(
            f"order: causal needs a protocol that agrees (s-rm or rm), not {protocol}"
        )
    return _BY_PROTOCOL[protocol] | _BY_ORDER[order]
