"""The options of `semcast.join`: one table of names, defaults, meanings and what is valid.

An `Options` that exists is valid, in base units (bytes, seconds, bytes per second),
with this member found among its peers and the group's address derived.  Each option can be given
in the call, in the environment as SEMCAST_<NAME>, and in a TOML file, under the same name.
"""
# ruff: noqa: RUF009  (`option` makes a field)

import os
import secrets
import socket
from collections.abc import Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import msgspec

from semcast.core.recipe import OVERFLOWS, PURGING
from semcast.core.views.recipe import OVERFLOWS as VIEW_OVERFLOWS
from semcast.families import default_order, find, joinable
from semcast.runtime.options.option_parsers import (
    Parse,
    byte_count,
    choice,
    integer,
    parse_flag,
    parse_key,
    parse_path,
    parse_relation,
    parse_text,
    positive,
)
from semcast.runtime.options.option_sources import CONFIG, collect_options
from semcast.runtime.options.recipe_settings import (
    recipe_settings,
    relation_of,
    tolerated_crashes,
)
from semcast.runtime.options.units import parse_rate, parse_seconds
from semcast.runtime.transport.addresses import (
    NAME_BYTES_MAX,
    Address,
    PeerAddress,
    format_address,
    ip_literal,
    multicast_address,
    parse_address,
    parse_multicast,
    parse_name,
    parse_peers,
)
from semcast.terms.errors import ConfigError
from semcast.terms.ids import RANK_MAX
from semcast.terms.promises import orders_of
from semcast.terms.relations import RELATIONS
from semcast.wire.frames import hash64

FIXED: Final = "fixed"  # membership, or
CHANGING: Final = "views"  # or also
SERVERS: Final = "service"
ORDERS: Final = orders_of(joinable(FIXED))
ORDERS_IN_VIEWS: Final = tuple(
    order for order in orders_of(joinable(CHANGING)) if order not in ORDERS
)

Role: TypeAlias = Literal["member", "server", "client"]

_CONFIG_HELP: Final = (
    "TOML file: options for all groups at the top, for one group under [groups.NAME]"
)


def parse_protocol(value: object, name: str) -> str:
    """A protocol that a live group can have; those of servers are not offered to members."""
    if isinstance(value, str) and value in joinable(SERVERS):
        return value
    protocol: str = choice(*joinable(FIXED), *joinable(CHANGING))(value, name)
    return protocol


def option(default: object, parse: Parse, help: str) -> Any:
    """A field of `Options`; None stands for its default."""
    return field(default=default, metadata={"parse": parse, "help": help})


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a member of a group was asked to be.

    Invariant: `members` is known, or 0 with views if nobody said how many found the group; with
    `peers`, this member is the one of them called `name`, `bind` is where it listens and
    `multicast` is None; without, `multicast` is an address.  A client of a service is none of the
    `peers`.
    """

    group: str
    role: Role = "member"
    name: str = option(
        None, parse_name, "this member's name, unique in the group; default: HOSTNAME-PID"
    )
    members: int = option(
        None,
        integer(1, RANK_MAX + 1),
        "number of members, which discover each other; with views: number of founding members",
    )
    peers: tuple[PeerAddress, ...] | None = option(
        None,
        parse_peers,
        "addresses of all members as [NAME=]HOST:PORT, for networks without multicast",
    )
    bind: Address | None = option(
        None, parse_address, "HOST:PORT to listen on; default: this member's address in peers"
    )
    multicast: Address | None = option(
        None,
        parse_multicast,
        "multicast address HOST:PORT of the group; default: derived from the group name",
    )
    interface: str | None = option(
        None,
        parse_text,
        "network interface, by name or address; default: loopback, with a key the default route's",
    )
    ip: Literal[4, 6] = option(4, choice(4, 6), "IP version, 4 or 6")
    protocol: str = option(
        "s-rm",
        parse_protocol,
        f"protocol: {', '.join(joinable(FIXED))}; with views: {', '.join(joinable(CHANGING))}",
    )
    order: str = option(
        None,
        choice(*ORDERS, *ORDERS_IN_VIEWS),
        f"delivery order: {', '.join(ORDERS)}; with views also {', '.join(ORDERS_IN_VIEWS)}; "
        "default: fifo (vs: total)",
    )
    relation: Any = option(
        "item", parse_relation, f"relation that makes messages obsolete: {', '.join(RELATIONS)}"
    )
    k: int = option(256, integer(1), "how many messages back a bitmap can reach (relation bitmap)")
    chain_limit: int | None = option(
        None, integer(1), "never purge more than this many consecutive updates of an item"
    )
    f: int | None = option(
        None,
        integer(0),
        "number of crashes to tolerate; default: the largest minority (fixed with views)",
    )
    buffer: int = option(
        65_536, integer(1), "maximum buffered messages, for delivery and retransmission"
    )
    buffer_bytes: int = option("64 MiB", byte_count(1), "maximum buffered payload")
    purge: str = option(
        "eager", choice(*PURGING), f"when to purge obsolete messages: {', '.join(PURGING)}"
    )
    overflow: str = option(
        "block",
        choice(*VIEW_OVERFLOWS),
        "when the buffer is full: block the sender, error, or (views) exclude the slow member",
    )
    echo: bool = option(True, parse_flag, "also deliver this member's own messages")
    timeout: float = option(
        "500 ms",
        positive(parse_seconds),
        "with views: initial failure-detection timeout",
    )
    rejoin: bool = option(True, parse_flag, "with views: rejoin automatically after being excluded")
    period: float = option("20 ms", positive(parse_seconds), "gossip interval")
    fanout: int = option(3, integer(1), "number of members contacted in a gossip round")
    datagram: int | None = option(
        None,
        byte_count(576, 60 << 10),
        "maximum datagram size; default: by network path, usually 1,400 bytes, 60 KiB on loopback",
    )
    coalesce: float | None = option(
        None,
        parse_seconds,
        "maximum delay to batch messages into one datagram; default: until the event loop is idle",
    )
    bandwidth: float | None = option(
        None,
        positive(parse_rate),
        "bandwidth limit for first transmissions, such as 10 MiB/s; default: unlimited",
    )
    message_max: int = option(
        "1 MiB", byte_count(1 << 10, 16 << 20), "maximum payload of a message"
    )
    key: Path | Literal[False] | None = option(
        None, parse_key, "key ring file, or none; default: the user's key ring if it exists"
    )
    data: Path | None = option(
        None, parse_path, "directory for the log of a member whose protocol keeps one"
    )
    trace: Path | None = option(None, parse_path, "directory for a trace of the execution")
    metrics: Address | None = option(
        None, parse_address, "HOST:PORT to serve Prometheus metrics on"
    )
    control: bool = option(
        True, parse_flag, "open a control socket for semcast members and semcast top"
    )
    join_timeout: float = option(
        "30 s", positive(parse_seconds), "how long to wait for the other members when joining"
    )
    linger: float = option(
        "5 s", parse_seconds, "how long close() waits until all members have received everything"
    )
    socket_buffer: int = option(
        "4 MiB", byte_count(1), "kernel buffer size to request for each socket"
    )

    @classmethod
    def resolve(
        cls, group: str, given: Mapping[str, object], *, role: Role = "member"
    ) -> "Options":
        """Options from the call, the environment and the file; raises `ConfigError`."""
        parse_name(group, "group")
        settings = collect_options(group, given, [each.name for each in option_fields()])
        values: dict[str, Any] = {name: setting.value for name, setting in settings.items()}
        try:
            return cls(group=group, role=role, **values)
        except ConfigError as error:
            name, colon, problem = str(error).partition(": ")
            place = settings[name].source if name in settings else name
            raise ConfigError(f"{place}{colon}{problem}") from None

    def __post_init__(self) -> None:
        parse_name(self.group, "group")
        for each in option_fields():
            value = getattr(self, each.name)
            value = each.default if value is None else value
            if value is not None:
                value = each.metadata["parse"](value, each.name)
            self._set(each.name, value)
        if self.role == "member" and self.protocol in joinable(SERVERS):
            raise ConfigError(
                f"protocol: {self.protocol} is for servers; semcast.replicate or semcast.serve "
                "starts one"
            )
        if self.role == "server" and self.overflow == "error":
            raise ConfigError(
                "overflow: error is for members that send; a server sends by itself and allows "
                "block or exclude"
            )
        if self.is_client:
            # Nobody else may have its name, and nobody ever asks for it.
            self._set("name", f"client-{secrets.token_hex(8)}")
        if self.peers is None:
            self._fill_multicast()
        elif self.is_client:
            self._set("members", len(self.peers))
        else:
            self._find_own_peer(self.peers)
        self._check_version()
        self._check_membership()

    @property
    def is_client(self) -> bool:
        """Whether this process asks servers, and is none of them."""
        return self.role == "client"

    @property
    def has_views(self) -> bool:
        """Whether the membership may change."""
        return find(self.protocol).group_type != FIXED

    def _check_membership(self) -> None:
        """What only one kind of membership has; the recipes refuse what does not go together."""
        if self.order is None:
            self._set("order", default_order(self.protocol))
        if not self.has_views:
            if self.overflow not in OVERFLOWS:
                raise ConfigError(
                    f"overflow: {self.overflow} needs a protocol with views, such as "
                    f"{joinable(CHANGING)[0]}; {self.protocol} allows {' or '.join(OVERFLOWS)}"
                )
            if self.order in ORDERS_IN_VIEWS:
                raise ConfigError(
                    f"order: {self.order} needs a protocol with views, such as "
                    f"{joinable(CHANGING)[0]}; {self.protocol} allows {', '.join(ORDERS)}"
                )
        elif self.f is not None:
            raise ConfigError(
                "f: cannot be set with views, where it is the largest minority; remove it"
            )
        elif self.rejoin and not isinstance(self.relation, str):
            raise ConfigError(
                "relation: an object cannot be reused after a rejoin; set rejoin=False and join "
                "again with a new object"
            )
        self.recipe()
        find(self.protocol, self.order)

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _fill_multicast(self) -> None:
        """Fill in what a member among strangers needs."""
        if self.members is None and self.has_views:
            self._set("members", 0)
        elif self.members is None:
            raise ConfigError(
                "members or peers: one is required; give the number of members or their addresses"
            )
        if self.name is None:
            pid = f"-{os.getpid()}"
            self._set("name", socket.gethostname()[: NAME_BYTES_MAX - len(pid)] + pid)
        if self.multicast is None:
            self._set("multicast", multicast_address(self.group, self.ip))

    def _find_own_peer(self, peers: Sequence[PeerAddress]) -> None:
        """Fill in what the list of peers says."""
        if self.members not in (None, len(peers)):
            raise ConfigError(
                f"members: {self.members} differs from the number of peers, {len(peers)}"
            )
        if self.multicast is not None:
            raise ConfigError("multicast: cannot be combined with peers; give one of them")
        if self.name is not None:
            by, wanted = "name", self.name
            known = {peer.name: peer for peer in peers}
        elif self.bind is not None:
            by, wanted = "bind", format_address(self.bind)
            known = {format_address(peer.address): peer for peer in peers}
        else:
            raise ConfigError("peers: cannot tell which entry is this member; set name or bind")
        if wanted not in known:
            raise ConfigError(f"{by}: {wanted} is not in peers, which has {', '.join(known)}")
        self._set("members", len(peers))
        self._set("name", known[wanted].name)
        self._set("bind", self.bind or known[wanted].address)

    def _check_version(self) -> None:
        """All addresses that members send to or listen at are of one version of IP."""
        addresses = [("bind", self.bind), ("multicast", self.multicast)]
        addresses += [("peers", peer.address) for peer in self.peers or ()]
        for name, address in addresses:
            literal = ip_literal(address[0]) if address else None
            if address and literal and literal.version != self.ip:
                raise ConfigError(
                    f"{name}: {format_address(address)} is an IPv{literal.version} address, "
                    "but ip is "
                    f"{self.ip}; set ip={literal.version}"
                )

    def recipe(self, datagram_bytes: int = 1, window_bytes: int = 1) -> Any:
        """The recipe of each member, of the family's type; `datagram_bytes` is what a frame leaves
        to its body, `window_bytes` what a socket takes besides what it did not expect."""
        settings = recipe_settings(self, datagram_bytes, window_bytes)
        return find(self.protocol).live_recipe(settings)

    def digest(self) -> int:
        """64 bits that differ between members that cannot work together; buffers may differ."""
        recipe = self.recipe()
        common = (
            0 if self.has_views else self.members,
            self.protocol,
            self.order,
            relation_of(recipe),
            self.k,
            self.chain_limit,
            0 if self.has_views else tolerated_crashes(recipe),
            self.purge,
            self.message_max,
            sorted(peer.name for peer in self.peers or ()),
        )
        return hash64(msgspec.json.encode(common).decode(), b"semcast-options")


def option_fields() -> tuple[Field[Any], ...]:
    """The options in order: `name`, `default` as people write it, `metadata["help"]`."""
    return tuple(each for each in fields(Options) if "parse" in each.metadata)


def _typed(value: object) -> object:
    """A value as people give it on the command line."""
    return ("no", "yes")[value] if isinstance(value, bool) else value


def option_help() -> dict[str, str]:
    """One line about each option of `join`, with its default unless that is nothing."""
    lines = {CONFIG: _CONFIG_HELP}
    for each in option_fields():
        default = "" if each.default is None else f"; default: {_typed(each.default)}"
        lines[each.name] = each.metadata["help"] + default
    return lines
