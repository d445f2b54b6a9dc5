"""What can be measured side by side, and the surroundings that the numbers depend on.

A system is the command line of a worker that reads plans and writes reports (`worker.main`), so
that all are measured by the same means.  Those of others are in `bench/peers` of the source tree.
"""

import os
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final, NamedTuple

from semcast import __version__
from semcast.fleet.processes import WORKER
from semcast.runtime.storage.keyring import edit, new_key
from semcast.terms.errors import ConfigError, unknown_value

NO_KEY: Final = "none"
NEW_KEY: Final = "new"
ALL: Final = "all"
BENCH: Final = Path(__file__).parents[3] / "bench"  # in a source tree


class BenchEnvironment(NamedTuple):
    """Where one run takes place: what its plans must know, and the servers whose cost counts."""

    options: Mapping[str, Any] = {}
    servers: Sequence[int] = ()  # process ids


@dataclass(frozen=True)
class System:
    """Something to measure; `title` is its name on figures, `options` go with every plan, before
    the benchmark's own.

    `loses_nothing`: it is a fault if a message is missed that was not superseded.  `benchmarks`
    are those that it can take part in, None for all.  `missing` says what it needs that is not
    installed, "" if nothing; only then may the others be called.
    """

    worker: Sequence[str]
    title: str
    options: Mapping[str, Any] = field(default_factory=dict)
    loses_nothing: bool = False
    can_seal: bool = False
    has_datagrams: bool = False  # whose size can be chosen
    benchmarks: Sequence[str] | None = None
    missing: Callable[[], str] = lambda: ""
    version: Callable[[], str] = lambda: f"semcast {__version__}"
    ground: Callable[[], AbstractContextManager[BenchEnvironment]] = lambda: nullcontext(
        BenchEnvironment()
    )


def _own(title: str, protocol: str) -> System:
    options = {"protocol": protocol}
    return System(WORKER, title, options, loses_nothing=True, can_seal=True, has_datagrams=True)


OWN: Final[dict[str, System]] = {
    "semcast": _own("Semcast", "s-rm"),
    "semcast-reliable": _own("Semcast, nothing purged", "rm"),
    "udp": System(
        (sys.executable, "-m", "semcast.bench.raw_udp"), "UDP multicast", has_datagrams=True
    ),
}


@cache
def systems() -> Mapping[str, System]:
    """All that can be named here, by name."""
    if not (BENCH / "peers" / "systems.py").is_file():
        return OWN
    sys.path.append(str(BENCH))
    peers: Mapping[str, System] = import_module("peers.systems").PEERS
    return {**OWN, **peers}


def select_systems(against: Sequence[str], benchmark: str) -> tuple[list[str], dict[str, str]]:
    """Systems to measure, Semcast first; and if all were asked for, why others are left out."""
    for name in against:
        if name != ALL and name not in systems():
            raise _unknown(name)
    asked = dict.fromkeys(systems() if ALL in against else ["semcast", *against])
    left_out = {name: why for name in asked if (why := _why_unavailable(name, benchmark))}
    if ALL not in against:
        for name, why in left_out.items():
            raise ConfigError(f"against: {name} cannot be measured: {why}")
    return [name for name in asked if name not in left_out], left_out


def _unknown(name: str) -> ConfigError:
    if systems() is not OWN:
        return unknown_value("against", name, (*systems(), ALL))
    return ConfigError(
        f"against: unknown value {name!r}; allowed: {', '.join(OWN)}; other systems need Semcast's "
        "source tree (bench/peers), and this installation does not have it"
    )


def _why_unavailable(name: str, benchmark: str) -> str:
    """Why a system cannot take part, "" if it can."""
    system = systems()[name]
    if system.benchmarks is not None and benchmark not in system.benchmarks:
        return f"supports only {', '.join(system.benchmarks)}"
    missing = system.missing()
    return missing and f"not installed: {missing}"


class BenchCase(NamedTuple):
    """One thing to compare: a system, the size of its datagrams, and the file of its keys."""

    system: str
    datagram: int | None = None
    key: str | None = None

    def __str__(self) -> str:
        datagram = "" if self.datagram is None else f", {self.datagram:,}-byte datagrams"
        return f"{self.system}{datagram}{', sealed' if self.key else ''}"


def cases_of(
    names: Sequence[str], datagrams: Sequence[int | None], keys: Sequence[str], directory: Path
) -> list[BenchCase]:
    """Everything to compare; a new key is put into the directory.

    What cannot seal is measured once, unsealed, and likewise what has no datagrams to choose.
    """
    files = [_key_file(key, directory) for key in keys]
    return [
        BenchCase(name, datagram, file)
        for name in names
        for datagram in (datagrams if systems()[name].has_datagrams else [None])
        for file in (files if systems()[name].can_seal else [None])
    ]


def _key_file(key: str, directory: Path) -> str | None:
    if key == NO_KEY:
        return None
    if key != NEW_KEY:
        if not Path(key).is_file():
            raise ConfigError(f"key: {key!r} is not {NO_KEY}, {NEW_KEY} or a key ring file")
        return key
    path = directory / "keys"
    edit(path, lambda ring: ring if ring.keys else ring.with_key(new_key()))
    return str(path)


def machine_info() -> dict[str, str | float]:
    """What else the numbers depend on; `load` is how many processes wanted a core lately."""
    try:
        loop = f"uvloop {version('uvloop')}"
    except PackageNotFoundError:
        loop = "asyncio"
    return {
        "semcast": __version__,
        "python": platform.python_version(),
        "loop": loop,
        "system": f"{platform.system()} {platform.release()}",
        "cores": os.cpu_count() or 1,
        "load": round(os.getloadavg()[0], 2),
    }
