"""Clients that update a store, each one update at a time, for some seconds."""

import asyncio
import os
import subprocess
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack
from pathlib import Path
from statistics import median, quantiles
from time import monotonic, process_time
from typing import NamedTuple, TypeAlias

Update: TypeAlias = Callable[[str, bytes], Awaitable[None]]
TICKS = os.sysconf("SC_CLK_TCK")
WARM_UP_S = 1.0
KEYS = 1000


class Ground(NamedTuple):
    """Servers that run: their processes, and how the n-th client gets to one of them."""

    pids: list[int]
    connect: Callable[[int], AbstractAsyncContextManager[Update]]


class StoreSystem(NamedTuple):
    """A store to measure; `missing` says what is not installed."""

    name: str
    ground: Callable[[], AbstractContextManager[Ground]]
    missing: Callable[[], str]
    version: Callable[[], str]


class Lap(NamedTuple):
    """One run: updates a second, their latencies, and processor time for each."""

    rate: float
    p50_ms: float
    p99_ms: float
    server_us: float
    client_us: float


def ask_version(program: str | Path | None, *words: str) -> str:
    """The first line that a program says about itself."""
    said = subprocess.run([str(program), *words], capture_output=True, text=True, check=False)
    return said.stdout.partition("\n")[0].strip()


def processor_s(pids: list[int]) -> float:
    """What processes have used so far."""
    total = 0
    for pid in pids:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += int(words[11]) + int(words[12])
    return total / TICKS


async def race(ground: Ground, clients: int, size: int, seconds: float) -> Lap:
    """All clients at once; what they do in the first second does not count."""
    latencies: list[float] = []
    counting_from = monotonic() + WARM_UP_S
    end = counting_from + seconds

    async def work(number: int, update: Update) -> None:
        value, count = b"x" * size, 0
        while (begun := monotonic()) < end:
            await update(f"key{(number * 37 + count) % KEYS}", value)
            count += 1
            if begun >= counting_from:
                latencies.append(monotonic() - begun)

    async with AsyncExitStack() as stack:
        updates = [await stack.enter_async_context(ground.connect(n)) for n in range(clients)]
        counting_from = monotonic() + WARM_UP_S
        end = counting_from + seconds
        working = [asyncio.create_task(work(n, each)) for n, each in enumerate(updates)]
        await asyncio.sleep(WARM_UP_S)
        servers, own = processor_s(ground.pids), process_time()
        await asyncio.gather(*working)
        servers, own = processor_s(ground.pids) - servers, process_time() - own
    done = len(latencies)
    p99 = quantiles(latencies, n=100)[98]
    p50_ms, p99_ms = median(latencies) * 1e3, p99 * 1e3
    return Lap(done / seconds, p50_ms, p99_ms, servers / done * 1e6, own / done * 1e6)
