"""Rules for every test; made-up live members, and control sockets to serve their snapshots on."""

import asyncio
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from semcast.runtime.operations.control import ControlServer
from semcast.runtime.operations.snapshot import Peer, Snapshot

DEADLINE_S = 60

# How long an example takes is the machine's affair.  Every run has the same examples, but for those
# of `make soak`, which looks for new ones.
settings.register_profile(
    "semcast",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=not os.environ.get("SOAK"),
)
settings.load_profile("semcast")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse test ids that contain a memory address: parallel workers must collect equal ids."""
    for item in items:
        if " at 0x" in item.nodeid:
            raise pytest.UsageError(f"test id contains a memory address: {item.nodeid}")


def make_peer(name: str, rank: int, **fields: Any) -> Peer:
    known = {"lag": 0, "heard_ago_s": 0.1, "delivered": 0, "skipped": 0, "queued": 0, "held": 0}
    return Peer(**{"name": name, "rank": rank, **known, "is_forgotten": False, **fields})


def make_snapshot(name: str = "ada", **fields: Any) -> Snapshot:
    counters = ("sent", "delivered", "skipped", "purged", "queued", "held", "held_bytes")
    traffic = ("datagrams_in", "datagrams_out", "bytes_in", "bytes_out")
    known: dict[str, Any] = dict.fromkeys((*counters, *traffic), 0)
    known |= {"group": "quotes", "rank": 0, "pid": os.getpid(), "version": "0", "f": 1}
    known |= {"protocol": "s-rm", "order": "fifo", "up_s": 1.0, "buffer": 100}
    known |= {"is_blocked": False, "is_sealed": False, "discarded": {}, "slowest": None}
    return Snapshot(**{"name": name, **known, "peers": [], **fields})


class Live:
    """Control servers on a loop in a thread, as members in their processes would be."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._servers: list[ControlServer] = []
        self._loop = loop
        self._thread = threading.Thread(target=loop.run_forever)
        self._thread.start()

    def add(self, said: Snapshot, take: Callable[[], Any] | None = None) -> ControlServer:
        """A member that says this, or what `take` returns."""
        server = ControlServer(take or (lambda: said))
        self._run(server.start(said.group, said.name))
        self._servers.append(server)
        return server

    def remove(self, server: ControlServer) -> None:
        """The member leaves."""
        self._run(server.close())

    def end(self) -> None:
        """All of them leave."""
        for server in self._servers:
            self.remove(server)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, what: Any) -> None:
        asyncio.run_coroutine_threadsafe(what, self._loop).result(DEADLINE_S)


@pytest.fixture
def snapshot() -> Callable[..., Snapshot]:
    """`snapshot("ada", sent=3)`: a member that has done nothing, but for what is said."""
    return make_snapshot


@pytest.fixture
def peer() -> Callable[..., Peer]:
    """`peer("bob", 1, lag=3)`: likewise."""
    return make_peer


@pytest.fixture
def sockets(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The directory of the control sockets, for this test alone; its path is short."""
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        monkeypatch.setenv("XDG_RUNTIME_DIR", place)
        yield Path(place) / "semcast"


@pytest.fixture
def live(sockets: Path, request: pytest.FixtureRequest) -> Iterator[Live]:
    """Members to look at; the parameter, if any, makes their loop."""
    new_loop = getattr(request, "param", asyncio.new_event_loop)
    members = Live(new_loop())
    yield members
    members.end()
