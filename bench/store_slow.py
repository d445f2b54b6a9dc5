"""A store of which one server is slow, or some are stopped: do the others go on?

Servers are `semcast serve` with disks.  Each client talks to one of the servers that stay well, and
sets keys, one update at a time, all together at most `--rate` a second (0: as fast as they are
answered).  Phases: before, bad, after.  In the bad phase either

- one server has a quarter of its processor, or `--share`: it is stopped (SIGSTOP) for 75 of every
  100 ms, or with `--by quota` it may use 25 ms of every 100 (a cgroup of Linux, as root); or
- `--stop N` servers are stopped altogether.

Beside the updates a second of each phase: the longest time without any answer, the longest update,
the changes of the view and when they came, how far the slow server was behind, and how much memory
the servers have.  `--victim first` is the server that gives updates their order, `last` the last in
the view.  All on one machine, where servers and clients share the processors: the rate should be
what the machine can bear with one server less.

    python bench/store_slow.py --victim last --rate 1000
    python bench/store_slow.py --servers 3 --stop 1 --bad 5 --rate 1000
"""

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import Any, NamedTuple

from peers.servers import HOST, free_port

import semcast
from semcast.runtime.event_loop import run
from semcast.runtime.operations.control import read_all
from semcast.runtime.operations.snapshot import Snapshot

NAMES = "abcde"
KEYS = 1000
PERIOD_S = 0.1  # in which a slow server runs once
LOOK_S = 0.5
GIVE_UP_S = 120.0
QUOTAS = Path("/sys/fs/cgroup/cpu")
SLACK_S = 0.2  # around a change of the view, which belongs to neither side


def say(line: str) -> None:
    """Progress and tables; the JSON goes to standard output."""
    print(line, file=sys.stderr, flush=True)


class Told(NamedTuple):
    """A line that a server printed."""

    at: float
    name: str
    line: str


class Servers:
    """Processes; what they print is kept, with the time."""

    def __init__(self, place: Path, count: int, extra: Sequence[str]) -> None:
        program = str(Path(sys.executable).with_name("semcast"))
        self.addresses = {name: f"{name}={HOST}:{free_port()}" for name in NAMES[:count]}
        self.told: list[Told] = []
        self.processes: dict[str, subprocess.Popen[str]] = {}
        peers = ",".join(self.addresses.values())
        for name in self.addresses:
            where = ("--peers", peers, "--data", str(place / name), *extra)
            process = subprocess.Popen(
                [program, "serve", "--name", name, *where],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            self.processes[name] = process
            threading.Thread(target=self._read, args=(name, process), daemon=True).start()

    def _read(self, name: str, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self.told.append(Told(monotonic(), name, line.strip()))

    def await_all(self) -> None:
        """Until each is primary."""
        deadline = monotonic() + GIVE_UP_S
        while {told.name for told in self.told if " is primary" in told.line} != set(
            self.addresses
        ):
            if monotonic() > deadline:
                raise RuntimeError(f"the servers did not begin: {self.told}")
            sleep(0.05)

    def signal(self, name: str, number: int) -> None:
        """Send a signal."""
        os.kill(self.processes[name].pid, number)

    def memory_mib(self) -> dict[str, float]:
        """Resident memory of each."""
        found: dict[str, float] = {}
        for name, process in self.processes.items():
            text = Path(f"/proc/{process.pid}/status").read_text()
            found[name] = int(text.partition("VmRSS:")[2].split()[0]) / 1024
        return found

    def end(self) -> None:
        """All of them, also those that are stopped."""
        for process in self.processes.values():
            process.send_signal(signal.SIGCONT)
            process.terminate()
        for process in self.processes.values():
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextmanager
def by_stops(servers: Servers, names: Sequence[str], share: float) -> Iterator[None]:
    """Each is stopped for most of every period."""
    over = threading.Event()

    def beat() -> None:
        while not over.is_set():
            for name in names:
                servers.signal(name, signal.SIGSTOP)
            over.wait(PERIOD_S * (1 - share))
            for name in names:
                servers.signal(name, signal.SIGCONT)
            over.wait(PERIOD_S * share)

    beating = threading.Thread(target=beat)
    beating.start()
    try:
        yield
    finally:
        over.set()
        beating.join()


@contextmanager
def by_quota(servers: Servers, names: Sequence[str], share: float) -> Iterator[None]:
    """Each may use so much of a processor."""
    with ExitStack() as stack:
        for name in names:
            group = QUOTAS / f"store_slow_{servers.processes[name].pid}"
            group.mkdir()
            stack.callback(group.rmdir)
            (group / "cpu.cfs_period_us").write_text(str(round(PERIOD_S * 1e6)))
            (group / "cpu.cfs_quota_us").write_text(str(round(PERIOD_S * share * 1e6)))
            pid = str(servers.processes[name].pid)
            (group / "cgroup.procs").write_text(pid)
            stack.callback((QUOTAS / "cgroup.procs").write_text, pid)
        yield


@contextmanager
def stopped(servers: Servers, names: Sequence[str], _: float) -> Iterator[None]:
    """None of them runs."""
    for name in names:
        servers.signal(name, signal.SIGSTOP)
    try:
        yield
    finally:
        for name in names:
            servers.signal(name, signal.SIGCONT)


class Load:
    """Clients that set keys; `done` has when each update was answered and how long it took."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.done: list[tuple[float, float]] = []
        self.failed: list[str] = []
        self._clients, self._rate, self._size = given.clients, given.rate, given.size

    async def work(self, number: int, store: "semcast.Store") -> None:
        """One client, until it is cancelled."""
        value, count, due = b"x" * self._size, 0, monotonic()
        while True:
            if self._rate:
                due = max(due + self._clients / self._rate, monotonic() - 0.25)
                await asyncio.sleep(max(0.0, due - monotonic()))
            begun = monotonic()
            try:
                await store.set(f"key{(number * 37 + count) % KEYS}", value)
            except semcast.SemcastError as error:
                self.failed.append(f"{type(error).__name__}: {error}")
                continue
            count += 1
            now = monotonic()
            self.done.append((now, now - begun))

    def rate(self, begin: float, end: float) -> float:
        """Updates a second that were answered in that time."""
        return sum(begin <= at < end for at, _ in self.done) / max(end - begin, 1e-9)

    def silence_s(self, begin: float, end: float) -> float:
        """The longest time without an answer to anybody."""
        times = [begin, *(at for at, _ in self.done if begin <= at < end), end]
        return max(later - at for at, later in pairwise(times))

    def worst_s(self, begin: float, end: float) -> float:
        """The longest update that was answered in that time."""
        return max((took for at, took in self.done if begin <= at < end), default=end - begin)


class Looks:
    """What the servers say about themselves, now and then; by name, with the time."""

    def __init__(self) -> None:
        self.seen: list[tuple[float, dict[str, Snapshot]]] = []
        self.memory: list[dict[str, float]] = []

    async def look(self, group: str, servers: Servers) -> None:
        """Until it is cancelled."""
        while True:
            found = await asyncio.to_thread(read_all, group, LOOK_S)
            self.seen.append((monotonic(), {each.name: each for each in found}))
            self.memory.append(servers.memory_mib())
            await asyncio.sleep(LOOK_S)

    def behind(self, victims: Sequence[str], begin: float, end: float) -> int:
        """By how many updates a victim was behind the first server, at the most."""
        worst = 0
        for at, seen in self.seen:
            versions = {n: s.server.updates for n, s in seen.items() if s.server is not None}
            slow = [versions[name] for name in victims if name in versions]
            if begin <= at < end and slow:
                worst = max(worst, max(versions.values()) - min(slow))
        return worst

    def held_mib(self, begin: float, end: float) -> float:
        """The most that any server held for retransmission."""
        held = [s.held_bytes for at, seen in self.seen for s in seen.values() if begin <= at < end]
        return max(held, default=0) / 2**20


def order_of(group: str) -> list[str]:
    """The members of the view; the first gives updates their order."""
    views = [each.view for each in read_all(group, 2 * LOOK_S) if each.view is not None]
    return max(views, key=lambda view: len(view.members)).members


def choose(order: Sequence[str], given: argparse.Namespace) -> list[str]:
    """Who is slow, or stopped."""
    count = given.stop or 1
    if given.victim in NAMES:
        return [given.victim]
    return list(order[:count] if given.victim == "first" else order[-count:])


async def measure(servers: Servers, group: str, given: argparse.Namespace) -> dict[str, Any]:
    """All phases."""
    order = await asyncio.to_thread(order_of, group)
    victims = choose(order, given)
    well = [name for name in order if name not in victims]
    say(f"order of the view: {', '.join(order)}; victims: {', '.join(victims)}")
    load, looks = Load(given), Looks()
    async with AsyncExitStack() as stack:
        tasks = [asyncio.create_task(looks.look(group, servers))]
        for number in range(given.clients):
            # Stores that open with the same servers share a socket.
            name = well[number % len(well)]
            opened = semcast.open_store(servers.addresses[name], group=group, give_up=GIVE_UP_S)
            store = await stack.enter_async_context(opened)
            tasks.append(asyncio.create_task(load.work(number, store)))
        await asyncio.sleep(given.warm_up)
        times = [monotonic()]
        await asyncio.sleep(given.before)
        times.append(monotonic())
        make_bad = stopped if given.stop else by_quota if given.by == "quota" else by_stops
        with make_bad(servers, victims, given.share):
            await asyncio.sleep(given.bad)
        times.append(monotonic())
        await asyncio.sleep(given.after)
        times.append(monotonic())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return report(servers, load, looks, victims, times, given)


def report(
    servers: Servers,
    load: Load,
    looks: Looks,
    victims: Sequence[str],
    times: Sequence[float],
    given: argparse.Namespace,
) -> dict[str, Any]:
    """The figures of a run."""
    found: dict[str, Any] = {"victims": list(victims), "asked": vars(given)}
    before = load.rate(times[0], times[1])
    for name, begin, end in zip(("before", "bad", "after"), times, times[1:], strict=False):
        rate = load.rate(begin, end)
        found[name] = {
            "seconds": end - begin,
            "rate": rate,
            "of_before": rate / before,
            "silence_s": load.silence_s(begin, end),
            "worst_s": load.worst_s(begin, end),
            "behind": looks.behind(victims, begin, end),
            "held_mib": looks.held_mib(begin, end),
        }
    well = [told for told in servers.told if told.name not in victims and told.at > times[1]]
    first = next((told.at for told in well if "not in reach" in told.line), None)
    if given.stop and first is not None and first < times[2]:
        sides = {"until_the_view": (times[1], first - SLACK_S)}
        sides["from_the_view"] = (first + SLACK_S, times[2])
        found["view_after_s"] = first - times[1]
        for side, (begin, end) in sides.items():
            found[side] = load.rate(begin, end) / before
    found["told"] = [(round(t.at - times[1], 2), t.name, t.line) for t in servers.told]
    found["per_second"] = [round(load.rate(t, t + 1)) for t in _seconds(times[0], times[-1])]
    found["memory_mib"] = [looks.memory[0], looks.memory[-1]] if looks.memory else []
    found["failed"] = load.failed[:5]
    found["load_average"] = os.getloadavg()
    return found


def _seconds(begin: float, end: float) -> list[float]:
    return [begin + second for second in range(int(end - begin))]


def show(found: dict[str, Any]) -> None:
    """For people."""
    for name in ("before", "bad", "after"):
        about = found[name]
        say(
            f"{name:6} {about['rate']:8,.0f} updates/s, {about['of_before']:.2f} of before; "
            f"longest silence {about['silence_s']:.2f} s, longest update {about['worst_s']:.2f} s; "
            f"slow one behind by {about['behind']:,}; held {about['held_mib']:.1f} MiB"
        )
    if "view_after_s" in found:
        say(
            f"view changed after {found['view_after_s']:.2f} s; before that "
            f"{found['until_the_view']:.2f} of the rate, then {found['from_the_view']:.2f}"
        )
    for at, _, line in found["told"]:
        if at > -1:
            say(f"  {at:7.2f} s  {line[:150]}")
    say(f"per second: {found['per_second']}")
    say(f"memory, MiB: {found['memory_mib']}; load average {found['load_average']}")
    if found["failed"]:
        say(f"failed: {found['failed']}")


def arguments() -> argparse.Namespace:
    """From the command line."""
    parser = argparse.ArgumentParser(description="a store with a slow or a stopped server")
    parser.add_argument("--servers", type=int, default=5, choices=range(3, 6))
    parser.add_argument("--clients", type=int, default=40)
    parser.add_argument("--rate", type=float, default=1000.0, help="updates a second; 0: no limit")
    parser.add_argument("--size", type=int, default=100, help="bytes of a value")
    parser.add_argument("--victim", default="last", help="first or last of the view, or a name")
    parser.add_argument("--stop", type=int, default=0, help="servers to stop; 0: one is slow")
    parser.add_argument("--share", type=float, default=0.25, help="of its processor, if slow")
    parser.add_argument("--by", choices=("stops", "quota"), default="stops")
    parser.add_argument("--warm-up", type=float, default=3.0)
    parser.add_argument("--before", type=float, default=15.0)
    parser.add_argument("--bad", type=float, default=60.0)
    parser.add_argument("--after", type=float, default=15.0)
    parser.add_argument("--serve", action="append", default=[], help="option of semcast serve")
    return parser.parse_args()


async def main(given: argparse.Namespace) -> None:
    """Measure, print a table and one JSON object."""
    group = f"slow{os.getpid()}"
    with TemporaryDirectory() as place:
        servers = Servers(Path(place), given.servers, ("--group", group, *given.serve))
        try:
            await asyncio.to_thread(servers.await_all)
            found = await measure(servers, group, given)
        finally:
            servers.end()
    show(found)
    print(json.dumps(found))


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        work: Callable[[argparse.Namespace], Any] = main
        run(work(arguments()))
