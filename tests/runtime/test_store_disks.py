"""Live servers of the store whose power is cut: what was not synced is gone, torn or reordered.

The servers are real, with sockets, drivers and the thread that waits for the disk; only the
directory is another one, which forgets like a disk does.
"""

import asyncio
from random import Random
from threading import Lock

import pytest
from tests.runtime.test_store import Servers, close, kill

import semcast
from semcast.runtime.storage import durable_log
from semcast.sim.files import SimFiles

CLIENTS = 4


class Directory:
    """A directory in use by one life of a server; after the power cut it takes nothing."""

    def __init__(self, files, syncs):
        self.files, self.syncs = files, syncs
        self.lock, self.is_cut = Lock(), False

    def __getattr__(self, name):
        def call(*args):
            with self.lock:
                if self.is_cut:
                    raise OSError(5, "the power was cut")
                if name in ("sync", "sync_names") and not self.syncs:
                    return None  # This disk says that it has synced, and has not.
                return getattr(self.files, name)(*args)

        return call

    def close(self):
        pass


class Disks:
    """By path, what is on the medium."""

    def __init__(self, *, syncs=True):
        self.syncs = syncs
        self.media, self.used = {}, {}

    def open(self, path):
        self.used[path] = Directory(self.media.setdefault(path, SimFiles()), self.syncs)
        return self.used[path]

    def cut_power(self, rng):
        for path, directory in self.used.items():
            with directory.lock:
                directory.is_cut = True
                self.media[path].cut_power(rng)


@pytest.fixture
def store(place):
    return Servers(place)


async def count(client, key, counted, is_over):
    while not is_over.is_set():
        try:
            counted[key].append(await client.incr(key))
        except semcast.RequestUnknown:
            counted[key].append(None)


async def until_counted(counted, answers):
    wanted = {key: len(found) + answers for key, found in counted.items()}
    async with asyncio.timeout(60):
        while any(len(counted[key]) < wanted[key] for key in counted):
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("seed", range(3))
async def test_answered_updates_survive_when_the_power_of_all_servers_is_cut(
    store, monkeypatch, seed
):
    disks, rng = Disks(), Random(seed)
    monkeypatch.setattr(durable_log, "DirectoryFiles", disks.open)
    servers = await store.start("abc")
    counted = {f"key{number}": [] for number in range(CLIENTS)}
    is_over = asyncio.Event()
    clients = [await store.client().open() for _ in counted]
    pairs = zip(clients, counted, strict=True)
    working = [asyncio.create_task(count(*pair, counted, is_over)) for pair in pairs]
    for _ in range(3):
        await until_counted(counted, rng.randint(1, 20))
        disks.cut_power(rng)
        for server in servers:
            kill(server)
        await close(*servers)
        servers = await store.start("abc")
    await until_counted(counted, 1)
    is_over.set()
    await asyncio.gather(*working)
    for key, found in counted.items():
        told = [value for value in found if value is not None]
        assert told == sorted(set(told)), "an update was made twice, or undone"
        last = int(await clients[0].get(key))
        assert told[-1] <= last
        assert len(told) <= last <= len(told) + found.count(None)
    for client in clients:
        await client.close()
    await close(*servers)


async def test_disks_that_only_say_that_they_sync_lose_answered_updates(store, monkeypatch):
    """So the test above can fail."""
    disks = Disks(syncs=False)
    monkeypatch.setattr(durable_log, "DirectoryFiles", disks.open)
    servers = await store.start("abc")
    async with store.client() as client:
        await client.set("x", "1")
    for medium in disks.media.values():  # Nothing reached the medium but what was replaced whole.
        for file in medium._files.values():
            del file.data[file.synced :]
    for directory in disks.used.values():
        directory.is_cut = True
    for server in servers:
        kill(server)
    await close(*servers)
    disks.syncs = True
    servers = await store.start("abc")
    async with store.client() as client:
        await client.set("y", "2")
        assert await client.get("x") is None
    await close(*servers)
