"""One live process of an experiment: `python -m semcast.fleet.worker`.

A plan comes on standard input; reports go out on standard output, one JSON object a line.  It
joins, waits for the start signal, sends its load, takes messages, and leaves when told to stop or
when standard input ends: whoever launched it is gone then.

Other systems are measured by the same worker over a channel of theirs: `main(join)`.
"""

import asyncio
import logging
import sys
from array import array
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from hashlib import blake2b
from itertools import cycle, repeat
from math import inf
from os import _exit as exit_process
from os import sysconf
from resource import RUSAGE_SELF, getpagesize, getrusage
from time import monotonic, monotonic_ns
from typing import Final, Protocol, TypeAlias

import msgspec

import semcast
from semcast.fleet.plan import (
    Load,
    MessageTimes,
    StartSignal,
    WorkerCommand,
    WorkerPlan,
    WorkerReport,
    WorkerResult,
    WorkerStatus,
)
from semcast.runtime.application.mailbox import Message
from semcast.runtime.event_loop import run
from semcast.runtime.operations.snapshot import Snapshot
from semcast.runtime.options.option_sources import ignore_environment
from semcast.terms.items import Item, item_tag
from semcast.terms.messages import Update
from semcast.traces.journal import Journal

LEFT_ALONE: Final = 2  # exit code
TICK_S: Final = 0.1
TURN_S: Final = 0.001  # between two looks at what is due
CATCH_UP_MAX_S: Final = 0.05  # A sender that was held up longer does not make up for it.
BATCH_MAX: Final = 64
PREPARED_MAX: Final = 200_000
FLOOD_BATCH: Final = 256  # messages that a sender without a pace sends at once,
FLOOD: Final = 32 * FLOOD_BATCH  # and after which it begins again, unless it has more items
TAKE_MAX: Final = 1024
SLOW_BATCH_S: Final = 0.005  # what a slow application takes at once keeps it busy so long, at most
LATENCIES_MAX: Final = 20_000
STAMP_BYTES: Final = 8


def cpu_s() -> float:
    """Processor time of this process so far."""
    usage = getrusage(RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def cpu_s_of(pid: int) -> float:
    """Of another process."""
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / sysconf("SC_CLK_TCK")


def send_report(report: WorkerReport) -> None:
    """One line to whoever launched this process."""
    sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
    sys.stdout.buffer.flush()


def resident_bytes() -> int | None:
    """Memory that this process uses now, where the system tells."""
    try:
        with open("/proc/self/statm", "rb") as statm:
            return int(statm.read().split()[1]) * getpagesize()
    except OSError:
        return None


class WorkerChannel(Protocol):
    """What a worker needs of a system: the part of `Group` that it uses."""

    async def multicast_many(self, updates: Iterable[Update]) -> object: ...

    def batches(self, limit: int) -> AsyncIterator[list[Message]]: ...

    def forget(self, member: str) -> None: ...

    def snapshot(self) -> Snapshot | None: ...


Connect: TypeAlias = Callable[[WorkerPlan], AbstractAsyncContextManager[WorkerChannel]]
UpdateSource: TypeAlias = Callable[[float], AsyncIterator[list[Update]]]  # from a start on


def source_of(load: Load) -> UpdateSource:
    """Makes up the load's messages now, so that they cost nothing when time counts."""
    if load.is_flood:
        updates = load.flood(max(FLOOD, load.d))
        return lambda _: send_flood(updates)
    schedule = load.prepared(PREPARED_MAX)
    return lambda start: send_at_rate(schedule, start)


async def send_at_rate(
    schedule: Iterator[tuple[float, Update]], start: float
) -> AsyncIterator[list[Update]]:
    """Messages as they become due."""
    due, update = next(schedule)
    while True:
        now = monotonic()
        batch: list[Update] = []
        while start + due <= now and len(batch) < BATCH_MAX:
            batch.append(update)
            due, update = next(schedule)
        if batch:
            yield batch
            behind = monotonic() - (start + due)
            if behind > CATCH_UP_MAX_S:
                start += behind
        if len(batch) < BATCH_MAX:
            await asyncio.sleep(max(start + due - monotonic(), TURN_S))


async def send_flood(updates: list[Update]) -> AsyncIterator[list[Update]]:
    """The same over and over, as fast as it is taken."""
    starts = range(0, len(updates), FLOOD_BATCH)
    for batch in cycle([updates[start : start + FLOOD_BATCH] for start in starts]):
        yield batch


class TimesRecorder:
    """A diary in the making; noting is cheap, since it happens while time counts."""

    def __init__(self) -> None:
        self._moments: list[tuple[int, int]] = []  # when, and how many messages
        self._numbers = array("q")
        self._items: list[Item | None] = []

    def note(self, at_ns: int, numbers: Sequence[int], items: list[Item | None]) -> None:
        """Messages of one moment."""
        self._moments.append((at_ns, len(numbers)))
        self._numbers.extend(numbers)
        self._items += items

    def diary(self) -> MessageTimes:
        """What was noted."""
        at_ns = array("q")
        for moment, count in self._moments:
            at_ns.extend(repeat(moment, count))
        names = {item for item in self._items if isinstance(item, str)}
        tags: dict[Item | None, int] = {name: item_tag(name) for name in names}
        items = array("q", [tags.get(item) or int(item or 0) for item in self._items])
        return MessageTimes(
            at_ns=at_ns.tobytes(), seq=self._numbers.tobytes(), item=items.tobytes()
        )


class LatencySample:
    """How long stamped messages took: one of every so many, fewer the more there are.

    Looking is cheap, since it happens while time counts.
    """

    def __init__(self) -> None:
        self.latencies_us: list[float] = []
        self._every = 1
        self._seen = 0

    def note(self, batch: list[Message]) -> None:
        """Messages that came just now."""
        now = monotonic_ns()
        for message in batch[-self._seen % self._every :: self._every]:
            sent_ns = int.from_bytes(message.payload[:STAMP_BYTES], "little")
            self.latencies_us.append((now - sent_ns) / 1000)
        self._seen += len(batch)
        if len(self.latencies_us) > LATENCIES_MAX:
            del self.latencies_us[1::2]
            self._every *= 2


class Worker:
    """Lives as long as its process."""

    def __init__(
        self, plan: WorkerPlan, group: WorkerChannel, spent_s: Callable[[], float] = cpu_s
    ) -> None:
        self.plan = plan
        self.group = group
        self.spent_s = spent_s
        self.sent = self.received = self.skipped = 0
        self.start = self.taken_at = monotonic()
        self.seconds = 0.0
        self.source = source_of(plan.load) if plan.load else None
        self.sent_notes, self.taken_notes = TimesRecorder(), TimesRecorder()
        self.is_sending = plan.load is not None
        self.recovers_at = inf  # when it stops being slow
        self.state: dict[tuple[str, Item], int] = {}
        self.sample = LatencySample()
        self.age_s: float | None = None
        self.cpu_before = spent_s()

    def begin(self, start: float) -> None:
        """The start signal."""
        self.start = self.taken_at = start
        self.cpu_before = self.spent_s()
        if self.plan.slow_s is not None:
            self.recovers_at = start + self.plan.slow_s

    async def send(self, load: Load) -> None:
        """The load, from the start signal on."""
        plan, multicast_many = self.plan, self.group.multicast_many
        assert self.source is not None
        async for batch in self.source(self.start):
            if monotonic() >= self.start + load.seconds:
                break
            if plan.is_stamped:
                batch = self._stamped(batch)
            if plan.keeps_diary:
                numbers = range(self.sent + 1, self.sent + len(batch) + 1)
                self.sent_notes.note(self._elapsed_ns(), numbers, [u.item for u in batch])
            await multicast_many(batch)
            self.sent += len(batch)
        self.seconds = monotonic() - self.start
        self.is_sending = False

    def _elapsed_ns(self) -> int:
        return round((monotonic() - self.start) * 1e9)

    @staticmethod
    def _stamped(batch: list[Update]) -> list[Update]:
        stamp = monotonic_ns().to_bytes(STAMP_BYTES, "little")
        return [
            Update(stamp + u.payload[STAMP_BYTES:], u.item, u.never_purge, u.obsoletes)
            for u in batch
        ]

    async def take(self) -> None:
        """What comes, at the pace that the plan allows."""
        service_s = self.plan.service_s
        limit = max(1, int(SLOW_BATCH_S / service_s)) if service_s else TAKE_MAX
        busy_until = 0.0
        async for batch in self.group.batches(limit):
            self._note(batch)
            now = self.taken_at = monotonic()
            if service_s and now < self.recovers_at:
                # A timer that came late is made up for, longer idleness is not.
                busy_until = max(busy_until, now - SLOW_BATCH_S) + len(batch) * service_s
                await asyncio.sleep(busy_until - now)

    def _note(self, batch: list[Message]) -> None:
        self.received += len(batch)
        if self.plan.is_stamped:
            self.sample.note(batch)
            sent_ns = int.from_bytes(batch[-1].payload[:STAMP_BYTES], "little")
            self.age_s = (monotonic_ns() - sent_ns) / 1e9
        if self.plan.only_counts:
            return
        for message in batch:
            self.skipped += message.skipped
            self.state[message.sender, message.item or ""] = message.seq
        if self.plan.keeps_diary:
            numbers = [message.seq for message in batch]
            self.taken_notes.note(self._elapsed_ns(), numbers, [m.item for m in batch])

    async def tick(self) -> None:
        """Tell how things are, now and then."""
        while True:
            send_report(WorkerReport(tick=self._tick()))
            await asyncio.sleep(TICK_S)

    def _tick(self) -> WorkerStatus:
        tick = WorkerStatus(
            sent=self.sent,
            taken=self.received,
            skipped=self.skipped,
            age_s=self.age_s,
            is_sending=self.is_sending,
            resident_bytes=resident_bytes(),
        )
        now = self.group.snapshot()
        if now is None:
            return tick
        return msgspec.structs.replace(
            tick,
            sent=now.sent,
            skipped=now.skipped if self.plan.only_counts else self.skipped,
            held=now.held,
            queued=now.queued,
            forgotten=sum(peer.is_forgotten for peer in now.peers),
            is_blocked=now.is_blocked,
            slowest=now.slowest,
            view=now.view.id if now.view else 0,
            members=len(now.view.members) if now.view else 0,
        )

    def result(self) -> WorkerResult:
        """What there is to show."""
        now = self.group.snapshot()
        if now is not None and self.plan.only_counts:
            self.skipped = now.skipped
        lasts = msgspec.json.encode(sorted((*key, seq) for key, seq in self.state.items()))
        return WorkerResult(
            sent=self.sent,
            taken=self.received,
            skipped=self.skipped,
            seconds=monotonic() - self.start if self.is_sending else self.seconds,
            took_s=self.taken_at - self.start,
            cpu_s=self.spent_s() - self.cpu_before,
            state=blake2b(lasts, digest_size=16).hexdigest(),
            latencies_us=self.sample.latencies_us,
            sent_diary=self.sent_notes.diary() if self.plan.keeps_diary else None,
            taken_diary=self.taken_notes.diary() if self.plan.keeps_diary else None,
            snapshot=now,
        )


async def commands() -> asyncio.StreamReader:
    """Standard input, without blocking."""
    reader = asyncio.StreamReader(limit=1 << 20)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    return reader


def join_group(plan: WorkerPlan) -> AbstractAsyncContextManager[WorkerChannel]:
    """Semcast itself."""
    return semcast.join(plan.group, name=plan.name, **plan.options)


async def work(join: Connect, spent_s: Callable[[], float]) -> None:
    """One life."""
    stdin = await commands()
    plan = msgspec.json.decode(await _line(stdin), type=WorkerPlan)
    starting = asyncio.create_task(_line(stdin))  # If it ends instead, nobody waits for a join.
    async with join(plan) as group:
        worker = Worker(plan, group, spent_s)
        send_report(WorkerReport(is_ready=True))
        taking = asyncio.create_task(worker.take())
        start = msgspec.json.decode(await starting, type=StartSignal)
        await asyncio.sleep(start.at - monotonic())
        worker.begin(start.at)
        doing = [asyncio.create_task(worker.tick())]
        if plan.load is not None:
            doing.append(asyncio.create_task(worker.send(plan.load)))
        following = asyncio.create_task(follow(stdin, group))
        running: set[asyncio.Task[None]] = {following, taking, *doing}
        while not following.done():
            done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()  # Whatever fails ends this process.
        for task in doing:
            task.cancel()
        result = worker.result()
    await taking
    send_report(WorkerReport(result=result))


async def _line(stdin: asyncio.StreamReader) -> bytes:
    """A line that this process cannot do without; it ends if whoever launched it is gone."""
    return await stdin.readline() or exit_process(LEFT_ALONE)


async def follow(stdin: asyncio.StreamReader, group: WorkerChannel) -> None:
    """Carry out commands until one says stop, or nobody is there any more."""
    async for line in stdin:
        command = msgspec.json.decode(line, type=WorkerCommand)
        if command.forget is not None:
            group.forget(command.forget)
        if command.stop:
            return


def main(join: Connect = join_group, spent_s: Callable[[], float] = cpu_s) -> int:
    """Exit code 2 if the plan cannot be carried out, or nobody reads the reports; `spent_s` is what
    the channel costs so far, if other processes work for it."""
    ignore_environment()
    Journal.converts_on_close = False  # The launcher converts all journals, and one at a time.
    # The launcher knows who is slow, and its terminal has other things to show.
    logging.getLogger("semcast.group").setLevel(logging.ERROR)
    try:
        run(work(join, spent_s))
    except semcast.SemcastError as error:
        send_report(WorkerReport(error=str(error)))
        return 2
    except BrokenPipeError:
        exit_process(LEFT_ALONE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
