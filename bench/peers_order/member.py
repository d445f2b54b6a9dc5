"""One member of a Semcast group under total order, as `race.py` wants it."""

import asyncio
import json
import sys
from resource import RUSAGE_SELF, getrusage
from time import monotonic_ns

import semcast

try:
    from semcast.runtime.event_loop import run
except ImportError:  # `pairs.py` runs this with older trees, too.
    from semcast.runtime.loop import run

STEP, STEPS = 1_000, 20
BATCH = 64
MASK = (1 << 64) - 1


class Count:
    """What a member has delivered."""

    def __init__(self) -> None:
        self.delivered = 0
        self.digest = 0
        self.marks: list[str] = []

    async def of(self, group: semcast.Group) -> None:
        """Take everything."""
        async for batch in group.batches():
            if self.delivered < STEP * STEPS:
                for message in batch:
                    self.note(message.payload)
            else:
                self.delivered += len(batch)

    def note(self, payload: bytes) -> None:
        """One step of the digest."""
        self.digest = (self.digest * 31 + int.from_bytes(payload[:8], "big")) & MASK
        self.delivered += 1
        if self.delivered % STEP == 0 and len(self.marks) < STEPS:
            self.marks.append(f"{self.digest:x}")


async def send(group: semcast.Group, index: int, size: int, end: int) -> None:
    """As fast as the group takes it."""
    rest, number = bytes(size - 8), index << 48
    while monotonic_ns() < end:
        numbers = range(number + 1, number + 1 + BATCH)
        number += BATCH
        await group.multicast_many(
            [semcast.Update(one.to_bytes(8, "big") + rest) for one in numbers]
        )


def cpu_s() -> float:
    """Processor time so far."""
    usage = getrusage(RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


async def until(time: int) -> None:
    """Wait for a time of the monotonic clock."""
    await asyncio.sleep(max(0, time - monotonic_ns()) / 1e9)


def say(line: str) -> None:
    """To whoever launched this."""
    print(line, flush=True)


async def main(protocol: str, name: str, index: int, members: int, size: int, sends: bool) -> None:
    loop = asyncio.get_running_loop()
    say("joined")
    async with semcast.join(
        name,
        name=f"m{index}",
        members=members,
        protocol=protocol,
        order="total",
        interface="127.0.0.1",
        key=False,
        control=False,
        buffer=16_384,
    ) as group:
        say("ready")
        told = await loop.run_in_executor(None, sys.stdin.readline)
        begin, end = map(int, told.split())
        count = Count()
        tasks = [asyncio.create_task(count.of(group))]
        if sends:
            tasks.append(asyncio.create_task(send(group, index, size, end)))
        await until(begin)
        before, cpu = count.delivered, cpu_s()
        await until(end)
        delivered, cpu = count.delivered - before, cpu_s() - cpu
        say(json.dumps({"delivered": delivered, "cpu_s": cpu, "marks": count.marks}))
        await loop.run_in_executor(None, sys.stdin.readline)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


if __name__ == "__main__":
    protocol, group, *numbers, sends = sys.argv[1:]
    run(main(protocol, group, *map(int, numbers), sends == "1"))
