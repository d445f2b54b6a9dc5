"""The durable log: what a record costs the event loop, and how many become durable.

    .venv/bin/python bench/durable_log.py [--data DIR]

The first table is processor time on the appending side: encoding alone, and encoding with the
entry of the log.  The second has clients that each append a record and wait until it is durable,
on the disk that holds DIR, and the rate at which a process that restarts reads its records.
"""

import argparse
import asyncio
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, process_time

import msgspec

from semcast.disk.commit_queue import CommitQueue
from semcast.disk.entries import Batch, EntryKey
from semcast.disk.log_header import LogOwner
from semcast.runtime.event_loop import run
from semcast.runtime.storage.durable_log import DurableLog

RECORDS = 20_000
REPEATS = 9
CLIENTS = (1, 50, 1000)
SECONDS = 3.0
RECOVERED = 1_000_000
encode = msgspec.msgpack.Encoder().encode


class Put(msgspec.Struct, frozen=True, array_like=True, tag=1, gc=False):
    """What a store would write."""

    position: int
    key: str
    value: bytes


def puts(count: int, size: int) -> list[tuple[int, Put]]:
    """Records with their tickets."""
    return [(n, Put(n, f"key-{n % 1000}", bytes(size))) for n in range(1, count + 1)]


def encode_ns(records: list[tuple[int, Put]], together: int) -> float:
    """Processor time of encoding alone, per record."""
    start = process_time()
    for at in range(0, len(records), together):
        [encode(record) for _, record in records[at : at + together]]
    return (process_time() - start) / len(records) * 1e9


def append_ns(records: list[tuple[int, Put]], together: int) -> float:
    """Processor time of encoding and of the entries, per record."""
    queue = CommitQueue(Batch(EntryKey(b"saltsalt"), 1))
    start = process_time()
    for at in range(0, len(records), together):
        queue.add(records[at : at + together])
    return (process_time() - start) / len(records) * 1e9


def show_appending() -> None:
    """What the log adds to encoding."""
    print("appending, ns of processor time per record, medians of", REPEATS)
    print(f"{'bytes':>7} {'at once':>8} {'encoding':>9} {'with entry':>11} {'the log':>8}")
    for size in (10, 100, 1000):
        records = puts(RECORDS, size)
        for together in (1, 64):
            pairs = [
                (encode_ns(records, together), append_ns(records, together)) for _ in range(REPEATS)
            ]
            alone, both = median(a for a, _ in pairs), median(b for _, b in pairs)
            extra = median(b - a for a, b in pairs)
            print(f"{size:>7} {together:>8} {alone:>9.0f} {both:>11.0f} {extra:>8.0f}")


class Clients:
    """Each has one record under way."""

    def __init__(self, log: DurableLog, count: int) -> None:
        self.log, self.count = log, count
        self.ticket = self.done = 0

    def append(self, count: int) -> None:
        """So many clients append at once, one record each."""
        for _ in range(count):
            self.ticket += 1
            self.log.append([(self.ticket, Put(self.ticket, "key", bytes(100)))])

    def on_persisted(self, ticket: int) -> None:
        """Those whose record is durable append the next one."""
        ready, self.done = ticket - self.done, ticket
        self.append(ready)

    def on_disk_failed(self, error: Exception) -> None:
        """A bench needs a disk that works."""
        raise error


async def show_durable(data: Path) -> None:
    """Records a second, on this disk."""
    print(f"\ndurable on {data}, records of 100 bytes, {SECONDS:g} s each")
    print(
        f"{'clients':>8} {'records/s':>10} {'cpu us/record':>14} {'syncs/s':>8}",
        f"{'records/sync':>13}",
    )
    for count in CLIENTS:
        log = await DurableLog.open(data / str(count), LogOwner("bench", "a"), Put)
        clients = Clients(log, count)
        log.connect(clients)
        cpu, start = process_time(), perf_counter()
        clients.append(count)
        await asyncio.sleep(SECONDS)
        seconds, cpu, done, syncs = (
            perf_counter() - start,
            process_time() - cpu,
            clients.done,
            log.syncs,
        )
        clients.append = lambda count: None  # type: ignore[method-assign]
        await log.close()
        print(
            f"{count:>8} {done / seconds:>10,.0f} {cpu / done * 1e6:>14.2f}",
            f"{syncs / seconds:>8,.0f} {done / syncs:>13.1f}",
        )


async def show_recovery(data: Path) -> None:
    """How fast a process that restarts has its records."""
    log = await DurableLog.open(data / "restart", LogOwner("bench", "a"), Put)
    for first in range(0, RECOVERED, 10_000):
        log.append(puts(10_000, 100))
        if not first % 100_000:
            await log.flush()
    await log.close()
    start, cpu = perf_counter(), process_time()
    log = await DurableLog.open(data / "restart", LogOwner("bench", "a"), Put)
    opened = perf_counter() - start
    count = sum(1 for _ in log.records)
    print(
        f"\nrestart: opened in {opened:.2f} s, {count:,} records read and decoded in "
        f"{perf_counter() - start:.2f} s,",
        f"{(process_time() - cpu) / count * 1e6:.2f} us of processor time each",
    )
    await log.close()


async def main() -> None:
    """All tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="directory on the disk to measure")
    asked = parser.parse_args()
    show_appending()
    with TemporaryDirectory(dir=asked.data) as made:
        await show_durable(Path(made))
        await show_recovery(Path(made))


if __name__ == "__main__":
    run(main())
