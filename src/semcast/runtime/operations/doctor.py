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
from pathlib import Path
from time import time_ns
from typing import Final, Literal

import msgspec

from semcast import kernel
from semcast.disk.log_header import HEADER
from semcast.disk.segment_log import verify_log
from semcast.runtime.operations import control
from semcast.runtime.operations import system_info as surroundings
from semcast.runtime.operations.system_info import UdpCounters
from semcast.runtime.options.options import option_fields
from semcast.runtime.options.units import parse_bytes
from semcast.runtime.storage.directory_files import DirectoryFiles
from semcast.runtime.transport.addresses import format_address, multicast_address
from semcast.runtime.transport.network_interfaces import Ip, datagram_bytes, resolve_interface
from semcast.runtime.transport.sockets import (
    PROBE,
    BufferShortfall,
    buffer_shortfalls,
    open_multicast,
    open_tcp,
    open_unicast,
    probe_multicast,
)
from semcast.terms.errors import ConfigError, SemcastError

Status = Literal["ok", "warn", "fail"]
OK: Final = "ok"
WARN: Final = "warn"
FAIL: Final = "fail"

ANSWER_S: Final = 1.0
PROBE_GROUP: Final = "semcast doctor"
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


class DoctorCheck(msgspec.Struct, frozen=True):
    """One thing that was looked at.  `advice` is what to do, if there is anything to be done."""

    name: str
    status: Status
    found: str
    advice: str | None = None


def run_checks(
    interface: str | None, group: str | None, data: Path | None = None
) -> Iterator[DoctorCheck]:
    """Every check; a question of a few seconds at most, unless the log in `data` is large."""
    yield DoctorCheck("python", OK, surroundings.python())
    for package in ("semcast", "msgspec", "cryptography"):
        yield required(package, surroundings.version(package))
    yield kernel_build(kernel.PLAIN_REASON, asked=kernel.REQUESTED_BUILD)
    for package, use, extra in EXTRAS:
        yield optional(package, surroundings.version(package), use, extra)
    yield run_guarded("udp lo", FAIL, udp_on_loopback)
    yield run_guarded("tcp lo", FAIL, tcp_on_loopback)
    yield from check_multicast(interface, group or PROBE_GROUP)
    if group is not None:
        yield run_guarded(f"group {group}", FAIL, partial(check_group_address, group, interface))
    yield run_guarded("socket buffers", FAIL, socket_buffers)
    yield udp_loss(surroundings.udp_counts())
    yield monotonic_clock(surroundings.monotonic_resolution_s())
    yield wall_clock(surroundings.is_clock_synchronised())
    yield run_guarded("keys", FAIL, keys)
    yield run_guarded("incarnation", FAIL, incarnation)
    yield run_guarded("control sockets", FAIL, control_sockets)
    yield open_files(surroundings.open_files_max())
    if data is not None:
        yield run_guarded("data", FAIL, partial(check_log, data))
    yield java(surroundings.java_version())


def check_log(data: Path) -> DoctorCheck:
    """Read the durable log in a directory to its end, and change nothing."""
    if not (data / HEADER).is_file():
        raise ConfigError(f"no log in {data}; give the directory of a server")
    with DirectoryFiles(data) as files:
        log, records = verify_log(files)
    found = (
        f"the log of {log.header.owner} in group {log.header.group}: {records:,} "
        f"record{'s' * (records != 1)} in {len(log.segments)} file{'s' * (len(log.segments) != 1)}"
    )
    lost = [each for each in log.damage if not each.is_torn]
    if lost:
        advice = "restore the directory from a backup, or start with an empty one to get the state "
        return DoctorCheck("data", FAIL, f"{found}; {lost[0]}", advice + "of another server")
    if log.damage:
        return DoctorCheck("data", OK, f"{found}; {log.damage[0]}, as the next start will do")
    return DoctorCheck("data", OK, found)


def overall_status(checks: Iterable[DoctorCheck]) -> Status:
    """The verdict on all of them."""
    found = {check.status for check in checks}
    return FAIL if FAIL in found else WARN if WARN in found else OK


def run_guarded(name: str, when_broken: Status, check: Callable[[], DoctorCheck]) -> DoctorCheck:
    """What the check found, or what kept it from finding it."""
    try:
        return check()
    except SemcastError as error:
        found, _, advice = str(error).partition("; ")
        return DoctorCheck(name, when_broken, found, advice or None)
    except OSError as error:
        text = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        return DoctorCheck(name, when_broken, text)
    except ImportError as error:  # Of what the keys need, so keys are imported by their checks.
        return DoctorCheck(name, when_broken, str(error), REINSTALL)


def required(package: str, version: str | None) -> DoctorCheck:
    """A package without which nothing works."""
    if version is None:
        return DoctorCheck(package, FAIL, "not installed", REINSTALL)
    return DoctorCheck(package, OK, version)


def optional(package: str, version: str | None, use: str, extra: str) -> DoctorCheck:
    """A package that something needs."""
    if version is None:
        return DoctorCheck(
            package, WARN, "not installed", f"for {use}: pip install 'semcast[{extra}]'"
        )
    return DoctorCheck(package, OK, version)


def kernel_build(why_plain: str, *, asked: str) -> DoctorCheck:
    """Which build of the kernel runs: the plain one does the same, slower."""
    if not why_plain:
        return DoctorCheck("kernel", OK, "compiled")
    advice = "unset SEMCAST_KERNEL" if asked else f"with a C compiler: {REINSTALL}"
    return DoctorCheck("kernel", WARN, f"plain: {why_plain}", advice)


def udp_on_loopback() -> DoctorCheck:
    """A datagram to ourselves, of the size that members use there."""
    loopback = resolve_interface(None, 4, sealed=False)
    sent = bytes(datagram_bytes(loopback))
    with open_unicast(loopback, 0, _buffer_bytes()) as udp:
        udp.sendto(sent, udp.getsockname())
        if not _is_ready(udp):
            return DoctorCheck(
                "udp lo", FAIL, f"a datagram of {len(sent):,} bytes was lost", FIREWALL
            )
    return DoctorCheck("udp lo", OK, f"received a datagram of {len(sent):,} bytes")


def tcp_on_loopback() -> DoctorCheck:
    """A connection to ourselves."""
    loopback = resolve_interface(None, 4, sealed=False)
    with (
        open_tcp(loopback, 0) as listening,
        socket.create_connection(listening.getsockname(), ANSWER_S) as calling,
    ):
        calling.sendall(PROBE)
        if not _is_ready(listening):
            return DoctorCheck("tcp lo", FAIL, "a connection was not accepted", FIREWALL)
    return DoctorCheck("tcp lo", OK, "a connection was accepted")


def _is_ready(listening: socket.socket) -> bool:
    return bool(select.select([listening], [], [], ANSWER_S)[0])


def check_multicast(asked: str | None, group: str) -> Iterator[DoctorCheck]:
    """On loopback, then on the interface asked for, or the one a member with a key would take."""
    for ip in _versions(None):
        name = f"multicast lo IPv{ip}"
        check = partial(multicast, name, None, ip, group, sealed=False)
        yield run_guarded(name, FAIL if ip == 4 else WARN, check)
    for ip in _versions(asked):
        name = f"multicast {asked or 'out'} IPv{ip}"
        check = partial(multicast, name, asked, ip, group, sealed=True)
        yield run_guarded(name, FAIL if asked and ip == _versions(asked)[0] else WARN, check)


def multicast(name: str, asked: str | None, ip: Ip, group: str, *, sealed: bool) -> DoctorCheck:
    """A datagram to the group's address comes back; its port is one where nobody else listens."""
    interface = resolve_interface(asked, ip, sealed)
    if sealed and asked is None and interface.is_loopback:
        raise ConfigError("no default route; to use the network give an interface or peers")
    host, _ = multicast_address(group, ip)
    fault = probe_multicast(interface, host, ANSWER_S)
    if fault is not None:
        raise ConfigError(fault)
    return DoctorCheck(name, OK, f"received a datagram sent to {host} on {interface.name}")


def check_group_address(group: str, asked: str | None) -> DoctorCheck:
    """The address and port of a group can be shared with the other members here."""
    ip = _versions(asked)[0]
    host, port = multicast_address(group, ip)
    interface = resolve_interface(asked, ip, sealed=asked is not None)
    open_multicast(interface, host, port, _buffer_bytes()).close()
    return DoctorCheck(
        f"group {group}", OK, f"can use {format_address((host, port))} on {interface.name}"
    )


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


def socket_buffers() -> DoctorCheck:
    """What the kernel gives of it."""
    asked_bytes = _buffer_bytes()
    with open_unicast(resolve_interface(None, 4, sealed=False), 0, asked_bytes) as udp:
        return check_buffers(asked_bytes, buffer_shortfalls(udp, asked_bytes))


def check_buffers(asked_bytes: int, short: list[BufferShortfall]) -> DoctorCheck:
    """Small ones lose datagrams in bursts: they are sent again, at a cost."""
    if not short:
        return DoctorCheck("socket buffers", OK, f"{asked_bytes:,} bytes each, as requested")
    got = ", ".join(f"{each.buffer} {each.got_bytes:,}" for each in short)
    found = f"{got} of the requested {asked_bytes:,} bytes"
    return DoctorCheck("socket buffers", WARN, found, " && ".join(each.advice for each in short))


def udp_loss(counts: UdpCounters | None) -> DoctorCheck:
    """Datagrams that came and found no room."""
    if counts is None:
        return DoctorCheck("udp loss", OK, "unknown")
    found = (
        f"{counts.lost:,} UDP packets dropped: receive buffer full; "
        f"{counts.received:,} received since boot"
    )
    if counts.lost > LOST_SHARE_MAX * (counts.received + counts.lost):
        advice = "use a larger socket_buffer, or give the receiving process more CPU time"
        return DoctorCheck("udp loss", WARN, found, advice)
    return DoctorCheck("udp loss", OK, found)


def monotonic_clock(resolution_s: float) -> DoctorCheck:
    """The clock that members run on."""
    found = f"resolution {resolution_s:g} s"
    if resolution_s > RESOLUTION_MAX_S:
        return DoctorCheck("clock", WARN, found, "do not use periods below this resolution")
    return DoctorCheck("clock", OK, found)


def wall_clock(is_synchronised: bool | None) -> DoctorCheck:
    """The clock that times of different machines are compared by; no guarantee rests on it."""
    if is_synchronised is None:
        return DoctorCheck("wall clock", OK, "synchronisation unknown")
    if not is_synchronised:
        advice = "to compare times of machines, run an NTP client (chronyd, systemd-timesyncd)"
        return DoctorCheck("wall clock", WARN, "not synchronised", advice)
    return DoctorCheck("wall clock", OK, "synchronised")


def keys() -> DoctorCheck:
    """The key ring can be read, by its owner alone."""
    from semcast.runtime.storage import keyring

    path = keyring.keys_path()
    ring = keyring.KeyRing.load(path)
    if ring.active is None:
        return DoctorCheck(
            "keys", WARN, f"none in {path}", "to use the network, run semcast keys new"
        )
    active = keyring.id_text(ring.active.id)
    return DoctorCheck("keys", OK, f"{active} is active, {len(ring.keys)} in {path}")


def incarnation() -> DoctorCheck:
    """Takes one, which costs nothing: the next member gets the next."""
    from semcast.runtime.storage import keyring

    path = keyring.incarnation_path()
    keyring.next_incarnation(path, time_ns() // 1000)
    return DoctorCheck("incarnation", OK, f"stored in {path}")


def control_sockets() -> DoctorCheck:
    """The directory of the sockets that `semcast members` and `semcast top` ask."""
    place = control.directory()
    place.mkdir(mode=0o700, exist_ok=True)
    members = len(control.discover(None))
    return DoctorCheck("control sockets", OK, f"{members} in {place}")


def open_files(limit: int | None) -> DoctorCheck:
    """Sockets count as files."""
    if limit is not None and limit < OPEN_FILES_MIN:
        return DoctorCheck("open files", WARN, f"limit {limit:,}", f"ulimit -n {OPEN_FILES_MIN}")
    return DoctorCheck("open files", OK, "no limit" if limit is None else f"limit {limit:,}")


def java(version: str | None) -> DoctorCheck:
    """Only Spark wants it."""
    advice = f"for Spark: install Java {JAVA_MIN} or later, or pip install 'semcast[java]'"
    if version is None:
        return DoctorCheck("java", WARN, "not found", advice)
    major = version.removeprefix("1.").partition(".")[0].partition("-")[0]
    is_late_enough = major.isdecimal() and int(major) >= JAVA_MIN
    return (
        DoctorCheck("java", OK, version)
        if is_late_enough
        else DoctorCheck("java", WARN, version, advice)
    )
