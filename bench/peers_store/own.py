"""Semcast's own store: three servers, as `semcast serve` runs them."""

import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from peers.servers import HOST, free_port
from peers_store.race import Ground, StoreSystem, Update

import semcast

NAMES = "abc"


@contextmanager
def ground(*, is_durable: bool) -> Iterator[Ground]:
    """Ready once all can update."""
    program = str(Path(sys.executable).with_name("semcast"))
    peers = ",".join(f"{name}={HOST}:{free_port()}" for name in NAMES)
    servers = []
    with TemporaryDirectory() as place:
        try:
            for name in NAMES:
                where = ("--data", f"{place}/{name}") if is_durable else ("--memory",)
                command = [program, "serve", "--name", name, "--peers", peers, *where]
                servers.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
            for server in servers:
                assert server.stdout is not None
                while "is primary" not in server.stdout.readline():
                    assert server.poll() is None
            yield Ground([server.pid for server in servers], lambda _: connect(peers))
        finally:
            for server in servers:
                server.terminate()
            for server in servers:
                server.communicate()


@asynccontextmanager
async def connect(peers: str) -> AsyncIterator[Update]:
    """A client with a session of its own; all share a socket, as stores of one event loop do."""
    async with semcast.open_store(peers) as store:
        yield store.set


DURABLE = StoreSystem(
    "semcast, disks of a majority",
    lambda: ground(is_durable=True),
    str,
    lambda: semcast.__version__,
)
MEMORY = StoreSystem(
    "semcast, memory of a majority",
    lambda: ground(is_durable=False),
    str,
    lambda: semcast.__version__,
)
