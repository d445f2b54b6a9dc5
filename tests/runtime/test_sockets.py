"""Real sockets on loopback, and between two network namespaces where that is permitted."""

import os
import select
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from time import monotonic

import pytest

from semcast.runtime.transport import sockets
from semcast.runtime.transport.network_interfaces import (
    NetworkInterface,
    datagram_bytes,
    interfaces,
    resolve_interface,
)
from semcast.runtime.transport.sockets import (
    BufferShortfall,
    buffer_shortfalls,
    drop_matching,
    open_multicast,
    open_tcp,
    open_unicast,
    probe_multicast,
)
from semcast.terms.errors import ConfigError

BUFFER_BYTES = 1 << 20
DEADLINE_S = 60
GROUPS = {4: "239.192.7.7", 6: "ff15::8000:7"}


@pytest.fixture(params=[4, 6], ids=["ipv4", "ipv6"])
def loopback(request: pytest.FixtureRequest) -> NetworkInterface:
    if not any(each.is_loopback for each in interfaces(request.param)):
        pytest.skip(f"loopback has no IPv{request.param} address")
    return resolve_interface(None, request.param, sealed=False)


@pytest.fixture
def loopback4() -> NetworkInterface:
    return resolve_interface(None, 4, sealed=False)


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def heard(listening: socket.socket) -> bytes:
    assert select.select([listening], [], [], DEADLINE_S)[0], "nothing came"
    return listening.recv(1 << 16)


def test_a_datagram_of_full_size_passes(loopback, opened):
    one = opened.enter_context(open_unicast(loopback, 0, BUFFER_BYTES))
    other = opened.enter_context(open_unicast(loopback, 0, BUFFER_BYTES))
    sent = os.urandom(datagram_bytes(loopback))
    one.sendto(sent, other.getsockname())
    assert heard(other) == sent


def test_nothing_blocks(loopback, opened):
    with pytest.raises(BlockingIOError):
        opened.enter_context(open_unicast(loopback, 0, BUFFER_BYTES)).recv(1)
    with pytest.raises(BlockingIOError):
        opened.enter_context(open_tcp(loopback, 0)).accept()


def test_tcp_listens(loopback, opened):
    listening = opened.enter_context(open_tcp(loopback, 0))
    calling = opened.enter_context(
        socket.create_connection(listening.getsockname()[:2], DEADLINE_S)
    )
    calling.sendall(b"hello")
    assert select.select([listening], [], [], DEADLINE_S)[0]
    accepted = opened.enter_context(listening.accept()[0])
    assert heard(accepted) == b"hello"


def test_every_listener_gets_a_copy_with_the_address_to_answer_to(loopback4, opened):
    sending = opened.enter_context(open_unicast(loopback4, 0, BUFFER_BYTES))
    first = opened.enter_context(open_multicast(loopback4, GROUPS[4], 0, BUFFER_BYTES))
    port = first.getsockname()[1]
    second = opened.enter_context(open_multicast(loopback4, GROUPS[4], port, BUFFER_BYTES))
    sending.sendto(b"to all", loopback4.endpoint(GROUPS[4], port))
    for listening in (first, second):
        assert select.select([listening], [], [], DEADLINE_S)[0]
        assert listening.recvfrom(100) == (b"to all", sending.getsockname())


def test_a_listener_does_not_hear_another_group_at_its_port(loopback4, opened):
    sending = opened.enter_context(open_unicast(loopback4, 0, BUFFER_BYTES))
    ours = opened.enter_context(open_multicast(loopback4, GROUPS[4], 0, BUFFER_BYTES))
    port = ours.getsockname()[1]
    other = opened.enter_context(open_multicast(loopback4, "239.192.7.8", port, BUFFER_BYTES))
    sending.sendto(b"not ours", loopback4.endpoint("239.192.7.8", port))
    sending.sendto(b"ours", loopback4.endpoint(GROUPS[4], port))
    assert heard(other) == b"not ours"
    assert heard(ours) == b"ours"


@pytest.mark.parametrize("open_again", [open_unicast, open_tcp], ids=["udp", "tcp"])
def test_a_taken_port_is_named(open_again: Callable[..., socket.socket], loopback, opened):
    rest = (BUFFER_BYTES,) if open_again is open_unicast else ()
    port = opened.enter_context(open_again(loopback, 0, *rest)).getsockname()[1]
    with pytest.raises(ConfigError, match=rf"^port: {port} on .* is in use; choose another one"):
        open_again(loopback, port, *rest)


def test_a_group_port_held_by_somebody_alone(loopback4, opened):
    alone = opened.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    alone.bind(("", 0))
    port = alone.getsockname()[1]
    with pytest.raises(ConfigError, match=rf"^port: {port} on {GROUPS[4]} is in use"):
        open_multicast(loopback4, GROUPS[4], port, BUFFER_BYTES)


def test_impossible_ports_and_addresses(loopback4):
    with pytest.raises(ConfigError, match=r"^port: 65536 is not between 0 and 65535"):
        open_tcp(loopback4, 65_536)
    elsewhere = NetworkInterface("lan0", loopback4.index, "198.51.100.1", False)
    with pytest.raises(ConfigError, match=r"^port: cannot bind 7 on 198\.51\.100\.1"):
        open_tcp(elsewhere, 7)
    with pytest.raises(ConfigError, match=r"cannot receive multicast to 127\.0\.0\.1"):
        open_multicast(loopback4, "127.0.0.1", 0, BUFFER_BYTES)


def test_a_port_for_root(loopback4, monkeypatch):
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(socket.socket, "bind", refuse)
    with pytest.raises(ConfigError, match=r"^port: 80 needs root; choose a port from 1024"):
        open_tcp(loopback4, 80)


def test_buffers_are_as_large_as_asked_for(loopback4, opened):
    udp = opened.enter_context(open_unicast(loopback4, 0, 1 << 16))
    assert buffer_shortfalls(udp, 1 << 16) == []
    short = buffer_shortfalls(udp, 1 << 40)
    assert [each.buffer for each in short] == ["receive", "send"]
    assert all(1 << 16 <= each.got_bytes < 1 << 40 == each.asked_bytes for each in short)


def test_a_refused_buffer_is_taken_smaller_and_reported(loopback4, monkeypatch, opened):
    """Where root's options are refused, and the ordinary ones beyond a limit."""
    limit, real = 1 << 15, sockets._is_set
    monkeypatch.setattr(
        sockets,
        "_is_set",
        lambda udp, option, value: (
            option in (socket.SO_RCVBUF, socket.SO_SNDBUF)
            and value <= limit
            and real(udp, option, value)
        ),
    )
    udp = opened.enter_context(open_unicast(loopback4, 0, BUFFER_BYTES))
    assert [each.got_bytes for each in buffer_shortfalls(udp, BUFFER_BYTES)] == [limit, limit]


def test_a_shortage_says_what_to_do():
    short = BufferShortfall("receive", 4_194_304, 212_992, "sysctl -w net.core.rmem_max=4194304")
    assert str(short) == (
        "the receive buffer has 212,992 bytes instead of 4,194,304;"
        " sysctl -w net.core.rmem_max=4194304"
    )


def test_multicast_comes_back_on_loopback(loopback4):
    assert probe_multicast(loopback4, GROUPS[4], DEADLINE_S) is None


def test_multicast_that_goes_nowhere_is_told(loopback4, monkeypatch):
    real = open_multicast
    monkeypatch.setattr(
        sockets, "open_multicast", lambda it, _, port, size: real(it, "239.192.7.9", port, size)
    )
    found = probe_multicast(loopback4, GROUPS[4], 0.05)
    assert found is not None
    assert found.startswith(
        f"received no multicast from {GROUPS[4]} on {loopback4.name} within 0.05 s; allow"
    )


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def namespaces() -> Iterator[tuple[str, str]]:
    """Two machines, as far as the network is concerned: a cable joins their `wire0`, and `idle0`
    leads nowhere."""
    if sys.platform != "linux" or os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need Linux, root and the ip command")
    names = tuple(f"semcast-{os.getpid()}-{side}" for side in "ab")
    with ExitStack() as made:
        for name in names:
            if subprocess.run(
                ["ip", "netns", "add", name], capture_output=True, check=False
            ).returncode:
                pytest.skip("network namespaces are not permitted here")
            made.callback(run, "ip", "netns", "del", name)
        first, second = names
        run(*f"ip -n {first} link add wire0 type veth peer name wire0 netns {second}".split())
        for number, name in enumerate(names, 1):
            run(*f"ip -n {name} link add idle0 type veth peer name idle1".split())
            for cable, net in (("wire0", 77), ("idle0", 78)):
                run(*f"ip -n {name} address add 10.{net}.0.{number}/24 dev {cable}".split())
                run(*f"ip -n {name} address add fd{net}::{number}/64 dev {cable} nodad".split())
            for cable in ("lo", "wire0", "idle0", "idle1"):
                run("ip", "-n", name, "link", "set", cable, "up")
        for name in names:
            wait_for_ipv6(name)
        yield first, second


def wait_for_ipv6(namespace: str) -> None:
    """The kernel lays the routes of new cables when it gets round to it."""
    deadline = monotonic() + DEADLINE_S
    missing = {"wire0", "idle0"}
    while missing:
        assert monotonic() < deadline, f"no route for IPv6 multicast through {missing}"
        routes = run("ip", "-n", namespace, "-6", "route", "show", "table", "local")
        missing = {cable for cable in missing if f"ff00::/8 dev {cable}" not in routes}


def inside(namespace: str, script: str, *arguments: str) -> list[str]:
    """The command that runs a script there."""
    imports = (
        "import sys; from semcast.runtime.transport.network_interfaces import *;"
        " from semcast.runtime.transport.sockets import *\n"
    )
    command = ["ip", "netns", "exec", namespace, sys.executable, "-c", imports + script]
    return [*command, *arguments]


HEARS = """
ip, host = int(sys.argv[1]), sys.argv[2]
interface = resolve_interface("wire0", ip, sealed=True)
multicast = open_multicast(interface, host, 7000, 1 << 20)
elsewhere = open_multicast(resolve_interface("idle0", ip, sealed=True), host, 7000, 1 << 20)
unicast = open_unicast(interface, 7001, 1 << 20)
print("ready", flush=True)
for listening in (multicast, unicast):
    listening.settimeout(60)
    heard, source = listening.recvfrom(100)
    print(heard.decode(), source[0], source[1], flush=True)
try:
    elsewhere.recv(100)
except BlockingIOError:
    print("and nothing elsewhere", flush=True)
"""
SAYS = """
ip, host, peer = int(sys.argv[1]), sys.argv[2], sys.argv[3]
interface = resolve_interface("wire0", ip, sealed=True)
unicast = open_unicast(interface, 7002, 1 << 20)
unicast.sendto(b"multicast", interface.endpoint(host, 7000))
unicast.sendto(b"unicast", interface.endpoint(peer, 7001))
"""


@pytest.mark.parametrize(("ip", "net"), [(4, "10.77.0."), (6, "fd77::")])
def test_multicast_and_unicast_between_machines(namespaces, ip, net):
    first, second = namespaces
    with subprocess.Popen(
        inside(first, HEARS, str(ip), GROUPS[ip]), stdout=subprocess.PIPE, text=True
    ) as hearing:
        assert hearing.stdout is not None
        try:
            assert hearing.stdout.readline() == "ready\n"
            run(*inside(second, SAYS, str(ip), GROUPS[ip], f"{net}1"))
            assert hearing.stdout.read().splitlines() == [
                f"multicast {net}2 7002",
                f"unicast {net}2 7002",
                "and nothing elsewhere",
            ]
        finally:
            hearing.kill()


PROBES = """
interface = resolve_interface("lo", 6, sealed=False)
print(probe_multicast(interface, sys.argv[1], 5))
"""


def test_ipv6_multicast_on_loopback_works_after_what_the_error_advises(namespaces):
    first, _ = namespaces
    told = run(*inside(first, PROBES, GROUPS[6]))
    assert told.startswith(f"interface: lo has no route to {GROUPS[6]} (Network is unreachable)")
    advised = told.partition("as root: ")[2].partition(";")[0]
    run("ip", "netns", "exec", first, *advised.split())
    assert run(*inside(first, PROBES, GROUPS[6])) == "None\n"


FINDS = "print(resolve_interface(None, 4, sealed=True).name)"


def test_the_default_route_decides_on_a_real_machine(namespaces):
    first, _ = namespaces
    assert run(*inside(first, FINDS)) == "lo\n"
    run(*f"ip -n {first} route add default via 10.77.0.2".split())
    assert run(*inside(first, FINDS)) == "wire0\n"


FINDS_LOOPBACK = """
print(resolve_interface("lo", 4, sealed=False).address)
print(resolve_interface("10.79.0.1", 4, sealed=True).is_loopback)
"""


def test_an_address_of_loopback_that_others_can_reach(namespaces):
    first, _ = namespaces
    run(*f"ip -n {first} address del 127.0.0.1/8 dev lo".split())
    run(*f"ip -n {first} address add 10.79.0.1/32 dev lo".split())
    run(*f"ip -n {first} address add 127.0.0.1/8 dev lo".split())
    assert run(*inside(first, FINDS_LOOPBACK)) == "127.0.0.1\nFalse\n"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux filters in the kernel")
def test_what_has_the_mark_is_turned_away_and_nothing_else():
    mark = bytes(range(8))
    others = [b"", mark, b"12" + mark[:7], b"12" + mark[:7] + b"x", mark + b"1234", bytes(60_000)]
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as hearing,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sending,
    ):
        hearing.bind(("127.0.0.1", 0))
        hearing.setblocking(False)
        drop_matching(hearing, 2, mark)
        for datagram in (b"12" + mark, *others, b"34" + mark + bytes(1000)):
            sending.sendto(datagram, hearing.getsockname())
        assert [hearing.recv(65_535) for _ in others] == others
        with pytest.raises(BlockingIOError):
            hearing.recv(65_535)
