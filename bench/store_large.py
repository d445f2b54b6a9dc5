"""A replicated store of a million keys: how long do a restart and handing over the state take?

Three servers with disks are filled by clients that pipeline.  Then clients update keys all the
time, each one update at a time, at most `--rate` a second together, and servers end:

- it is killed and started again with its disk: seconds from the start of the process until it is
  in place and may update;
- it is killed and started again with an empty disk: the same, while another server hands it all.

Beside these: updates a second meanwhile and before; the processor time of each server meanwhile;
and the longest time between two turns of its event loop, on the clock and as processor time of the
loop's thread.  The clock also counts waiting for a processor that other processes have.

    python bench/store_large.py --keys 1000000 --place /tmp/filled   # a filled place is used again
"""

import argparse
import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import monotonic, thread_time
from typing import Any

from peers.servers import HOST, free_port
from peers_store.race import processor_s

import semcast
from semcast.runtime.event_loop import run

NAMES = "abc"
TURN_S = 0.001
FILLERS = 16  # clients that fill, each with
PIPELINE = 16  # requests on their way
DEADLINE_S = 120.0


def say(line: str) -> None:
    """Progress and tables; the JSON goes to standard output."""
    print(line, file=sys.stderr, flush=True)


# A server


async def watch_turns(worst: dict[str, float]) -> None:
    """Find the longest time in which the event loop did not come round."""
    while True:
        clock, used = monotonic(), thread_time()
        await asyncio.sleep(TURN_S)
        blocked_s = monotonic() - clock - TURN_S
        worst["clock_ms"] = max(worst["clock_ms"], blocked_s * 1e3)
        worst["processor_ms"] = max(worst["processor_ms"], (thread_time() - used) * 1e3)


async def serve(name: str, peers: str, data: str) -> None:
    """One server; every line that comes in asks for the longest turns since the line before."""
    worst = {"clock_ms": 0.0, "processor_ms": 0.0}
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    watching = asyncio.create_task(watch_turns(worst))
    server = await semcast.serve(name, peers=peers, data=data, control=False)

    async def tell() -> None:
        async for change in server.changes():
            print(json.dumps({"role": change.role, "version": server.version}), flush=True)

    telling = asyncio.create_task(tell())
    while await reader.readline():
        print(json.dumps({"turns": worst, "version": server.version}), flush=True)
        worst.update(clock_ms=0.0, processor_ms=0.0)
    telling.cancel()
    watching.cancel()
    await server.close()


class ServerProcess:
    """One of three; `begun` is when its process was started."""

    def __init__(self, name: str, peers: str, place: Path) -> None:
        command = [sys.executable, __file__, "--serve", name, peers, str(place / name)]
        self.begun = monotonic()
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def line(self, wanted: str) -> dict[str, Any]:
        """The next line about something."""
        assert self.process.stdout is not None
        while text := self.process.stdout.readline():
            found: dict[str, Any] = json.loads(text)
            if wanted in found:
                return found
        raise RuntimeError("the server has ended")

    def until_primary(self) -> float:
        """Seconds from the start of the process until it can update."""
        while self.line("role")["role"] != "primary":
            pass
        return monotonic() - self.begun

    def ask(self) -> dict[str, Any]:
        """Its longest turns since the last question, and its version."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.line("turns")

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        """Let it leave in peace."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(DEADLINE_S)


# Clients


async def fill(peers: str, keys: int, size: int) -> float:
    """Set every key; returns seconds."""
    numbers, begun, value = iter(range(keys)), monotonic(), b"x" * size
    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(semcast.open_store(peers)) for _ in range(FILLERS)
        ]

        async def work(store: semcast.Store) -> None:
            for number in numbers:
                await store.set(f"key{number}", value)
                if number % 100_000 == 0:
                    say(f"  key {number:,} after {monotonic() - begun:.0f} s")

        tasks = [work(store) for store in clients for _ in range(PIPELINE)]
        await asyncio.gather(*tasks)
    return monotonic() - begun


class Load:
    """Clients that update, one update at a time each, at most `rate` a second together."""

    def __init__(self, peers: str, keys: int, size: int, clients: int, rate: float) -> None:
        self.done = 0
        self._about = peers, keys, size
        self._clients, self._rate = clients, rate
        self._tasks: list[asyncio.Task[None]] = []

    async def _work(self, number: int) -> None:
        peers, keys, size = self._about
        rng, value = Random(number), b"y" * size
        async with semcast.open_store(peers) as store:
            due = monotonic()
            while True:
                await store.set(f"key{rng.randrange(keys)}", value)
                self.done += 1
                due = max(due + self._clients / self._rate, monotonic() - 1)
                await asyncio.sleep(max(0.0, due - monotonic()))

    async def __aenter__(self) -> "Load":
        self._tasks = [asyncio.create_task(self._work(n)) for n in range(self._clients)]
        await asyncio.sleep(2)
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def rate_during(self, work: Callable[[], Any]) -> tuple[float, Any]:
        """Updates a second while something is done in a thread, and its result."""
        begun, done = monotonic(), self.done
        result = await asyncio.to_thread(work)
        return (self.done - done) / (monotonic() - begun), result


# The measurement


class Place:
    """Where three servers have their disks."""

    def __init__(self, path: Path, peers: str) -> None:
        self.path, self.peers = path, peers
        self.servers = {name: ServerProcess(name, peers, path) for name in NAMES}

    def turns(self) -> dict[str, dict[str, float]]:
        """Each server's longest turns since the last look."""
        return {name: server.ask()["turns"] for name, server in self.servers.items()}

    def processor_s(self) -> dict[str, float]:
        """What each server has used so far."""
        return {name: processor_s([each.process.pid]) for name, each in self.servers.items()}

    def restart(self, name: str, *, with_disk: bool) -> float:
        """Kill a server and start it again; returns seconds until it can update."""
        self.servers[name].kill()
        if not with_disk:
            shutil.rmtree(self.path / name)
        self.servers[name] = ServerProcess(name, self.peers, self.path)
        return self.servers[name].until_primary()


async def measure(place: Place, given: argparse.Namespace) -> dict[str, Any]:
    """All of it."""
    found: dict[str, Any] = {"keys": given.keys, "size": given.size, "clients": given.clients}
    for server in place.servers.values():
        await asyncio.to_thread(server.until_primary)
    if not given.is_filled:
        found["fill_s"] = await fill(place.peers, given.keys, given.size)
        say(f"filled in {found['fill_s']:.0f} s; the longest turns: {place.turns()}")
    load = Load(place.peers, given.keys, given.size, given.clients, given.rate)
    async with load:
        for step, with_disk in (("restart", True), ("transfer", False)):
            await asyncio.to_thread(place.turns)
            before, _ = await load.rate_during(lambda: asyncio.run(asyncio.sleep(given.seconds)))
            turns_before = await asyncio.to_thread(place.turns)
            name = given.names[step == "transfer"]
            used_before = place.processor_s() | {name: 0.0}
            meanwhile, took_s = await load.rate_during(
                lambda name=name, with_disk=with_disk: place.restart(name, with_disk=with_disk)
            )
            turns = await asyncio.to_thread(place.turns)
            used = {n: s - used_before[n] for n, s in place.processor_s().items()}
            found[step] = {
                "server": name,
                "seconds": took_s,
                "rate_before": before,
                "rate_meanwhile": meanwhile,
                "kept": meanwhile / before,
                "turns_before": turns_before,
                "turns": turns,
                "processor_s": used,
            }
            say(f"{step} of {name}: {took_s:.2f} s; {before:,.0f} updates/s before,")
            say(f"  {meanwhile:,.0f} meanwhile, {meanwhile / before:.2f} of before")
            for each, worst in turns.items():
                old = turns_before[each]
                say(
                    f"  {each}: {used[each]:.1f} s of processor time; longest turn "
                    f"{worst['clock_ms']:.0f} ms on the clock, "
                    f"{worst['processor_ms']:.0f} ms of processor time; before "
                    f"{old['clock_ms']:.0f} and {old['processor_ms']:.0f}"
                )
    return found


def arguments() -> argparse.Namespace:
    """From the command line."""
    parser = argparse.ArgumentParser(description="restart and state transfer of a large store")
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--size", type=int, default=100, help="bytes of a value")
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--rate", type=float, default=500.0, help="updates a second, at most")
    parser.add_argument("--seconds", type=float, default=10.0, help="to measure the rate before")
    parser.add_argument("--place", type=Path, help="where the disks are and stay")
    parser.add_argument("--names", default="bc", help="the server to restart, and to empty")
    parser.add_argument("--serve", nargs=3, help=argparse.SUPPRESS)
    return parser.parse_args()


async def main(given: argparse.Namespace) -> None:
    """Measure, print a table and one JSON object."""
    with TemporaryDirectory() as made:
        path = given.place or Path(made)
        given.is_filled = (path / NAMES[0]).exists()
        peers = ",".join(f"{name}={HOST}:{free_port()}" for name in NAMES)
        place = Place(path, peers)
        try:
            print(json.dumps(await measure(place, given)))
            for server in place.servers.values():
                server.end()
        finally:
            for server in place.servers.values():
                server.process.kill()
                server.process.wait()


if __name__ == "__main__":
    asked = arguments()
    work: Awaitable[None] = serve(*asked.serve) if asked.serve else main(asked)
    run(work)  # type: ignore[arg-type]
