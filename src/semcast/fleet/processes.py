"""Live processes of one experiment: started together, watched, disturbed, stopped, recorded.

    with Fleet(plans) as fleet:
        fleet.start()
        fleet.watch(until=lambda ticks: not any(tick.is_sending for tick in ticks.values()))
        assert fleet.fall_quiet()
        results = fleet.stop()

Whatever happens, no process outlives the `with` block.
"""

import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from time import monotonic, time_ns
from types import TracebackType
from typing import Final, Self

import msgspec

from semcast.fleet.plan import (
    StartSignal,
    WorkerCommand,
    WorkerPlan,
    WorkerReport,
    WorkerResult,
    WorkerStatus,
)
from semcast.terms.errors import SemcastError

START_S: Final = 40.0
START_DELAY_S: Final = 0.2  # for the start signal to reach everyone
QUIET_S: Final = 30.0
STOP_S: Final = 30.0
POLL_S: Final = 0.05
WORKER: Final = (sys.executable, "-m", "semcast.fleet.worker")


class FleetError(SemcastError):
    """A process did not do what it was launched for."""


class LiveProcess:
    """One process, and what it last said."""

    def __init__(
        self,
        plan: WorkerPlan,
        reports: "queue.Queue[tuple[str, WorkerReport | None]]",
        command: Sequence[str],
    ) -> None:
        self.plan = plan
        self.is_ready = False
        self.tick = WorkerStatus()
        self.result: WorkerResult | None = None
        self.error: str | None = None
        self.killed_ns: int | None = None
        self.popen = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            process_group=0,  # Ctrl-C is for the launcher, which ends them.
        )
        self.reader = threading.Thread(target=self._read, args=(reports,), daemon=True)
        self.reader.start()
        self.send_command(plan)

    def _read(self, reports: "queue.Queue[tuple[str, WorkerReport | None]]") -> None:
        decode = msgspec.json.Decoder(WorkerReport).decode
        assert self.popen.stdout is not None
        for line in self.popen.stdout:
            try:
                report = decode(line)
            except msgspec.MsgspecError:
                report = WorkerReport(error=f"it printed {line[:80]!r}, which is not a report")
            reports.put((self.plan.name, report))
        reports.put((self.plan.name, None))

    def send_command(self, what: object) -> None:
        """One line on its standard input."""
        assert self.popen.stdin is not None
        with suppress(BrokenPipeError):  # It has ended, which its reports tell better.
            self.popen.stdin.write(msgspec.json.encode(what) + b"\n")
            self.popen.stdin.flush()

    def close(self) -> None:
        """Make sure that nothing is left of it."""
        if self.popen.poll() is None:
            self.popen.kill()
        self.popen.wait()
        self.reader.join()
        for pipe in (self.popen.stdin, self.popen.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()


class Fleet:
    """The processes of one experiment, by name.

    `launchers` says by name what to put before a process's command line, such as
    `ip netns exec NAME`, which must become the process itself.  `worker` is that command line;
    any program that reads plans and writes reports will do.
    """

    def __init__(
        self,
        plans: Iterable[WorkerPlan],
        launchers: Mapping[str, Sequence[str]] | None = None,
        worker: Sequence[str] = WORKER,
    ) -> None:
        self._plans = list(plans)
        self._worker = worker
        self._launchers = launchers or {}
        self._reports: queue.Queue[tuple[str, WorkerReport | None]] = queue.Queue()
        self._processes: dict[str, LiveProcess] = {}
        self.started_ns = 0  # of the wall clock, which traces use
        self.killed_ns: dict[str, int] = {}  # likewise, also of those that were started anew

    def __enter__(self) -> Self:
        try:
            for plan in self._plans:
                self._processes[plan.name] = self._launch(plan)
        except BaseException:
            self._close()
            raise
        return self

    def _launch(self, plan: WorkerPlan) -> LiveProcess:
        command = (*self._launchers.get(plan.name, ()), *self._worker)
        return LiveProcess(plan, self._reports, command)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._close()

    def _close(self) -> None:
        for process in self._processes.values():
            process.close()

    @property
    def ticks(self) -> dict[str, WorkerStatus]:
        """What the living last said of themselves."""
        return {name: process.tick for name, process in self._alive().items()}

    @property
    def pids(self) -> dict[str, int]:
        """The living, as the operating system knows them."""
        return {name: process.popen.pid for name, process in self._alive().items()}

    @property
    def crashes(self) -> dict[str, int]:
        """When the killed were killed, in ns of the wall clock."""
        return {
            name: process.killed_ns
            for name, process in self._processes.items()
            if process.killed_ns is not None
        }

    def _alive(self) -> Mapping[str, LiveProcess]:
        return {
            name: process for name, process in self._processes.items() if process.killed_ns is None
        }

    def start(
        self, timeout_s: float = START_S, on_joined: Callable[[], object] = lambda: None
    ) -> None:
        """Wait until all have joined, call `on_joined`, then give the start signal."""
        self._wait(
            lambda: all(process.is_ready for process in self._processes.values()),
            timeout_s,
            "joined",
        )
        on_joined()
        at = monotonic() + START_DELAY_S
        self.started_ns = time_ns() + round(START_DELAY_S * 1e9)
        for process in self._processes.values():
            process.send_command(StartSignal(at))

    def watch(
        self,
        until: Callable[[Mapping[str, WorkerStatus]], bool],
        timeout_s: float,
        on_tick: Callable[[Mapping[str, WorkerStatus]], None] = lambda _: None,
    ) -> bool:
        """Follow the ticks until a condition holds; False if it did not in time."""
        deadline = monotonic() + timeout_s
        while monotonic() < deadline:
            self._listen(POLL_S)
            ticks = self.ticks
            on_tick(ticks)
            if until(ticks):
                return True
        return False

    def send_all(
        self,
        timeout_s: float,
        on_tick: Callable[[Mapping[str, WorkerStatus]], None] = lambda _: None,
    ) -> bool:
        """Until every load was sent."""
        loaded = {plan.name for plan in self._plans if plan.load is not None}
        return self.watch(
            lambda ticks: all(
                tick.sent and not tick.is_sending for name, tick in ticks.items() if name in loaded
            ),
            timeout_s,
            on_tick,
        )

    def fall_quiet(self, timeout_s: float = QUIET_S) -> bool:
        """Until every living member is done with every message; False if not in time.

        What a killed sender sent last may have reached nobody: its survivors, once they have
        forgotten it, are done when they agree and none holds anything for another.
        """
        if self.crashes:
            gone = len(self.crashes)
            return self.watch(
                lambda t: (
                    {(x.forgotten, x.held) for x in t.values()} == {(gone, 0)}
                    and len({x.accounted for x in t.values()}) == 1
                ),
                timeout_s,
            )
        return self.watch(
            lambda t: {x.accounted for x in t.values()} == {sum(x.sent for x in t.values())},
            timeout_s,
        )

    def pause(self, name: str) -> None:
        """Stop a process in its tracks."""
        os.kill(self._processes[name].popen.pid, signal.SIGSTOP)

    def resume(self, name: str) -> None:
        """Let it go on."""
        os.kill(self._processes[name].popen.pid, signal.SIGCONT)

    def kill(self, name: str) -> None:
        """End a process without warning."""
        process = self._processes[name]
        process.popen.kill()
        process.popen.wait()
        self.killed_ns[name] = process.killed_ns = time_ns()  # It records nothing after that.

    def restart(self, name: str) -> None:
        """Start a killed process anew, by the same plan; it need not wait for the others."""
        self._processes[name].close()
        self._listen(POLL_S)  # What it still had to say is not the next one's.
        process = self._processes[name] = self._launch(self._processes[name].plan)
        process.send_command(StartSignal(monotonic()))

    def forget(self, name: str) -> None:
        """Let the living go on without a member."""
        for process in self._alive().values():
            process.send_command(WorkerCommand(forget=name))

    def stop(self, timeout_s: float = STOP_S) -> dict[str, WorkerResult]:
        """Let the living leave; what they have to show."""
        for process in self._alive().values():
            process.send_command(WorkerCommand(stop=True))
        alive = self._alive().values()
        self._wait(
            lambda: all(process.result is not None for process in alive), timeout_s, "stopped"
        )
        return {
            name: process.result
            for name, process in self._alive().items()
            if process.result is not None
        }

    def _wait(self, done: Callable[[], bool], timeout_s: float, what: str) -> None:
        deadline = monotonic() + timeout_s
        while not done():
            if monotonic() > deadline:
                raise FleetError(f"not all processes {what} within {timeout_s:g} s")
            self._listen(POLL_S)

    def _listen(self, timeout_s: float) -> None:
        """Take in what was said meanwhile."""
        try:
            name, report = self._reports.get(timeout=timeout_s)
            while True:
                self._note(self._processes[name], report)
                name, report = self._reports.get_nowait()
        except queue.Empty:
            return

    @staticmethod
    def _note(process: LiveProcess, report: WorkerReport | None) -> None:
        if report is None:
            if process.result is None and process.killed_ns is None:
                raise FleetError(f"{process.plan.name} ended: {process.error or 'crashed'}")
        elif report.tick is not None:
            process.tick = report.tick
        else:
            process.is_ready |= report.is_ready
            process.result = report.result or process.result
            process.error = report.error or process.error
