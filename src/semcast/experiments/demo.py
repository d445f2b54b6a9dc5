"""The demonstration: one slow member among real processes, reliable beside semantic.

A sender multicasts quotes of a stock exchange to a group of processes on loopback.  While it sends,
one member spends `slow_ms` on each quote, which is far too long; then it recovers and catches up.
Reliable multicast makes everyone wait for that member.  Semantic multicast skips quotes that newer
ones have superseded; under order `item` a newer quote takes the place of the older one, so that the
slow member reads fresh quotes.

Both groups run at the same time, each under a process of its own.  Every member records what it
does.  The records are measured (`footage`), without the first quarter of a run, in which buffers
fill, and checked (`judging`).
"""

import signal
import socket
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from multiprocessing import Barrier, Pipe, Process
from multiprocessing.connection import Connection, wait
from pathlib import Path
from secrets import token_hex
from shutil import rmtree
from statistics import fmean
from sys import exit as exit_process
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from semcast.fleet.live_run import LiveRun, run_live
from semcast.fleet.plan import Load, WorkerPlan, WorkerStatus
from semcast.fleet.processes import START_DELAY_S, START_S, Fleet, FleetError
from semcast.fleet.stream_measurement import Period, StreamMeasurement, read_measurement
from semcast.runtime.transport.addresses import multicast_address
from semcast.runtime.transport.network_interfaces import resolve_interface
from semcast.runtime.transport.sockets import probe_multicast
from semcast.specs.verdict import FAIL, PASS
from semcast.terms.errors import SemcastError
from semcast.terms.items import item_tag
from semcast.terms.limits import check_finite, check_positive, check_range
from semcast.workloads.stock import STOCK_GROUPS

if TYPE_CHECKING:
    from multiprocessing.synchronize import Barrier as SharedBarrier

HOT: Final = tuple(item_tag(f"stock-{number}") for number in range(STOCK_GROUPS[0][0]))
WARMUP_SHARE: Final = 0.25
GAUGE_S: Final = 1.0
LOOK_S: Final = 0.1
CATCH_UP_S: Final = 20.0  # for a blocked sender to end, and again for all to catch up
PROBE_S: Final = 1.0
SOCKET_BYTES: Final = 200_000  # what any system gives, and plenty here
BUFFER_MIN: Final = 500
BUFFER_MAX: Final = 1000  # more than there are stocks
SENDER: Final = 0
LOOPBACK: Final = "127.0.0.1"


class DemoSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the runs share."""

    seconds: float = 10.0
    members: int = 5
    slow_ms: float = 4.0
    rate: float = 1000.0
    buffer: int = BUFFER_MIN
    seed: int = 1

    def __post_init__(self) -> None:
        check_finite("seconds", self.seconds, 1)
        check_range("members", self.members, 3, 32)  # a sender, a fast one and the slow one
        check_positive("slow-ms", self.slow_ms)
        check_range("slow-ms", self.slow_ms, 0, 100)

    @property
    def slow(self) -> int:
        """The slow member's rank."""
        return self.members - 1

    @property
    def fast(self) -> range:
        """The ranks of the fast ones."""
        return range(SENDER + 1, self.slow)

    @property
    def names(self) -> list[str]:
        """The processes' by rank."""
        return [f"p{rank:0{len(str(self.slow))}}" for rank in range(self.members)]


def buffer_for(slow_ms: float) -> int:
    """Room for every stock of which a quote waits for a member that slow."""
    return round(max(BUFFER_MIN, min(100 * slow_ms, BUFFER_MAX)))


class DemoVariant(NamedTuple):
    """One way to carry the same quotes."""

    title: str
    protocol: str
    order: str


VARIANTS: Final[Mapping[str, DemoVariant]] = {
    "reliable": DemoVariant("reliable", "rm", "fifo"),
    "semantic": DemoVariant("semantic", "s-rm", "item"),
}


class DemoSample(NamedTuple):
    """A run at one moment: rates over the last second, and the slow member's state.

    `age_s` is how old the quote was that the slow member read last.
    """

    sender_rate: float
    fast_rate: float
    slow_rate: float
    held: int
    skipped: int
    slowest: str | None
    is_blocked: bool
    age_s: float | None


class DemoOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What one run showed.  Rates are messages per second; `fast_rate` is the fast ones' mean.

    `converged`: the run fell quiet with the same state everywhere, the sender's last values.
    """

    offered_rate: float
    sender_rate: float
    fast_rate: float
    slow_rate: float
    purged_ratio: float
    staleness_p50_ms: float
    staleness_p99_ms: float
    converged: bool
    violations: int
    properties: dict[str, str]
    events: int
    trace: str

    @property
    def broken(self) -> list[str]:
        """The properties that do not hold."""
        return [name for name, status in self.properties.items() if status == FAIL]

    @property
    def holds_all(self) -> bool:
        """Whether something could be judged, and nothing that was judged failed."""
        return PASS in self.properties.values() and not self.broken


class DemoSeries(msgspec.Struct, frozen=True, kw_only=True):
    """The same by second: delivered by a fast member and by the slow one, median staleness."""

    fast: list[int]
    slow: list[int]
    staleness_ms: list[float]


class RateGauge:
    """Rates over the last second, from what the processes of a run say of themselves."""

    def __init__(self, settings: DemoSettings) -> None:
        names = settings.names
        self._sender, self._slow = names[SENDER], names[settings.slow]
        self._fast = [names[rank] for rank in settings.fast]
        self._samples: dict[str, deque[tuple[float, WorkerStatus]]] = {
            name: deque() for name in names
        }

    def look(self, ticks: Mapping[str, WorkerStatus], now: float) -> DemoSample:
        """How things are with these."""
        for name, samples in self._samples.items():
            if not samples or samples[-1][1] is not ticks[name]:
                samples.append((now, ticks[name]))
            while samples[-1][0] - samples[0][0] > GAUGE_S:
                samples.popleft()
        slow = ticks[self._slow]
        return DemoSample(
            sender_rate=self._rate(self._sender, lambda tick: tick.sent),
            fast_rate=fmean(self._rate(name, lambda tick: tick.taken) for name in self._fast),
            slow_rate=self._rate(self._slow, lambda tick: tick.taken),
            held=slow.held,
            skipped=slow.skipped,
            slowest=ticks[self._sender].slowest,
            is_blocked=ticks[self._sender].is_blocked,
            age_s=slow.age_s,
        )

    def _rate(self, name: str, count: Callable[[WorkerStatus], int]) -> float:
        (then, first), (now, last) = self._samples[name][0], self._samples[name][-1]
        return (count(last) - count(first)) / (now - then) if now > then else 0.0


Measured = tuple[DemoOutcome, DemoSeries]
Notice = Callable[[str, DemoSample | None], None]  # the current step, and the state if it sends
Progress = Callable[[str, str, DemoSample | None], None]  # the same, with the name of the variant


class DemoRunner:
    """The runs of one demonstration, each in a group and a trace directory of its own."""

    def __init__(self, settings: DemoSettings, traces: Path) -> None:
        self._settings = settings
        self._group_name = f"demo-{token_hex(4)}"  # Two demonstrations may run at the same time.
        self._traces = traces / self._group_name
        interface = resolve_interface(None, 4, sealed=False)
        host, _ = multicast_address(self._group_name, 4)
        self.fault = probe_multicast(interface, host, PROBE_S)  # the reason without multicast

    def run_all(
        self, on_progress: Progress, on_measured: Callable[[str, Measured], None]
    ) -> dict[str, Measured]:
        """Run all variants at the same time."""
        runs: dict[str, Measured] = {}
        try:
            with ExitStack() as stack:
                channels = self._launch(stack)
                while len(runs) < len(VARIANTS):
                    for channel in wait(list(channels)):
                        assert isinstance(channel, Connection)
                        name = channels[channel]
                        for news in _read(channel, name):
                            if isinstance(news[0], DemoOutcome):
                                runs[name] = news
                                on_measured(name, news)
                                del channels[channel]
                            else:
                                on_progress(name, *news)
        except BaseException:
            rmtree(self._traces, ignore_errors=True)  # Half a trace is large and useless.
            raise
        return {name: runs[name] for name in VARIANTS}

    def _launch(self, stack: ExitStack) -> dict[Connection, str]:
        barrier, channels = Barrier(len(VARIANTS)), {}
        for name in VARIANTS:
            receiving, sending = Pipe(duplex=False)
            process = Process(target=_run_in_process, args=(self, name, sending, barrier))
            process.start()
            sending.close()
            stack.callback(_end, process)
            channels[receiving] = name
        return channels

    def run(self, name: str, on_progress: Notice, on_joined: Callable[[], object]) -> Measured:
        """Run one variant, let it fall quiet, check and measure it."""
        settings = self._settings
        on_progress(f"starting {settings.members} processes", None)
        run = run_live(
            self.plans(VARIANTS[name]),
            self._traces / name,
            f"demo {name}",
            partial(self._watch, on_progress),
            quiet_s=CATCH_UP_S,
            on_joined=on_joined,
        )
        footage = read_measurement(run.directory, start_ns=run.started_ns, sender=SENDER)
        return outcome_of(run, footage, settings), series_of(footage, settings)

    def _watch(self, on_progress: Notice, fleet: Fleet) -> None:
        gauge, seconds = RateGauge(self._settings), self._settings.seconds
        start = looked_at = monotonic() + START_DELAY_S

        def on_tick(ticks: Mapping[str, WorkerStatus]) -> None:
            nonlocal looked_at
            now = monotonic()
            look = gauge.look(ticks, now)
            # Later the slow member is no longer slow.
            if looked_at + LOOK_S <= now <= start + seconds:
                looked_at = now
                on_progress(f"{now - start:.0f} s of {seconds:g}", look)

        fleet.send_all(seconds + CATCH_UP_S, on_tick)
        on_progress("catching up, then checking", None)

    def plans(self, variant: DemoVariant) -> list[WorkerPlan]:
        """What each process is told."""
        settings = self._settings
        options: dict[str, Any] = {
            "protocol": variant.protocol,
            "order": variant.order,
            "buffer": settings.buffer,
            "members": settings.members,
            "key": False,
            "socket_buffer": SOCKET_BYTES,
        }
        if self.fault is not None:
            options["peers"] = free_addresses(settings.names)
        load = Load(rate=settings.rate, seconds=settings.seconds, seed=settings.seed)
        return [
            WorkerPlan(
                group=f"{self._group_name}-{variant.protocol}-{variant.order}",
                name=name,
                options=options,
                load=load if rank == SENDER else None,
                service_s=settings.slow_ms / 1000 if rank == settings.slow else 0.0,
                slow_s=settings.seconds,
                is_stamped=True,
            )
            for rank, name in enumerate(settings.names)
        ]


def _run_in_process(
    shown: DemoRunner, name: str, channel: Connection, barrier: "SharedBarrier"
) -> None:
    """Run a variant in this process and send its progress, its outcome or an error."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the launcher, which ends this.
    signal.signal(signal.SIGTERM, lambda *_: exit_process(0))
    try:
        measured = shown.run(
            name,
            lambda notice, look: channel.send((notice, look)),
            lambda: barrier.wait(2 * START_S),
        )
        channel.send(measured)
    except SemcastError as error:
        channel.send(error)


def _read(channel: Connection, name: str) -> list[Any]:
    """All that a run has sent by now."""
    news = []
    try:
        while channel.poll():
            news.append(channel.recv())
    except EOFError:
        if not news:
            raise FleetError(f"the {name} run ended without a result") from None
    for each in news:
        if isinstance(each, SemcastError):
            raise each
    return news


def _end(process: Process) -> None:
    process.terminate()
    process.join()


def free_addresses(names: Sequence[str]) -> list[str]:
    """A port of loopback for each name, as `peers=` takes them."""
    with ExitStack() as stack:
        found = []
        for name in names:
            bound = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            bound.bind((LOOPBACK, 0))
            found.append(f"{name}={LOOPBACK}:{bound.getsockname()[1]}")
        return found


def outcome_of(run: LiveRun, footage: StreamMeasurement, settings: DemoSettings) -> DemoOutcome:
    """The numbers of a run."""
    slow, period = settings.slow, Period(settings.seconds * WARMUP_SHARE, settings.seconds)
    p50_ms, p99_ms = footage.staleness_ms(slow, HOT, period, (0.5, 0.99))
    is_current = all(footage.is_current(pid) for pid in range(settings.members))
    return DemoOutcome(
        offered_rate=settings.rate,
        sender_rate=footage.sent_rate(period),
        fast_rate=fmean(footage.rate(pid, period) for pid in settings.fast),
        slow_rate=footage.rate(slow, period),
        purged_ratio=footage.purged_ratio(slow, period),
        staleness_p50_ms=p50_ms,
        staleness_p99_ms=p99_ms,
        converged=run.is_quiet and run.agrees and is_current,
        violations=run.verdict.violations,
        properties={name: judged.status for name, judged in run.verdict.properties.items()},
        events=run.verdict.events,
        trace=str(run.directory),
    )


def series_of(footage: StreamMeasurement, settings: DemoSettings) -> DemoSeries:
    """The same by second."""
    seconds = int(settings.seconds)
    return DemoSeries(
        fast=footage.by_second(SENDER + 1, seconds),
        slow=footage.by_second(settings.slow, seconds),
        staleness_ms=[
            footage.staleness_ms(settings.slow, HOT, Period(second, second + 1), (0.5,))[0]
            for second in range(seconds)
        ],
    )
