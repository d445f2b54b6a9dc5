"""Which interface a member takes, and what it refuses without a key."""

import socket
import sys

import pytest

from semcast.runtime.transport import network_interfaces as interfaces
from semcast.runtime.transport.network_interfaces import (
    NetworkInterface,
    datagram_bytes,
    mtu_bytes,
    resolve_interface,
)
from semcast.terms.errors import ConfigError

LOOPBACK = NetworkInterface("lo", 1, "127.0.0.1", True)
LAN = NetworkInterface("lan0", 2, "10.0.0.5", False)
LAN6 = NetworkInterface("lan0", 2, "fd00::5", False)
LINK6 = NetworkInterface("lan0", 2, "fe80::5", False)


@pytest.fixture
def machine(monkeypatch):
    """`machine(LOOPBACK, LAN)` has these interfaces, and its default route leads nowhere."""

    def build(*known, ours=None):
        class Probe(socket.socket):
            def connect(self, address):
                if ours is None:
                    raise OSError(101, "Network is unreachable")

            def getsockname(self):
                return (ours, 0)

        monkeypatch.setattr(
            interfaces, "interfaces", lambda ip: [each for each in known if each.ip == ip]
        )
        monkeypatch.setattr(interfaces.socket, "socket", Probe)

    return build


def test_the_loopback_of_this_machine_is_found_by_name_and_by_address():
    found = resolve_interface(None, 4, sealed=False)
    assert found.is_loopback
    assert found.address == "127.0.0.1"
    assert socket.if_indextoname(found.index) == found.name
    assert resolve_interface(found.name, 4, sealed=False) == found
    assert resolve_interface("127.0.0.1", 4, sealed=False) == found


@pytest.mark.skipif(sys.platform != "linux", reason="others have only 127.0.0.1 on loopback")
def test_all_of_127_is_loopback():
    found = resolve_interface("127.0.0.9", 4, sealed=False)
    assert found == NetworkInterface("lo", found.index, "127.0.0.9", True)


def test_with_a_key_the_default_route_decides(machine):
    machine(LOOPBACK, LAN, ours="10.0.0.5")
    assert resolve_interface(None, 4, sealed=True) == LAN
    assert resolve_interface(None, 4, sealed=False) == LOOPBACK


def test_without_a_default_route_it_is_loopback(machine):
    machine(LOOPBACK, LAN)
    assert resolve_interface(None, 4, sealed=True) == LOOPBACK


@pytest.mark.parametrize("asked", ["lan0", "10.0.0.5", "0.0.0.0"])
def test_nothing_but_loopback_without_a_key(asked, machine):
    machine(LOOPBACK, LAN)
    with pytest.raises(ConfigError, match=r"^interface: .* semcast keys new, or use loopback"):
        resolve_interface(asked, 4, sealed=False)
    assert not resolve_interface(asked, 4, sealed=True).is_loopback


def test_every_address_is_not_loopback_even_if_there_is_nothing_else(machine):
    machine(LOOPBACK)
    with pytest.raises(ConfigError, match="not loopback"):
        resolve_interface("0.0.0.0", 4, sealed=False)


def test_of_several_addresses_the_link_local_one_comes_last(machine):
    machine(LINK6, LAN6)
    assert resolve_interface("lan0", 6, sealed=True) == LAN6
    assert resolve_interface("fe80::5%lan0", 6, sealed=True) == LINK6


def test_what_is_not_there_is_answered_with_what_is(machine):
    machine(LOOPBACK, LAN)
    for asked in ("eth7", "10.0.0.6"):
        with pytest.raises(ConfigError, match=rf"^interface: .* '{asked}' .* lan0 \(10.0.0.5\)"):
            resolve_interface(asked, 4, sealed=True)


def test_an_address_of_the_other_version(machine):
    machine(LOOPBACK)
    with pytest.raises(ConfigError, match=r"^interface: ::1 is not an IPv4 address; set ip=6"):
        resolve_interface("::1", 4, sealed=False)


def test_a_machine_without_ipv6(machine):
    machine(LOOPBACK)
    with pytest.raises(ConfigError, match=r"^ip: loopback has no IPv6 address; set ip=4"):
        resolve_interface(None, 6, sealed=False)


def test_only_two_versions_of_ip():
    with pytest.raises(ConfigError, match=r"^ip: unknown value 5; allowed: 4, 6"):
        resolve_interface(None, 5, sealed=False)


def test_ipv6_endpoints_name_the_interface_where_the_address_does_not():
    assert LAN.endpoint("239.1.2.3", 7) == ("239.1.2.3", 7)
    assert LAN6.endpoint("fd00::5", 7) == ("fd00::5", 7, 0, 0)
    assert LAN6.endpoint("fe80::5", 7) == ("fe80::5", 7, 0, 2)
    assert LAN6.endpoint("ff15::5", 7) == ("ff15::5", 7, 0, 2)


@pytest.mark.parametrize(
    ("interface", "mtu", "expected"),
    [
        (LOOPBACK, 65_536, 60 * 1024),
        (LAN, 1500, 1472),
        (LAN6, 1500, 1452),
        (LAN, 9000, 8972),
        (LAN, None, 1400),
        (NetworkInterface("lan0", 2, "0.0.0.0", False), 9000, 1400),
    ],
)
def test_a_datagram_fills_a_packet(interface, mtu, expected, monkeypatch):
    monkeypatch.setattr(interfaces, "mtu_bytes", lambda _: mtu)
    assert datagram_bytes(interface) == expected


def test_the_mtu_of_an_interface_that_is_there_and_of_one_that_is_not():
    here = mtu_bytes(resolve_interface(None, 4, sealed=False))
    assert here is not None
    assert here >= 1280
    assert mtu_bytes(NetworkInterface("no-such-0", 99, "10.0.0.1", False)) is None
