"""Live groups on this machine, judged, and bad networks between their members."""

import asyncio
import random
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from semcast.faults import Cut, Link
from semcast.fleet.live_run import LiveRun, run_live
from semcast.fleet.plan import WorkerPlan
from semcast.fleet.relay import Relay
from semcast.runtime.storage.keyring import edit, new_key
from semcast.runtime.transport.addresses import Address, format_address
from semcast.specs.verdict import CheckVerdict

DEADLINE_S = 60.0
NAMES = "abcde"  # of members that may have a machine of their own, as far as the network can tell
SUBNET = "198.51.100"  # for documentation, so nobody is there
PORTS = range(10_000, 20_000)  # below those that the system and groups take by themselves


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing of the machine's own settings takes part; paths of sockets are short."""
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        for name in ("XDG_STATE_HOME", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME"):
            monkeypatch.setenv(name, place)
        monkeypatch.setenv("SEMCAST_KEYS", f"{place}/keys")
        yield


@pytest.fixture
def key(tmp_path: Path) -> str:
    """A file with a new key."""
    edit(tmp_path / "keys", lambda ring: ring.with_key(new_key()))
    return str(tmp_path / "keys")


@pytest.fixture
def live(tmp_path: Path) -> Callable[..., LiveRun]:
    """Runs a new group with a member for each letter, and insists that it kept every promise.

    `loads` and `slow` (seconds for each message) go by letter, and so does what `own` returns,
    options that differ; the rest is `run_live`'s, or options that all share.
    """

    def run(
        names: str,
        loads: Mapping[str, Any],
        slow: Mapping[str, float] | None = None,
        own: Callable[[str], dict[str, Any]] = lambda _: {},
        disturb: Any = lambda _: None,
        launchers: Mapping[str, Sequence[str]] | None = None,
        **options: Any,
    ) -> LiveRun:
        group = f"conformance-{uuid4().hex}"
        plans = [
            WorkerPlan(
                group=group,
                name=name,
                options={"members": len(names), "buffer": 1000, **options, **own(name)},
                load=loads.get(name),
                service_s=(slow or {}).get(name, 0.0),
            )
            for name in names
        ]
        done = run_live(plans, tmp_path / "live", "conformance", disturb, launchers=launchers)
        where = f"see {done.directory}"
        assert done.is_quiet, where
        assert_kept(done.verdict, where)
        assert done.agrees, f"{done.results}; {where}"
        return done

    return run


def assert_kept(verdict: CheckVerdict, where: str = "") -> None:
    """Every property that was promised was judged, liveness too, and holds.

    Whether a live run purges or skips anything depends on the machine.
    """
    found = verdict.properties.items()
    kept = {name: one for name, one in found if not one.reason.endswith("does not guarantee it")}
    wrong = {name: one for name, one in kept.items() if one.status not in ("pass", "not exercised")}
    assert sum(one.status == "pass" for one in kept.values()) > 5
    assert not wrong, f"{wrong}; {where}"


@pytest.fixture
def kept() -> Callable[..., None]:
    """The same of any verdict."""
    return assert_kept


@pytest.fixture
def free() -> Callable[..., dict[str, Address]]:
    """`free("abc", "::1")`: for each letter a port that neither UDP nor TCP uses."""
    return free_addresses


def free_addresses(names: str, host: str = "127.0.0.1") -> dict[str, Address]:
    ports = (port for port in random.sample(PORTS, len(PORTS)) if is_free(host, port))
    return {name: (host, next(ports)) for name in names}


def is_free(host: str, port: int) -> bool:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with (
        socket.socket(family, socket.SOCK_DGRAM) as udp,
        socket.socket(family, socket.SOCK_STREAM) as tcp,
    ):
        try:
            udp.bind((host, port))
            tcp.bind((host, port))
        except OSError:
            return False
    return True


def peers(addresses: Mapping[str, Address]) -> dict[str, Any]:
    return {"peers": [f"{name}={format_address(address)}" for name, address in addresses.items()]}


@pytest.fixture
def at() -> Callable[[Mapping[str, Address]], dict[str, Any]]:
    """The option that says where everyone is."""
    return peers


class BadNetwork:
    """A relay between members, on a loop in a thread: they and it take turns on two cores."""

    def __init__(self, names: str, link: Link, faults: Sequence[Cut]) -> None:
        self._addresses = free_addresses(names)
        self._relay = Relay(self._addresses, link, faults)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._fronts = self._run(self._relay.start())

    def own(self, name: str) -> dict[str, Any]:
        """Where a member is, and where it finds the others."""
        return peers({**self._fronts, name: self._addresses[name]})

    def begin(self, _: object) -> None:
        """Let the time of the faults begin."""
        self._loop.call_soon_threadsafe(self._relay.start_faults)

    @property
    def dropped(self) -> Mapping[str, int]:
        return self._relay.counts.dropped

    @property
    def duplicated(self) -> int:
        return self._relay.counts.duplicated

    def close(self) -> None:
        self._run(self._relay.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, what: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(what, self._loop).result(DEADLINE_S)


@pytest.fixture
def bad_network() -> Iterator[Callable[..., BadNetwork]]:
    """`bad_network("abc", Link(loss=0.1), faults)`: one to put a group behind."""
    made: list[BadNetwork] = []

    def make(names: str, link: Link, faults: Sequence[Cut] = ()) -> BadNetwork:
        made.append(BadNetwork(names, link, faults))
        return made[-1]

    yield make
    for network in made:
        network.close()


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


class Switches:
    """Two switches; every member's cable is in the first, until it is moved."""

    def __init__(self, tag: str) -> None:
        self.spaces = {name: f"semcast-{tag}-{name}" for name in NAMES}
        self._switches = [f"sw{number}-{tag}" for number in range(2)]
        self._ports = {name: f"p{name}-{tag}" for name in NAMES}

    def open(self) -> None:
        for switch in self._switches:
            ip("link", "add", switch, "type", "bridge", "mcast_snooping", "0")
            ip("link", "set", switch, "up")
        for number, name in enumerate(NAMES, start=1):
            space, port, end = self.spaces[name], self._ports[name], f"e{self._ports[name]}"
            ip("netns", "add", space)
            ip("link", "add", port, "type", "veth", "peer", "name", end, "netns", space)
            ip("-n", space, "addr", "add", f"{SUBNET}.{number}/24", "dev", end)
            for device in ("lo", end):
                ip("-n", space, "link", "set", device, "up")
            ip("link", "set", port, "master", self._switches[0], "up")

    def cut(self, names: str) -> None:
        """These hear each other and nobody else, and the rest likewise."""
        for name in names:
            ip("link", "set", self._ports[name], "master", self._switches[1])

    def heal(self) -> None:
        for port in self._ports.values():
            ip("link", "set", port, "master", self._switches[0])

    def options(self, name: str) -> dict[str, Any]:
        """What a member needs to know of its network."""
        return {"interface": f"{SUBNET}.{NAMES.index(name) + 1}"}

    @property
    def launchers(self) -> dict[str, list[str]]:
        """What starts each member on its own machine."""
        return {name: ["ip", "netns", "exec", space] for name, space in self.spaces.items()}

    def close(self) -> None:
        for words in [("link", "delete", switch) for switch in self._switches] + [
            ("netns", "delete", space) for space in self.spaces.values()
        ]:
            subprocess.run(["ip", *words], check=False, capture_output=True)


@pytest.fixture
def switches() -> Iterator[Switches]:
    made = Switches(uuid4().hex[:8])
    try:
        made.open()
    except (OSError, subprocess.CalledProcessError) as error:
        made.close()
        pytest.skip(f"network namespaces cannot be made here: {error}")
    yield made
    made.close()
