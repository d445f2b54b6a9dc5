"""What can be measured side by side, and the surroundings that the numbers depend on.

A system is the command line of a worker that reads plans and writes reports (`worker.main`), so
that all are measured by the same means.
"""

import os
import platform
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final, NamedTuple

from semcast import __version__
from semcast.experiments.fleet import WORKER
from semcast.runtime.keyring import edit, new_key
from semcast.terms.errors import ConfigError, one_of

NO_KEY: Final = "none"
NEW_KEY: Final = "new"


class System(NamedTuple):
    """Something to measure; `options` go with every plan, before the benchmark's own.

    `loses_nothing`: it is a fault if a message is missed that was not superseded.
    """

    worker: Sequence[str]
    options: Mapping[str, Any]
    loses_nothing: bool
    can_seal: bool


SYSTEMS: Final[dict[str, System]] = {
    "semcast": System(WORKER, {"protocol": "s-rm"}, loses_nothing=True, can_seal=True),
    "semcast-reliable": System(WORKER, {"protocol": "rm"}, loses_nothing=True, can_seal=True),
    "udp": System(
        (sys.executable, "-m", "semcast.experiments.raw_udp"),
        {},
        loses_nothing=False,
        can_seal=False,
    ),
}


class Case(NamedTuple):
    """One thing to compare: a system, the size of its datagrams, and the file of its keys."""

    system: str
    datagram: int | None = None
    key: str | None = None

    def __str__(self) -> str:
        datagram = "" if self.datagram is None else f", {self.datagram:,}-byte datagrams"
        return f"{self.system}{datagram}{', sealed' if self.key else ''}"


def cases_of(
    against: Sequence[str], datagrams: Sequence[int | None], keys: Sequence[str], directory: Path
) -> list[Case]:
    """Everything to compare, Semcast first; a new key is put into the directory.

    What cannot seal is measured once, unsealed.
    """
    for name in against:
        if name not in SYSTEMS:
            raise one_of("against", name, SYSTEMS)
    systems = dict.fromkeys(["semcast", *against])
    files = [_key_file(key, directory) for key in keys]
    return [
        Case(system, datagram, file)
        for system in systems
        for datagram in datagrams
        for file in (files if SYSTEMS[system].can_seal else [None])
    ]


def _key_file(key: str, directory: Path) -> str | None:
    if key == NO_KEY:
        return None
    if key != NEW_KEY:
        if not Path(key).is_file():
            raise ConfigError(f"key: {key!r} is not {NO_KEY}, {NEW_KEY} or the file of a key ring")
        return key
    path = directory / "keys"
    edit(path, lambda ring: ring if ring.keys else ring.adding(new_key()))
    return str(path)


def surroundings() -> dict[str, str | float]:
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
