"""Where a member listens and where its peers are, from what its options say.

Without a key nothing leaves the machine: whatever is not on loopback is refused.
"""

import asyncio
import socket
from typing import Final

from semcast.runtime.options.options import Options
from semcast.runtime.transport.addresses import Address
from semcast.runtime.transport.network_interfaces import (
    FAMILIES,
    NetworkInterface,
    resolve_interface,
)
from semcast.runtime.transport.sockets import open_tcp, open_unicast
from semcast.runtime.transport.udp import is_loopback
from semcast.terms.errors import ConfigError

PORT_ATTEMPTS: Final = 16


async def find_interface(options: Options, *, sealed: bool) -> NetworkInterface:
    """The interface asked for, or that of the address to bind to, or the one that fits best."""
    asked = options.interface
    if asked is None and options.bind is not None:
        asked = (await _resolve(options.bind, options.ip))[0]
    return resolve_interface(asked, options.ip, sealed)


async def find_peers(options: Options, *, sealed: bool) -> dict[str, Address] | None:
    """Where everybody is, by name, if the options say."""
    if options.peers is None:
        return None
    found = {peer.name: await _resolve(peer.address, options.ip) for peer in options.peers}
    for name, (host, _) in found.items():
        if not sealed and not is_loopback(host):
            raise ConfigError(
                f"peers: {name} is at {host}, and traffic to other machines needs a key; "
                "run semcast keys new, or use loopback addresses"
            )
    return found


async def _resolve(address: Address, ip: int) -> Address:
    host, port = address
    try:
        found = await asyncio.get_running_loop().getaddrinfo(
            host, port, family=FAMILIES[ip], type=socket.SOCK_DGRAM
        )
    except OSError as error:
        raise ConfigError(f"cannot resolve host {host}: {error.strerror}") from None
    except ValueError:  # It cannot be encoded, or a part of it is empty or too long.
        raise ConfigError(f"cannot resolve host {host[:60]!r}: not a valid host name") from None
    return str(found[0][4][0]), port


def open_ports(
    interface: NetworkInterface, options: Options
) -> tuple[socket.socket, socket.socket]:
    """UDP and TCP on one port: peers know only one."""
    asked = options.bind[1] if options.bind else 0
    for _ in range(PORT_ATTEMPTS):
        unicast = open_unicast(interface, asked, options.socket_buffer)
        try:
            return unicast, open_tcp(interface, unicast.getsockname()[1])
        except ConfigError:
            unicast.close()
            if asked:
                raise
    raise ConfigError(
        f"port: found no port on {interface.address} that is free for both UDP and TCP; "
        "choose one with bind"
    )
