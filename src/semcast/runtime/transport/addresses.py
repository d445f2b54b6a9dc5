"""Where members are: addresses as people write them, and the one that a group's name stands for.

An address is `host:port`, with IPv6 hosts in brackets; a peer may have a name before it, as in
`ada=10.0.0.1:7000`, and is otherwise named by its address.  Nothing is looked up here: two
spellings of one IP address are equal, a host name equals only itself.
"""

import re
from collections import Counter
from collections.abc import Hashable, Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final, NamedTuple, TypeAlias

from semcast.terms.errors import ConfigError
from semcast.wire.frames import hash64

Address: TypeAlias = tuple[str, int]

NAME_BYTES_MAX: Final = 64
PORT_MAX: Final = 65_535

_ADDRESS: Final = re.compile(r"(?:\[([^][]+)]|([^][:/=,\s]+)):([0-9]{1,5})")
_SCOPED: Final = int(IPv4Address("239.192.0.0"))  # /14, for use within an organisation
_SCOPED_BITS: Final = 18
_SITE: Final = int(IPv6Address("ff15::8000:0"))  # transient groups, of the ids nobody assigns
_SITE_BITS: Final = 31
_PORTS: Final = range(20_000, 30_000)


class PeerAddress(NamedTuple):
    """One entry of `peers`."""

    name: str
    host: str
    port: int

    @property
    def address(self) -> Address:
        """Without the name."""
        return self.host, self.port


def parse_name(value: object, field: str) -> str:
    """The name of a group or a member, short and printable."""
    if not isinstance(value, str) or not value.isprintable():
        raise ConfigError(f"{field}: {value!r} is not printable text")
    if not value:
        raise ConfigError(f"{field}: name is empty; give 1..{NAME_BYTES_MAX} bytes of UTF-8")
    length = len(value.encode())
    if length > NAME_BYTES_MAX:
        raise ConfigError(
            f"{field}: name too long, {length} bytes; give 1..{NAME_BYTES_MAX} bytes of UTF-8"
        )
    return value


def parse_address(value: object, field: str) -> Address:
    """A host and a port, where port 0 stands for any free one."""
    match value:
        case str():
            text = value
        case (str(host), int(port)):
            text = format_address((host, port))
        case _:
            text = ""
    found = _ADDRESS.fullmatch(text)
    if found and int(found[3]) <= PORT_MAX:
        literal = ip_literal(found[1] or found[2])
        if literal and literal.version == (6 if found[1] else 4):
            return str(literal), int(found[3])
        if found[2]:
            return found[2].lower(), int(found[3])
    raise ConfigError(f"{field}: {value!r} is not an address; write host:port, or [::1]:port")


def parse_multicast(value: object, field: str) -> Address:
    """The IP address of a multicast group, and a port."""
    host, port = parse_address(value, field)
    literal = ip_literal(host)
    if not port or not literal or not literal.is_multicast:
        raise ConfigError(
            f"{field}: {value!r} is not a multicast address and a port; "
            "use one in 224.0.0.0/4 or ff00::/8"
        )
    return host, port


def parse_peers(value: object, field: str) -> tuple[PeerAddress, ...]:
    """Everybody's name and address, from a sequence or from text with commas."""
    entries = value.split(",") if isinstance(value, str) else value
    if not isinstance(entries, Iterable):
        raise ConfigError(f"{field}: {value!r} is not a list of host:port or name=host:port")
    peers = tuple(_parse_peer(entry, field) for entry in entries)
    if not peers:
        raise ConfigError(f"{field}: the list is empty; it must contain at least this member")
    _reject_duplicates([peer.name for peer in peers], field)
    _reject_duplicates([format_address(peer.address) for peer in peers], field)
    return peers


def _parse_peer(entry: object, field: str) -> PeerAddress:
    name: object = ""
    match entry:
        case str():
            name, named, address = entry.strip().rpartition("=")
            host, port = parse_address(address, field)
            name = name if named else format_address((host, port))
        case (name, host, port):
            host, port = parse_address((host, port), field)
        case _:
            host, port = parse_address(entry, field)
            name = format_address((host, port))
    if not port:
        raise ConfigError(f"{field}: {entry!r} has port 0; give the port that this peer listens on")
    return PeerAddress(parse_name(name, field), host, port)


def _reject_duplicates(values: Iterable[Hashable], field: str) -> None:
    for value, count in Counter(values).items():
        if count > 1:
            raise ConfigError(f"{field}: {value} appears {count} times")


def ip_literal(host: str) -> IPv4Address | IPv6Address | None:
    """The IP address that a host is, or None if it is a name."""
    try:
        return ip_address(host)
    except ValueError:
        return None


def format_address(address: Address) -> str:
    """An address as `parse_address` reads it."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def multicast_address(group: str, ip: int) -> Address:
    """Where a group meets unless told otherwise.  Two may meet at one place: frames name theirs."""
    place, port = divmod(hash64(group, b"semcast-address"), len(_PORTS))
    if ip == 4:
        host = str(IPv4Address(_SCOPED | place % (1 << _SCOPED_BITS)))
    else:
        host = str(IPv6Address(_SITE | place % (1 << _SITE_BITS)))
    return host, _PORTS[port]
