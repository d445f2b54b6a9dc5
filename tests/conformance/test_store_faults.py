"""The replicated store on machines of their own, as far as the network can tell: links are cut and
healed, servers are killed and stopped; and a disk that is full."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from tests.conformance.conftest import SUBNET

import semcast
from semcast.fleet.trace_verdict import judge
from semcast.specs.histories import explains

RUN = [sys.executable, "-c", "import sys; from semcast.cli.main import main; sys.exit(main())"]
DEADLINE_S = 60.0

pytestmark = pytest.mark.skipif(
    not os.environ.get("SOAK"), reason="takes minutes on a busy machine: make soak"
)
CLIENT = """
import asyncio, json, sys, threading, semcast

async def main(peers, key, interface):
    over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
    async with semcast.open_store(peers, key=key, interface=interface, give_up=2) as store:
        while not over.is_set():
            for request in ("incr", "get"):
                try:
                    if request == "incr":
                        answer = await store.incr("n")
                    else:
                        answer = int(await store.get("n") or 0)
                except semcast.NoQuorum:
                    continue
                except semcast.RequestUnknown:
                    answer = None
                print(json.dumps([request, answer]), flush=True)
            await asyncio.sleep(0.2)

asyncio.run(main(*sys.argv[1:]))
"""


def until(holds, what):
    end = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < end, f"no {what} within {DEADLINE_S:g} s"
        time.sleep(0.02)


class Process:
    """A server or a client; `lines` is what it has said."""

    def __init__(self, *command, **more):
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, **more)
        self.lines = []
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line)

    def until_primary(self):
        until(lambda: "is primary" in self.state, "primary view")

    @property
    def state(self):
        """What a server has last said that it is."""
        return next((line for line in reversed(self.lines) if " of store is " in line), "")

    def end(self):
        """Let it end by itself, and have all that it has said."""
        self.process.stdin.close()
        self.process.wait(DEADLINE_S)
        self._reading.join()

    def kill(self):
        self.process.kill()
        self.process.wait()
        self._reading.join()
        self.process.stdin.close()
        self.process.stdout.close()


@pytest.fixture
def processes():
    started = []

    def start(*command, **more):
        started.append(Process(*command, **more))
        return started[-1]

    yield start
    for each in started:
        each.kill()


def counter(state, request):
    return (state + 1, state + 1) if request[0] == "incr" else (state, state)


def test_cuts_kills_and_stops_lose_no_answered_update(switches, processes, key, tmp_path):
    """And one order of all requests explains every answer; the servers' own record of the run keeps
    every promise, too."""
    hosts = {name: f"{SUBNET}.{number}" for number, name in enumerate("abcde", 1)}
    peers = ",".join(f"{name}={host}:7100" for name, host in hosts.items())

    def serve(name):
        words = ("serve", "--name", name, "--peers", peers, "--key", key, "--timeout", "300 ms")
        where = ("--data", str(tmp_path / name), "--trace", str(tmp_path / "trace"))
        return processes(*switches.launchers[name], *RUN, *words, *where)

    def ask_from(name):
        command = (sys.executable, "-c", CLIENT, peers, key, hosts[name])
        return processes(*switches.launchers[name], *command)

    def progress(names, answers=3):
        """Clients on these machines get so many more answers to updates."""

        def done(name):
            return sum("incr" in line and "null" not in line for line in clients[name].lines)

        wanted = {name: done(name) + answers for name in names}
        until(lambda: all(done(name) >= count for name, count in wanted.items()), "progress")

    servers = {name: serve(name) for name in hosts}
    for server in servers.values():
        server.until_primary()
    clients = {name: ask_from(name) for name in "ace"}
    progress("ace")
    switches.cut("de")
    progress("ac")
    switches.heal()
    progress("ace")
    servers["a"].kill()  # It has ordered the updates.
    progress("ace")
    servers["a"] = serve("a")
    servers["a"].until_primary()
    # `ip netns exec` has become the server itself.
    servers["c"].process.send_signal(signal.SIGSTOP)
    progress("ace")
    servers["c"].process.send_signal(signal.SIGCONT)
    switches.cut("ab")
    progress("ce")
    switches.heal()
    progress("ace")
    for client in clients.values():
        client.end()
    histories, unknown = {}, []
    for number, client in enumerate(clients.values()):
        seen = [(place, *json.loads(line)) for place, line in enumerate(client.lines)]
        unknown += [(r, number, place) for place, r, answer in seen if r == "incr" and not answer]
        answered = [one for one in seen if one[2] is not None]
        histories[number] = [((r, number, place), answer) for place, r, answer in answered]
    updates = [answer for one in histories.values() for (r, *_), answer in one if r == "incr"]
    assert len(set(updates)) == len(updates), "an update was lost, or made twice"
    assert explains(histories, unknown, 0, counter) is not None
    last = ask_from("d")
    until(lambda: len(last.lines) >= 2, "answer")
    assert json.loads(last.lines[-1])[1] > max(updates)
    last.end()
    for server in servers.values():
        server.kill()
    verdict = judge(tmp_path / "trace")
    assert verdict.passed, verdict.properties
    for name in ("sequential_consistency", "exactly_once_requests", "primary_order", "total_order"):
        assert verdict.properties[name].status == "pass"


@pytest.fixture
def small_disk(tmp_path):
    """A file system with room for one megabyte; `grow` makes more."""
    place = tmp_path / "small"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "semcast", str(place)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"file systems cannot be mounted here: {error}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=False)


def test_a_server_whose_disk_is_full_says_so_and_catches_up_later(
    small_disk, processes, free, tmp_path
):
    addresses = free("abc")
    peers = ",".join(f"{name}={host}:{port}" for name, (host, port) in addresses.items())
    data = {"a": tmp_path / "a", "b": small_disk / "b", "c": tmp_path / "c"}

    def serve(name):
        words = ("serve", "--name", name, "--peers", peers, "--timeout", "300 ms")
        with (tmp_path / f"{name}.err").open("w") as said:
            return processes(*RUN, *words, "--data", str(data[name]), stderr=said)

    servers = {name: serve(name) for name in "abc"}
    for server in servers.values():
        server.until_primary()

    async def fill(store):
        count = 0
        while servers["b"].process.poll() is None:
            assert count < 5_000
            await store.set(f"key{count}", b"x" * 2_000)
            count += 1
        for _ in range(20):  # The others go on.
            await store.set(f"key{count}", b"x" * 2_000)
            count += 1
        return count

    async def check(store, count):
        await store.incr("n")
        for number in range(count):
            assert await store.get(f"key{number}") == b"x" * 2_000

    async def run():
        async with semcast.open_store(peers) as store:
            count = await fill(store)
            assert servers["b"].process.returncode == 2
            said = (tmp_path / "b.err").read_text()
            reason = f"No space left on device in {data['b']}; free some space there, then start"
            assert reason in said
            assert "Traceback" not in said
            grow = ["mount", "-o", "remount,size=64m", str(small_disk)]
            subprocess.run(grow, check=True)
            servers["b"] = serve("b")
            await asyncio.to_thread(servers["b"].until_primary)
            servers["a"].kill()  # So the one that was full is needed.
            await check(store, count)

    asyncio.run(run())
