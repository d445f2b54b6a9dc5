"""What the options of a live member mean for its machine: settings of a recipe, of any family."""

from typing import TYPE_CHECKING, Any, Final

from semcast.runtime.membership.incarnations import pid_of_name

if TYPE_CHECKING:
    from semcast.runtime.options.options import Options

HEARTBEATS_PER_TIMEOUT: Final = 10
SUSPECT_S_MAX: Final = 5.0  # to which a timeout that was too short grows at most
GOSSIPS_PER_BUFFER: Final = 4  # Gossip empties buffers and windows: they fill no further than that.
GOSSIP_AFTER_MAX: Final = 4096  # messages
COALESCE_DEFAULT_S: Final = 0.001  # how long a sender that never yields makes others wait


def recipe_settings(options: "Options", datagram_bytes: int, window_bytes: int) -> dict[str, Any]:
    """Everything that a recipe may have; a family takes what its own recipe has."""
    relation = options.relation
    settings: dict[str, Any] = {
        "protocol": options.protocol,
        "order": options.order,
        "relation": relation if isinstance(relation, str) else "list",
        "overflow": options.overflow,
    }
    multicast = _multicast_settings(options, datagram_bytes, window_bytes)
    if options.has_views:
        return settings | {
            "founders": tuple(pid_of_name(peer.name) for peer in options.peers or ()),
            "durable": options.data is not None,
            "heartbeat_s": options.timeout / HEARTBEATS_PER_TIMEOUT,
            "timeout_s": options.timeout,
            "timeout_max_s": max(options.timeout, SUSPECT_S_MAX),
            "multicast": multicast,
        }
    f = -1 if options.f is None else options.f
    return settings | {"members": options.members, "f": f, **multicast}


def _multicast_settings(
    options: "Options", datagram_bytes: int, window_bytes: int
) -> dict[str, Any]:
    """What both kinds of group have."""
    return {
        "k": options.k,
        "chain_limit": options.chain_limit,
        "buffer": options.buffer,
        "buffer_bytes": options.buffer_bytes,
        "message_bytes": options.message_max,
        "window_bytes": max(1, window_bytes),
        "purge": options.purge,
        "echo": options.echo,
        "period_s": options.period,
        "fanout": options.fanout,
        "direct_gossip": True,
        "gossip_after_bytes": max(1, window_bytes // GOSSIPS_PER_BUFFER),
        "gossip_after": max(1, min(options.buffer // GOSSIPS_PER_BUFFER, GOSSIP_AFTER_MAX)),
        "datagram_bytes": datagram_bytes,
        "coalesce_s": COALESCE_DEFAULT_S if options.coalesce is None else options.coalesce,
        "bandwidth_max": options.bandwidth,
        "unicast": options.peers is not None,
    }


def relation_of(recipe: Any) -> str:
    """What makes messages obsolete in a family's recipe."""
    return getattr(recipe, "relation", "none")


def tolerated_crashes(recipe: Any) -> int:
    """How many members may crash in a group of this recipe; with views each view says."""
    return getattr(recipe, "f", 0)
