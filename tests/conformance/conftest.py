"""Live groups on this machine: their plans, keys, ports and a bad network between them."""

import asyncio
import os
import random
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from semcast.experiments.live_run import LiveRun
from semcast.experiments.plan import Load, Plan
from semcast.faults import Link
from semcast.runtime.keyring import edit, new_key
from semcast.runtime.relay import Relay
from semcast.terms.promises import promised

DEADLINE_S = 10.0
LONG = bool(os.environ.get("SOAK"))  # make soak
PORTS = range(10_000, 20_000)  # below those that the system and groups take by themselves
Address = tuple[str, int]


@pytest.fixture(autouse=True)
def state(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing of the machine's own settings takes part; paths of sockets are short."""
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        for name in ("XDG_STATE_HOME", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME"):
            monkeypatch.setenv(name, place)
        monkeypatch.setenv("SEMCAST_KEYS", f"{place}/no-keys")
        yield


@pytest.fixture
def key(tmp_path: Path) -> str:
    """A file with a new key."""
    edit(tmp_path / "keys", lambda ring: ring.adding(new_key()))
    return str(tmp_path / "keys")


def plans(
    names: str,
    loads: Mapping[str, Load],
    slow: Mapping[str, float] | None = None,
    own: Callable[[str], dict[str, Any]] = lambda _: {},
    **options: Any,
) -> list[Plan]:
    """A member of a new group for each letter; `own` gives what differs between them."""
    group = f"conformance-{uuid4().hex}"
    common = {"protocol": "s-rm", "order": "fifo", "buffer": 1000, **options}
    return [
        Plan(
            group=group,
            name=name,
            options={**common, **own(name)},
            load=loads.get(name),
            service_s=(slow or {}).get(name, 0.0),
        )
        for name in names
    ]


def assert_sound(run: LiveRun) -> None:
    """Everything promised was judged and holds; who was left agrees on every last value."""
    verdict = run.verdict
    assert run.is_quiet, f"not quiet: {run.directory}"
    judged = {
        name: judgement
        for name, judgement in verdict.properties.items()
        if name in promised(verdict.run.protocol, verdict.run.order)
    }
    failed = {name: found for name, found in judged.items() if found.status != "pass"}
    assert not failed, f"{failed}: {run.directory}"
    assert run.agrees, f"{run.results}: {run.directory}"


def free_addresses(names: str, host: str = "127.0.0.1") -> dict[str, Address]:
    """A port for each name that is free for UDP and TCP."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found: dict[str, Address] = {}
    for port in random.sample(PORTS, len(PORTS)):
        with (
            socket.socket(family, socket.SOCK_DGRAM) as udp,
            socket.socket(family, socket.SOCK_STREAM) as tcp,
        ):
            try:
                udp.bind((host, port))
                tcp.bind((host, port))
            except OSError:
                continue
        found[names[len(found)]] = host, port
        if len(found) == len(names):
            return found
    raise OSError("no port is free")


@contextmanager
def relayed(
    addresses: Mapping[str, Address], link: Link, faults: Any = (), seed: int = 1
) -> Iterator[tuple[Relay, dict[str, Address], asyncio.AbstractEventLoop]]:
    """A bad network between members, on a loop in a thread, and where each is found behind it."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def run(what: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(what, loop).result(DEADLINE_S)

    relay = Relay(addresses, link, faults, seed)
    try:
        yield relay, run(relay.start()), loop
    finally:
        run(relay.close())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
