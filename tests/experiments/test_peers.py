"""Other systems under the benchmarks: what their channels share, and short runs of a few."""

import asyncio
import os
import select
import signal
import subprocess
import sys
import threading
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from semcast.bench import systems as known
from semcast.bench.benchmark import BenchCase, BenchSettings, run_once
from semcast.fleet.plan import Load, WorkerPlan
from semcast.runtime.application.mailbox import Message
from semcast.terms.messages import Update

DEADLINE_S = 60
PEERS = {name: system for name, system in known.systems().items() if name not in known.OWN}
SERVER = """
import socket, sys
with socket.create_server(("127.0.0.1", int(sys.argv[1]))) as listening:
    while True:
        listening.accept()[0].close()
"""
LAUNCHER = """
import sys
sys.path.append(sys.argv[1])
from peers.servers import free_port, server
port = free_port()
with server([sys.executable, "-c", sys.argv[2], str(port)], port) as pid:
    print(pid, flush=True)
    sys.stdin.read()
"""


def peers(name):
    """A module of bench/peers."""
    return import_module(f"peers.{name}")


def message(seq, payload=b""):
    return Message("a", None, payload, seq)


def plan(*, sends, **options):
    shared = {"members": 2, "order": "fifo", "buffer": None}
    load = Load(stream="plain") if sends else None
    return WorkerPlan(group="g", name="a", options={**shared, **options}, load=load)


def is_alive(pid):
    return Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize("name", PEERS)
def test_every_peer_has_a_worker_and_says_what_it_needs(name):
    _, script, module = PEERS[name].worker
    assert Path(script).is_file()
    assert find_spec(f"peers.{module}")
    assert isinstance(PEERS[name].missing(), str)


def test_what_is_not_installed_is_named_with_what_to_do():
    missing = peers("systems").absent(["msgspec", "no-such-package"], "no-such-server")
    assert missing() == "no-such-package, no-such-server (pip install 'semcast[peers]')"
    assert peers("systems").absent(["msgspec"])() == ""


def test_messages_travel_with_what_a_receiver_needs():
    async def travel():
        channel = peers("channel").PeerChannel(plan(sends=True))
        first = list(channel.encoded([Update(b"x", "i"), Update(b"y")]))
        return [*first, *channel.encoded([Update(b"z")])]

    decoded = [peers("channel").decode(data) for data in asyncio.run(travel())]
    assert [(m.sender, m.item, m.payload, m.seq) for m in decoded] == [
        ("a", "i", b"x", 1),
        ("a", None, b"y", 2),
        ("a", None, b"z", 3),
    ]


def test_an_inbox_hands_over_what_a_thread_brings_and_makes_it_wait():
    async def take():
        inbox = peers("inbox").Inbox(room=2)
        fullest, numbers = 0, []

        def bring():
            for seq in range(200):
                inbox.put([message(seq)])

        thread = threading.Thread(target=bring)
        thread.start()
        async with asyncio.timeout(DEADLINE_S):
            async for batch in inbox.batches(3):
                fullest = max(fullest, len(batch))
                numbers += [m.seq for m in batch]
                if len(numbers) == 200:
                    inbox.close()
        thread.join()
        return fullest, numbers

    fullest, numbers = asyncio.run(take())
    assert numbers == list(range(200))
    assert fullest <= 2


def test_closing_an_inbox_lets_everyone_go():
    async def close():
        inbox = peers("inbox").Inbox(room=1)
        inbox.put([message(1)])
        thread = threading.Thread(target=inbox.put, args=([message(2)],))
        thread.start()
        inbox.close()
        thread.join(DEADLINE_S)
        assert not thread.is_alive()
        assert [batch async for batch in inbox.batches(1)] == []

    asyncio.run(close())


def test_messages_in_a_pipe_may_come_in_pieces(tmp_path):
    async def parse():
        jgroups = peers("jgroups")
        channel = jgroups.JGroupsChannel(plan(sends=True, folder=str(tmp_path)))
        stream = b"".join(
            jgroups.LENGTH.pack(len(data)) + data
            for data in channel.encoded([Update(b"x" * size) for size in range(50)])
        )
        found = []
        for place in range(0, len(stream), 7):
            channel._rest += stream[place : place + 7]
            while batch := channel._parsed(2):
                assert len(batch) <= 2
                found += batch
        return found

    assert [len(m.payload) for m in asyncio.run(parse())] == list(range(50))


def test_a_server_ends_with_its_block():
    servers = peers("servers")
    port = servers.free_port()
    with servers.server([sys.executable, "-c", SERVER, str(port)], port) as pid:
        assert is_alive(pid)
    assert not is_alive(pid)


def test_a_server_ends_with_its_launcher():
    bench = str(Path(peers("servers").HERE).parent)
    command = [sys.executable, "-c", LAUNCHER, bench, SERVER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as launcher:
        pid = int(launcher.stdout.readline())
        watch = os.pidfd_open(pid)
        launcher.send_signal(signal.SIGKILL)
    try:
        assert select.select([watch], [], [], DEADLINE_S)[0]
    finally:
        os.close(watch)


def test_a_server_that_does_not_start_is_told(monkeypatch):
    servers = peers("servers")
    monkeypatch.setattr(servers, "PATIENCE_S", 0.1)
    with (
        pytest.raises(servers.GroundError, match="true did not listen within"),
        servers.server(["true"], servers.free_port()),
    ):
        pytest.fail("it listens")


def test_programs_are_compiled_when_their_source_is_newer(tmp_path):
    servers = peers("servers")
    source, target = tmp_path / "a.c", tmp_path / "out" / "a"
    source.touch()
    servers.make(source, target, "cp", str(source), str(target))
    servers.make(source, target, "false")  # It is up to date.
    os.utime(source, (0, target.stat().st_mtime + 1))
    with pytest.raises(servers.GroundError, match="false could not compile it"):
        servers.make(source, target, "false")


@pytest.mark.parametrize("name", ["pyzmq-nodrop", "redis", "limit"])
def test_throughput(name):
    if missing := PEERS[name].missing():
        pytest.skip(f"not installed: {missing}")
    found = run_once("throughput", BenchSettings(receivers=1, seconds=0.5), BenchCase(name))
    assert 0 < found["rate"] <= found["sender_rate"]
    assert found["cpu_us_per_delivery"] > 0
    assert PEERS[name].version()
    if name != "limit":
        assert found["missed_ratio"] == 0
