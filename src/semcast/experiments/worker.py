"""One live process of an experiment: `python -m semcast.experiments.worker`.

A plan comes on standard input; reports go out on standard output, one JSON object a line.  It
joins, waits for the start signal, sends its load, takes messages, and leaves when told to stop or
when standard input ends: whoever launched it is gone then.
"""

import asyncio
import sys
from hashlib import blake2b
from math import inf
from random import Random
from resource import RUSAGE_SELF, getrusage
from time import monotonic, monotonic_ns
from typing import Final

import msgspec

import semcast
from semcast.experiments.plan import Command, Load, Plan, Report, Result, Start, Tick
from semcast.runtime.group import Group, Update
from semcast.runtime.loop import run
from semcast.runtime.mailbox import Message

TICK_S: Final = 0.1
TURN_S: Final = 0.001  # between two looks at what is due
BEHIND_S: Final = 0.05  # A sender that was held up longer does not make up for it.
BATCH_MAX: Final = 64
TAKE_MAX: Final = 1024
SERVE_S: Final = 0.005  # what a slow application takes at once keeps it busy so long, at most
LATENCIES_MAX: Final = 20_000
STAMP_BYTES: Final = 8


def cpu_s() -> float:
    """Processor time of this process so far."""
    usage = getrusage(RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def say(report: Report) -> None:
    """One line to whoever launched this process."""
    sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
    sys.stdout.buffer.flush()


class Worker:
    """Lives as long as its process."""

    def __init__(self, plan: Plan, group: Group) -> None:
        self.plan = plan
        self.group = group
        self.sent = self.taken = self.skipped = 0
        self.seconds = 0.0
        self.is_sending = plan.load is not None
        self.recovers_at = inf  # when it stops being slow
        self.state: dict[tuple[str, str], int] = {}
        self.latencies_us: list[float] = []
        self.rng = Random(1)
        self.cpu_before = cpu_s()

    async def send(self, load: Load, start: float) -> None:
        """The load, from the start signal on."""
        schedule, end = load.schedule(), start + load.seconds
        due, update = next(schedule)
        while (now := monotonic()) < end:
            batch: list[Update] = []
            while start + due <= now and len(batch) < BATCH_MAX:
                batch.append(update)
                due, update = next(schedule)
            if not batch:
                await asyncio.sleep(max(start + due - now, TURN_S))
                continue
            await self.group.multicast_many(self._stamped(batch) if self.plan.is_stamped else batch)
            self.sent += len(batch)
            behind = monotonic() - (start + due)
            if behind > BEHIND_S:
                start += behind
        self.seconds = load.seconds
        self.is_sending = False

    @staticmethod
    def _stamped(batch: list[Update]) -> list[Update]:
        stamp = monotonic_ns().to_bytes(STAMP_BYTES, "little")
        return [Update(stamp + u.payload[STAMP_BYTES:], u.item, u.never_purge) for u in batch]

    async def take(self) -> None:
        """What comes, at the pace that the plan allows."""
        service_s = self.plan.service_s
        limit = max(1, int(SERVE_S / service_s)) if service_s else TAKE_MAX
        busy_until = 0.0
        async for batch in self.group.batches(limit):
            self._note(batch)
            now = monotonic()
            if service_s and now < self.recovers_at:
                # A timer that came late is made up for, idle time is not.
                busy_until = max(busy_until, now - SERVE_S) + len(batch) * service_s
                await asyncio.sleep(busy_until - now)

    def _note(self, batch: list[Message]) -> None:
        self.taken += len(batch)
        for message in batch:
            self.skipped += message.skipped
            self.state[message.sender, message.item or ""] = message.seq
        if self.plan.is_stamped:
            sent_ns = int.from_bytes(batch[0].payload[:STAMP_BYTES], "little")
            latency_us = (monotonic_ns() - sent_ns) / 1000
            if len(self.latencies_us) < LATENCIES_MAX:
                self.latencies_us.append(latency_us)
            else:
                self.latencies_us[self.rng.randrange(LATENCIES_MAX)] = latency_us

    async def tick(self) -> None:
        """Tell how things are, now and then."""
        while True:
            say(Report(tick=self._tick()))
            await asyncio.sleep(TICK_S)

    def _tick(self) -> Tick:
        now = self.group.snapshot()
        return Tick(
            sent=now.sent,
            taken=self.taken,
            skipped=self.skipped,
            held=now.held,
            queued=now.queued,
            forgotten=sum(peer.is_forgotten for peer in now.peers),
            is_blocked=now.is_blocked,
            is_sending=self.is_sending,
            slowest=now.slowest,
        )

    def result(self) -> Result:
        """What there is to show."""
        lasts = msgspec.json.encode(sorted((*key, seq) for key, seq in self.state.items()))
        return Result(
            sent=self.sent,
            taken=self.taken,
            skipped=self.skipped,
            seconds=self.seconds,
            cpu_s=cpu_s() - self.cpu_before,
            state=blake2b(lasts, digest_size=16).hexdigest(),
            latencies_us=self.latencies_us,
            snapshot=self.group.snapshot(),
        )


async def commands() -> asyncio.StreamReader:
    """Standard input, without blocking."""
    reader = asyncio.StreamReader(limit=1 << 20)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    return reader


async def work() -> None:
    """One life."""
    told = await commands()
    plan = msgspec.json.decode(await told.readline(), type=Plan)
    async with semcast.join(plan.group, name=plan.name, **plan.options) as group:
        worker = Worker(plan, group)
        say(Report(is_ready=True))
        taking = asyncio.create_task(worker.take())
        start = msgspec.json.decode(await told.readline(), type=Start)
        await asyncio.sleep(start.at - monotonic())
        worker.cpu_before = cpu_s()
        if plan.slow_s is not None:
            worker.recovers_at = start.at + plan.slow_s
        doing = [asyncio.create_task(worker.tick())]
        if plan.load is not None:
            doing.append(asyncio.create_task(worker.send(plan.load, start.at)))
        async for line in told:  # Its end: nobody is there any more.
            command = msgspec.json.decode(line, type=Command)
            if command.forget is not None:
                group.forget(command.forget)
            if command.stop:
                break
        for task in doing:
            task.cancel()
        result = worker.result()
    await taking
    say(Report(result=result))


def main() -> int:
    """Exit code 2 if the plan cannot be carried out."""
    try:
        run(work())
    except semcast.SemcastError as error:
        say(Report(error=str(error)))
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
