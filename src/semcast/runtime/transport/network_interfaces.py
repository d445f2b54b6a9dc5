"""The network interface of a member: which one, by which address, and what fits through it.

Without a key a member stays on loopback, whatever is asked for.  With one, and nothing asked for,
it takes the interface of the default route, or loopback if there is none.

The C library lists the interfaces: the one way that knows every address of each, on Linux and on
macOS alike.
"""

import ctypes
import socket
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final, Literal

from semcast.terms.errors import ConfigError, unknown_value

Ip = Literal[4, 6]
SocketAddress = tuple[str, int] | tuple[str, int, int, int]

FAMILIES: Final = {4: socket.AF_INET, 6: socket.AF_INET6}
HEADERS_BYTES: Final = {4: 20 + 8, 6: 40 + 8}  # of IP and UDP
# Addresses for documentation: they lie behind the default route, and nobody has them.
ROUTE_PROBE: Final = {4: "198.51.100.1", 6: "2001:db8::1"}
DATAGRAM_BYTES_MAX: Final = 60 * 1024
FALLBACK_DATAGRAM_BYTES: Final = 1400
GET_MTU: Final = {"linux": 0x8921, "darwin": 0xC0206933}  # SIOCGIFMTU
IS_UP: Final = 0x1
IS_LOOPBACK: Final = 0x8


@dataclass(frozen=True, slots=True)
class NetworkInterface:
    """An interface of this machine, and the address there that a member calls its own.

    `is_loopback`: nobody can reach that address from outside.
    """

    name: str
    index: int
    address: str
    is_loopback: bool

    @property
    def ip(self) -> Ip:
        """The version of IP that its address speaks."""
        return 6 if ":" in self.address else 4

    def endpoint(self, host: str, port: int) -> SocketAddress:
        """The address to bind to or to send to: IPv6 wants the interface with some of them."""
        if self.ip == 4:
            return host, port
        parsed = ip_address(host)
        return host, port, 0, self.index if parsed.is_multicast or parsed.is_link_local else 0


def resolve_interface(requested: str | None, ip: Ip, sealed: bool) -> NetworkInterface:
    """The interface asked for by its name or by an address, or the one that fits best."""
    if ip not in FAMILIES:
        raise unknown_value("ip", ip, FAMILIES)
    known = list(interfaces(ip))
    found = _asked_for(requested, ip, known) if requested else _default_interface(ip, sealed, known)
    if not sealed and not found.is_loopback:
        raise ConfigError(
            f"interface: {requested!r} is not loopback, and traffic to other machines needs a key; "
            "run semcast keys new, or use loopback"
        )
    return found


def mtu_bytes(interface: NetworkInterface) -> int | None:
    """The largest IP packet that the interface takes, if the system tells."""
    request = GET_MTU.get(sys.platform)
    if request is None:
        return None
    from fcntl import ioctl

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        requested = struct.pack("16si12x", interface.name.encode(), 0)
        try:
            mtu: int = struct.unpack("16si12x", ioctl(probe, request, requested))[1]
        except OSError:
            return None
    return mtu


def datagram_bytes(interface: NetworkInterface) -> int:
    """The payload of a UDP datagram that goes out in one piece."""
    mtu = mtu_bytes(interface)
    if mtu is None or ip_address(interface.address).is_unspecified:  # Who knows which way it takes.
        return FALLBACK_DATAGRAM_BYTES
    return min(mtu - HEADERS_BYTES[interface.ip], DATAGRAM_BYTES_MAX)


def _default_interface(ip: Ip, sealed: bool, known: list[NetworkInterface]) -> NetworkInterface:
    """The interface of the default route for who has a key, else loopback."""
    if sealed:
        with socket.socket(FAMILIES[ip], socket.SOCK_DGRAM) as probe:
            try:
                probe.connect((ROUTE_PROBE[ip], 9))  # Sends nothing, but finds the way.
                ours = probe.getsockname()[0]
            except OSError:
                ours = None
        for interface in known:
            if interface.address == ours:
                return interface
    for interface in known:
        if interface.is_loopback:
            return interface
    raise ConfigError(
        f"ip: loopback has no IPv{ip} address; set ip={10 - ip}, or run ip link set lo up"
    )


def _asked_for(requested: str, ip: Ip, known: list[NetworkInterface]) -> NetworkInterface:
    try:
        address = ip_address(requested.partition("%")[0])
    except ValueError:
        return _named(requested, ip, known)
    if address.version != ip:
        raise ConfigError(
            f"interface: {requested} is not an IPv{ip} address; set ip={address.version}"
        )
    if address.is_unspecified:  # All of them: multicasts go by the best one.
        return replace(_default_interface(ip, True, known), address=str(address), is_loopback=False)
    for interface in known:
        if interface.address == str(address):
            return interface
    for interface in known:
        if interface.is_loopback and address.is_loopback:  # All of 127.0.0.0/8 is.
            return replace(interface, address=str(address))
    raise _unknown(requested, ip, known)


def _named(name: str, ip: Ip, known: list[NetworkInterface]) -> NetworkInterface:
    ours = [interface for interface in known if interface.name == name]
    if not ours:
        raise _unknown(name, ip, known)
    return min(ours, key=_address_priority)


def _address_priority(interface: NetworkInterface) -> tuple[bool, bool]:
    """Orders the addresses of one interface: a link-local one means nothing beyond the link."""
    return not interface.is_loopback, ip_address(interface.address).is_link_local


def _unknown(requested: str, ip: Ip, known: list[NetworkInterface]) -> ConfigError:
    names = ", ".join(f"{interface.name} ({interface.address})" for interface in known)
    return ConfigError(
        f"interface: no active interface or address named {requested!r} with IPv{ip}; "
        f"available: {names or 'none'}"
    )


class _IfAddrs(ctypes.Structure):
    """`struct ifaddrs`, as far as it is read."""


_IfAddrs._fields_ = [
    ("next", ctypes.POINTER(_IfAddrs)),
    ("name", ctypes.c_char_p),
    ("flags", ctypes.c_uint),
    ("address", ctypes.c_void_p),
]


def interfaces(ip: Ip) -> Iterator[NetworkInterface]:
    """Every address of every interface that is up."""
    library = ctypes.CDLL(None, use_errno=True)
    first = ctypes.POINTER(_IfAddrs)()
    if library.getifaddrs(ctypes.byref(first)):
        raise OSError(ctypes.get_errno(), "cannot list the network interfaces")
    try:
        entry = first
        while entry:
            found = entry.contents
            host = _host(found.address, ip)
            if host is not None and found.flags & IS_UP:
                name = found.name.decode()
                # Loopback may have addresses that others can reach.
                is_loopback = bool(found.flags & IS_LOOPBACK) and ip_address(host).is_loopback
                yield NetworkInterface(name, socket.if_nametoindex(name), host, is_loopback)
            entry = found.next
    finally:
        library.freeifaddrs(first)


def _host(address: int | None, ip: Ip) -> str | None:
    """The host in a `sockaddr`, if it is of this version of IP."""
    if not address:
        return None
    head = ctypes.string_at(address, 2)
    family = head[1] if sys.platform == "darwin" else int.from_bytes(head, sys.byteorder)
    if family != FAMILIES[ip]:
        return None
    if ip == 4:
        return str(IPv4Address(ctypes.string_at(address + 4, 4)))
    raw = bytearray(ctypes.string_at(address + 8, 16))
    if sys.platform == "darwin" and raw[0] == 0xFE:
        raw[2:4] = b"\0\0"  # The BSDs hide the interface here.
    return str(IPv6Address(bytes(raw)))
