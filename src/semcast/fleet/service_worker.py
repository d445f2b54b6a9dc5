"""One live process of a replicated service: `python -m semcast.fleet.service_worker`.

A server of the stock quotes, or a process with clients of them.  Executing a request keeps the
primary busy for a time.  Applying an update keeps a backup busy; it takes the next update
afterwards, so updates wait in the buffer of the group, as they do at a backup that writes to a
disk.  A perturbed server sleeps for a part of every slice of time and does nothing else then.

Plans and reports are those of `worker.py`.
"""

import asyncio
import logging
import sys
import time
from collections.abc import Sequence
from random import Random
from time import monotonic
from typing import Any

import msgspec

import semcast
from semcast.faults import Stops
from semcast.fleet.plan import StartSignal, WorkerPlan, WorkerReport, WorkerResult, WorkerStatus
from semcast.fleet.worker import TICK_S, commands, cpu_s, send_report
from semcast.runtime.application.mailbox import Message
from semcast.runtime.application.port import GroupPort
from semcast.runtime.application.replicate import PendingServer, server_options
from semcast.runtime.application.server import ServerPort
from semcast.runtime.driver import Driver, EventSink
from semcast.runtime.event_loop import run
from semcast.runtime.membership.incarnations import pid_of_name
from semcast.runtime.membership.service_session import ReplicaSession
from semcast.runtime.membership.view_session import ViewSession
from semcast.runtime.options.options import Options
from semcast.service.executor import Service
from semcast.terms.ids import Pid
from semcast.terms.machine import Machine
from semcast.terms.outputs import Delivery, Output
from semcast.traces.journal import Journal
from semcast.workloads.quote_service import QuoteService
from semcast.workloads.stock import quote_requests


class ServicePlan(WorkerPlan, frozen=True, kw_only=True):
    """A server, or a process with a client for each of `seeds`, from which it draws its requests
    for `seconds` from the start signal on.

    A server takes `execute_s` and `apply_s` for each item, and is stopped for `stopped_share` of
    every `slice_s`.
    """

    seeds: tuple[str, ...] = ()
    items_max: int = 1
    seconds: float
    execute_s: float = 0.0
    apply_s: float = 0.0
    stopped_share: float = 0.0
    slice_s: float = 1.0

    @property
    def stops(self) -> Stops:
        """When it is stopped, counted from the start signal."""
        return Stops(self.stopped_share, self.slice_s, self.seconds)


class Pace:
    """How fast a server applies updates, once `start` is known."""

    def __init__(self, plan: ServicePlan) -> None:
        self._plan = plan
        self._start: float | None = None
        self._busy_until = 0.0

    def begin(self, start: float) -> None:
        """The start signal: stop for a part of every slice from now on."""
        self._start = start
        loop = asyncio.get_running_loop()
        for pause in self._plan.stops.pauses(0):
            loop.call_later(start + pause.start - monotonic(), self._stop, start + pause.end)

    @staticmethod
    def _stop(until: float) -> None:
        time.sleep(max(until - monotonic(), 0.0))

    def finish_in_s(self, updates: int) -> float:
        """Begin to apply updates; the time until that is done."""
        now = monotonic()
        begin = max(self._busy_until, now)
        work_s = updates * self._plan.apply_s
        if self._start is not None and begin >= self._start:
            work_s = self._plan.stops.elapsed_s(begin - self._start, work_s)
        self._busy_until = begin + work_s
        return self._busy_until - now


class PacedPort(ServerPort):
    """Of a backup that applies one message after the other; a primary has applied its own."""

    def __init__(self, *args: Any, pid: Pid, pace: Pace, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._pid, self._pace = pid, pace
        self._updates = 0

    @property
    def readiness(self) -> int:
        """One at a time."""
        return 1

    def put(self, outputs: Sequence[Output]) -> int:
        """Ready for the next one when the last is applied."""
        applied = super().put(outputs)
        updates, self._updates = self._updates, 0
        if not updates:
            return applied
        in_s = self._pace.finish_in_s(updates)
        asyncio.get_running_loop().call_later(in_s, self._resume, self._driver.machine, applied)
        return 0

    def _resume(self, machine: Machine, applied: int) -> None:
        if self._driver.machine is machine and self._driver.ended is None:
            self._driver.on_ready(applied)

    def _app_messages(self, delivery: Delivery) -> list[Message]:
        if self._driver.status().primary != self._pid:
            self._updates += sum(each.item is not None for each in delivery.run.messages())
        return super()._app_messages(delivery)


class PacedSession(ReplicaSession):
    """Of one server that takes its time."""

    def __init__(self, options: Options, service: Service, *, pace: Pace) -> None:
        super().__init__(options, service)
        self._pace = pace

    def _open_port(self) -> GroupPort:
        pid = pid_of_name(self.options.name)
        self.server_port = PacedPort(self.directory, self, self._state, pid=pid, pace=self._pace)
        return self.server_port

    def _drive(self, machine: Machine, sink: EventSink | None) -> Driver:
        driver = ViewSession._drive(self, machine, sink)
        driver.on_ready(self.server_port.readiness)
        return driver


class Asking:
    """Clients that ask again as soon as they are answered."""

    def __init__(self, plan: ServicePlan) -> None:
        self.plan = plan
        self.answers = 0
        self.is_over = False

    async def ask(self, start: float) -> None:
        """From the start signal on."""
        await asyncio.gather(*[self._ask(seed, start) for seed in self.plan.seeds])
        self.is_over = True

    async def _ask(self, seed: str, start: float) -> None:
        requests = quote_requests(Random(seed), self.plan.items_max)
        async with semcast.Client(self.plan.group, **self.plan.options) as client:
            while monotonic() < start + self.plan.seconds:
                await client.request(list(next(requests)))
                self.answers += 1

    async def tick(self) -> None:
        """Tell how many answers there were."""
        while True:
            is_sending = not self.is_over
            send_report(WorkerReport(tick=WorkerStatus(sent=self.answers, is_sending=is_sending)))
            await asyncio.sleep(TICK_S)


async def start_of(stdin: asyncio.StreamReader) -> float:
    """The start signal, once it takes effect."""
    start = msgspec.json.decode(await stdin.readline(), type=StartSignal)
    await asyncio.sleep(start.at - monotonic())
    return start.at


async def serve(plan: ServicePlan, stdin: asyncio.StreamReader) -> int:
    """Be a server until told to stop; the number of requests that made its state."""
    pace = Pace(plan)
    service = QuoteService(lambda items: time.sleep(items * plan.execute_s))
    options = server_options(service, plan.group, {"name": plan.name, **plan.options})
    async with PendingServer(lambda: PacedSession(options, service, pace=pace)) as server:
        send_report(WorkerReport(is_ready=True))
        pace.begin(await start_of(stdin))
        await stdin.readline()  # to stop
        return server.version


async def ask(plan: ServicePlan, stdin: asyncio.StreamReader) -> int:
    """Be clients until told to stop; the number of answers."""
    asking = Asking(plan)
    send_report(WorkerReport(is_ready=True))
    start = await start_of(stdin)
    doing = [asyncio.create_task(asking.tick()), asyncio.create_task(asking.ask(start))]
    await stdin.readline()  # to stop
    for task in doing:
        task.cancel()
    return asking.answers


async def work() -> None:
    """One life."""
    stdin = await commands()
    plan = msgspec.json.decode(await stdin.readline(), type=ServicePlan)
    done = await (ask if plan.seeds else serve)(plan, stdin)
    result = WorkerResult(
        sent=done, taken=0, skipped=0, seconds=plan.seconds, cpu_s=cpu_s(), state=""
    )
    send_report(WorkerReport(result=result))


def main() -> int:
    """Exit code 2 if the plan cannot be carried out."""
    Journal.converts_on_close = False  # The launcher converts all journals, and one at a time.
    logging.getLogger("semcast.group").setLevel(logging.ERROR)
    try:
        run(work())
    except semcast.SemcastError as error:
        send_report(WorkerReport(error=str(error)))
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
