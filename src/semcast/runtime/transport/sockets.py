"""Opening the sockets of a member; what they carry is not known here.

A member sends from its unicast socket, multicasts included, so that whoever hears one knows where
to answer.  It hears multicasts on a second socket, bound to the group's address and joined on one
interface: what comes in by another is not for it.  Several members on a machine each get a copy.
Every socket is nonblocking.  A setting that cannot work is a ConfigError that says what would.
"""

import errno
import select
import socket
import struct
import sys
from array import array
from contextlib import suppress
from ipaddress import ip_network
from typing import Final, NamedTuple

from semcast.runtime.transport.network_interfaces import FAMILIES, NetworkInterface
from semcast.terms.errors import ConfigError

GROUPS_PREFIX: Final = 97  # IPv6 addresses alike so far differ by the group alone.
HOPS: Final = 1  # Multicasts stay on the link.
BACKLOG: Final = 128
PORT_MAX: Final = 0xFFFF
PROBE: Final = b"semcast probe"
PROBE_BUFFER_BYTES: Final = 1 << 16

# Linux has these, the socket module does not.
SO_ATTACH_FILTER: Final = 26
SO_SNDBUFFORCE: Final = 32
SO_RCVBUFFORCE: Final = 33
IP_MULTICAST_ALL: Final = 49

# Instructions of a socket filter (linux/filter.h), and its answers.
LOAD_LENGTH: Final = 0x80
LOAD_WORD: Final = 0x20
JUMP_IF_EQUAL: Final = 0x15
JUMP_IF_AT_LEAST: Final = 0x35
RETURN: Final = 0x06
DROP: Final = 0
ACCEPT: Final = 0xFFFFFFFF
UDP_HEADER_BYTES: Final = 8

# A socket buffer: its word, its option, the option for root, what limits it on Linux.
BUFFERS: Final = (
    ("receive", socket.SO_RCVBUF, SO_RCVBUFFORCE, "net.core.rmem_max"),
    ("send", socket.SO_SNDBUF, SO_SNDBUFFORCE, "net.core.wmem_max"),
)


class BufferShortfall(NamedTuple):
    """A socket buffer that came out smaller than asked for, and what lifts the limit."""

    buffer: str
    asked_bytes: int
    got_bytes: int
    advice: str

    def __str__(self) -> str:
        return (
            f"the {self.buffer} buffer has {self.got_bytes:,} bytes"
            f" instead of {self.asked_bytes:,}; {self.advice}"
        )


def open_unicast(interface: NetworkInterface, port: int, buffer_bytes: int) -> socket.socket:
    """A UDP socket at the interface's own address, that multicasts through it; port 0: any."""
    opened = _open(interface, socket.SOCK_DGRAM)
    try:
        _size_buffers(opened, buffer_bytes)
        _multicast_through(opened, interface)
        _bind(opened, interface, interface.address, port)
    except BaseException:
        opened.close()
        raise
    return opened


def open_multicast(
    interface: NetworkInterface, host: str, port: int, buffer_bytes: int
) -> socket.socket:
    """A UDP socket that hears what is multicast to the group on the interface."""
    opened = _open(interface, socket.SOCK_DGRAM)
    try:
        _size_buffers(opened, buffer_bytes)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if sys.platform != "linux":  # There, it would only add that all must be the same user's.
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        _bind(opened, interface, host, port)
        _join(opened, interface, host)
        _limit_to_interface(opened, interface)
        _check_route(interface, host, port)
    except BaseException:
        opened.close()
        raise
    return opened


def drop_matching(opened: socket.socket, place: int, mark: bytes) -> None:
    """Let the kernel drop datagrams that have these bytes at this place; only Linux can.

    Each of them would be a wake-up for nothing.  The kernel counts them as receive errors.
    """
    if sys.platform != "linux":
        return
    place += UDP_HEADER_BYTES  # where the filter begins to count
    tests = [(LOAD_LENGTH, 0), (JUMP_IF_AT_LEAST, place + len(mark))]
    for (word,) in struct.iter_unpack(">I", mark):
        tests += [(LOAD_WORD, place), (JUMP_IF_EQUAL, word)]
        place += struct.calcsize(">I")
    steps = []
    for number, (code, k) in enumerate(tests):
        is_jump = code in (JUMP_IF_AT_LEAST, JUMP_IF_EQUAL)
        if_not = len(tests) - number if is_jump else 0  # to the last step
        steps.append(struct.pack("@HBBI", code, 0, if_not, k))
    steps += [struct.pack("@HBBI", RETURN, 0, 0, answer) for answer in (DROP, ACCEPT)]
    program = array("B", b"".join(steps))
    described = struct.pack("@HP", len(steps), program.buffer_info()[0])
    with suppress(OSError):
        opened.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, described)


def open_tcp(interface: NetworkInterface, port: int) -> socket.socket:
    """A TCP socket that listens at the interface's own address; port 0: any."""
    opened = _open(interface, socket.SOCK_STREAM)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _bind(opened, interface, interface.address, port)
        opened.listen(BACKLOG)
    except BaseException:
        opened.close()
        raise
    return opened


def received_bytes(opened: socket.socket) -> int:
    """What may wait in a socket to be received."""
    got_bytes = opened.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
    return got_bytes // 2 if sys.platform == "linux" else got_bytes


def buffer_shortfalls(opened: socket.socket, asked_bytes: int) -> list[BufferShortfall]:
    """The buffers of a socket that the system made smaller than was asked for."""
    found = []
    for buffer, option, _, limit in BUFFERS:
        got_bytes = opened.getsockopt(socket.SOL_SOCKET, option)
        if sys.platform == "linux":
            got_bytes //= 2  # The other half is for the kernel's own records.
            advice = f"sysctl -w {limit}={asked_bytes}"
        else:
            advice = f"sysctl -w kern.ipc.maxsockbuf={2 * asked_bytes}"
        if got_bytes < asked_bytes:
            found.append(BufferShortfall(buffer, asked_bytes, got_bytes, advice))
    return found


def probe_multicast(interface: NetworkInterface, host: str, timeout_s: float) -> str | None:
    """Why a datagram multicast on the interface does not come back to this machine, if so."""
    try:
        with (
            open_multicast(interface, host, 0, PROBE_BUFFER_BYTES) as hearing,
            open_unicast(interface, 0, PROBE_BUFFER_BYTES) as sending,
        ):
            sending.sendto(PROBE, interface.endpoint(host, hearing.getsockname()[1]))
            if not select.select([hearing], [], [], timeout_s)[0]:
                return (
                    f"received no multicast from {host} on {interface.name} within {timeout_s:g} s;"
                    " allow multicast in the firewall, or give the members' addresses with peers="
                )
    except ConfigError as error:
        return str(error)
    except OSError as error:
        return f"{host} on {interface.name}: {error.strerror}"
    return None


def _open(interface: NetworkInterface, kind: socket.SocketKind) -> socket.socket:
    try:
        opened = socket.socket(FAMILIES[interface.ip], kind)
    except OSError as error:
        raise ConfigError(
            f"ip: this system does not support IPv{interface.ip} ({error.strerror})"
        ) from None
    opened.setblocking(False)
    if interface.ip == 6:
        opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    return opened


def _bind(opened: socket.socket, interface: NetworkInterface, host: str, port: int) -> None:
    if not 0 <= port <= PORT_MAX:
        raise ConfigError(f"port: {port} is not between 0 and {PORT_MAX}")
    try:
        opened.bind(interface.endpoint(host, port))
    except OSError as error:
        raise _refusal(error, host, port) from None


def _refusal(error: OSError, host: str, port: int) -> ConfigError:
    if error.errno == errno.EADDRINUSE:
        return ConfigError(
            f"port: {port} on {host} is in use; choose another one,"
            f" or stop the process that uses it (see ss -nlp sport = :{port})"
        )
    if error.errno == errno.EACCES:
        return ConfigError(f"port: {port} needs root; choose a port from 1024")
    return ConfigError(f"port: cannot bind {port} on {host} ({error.strerror})")


def _size_buffers(opened: socket.socket, asked_bytes: int) -> None:
    """As large as the system lets us; `buffer_shortfalls` tells how far that was."""
    for _, option, forced, _ in BUFFERS:
        if sys.platform == "linux" and _is_set(opened, forced, asked_bytes):
            continue
        attempt = asked_bytes
        while attempt and not _is_set(opened, option, attempt):
            attempt //= 2  # Linux cuts down to its limit by itself, others refuse.


def _is_set(opened: socket.socket, option: int, value: int) -> bool:
    try:
        opened.setsockopt(socket.SOL_SOCKET, option, value)
    except OSError:
        return False
    return True


def _multicast_through(opened: socket.socket, interface: NetworkInterface) -> None:
    if interface.ip == 4:
        through = struct.pack("@4s4si", bytes(4), _packed(interface.address), interface.index)
        opened.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, through)
        opened.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)
        opened.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, HOPS)
    else:
        opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, interface.index)
        opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_LOOP, 1)
        opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, HOPS)


def _join(opened: socket.socket, interface: NetworkInterface, host: str) -> None:
    """Become a member of the multicast group, on this interface and no other."""
    try:
        if interface.ip == 4:
            where = _packed(host) + _packed(interface.address) + struct.pack("@i", interface.index)
            opened.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, where)
        else:
            where = _packed(host) + struct.pack("@I", interface.index)
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, where)
    except OSError as error:
        raise ConfigError(
            f"interface: {interface.name} cannot receive multicast to {host} ({error.strerror});"
            " give the members' addresses with peers= instead"
        ) from None


def _limit_to_interface(opened: socket.socket, interface: NetworkInterface) -> None:
    """Turn away what was multicast to the group on other interfaces, where somebody else joined.

    Only Linux lets it in.  Before 5.7 it binds to interfaces for root alone; then what comes in
    by a wrong way is left to the seal, or on loopback to the source's address.
    """
    if sys.platform != "linux":
        return
    with suppress(OSError):
        if interface.ip == 4:
            opened.setsockopt(socket.IPPROTO_IP, IP_MULTICAST_ALL, 0)
        else:  # Its IPV6_MULTICAST_ALL compares the group alone.
            name = interface.name.encode()
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, name)


def _check_route(interface: NetworkInterface, host: str, port: int) -> None:
    """Say now what sending would say later."""
    with _open(interface, socket.SOCK_DGRAM) as probe:
        _multicast_through(probe, interface)
        try:
            probe.connect(interface.endpoint(host, port or 9))
        except OSError as error:
            raise ConfigError(_no_route(interface, host, error)) from None


def _no_route(interface: NetworkInterface, host: str, error: OSError) -> str:
    text = f"interface: {interface.name} has no route to {host} ({error.strerror}); "
    if interface.is_loopback and interface.ip == 6:
        groups = ip_network(f"{host}/{GROUPS_PREFIX}", strict=False)
        return text + (
            f"run as root: ip -6 route add local {groups} dev {interface.name}; "
            "or use ip=4 or peers="
        )
    return text + "choose another interface, or give the members' addresses with peers="


def _packed(host: str) -> bytes:
    return socket.inet_pton(FAMILIES[6 if ":" in host else 4], host)
