"""The replicated store on real processes with disks: servers are killed, in turn and all at once,
while clients count.  Every answered update is there, once; and the servers' own record of the run
keeps every promise."""

import asyncio
import os
import signal
import subprocess
import sys

import pytest

import semcast
from semcast.fleet.trace_verdict import judge

RUN = [sys.executable, "-c", "import sys; from semcast.cli.main import main; sys.exit(main())"]
KILLS = 100 if os.environ.get("SOAK") else 10
CLIENTS = 4
DEADLINE_S = 60.0


class Store:
    """Three servers; `peers` is what servers and clients are given."""

    def __init__(self, place, addresses):
        self.place, self.trace = place, place / "trace"
        self.peers = ",".join(f"{name}={host}:{port}" for name, (host, port) in addresses.items())
        self.servers = {name: self.start(name) for name in addresses}

    def start(self, name):
        words = ("serve", "--name", name, "--peers", self.peers, "--timeout", "300 ms")
        where = ("--data", str(self.place / name), "--trace", str(self.trace))
        return subprocess.Popen(
            [*RUN, *words, *where],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def kill(self, name):
        self.servers[name].kill()
        self.servers[name].wait()
        self.servers[name].stdout.close()

    def stop(self):
        for server in self.servers.values():
            if not server.stdout.closed:
                server.kill()
                server.wait()
                server.stdout.close()


@pytest.fixture
def store(tmp_path, free):
    made = Store(tmp_path, free("abc"))
    yield made
    made.stop()


async def count(client, key, is_over, counted):
    """Add one, again and again; an update that nobody knows of may have been made or not."""
    while not is_over.is_set():
        try:
            counted[key].append(await client.incr(key))
        except semcast.RequestUnknown:
            counted[key].append(None)


async def under_load(store, disturb):
    """Clients count while `disturb` goes on; returns what each was told, and what is there."""
    is_over = asyncio.Event()
    counted = {f"key{number}": [] for number in range(CLIENTS)}
    clients = [await semcast.open_store(store.peers).open() for _ in counted]
    pairs = zip(clients, counted, strict=True)
    working = [asyncio.create_task(count(*pair, is_over, counted)) for pair in pairs]

    async def progress(answers=10):
        """Every client gets so many more answers."""
        wanted = {key: len(found) + answers for key, found in counted.items()}
        async with asyncio.timeout(DEADLINE_S):
            while any(len(counted[key]) < wanted[key] for key in counted):
                await asyncio.sleep(0.01)

    await progress()
    await disturb(progress)
    is_over.set()
    await asyncio.gather(*working)
    last = {key: int(await clients[0].get(key)) for key in counted}
    for client in clients:
        await client.close()
    return counted, last


def check_trace(store):
    """Nothing of the run is known but what its servers have recorded, up to their ends."""
    store.stop()
    verdict = judge(store.trace)
    assert verdict.passed, verdict.properties
    for name in ("sequential_consistency", "exactly_once_requests", "primary_order", "total_order"):
        assert verdict.properties[name].status == "pass"


def check(counted, last):
    for key, found in counted.items():
        unknown = found.count(None)
        told = [value for value in found if value is not None]
        assert told == sorted(set(told)), "an update was made twice, or undone"
        assert len(told) <= last[key] <= len(told) + unknown


def test_servers_that_are_killed_lose_no_answered_update(store):
    async def kill_in_turn(progress):
        for number in range(KILLS):
            name = "abc"[number % 3]
            store.kill(name)
            await progress()
            store.servers[name] = store.start(name)
            while "is primary" not in await asyncio.to_thread(store.servers[name].stdout.readline):
                pass

    check(*asyncio.run(under_load(store, kill_in_turn)))
    check_trace(store)


def test_all_servers_killed_at_once_lose_no_answered_update(store):
    async def kill_all(progress):
        for _ in range(3):
            for name in "abc":
                store.kill(name)
            for name in "abc":
                store.servers[name] = store.start(name)
            await progress()

    check(*asyncio.run(under_load(store, kill_all)))
    check_trace(store)


def test_a_server_that_is_stopped_does_not_stop_updates(store):
    async def stop(progress):
        store.servers["b"].send_signal(signal.SIGSTOP)
        await progress(50)
        store.servers["b"].send_signal(signal.SIGCONT)
        await progress(50)

    check(*asyncio.run(under_load(store, stop)))
    check_trace(store)
