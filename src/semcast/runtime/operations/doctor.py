"""Looks at what live groups need of this machine, and says what to do about what is missing.

Wherever it can, a check does what a member would do, by the same code, rather than look for a
sign of it.  `fail`: a group with the default options does not work here, or not as asked.
`warn`: something optional is missing, slower than it could be, or doubtful.
"""

import select
import socket
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from ipaddress import ip_address
from time import time_ns
from typing import Final, Literal

import msgspec

from semcast import kernel
from semcast.runtime.operations import control
from semcast.runtime.operations import system_info as surroundings
from semcast.runtime.operations.system_info import UdpCounts
from semcast.runtime.options.options import option_fields
from semcast.runtime.options.units import parse_bytes
from semcast.runtime.transport.addresses import multicast_address, show
from semcast.runtime.transport.network_interfaces import Ip, datagram_bytes, resolve_interface
from semcast.runtime.transport.sockets import (
    PROBE,
    Shortage,
    multicast_fault,
    open_multicast,
    open_tcp,
    open_unicast,
    shortages,
)
from semcast.terms.errors import ConfigError, SemcastError

Status = Literal["ok", "warn", "fail"]
OK: Final = "ok"
WARN: Final = "warn"
FAIL: Final = "fail"

ANSWER_S: Final = 1.0
NOBODYS_GROUP: Final = "semcast doctor"
OPEN_FILES_MIN: Final = 256
RESOLUTION_MAX_S: Final = 0.001
LOST_SHARE_MAX: Final = 0.001
JAVA_MIN: Final = 17
REINSTALL: Final = "pip install --force-reinstall semcast"
FIREWALL: Final = "allow loopback traffic in the firewall"

# Packages that something needs, what that is, and the extra that brings them.
EXTRAS: Final = (
    ("uvloop", "faster members", "speed"),
    ("pyarrow", "traces in Parquet", "lab"),
    ("prometheus-client", "metrics", "metrics"),
    ("pyspark", "Spark", "spark"),
    ("pandas", "Spark", "spark"),
    ("grpcio", "Spark Connect", "connect"),
)


class Check(msgspec.Struct, frozen=True):
    """One thing that was looked at.  `advice` is what to do, if there is anything to be done."""

    name: str
    status: Status
    found: str
    advice: str | None = None


def examine(interface: str | None, group: str | None) -> Iterator[Check]:
    """Every check; a question of a few seconds at most."""
    yield Check("python", OK, surroundings.python())
    for package in ("semcast", "msgspec", "cryptography"):
        yield required(package, surroundings.version(package))
    yield kernel_build(kernel.WHY_PLAIN, asked=kernel.ASKED)
    for package, use, extra in EXTRAS:
        yield optional(package, surroundings.version(package), use, extra)
    yield tried("udp lo", FAIL, udp_on_loopback)
    yield tried("tcp lo", FAIL, tcp_on_loopback)
    yield from multicasts(interface, group or NOBODYS_GROUP)
    if group is not None:
        yield tried(f"group {group}", FAIL, partial(meeting_place, group, interface))
    yield tried("socket buffers", FAIL, socket_buffers)
    yield udp_loss(surroundings.udp_counts())
    yield monotonic_clock(surroundings.monotonic_resolution_s())
    yield wall_clock(surroundings.is_clock_synchronised())
    yield tried("keys", FAIL, keys)
    yield tried("incarnation", FAIL, incarnation)
    yield tried("control sockets", FAIL, control_sockets)
    yield open_files(surroundings.open_files_max())
    yield java(surroundings.java_version())


def worst(checks: Iterable[Check]) -> Status:
    """The verdict on all of them."""
    found = {check.status for check in checks}
    return FAIL if FAIL in found else WARN if WARN in found else OK


def tried(name: str, when_broken: Status, check: Callable[[], Check]) -> Check:
    """What the check found, or what kept it from finding it."""
    try:
        return check()
    except SemcastError as error:
        found, _, advice = str(error).partition("; ")
        return Check(name, when_broken, found, advice or None)
    except OSError as error:
        told = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        return Check(name, when_broken, told)
    except ImportError as error:  # Of what the keys need, so keys are imported by their checks.
        return Check(name, when_broken, str(error), REINSTALL)


def required(package: str, version: str | None) -> Check:
    """A package without which nothing works."""
    if version is None:
        return Check(package, FAIL, "not installed", REINSTALL)
    return Check(package, OK, version)


def optional(package: str, version: str | None, use: str, extra: str) -> Check:
    """A package that something needs."""
    if version is None:
        return Check(package, WARN, "not installed", f"for {use}: pip install 'semcast[{extra}]'")
    return Check(package, OK, version)


def kernel_build(why_plain: str, *, asked: str) -> Check:
    """Which build of the kernel runs: the plain one does the same, slower."""
    if not why_plain:
        return Check("kernel", OK, "compiled")
    advice = "unset SEMCAST_KERNEL" if asked else f"with a C compiler: {REINSTALL}"
    return Check("kernel", WARN, f"plain: {why_plain}", advice)


def udp_on_loopback() -> Check:
    """A datagram to ourselves, of the size that members use there."""
    loopback = resolve_interface(None, 4, sealed=False)
    sent = bytes(datagram_bytes(loopback))
    with open_unicast(loopback, 0, _buffer_bytes()) as udp:
        udp.sendto(sent, udp.getsockname())
        if not _is_ready(udp):
            return Check("udp lo", FAIL, f"a datagram of {len(sent):,} bytes was lost", FIREWALL)
    return Check("udp lo", OK, f"received a datagram of {len(sent):,} bytes")


def tcp_on_loopback() -> Check:
    """A connection to ourselves."""
    loopback = resolve_interface(None, 4, sealed=False)
    with (
        open_tcp(loopback, 0) as listening,
        socket.create_connection(listening.getsockname(), ANSWER_S) as calling,
    ):
        calling.sendall(PROBE)
        if not _is_ready(listening):
            return Check("tcp lo", FAIL, "a connection was not accepted", FIREWALL)
    return Check("tcp lo", OK, "a connection was accepted")


def _is_ready(listening: socket.socket) -> bool:
    return bool(select.select([listening], [], [], ANSWER_S)[0])


def multicasts(asked: str | None, group: str) -> Iterator[Check]:
    """On loopback, then on the interface asked for, or the one a member with a key would take."""
    for ip in _versions(None):
        name = f"multicast lo IPv{ip}"
        check = partial(multicast, name, None, ip, group, sealed=False)
        yield tried(name, FAIL if ip == 4 else WARN, check)
    for ip in _versions(asked):
        name = f"multicast {asked or 'out'} IPv{ip}"
        check = partial(multicast, name, asked, ip, group, sealed=True)
        yield tried(name, FAIL if asked and ip == _versions(asked)[0] else WARN, check)


def multicast(name: str, asked: str | None, ip: Ip, group: str, *, sealed: bool) -> Check:
    """A datagram to the group's address comes back; its port is one where nobody else listens."""
    interface = resolve_interface(asked, ip, sealed)
    if sealed and asked is None and interface.is_loopback:
        raise ConfigError("no default route; to use the network give an interface or peers")
    host, _ = multicast_address(group, ip)
    fault = multicast_fault(interface, host, ANSWER_S)
    if fault is not None:
        raise ConfigError(fault)
    return Check(name, OK, f"received a datagram sent to {host} on {interface.name}")


def meeting_place(group: str, asked: str | None) -> Check:
    """The address and port of a group can be shared with the other members here."""
    ip = _versions(asked)[0]
    host, port = multicast_address(group, ip)
    interface = resolve_interface(asked, ip, sealed=asked is not None)
    open_multicast(interface, host, port, _buffer_bytes()).close()
    return Check(f"group {group}", OK, f"can use {show((host, port))} on {interface.name}")


def _versions(asked: str | None) -> tuple[Ip, ...]:
    """The versions of IP that can be meant."""
    try:
        version = ip_address((asked or "").partition("%")[0]).version
    except ValueError:
        return 4, 6
    return (6,) if version == 6 else (4,)


def _buffer_bytes() -> int:
    """What a member asks the kernel for."""
    defaults = {each.name: each.default for each in option_fields()}
    return parse_bytes(defaults["socket_buffer"], "socket_buffer")


def socket_buffers() -> Check:
    """What the kernel gives of it."""
    asked_bytes = _buffer_bytes()
    with open_unicast(resolve_interface(None, 4, sealed=False), 0, asked_bytes) as udp:
        return judge_buffers(asked_bytes, shortages(udp, asked_bytes))


def judge_buffers(asked_bytes: int, short: list[Shortage]) -> Check:
    """Small ones lose datagrams in bursts: they are sent again, at a cost."""
    if not short:
        return Check("socket buffers", OK, f"{asked_bytes:,} bytes each, as requested")
    got = ", ".join(f"{each.buffer} {each.got_bytes:,}" for each in short)
    found = f"{got} of the requested {asked_bytes:,} bytes"
    return Check("socket buffers", WARN, found, " && ".join(each.advice for each in short))


def udp_loss(counts: UdpCounts | None) -> Check:
    """Datagrams that came and found no room."""
    if counts is None:
        return Check("udp loss", OK, "unknown")
    found = (
        f"{counts.lost:,} UDP packets dropped: receive buffer full; "
        f"{counts.received:,} received since boot"
    )
    if counts.lost > LOST_SHARE_MAX * (counts.received + counts.lost):
        advice = "use a larger socket_buffer, or give the receiving process more CPU time"
        return Check("udp loss", WARN, found, advice)
    return Check("udp loss", OK, found)


def monotonic_clock(resolution_s: float) -> Check:
    """The clock that members run on."""
    found = f"resolution {resolution_s:g} s"
    if resolution_s > RESOLUTION_MAX_S:
        return Check("clock", WARN, found, "do not use periods below this resolution")
    return Check("clock", OK, found)


def wall_clock(is_synchronised: bool | None) -> Check:
    """The clock that times of different machines are compared by; no guarantee rests on it."""
    if is_synchronised is None:
        return Check("wall clock", OK, "synchronisation unknown")
    if not is_synchronised:
        advice = "to compare times of machines, run an NTP client (chronyd, systemd-timesyncd)"
        return Check("wall clock", WARN, "not synchronised", advice)
    return Check("wall clock", OK, "synchronised")


def keys() -> Check:
    """The key ring can be read, by its owner alone."""
    from semcast.runtime.storage import keyring

    path = keyring.keys_path()
    ring = keyring.KeyRing.load(path)
    if ring.active is None:
        return Check("keys", WARN, f"none in {path}", "to use the network, run semcast keys new")
    active = keyring.id_text(ring.active.id)
    return Check("keys", OK, f"{len(ring.keys)} in {path}, active: {active}")


def incarnation() -> Check:
    """Takes one, which costs nothing: the next member gets the next."""
    from semcast.runtime.storage import keyring

    path = keyring.incarnation_path()
    keyring.next_incarnation(path, time_ns() // 1000)
    return Check("incarnation", OK, f"stored in {path}")


def control_sockets() -> Check:
    """The directory of the sockets that `semcast members` and `semcast top` ask."""
    place = control.directory()
    place.mkdir(mode=0o700, exist_ok=True)
    members = len(control.discover(None))
    return Check("control sockets", OK, f"{members} in {place}")


def open_files(most: int | None) -> Check:
    """Sockets count as files."""
    if most is not None and most < OPEN_FILES_MIN:
        return Check("open files", WARN, f"limit {most:,}", f"ulimit -n {OPEN_FILES_MIN}")
    return Check("open files", OK, "no limit" if most is None else f"limit {most:,}")


def java(version: str | None) -> Check:
    """Only Spark wants it."""
    advice = f"for Spark: install Java {JAVA_MIN} or later, or pip install 'semcast[java]'"
    if version is None:
        return Check("java", WARN, "not found", advice)
    major = version.removeprefix("1.").partition(".")[0].partition("-")[0]
    is_late_enough = major.isdecimal() and int(major) >= JAVA_MIN
    return Check("java", OK, version) if is_late_enough else Check("java", WARN, version, advice)
