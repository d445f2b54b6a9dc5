"""The systems of others that `semcast bench --against` knows, where Semcast runs from its source.

What each needs is in the extra `peers`, but for JGroups (Debian's libjgroups-java and a JDK) and
the C compiler of `limit`.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from peers.servers import (
    executable,
    folder,
    jgroups,
    limit,
    nats,
    port,
    redis,
    serving,
)
from peers_order.jgroups import JGROUPS

from semcast.bench.systems import System

PEER = str(Path(__file__).parents[1] / "peer.py")
HINT = "pip install 'semcast[peers]'"


def worker(module: str) -> Sequence[str]:
    """The command line of a worker."""
    return (sys.executable, PEER, module)


def absent(packages: Sequence[str], server: str | None = None) -> Callable[[], str]:
    """Says which of these packages are not installed, and whether the server is not."""

    def missing() -> str:
        needed = [name for name in packages if _version(name) is None]
        if server is not None and executable(server) is None:
            needed.append(server)
        return f"{', '.join(needed)} ({HINT})" if needed else ""

    return missing


def versions(packages: Sequence[str], server: str | None = None) -> Callable[[], str]:
    """Of these packages, and what the server says of itself."""

    def told() -> str:
        parts = [f"{name} {_version(name)}" for name in packages]
        return ", ".join([*parts, *([_server_version(server)] if server else [])])

    return told


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _server_version(name: str) -> str:
    found = executable(name)
    assert found is not None
    said = subprocess.run([found, "--version"], capture_output=True, text=True, check=True)
    number = re.search(r"v=?(\d[\d.]*)", said.stdout)
    return f"{name} {number[1] if number else '?'}"


def _compiler() -> str:
    said = subprocess.run(["cc", "--version"], capture_output=True, text=True, check=True)
    return said.stdout.splitlines()[0]


PEERS: dict[str, System] = {
    **{
        name: System(
            worker("pyzmq"),
            title,
            {"nodrop": nodrop},
            missing=absent(["pyzmq"]),
            version=versions(["pyzmq"]),
            ground=folder,
        )
        for name, title, nodrop in (
            ("pyzmq", "ZeroMQ XPUB", False),
            ("pyzmq-nodrop", "ZeroMQ XPUB_NODROP", True),
        )
    },
    "zenoh": System(
        worker("zenoh"),
        "Zenoh",
        missing=absent(["eclipse-zenoh"]),
        version=versions(["eclipse-zenoh"]),
        ground=port,
    ),
    "cyclonedds": System(
        worker("cyclonedds"),
        "Cyclone DDS, KEEP_LAST",
        missing=absent(["cyclonedds"]),
        version=versions(["cyclonedds"]),
    ),
    **{
        name: System(
            worker(name),
            title,
            missing=absent(["nats-py"], "nats-server"),
            version=versions(["nats-py"], "nats-server"),
            ground=serving(nats),
        )
        for name, title in (("nats", "NATS"), ("jetstream", "NATS JetStream"))
    },
    "redis": System(
        worker("redis"),
        "Redis streams",
        missing=absent(["redis", "hiredis"], "redis-server"),
        version=versions(["redis"], "redis-server"),
        ground=serving(redis),
    ),
    "jgroups": System(
        worker("jgroups"),
        "JGroups",
        missing=JGROUPS.missing,
        version=JGROUPS.version,
        ground=jgroups,
    ),
    "limit": System(
        worker("limit"),
        "bare sockets in C",
        has_datagrams=True,
        benchmarks=["throughput"],
        missing=lambda: "" if shutil.which("cc") else "a C compiler, cc",
        version=_compiler,
        ground=limit,
    ),
}
