"""Live benchmarks: the same loads between real processes through one system after another.

`throughput`: one sender as fast as it can, messages that are never purged.  `latency`: the same at
a pace, every payload stamped.  `slow-receiver`: quotes of the stock mix at a pace, and one more
receiver that takes far fewer than that.

Runs alternate between what is compared; rows tell medians.  What a sender delivers to itself
counts as cost, not as deliveries.
"""

from collections.abc import Callable, Mapping, Sequence
from math import inf
from secrets import token_hex
from statistics import median
from time import monotonic
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from semcast.bench.systems import BenchCase, systems
from semcast.fleet.plan import Load, MessageTimes, WorkerPlan, WorkerResult, WorkerStatus
from semcast.fleet.processes import WORKER, Fleet
from semcast.fleet.stream_measurement import EventColumns, Period, StreamMeasurement
from semcast.fleet.worker import cpu_s_of
from semcast.runtime.options.options import Options
from semcast.terms.events import DELIVER, MULTICAST
from semcast.terms.items import item_tag
from semcast.terms.limits import check_finite, check_positive, check_range
from semcast.workloads.stock import STOCK_GROUPS

SENDER: Final = "sender"
SLOW: Final = "slow"
HOT: Final = tuple(item_tag(f"stock-{number}") for number in range(STOCK_GROUPS[0][0]))
WARMUP_SHARE: Final = 0.25  # of a run, in which buffers fill: staleness is not measured then
SEND_GRACE_S: Final = 20.0  # for a blocked sender to end
DRAIN_S: Final = 60.0  # for receivers to take what was sent
NO_PROGRESS_S: Final = 2.0  # Nobody took anything for so long: what has not come is lost.
RECEIVERS_MAX: Final = 64
LOOPBACK: Final = "127.0.0.1"
NO_OPTIONS: Final[Mapping[str, Any]] = {}

BenchRow = dict[str, Any]
Ticks = Mapping[str, WorkerStatus]
OnTick = Callable[[float, Ticks], None]  # with seconds since the start


class BenchSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the cases of a benchmark share.

    `receivers` are the fast ones.  `rate` None: as fast as the sender can.  `slow_rate` None: all
    receivers are fast.  `buffer` None: whatever is usual.
    """

    receivers: int = 4
    size: int = 100
    seconds: float = 5.0
    rate: float | None = None
    slow_rate: float | None = None
    buffer: int | None = None
    order: str = "fifo"

    def __post_init__(self) -> None:
        check_range("receivers", self.receivers, 1, RECEIVERS_MAX)
        check_range("size", self.size, 8, 60_000)
        check_finite("seconds", self.seconds, 0.5)
        for name in ("rate", "slow_rate"):
            value = getattr(self, name)
            if value is not None:
                check_positive(name.replace("_", "-"), value)

    @property
    def title(self) -> str:
        """In words."""
        text = "1 sender, "
        text += "full speed" if self.rate is None else f"{self.rate:,.0f} messages/s"
        text += ", 1 receiver" if self.receivers == 1 else f", {self.receivers} receivers"
        if self.slow_rate is not None:
            text += f" and a slow one that reads {self.slow_rate:,.0f}/s"
        return f"{text}; {self.size:,}-byte messages, {self.seconds:g} s"

    @property
    def fast(self) -> list[str]:
        """Names of the fast receivers."""
        return [f"r{number:0{len(str(self.receivers))}}" for number in range(1, self.receivers + 1)]

    @property
    def names(self) -> list[str]:
        """Everybody's."""
        return [SENDER, *self.fast, *([] if self.slow_rate is None else [SLOW])]


class BenchmarkRun(NamedTuple):
    """What one run left: results by name, memory that processes gained in its second half, and
    processor time of servers."""

    settings: BenchSettings
    results: Mapping[str, WorkerResult]
    growth_bytes: int | None
    servers_cpu_s: float = 0.0


class Benchmark(NamedTuple):
    """One of the three: what its plans say, what is read from a run, and what of it is drawn."""

    stream: str
    plan: Mapping[str, Any]
    row: Callable[[BenchmarkRun], BenchRow]
    plotted: Mapping[str, str]


def common_row(run: BenchmarkRun) -> BenchRow:
    """What every benchmark tells: rates at the sender and at the slowest of the fast receivers."""
    settings, results = run.settings, run.results
    sender, fast = results[SENDER], [results[name] for name in settings.fast]
    receivers = [result for name, result in results.items() if name != SENDER]
    deliveries = sum(result.taken for result in receivers)
    cpu_s = run.servers_cpu_s + sum(result.cpu_s for result in results.values())
    fewest = min(result.taken for result in fast)
    return {
        "rate": min(result.taken / max(result.took_s, sender.seconds) for result in fast),
        "sender_rate": sender.sent / sender.seconds,
        "cpu_us_per_delivery": cpu_s * 1e6 / deliveries if deliveries else None,
        "missed_ratio": max(0.0, 1 - fewest / sender.sent) if sender.sent else None,
    }


def latency_row(run: BenchmarkRun) -> BenchRow:
    """Also how long messages took, over all receivers."""
    samples = [us for name in run.settings.fast for us in run.results[name].latencies_us]
    p50, p99 = np.quantile(samples, (0.5, 0.99)).tolist() if samples else (None, None)
    return {**common_row(run), "latency_p50_us": p50, "latency_p99_us": p99}


def slow_receiver_row(run: BenchmarkRun) -> BenchRow:
    """Also what the slow receiver holds."""
    settings, slow = run.settings, run.results[SLOW]
    footage = measure_stream(run.results[SENDER], slow)
    period = Period(settings.seconds * WARMUP_SHARE, settings.seconds)
    p50_ms, p99_ms = footage.staleness_ms(1, HOT, period, (0.5, 0.99))
    seen = slow.taken + slow.skipped
    growth = run.growth_bytes
    return {
        **common_row(run),
        "slow_rate": footage.rate(1, period),
        "purged_ratio": slow.skipped / seen if seen else 0.0,
        "wrong_items": footage.wrong_items(1),
        "staleness_p50_ms": p50_ms,
        "staleness_p99_ms": p99_ms,
        "memory_growth_mib": None if growth is None else growth / (1 << 20),
    }


BENCHMARKS: Final = {
    "throughput": Benchmark(
        "plain",
        {"only_counts": True},
        common_row,
        {
            "rate": "messages per second delivered at every receiver",
            "cpu_us_per_delivery": "processor time per delivery (µs)",
        },
    ),
    "latency": Benchmark(
        "plain",
        {"only_counts": True, "is_stamped": True},
        latency_row,
        {
            "latency_p50_us": "one-way latency, median (µs)",
            "latency_p99_us": "one-way latency, p99 (µs)",
        },
    ),
    "slow-receiver": Benchmark(
        "stock",
        {},
        slow_receiver_row,
        {
            "sender_rate": "messages per second sent",
            "rate": "messages per second delivered at every fast receiver",
            "staleness_p50_ms": "age of hot items at the slow receiver, median (ms)",
            "staleness_p99_ms": "age of hot items at the slow receiver, p99 (ms)",
            "wrong_items": "items wrong at the slow receiver in the end",
        },
    ),
}


def measure_stream(sender: WorkerResult, receiver: WorkerResult) -> StreamMeasurement:
    """What was sent (by 0) and what was taken (by 1), as if it had been recorded in a trace."""
    assert sender.sent_diary is not None
    assert receiver.taken_diary is not None
    return StreamMeasurement(
        0,
        {(MULTICAST, 0): _shots(sender.sent_diary), (DELIVER, 1): _shots(receiver.taken_diary)},
    )


def _shots(diary: MessageTimes) -> EventColumns:
    columns = (diary.at_ns, diary.seq, diary.item)
    return EventColumns(*(np.frombuffer(column, np.int64) for column in columns))


def plans_of(
    name: str, settings: BenchSettings, case: BenchCase, environment: Mapping[str, Any] = NO_OPTIONS
) -> list[WorkerPlan]:
    """One plan for each process of one run; `ground` is what there is to know of where."""
    benchmark, names = BENCHMARKS[name], settings.names
    options = {
        **systems()[case.system].options,
        "members": len(names),
        "order": settings.order,
        "buffer": settings.buffer,
        "datagram": case.datagram,
        "key": case.key or False,
        "interface": LOOPBACK,
        "control": False,
        "echo": False,  # With the others, who sends does not get it back either.
        **environment,
    }
    load = Load(
        stream=benchmark.stream, rate=settings.rate, seconds=settings.seconds, size=settings.size
    )
    group = f"bench-{token_hex(6)}"  # Others may be measuring at the same time.
    return [
        WorkerPlan(
            group=group,
            name=member,
            options=options,
            load=load if member == SENDER else None,
            service_s=1 / settings.slow_rate if settings.slow_rate and member == SLOW else 0.0,
            keeps_diary=settings.slow_rate is not None and member in (SENDER, SLOW),
            **benchmark.plan,
        )
        for member in names
    ]


def run_once(
    name: str,
    settings: BenchSettings,
    case: BenchCase,
    on_tick: OnTick = lambda _elapsed, _ticks: None,
) -> BenchRow:
    """One run of one case."""
    system = systems()[case.system]
    with system.ground() as (options, servers):
        plans = plans_of(name, settings, case, options)
        return BENCHMARKS[name].row(run_plans(plans, settings, system.worker, servers, on_tick))


def run_plans(
    plans: Sequence[WorkerPlan],
    settings: BenchSettings,
    worker: Sequence[str] = WORKER,
    servers: Sequence[int] = (),
    on_tick: OnTick = lambda _elapsed, _ticks: None,
) -> BenchmarkRun:
    """Processes by these plans, from the start to when everyone has everything."""
    start = inf
    halfway: dict[str, WorkerStatus] = {}

    def watch(ticks: Ticks) -> None:
        elapsed = monotonic() - start
        if elapsed >= settings.seconds / 2 and not halfway:
            halfway.update(ticks)
        on_tick(max(0.0, elapsed), ticks)

    with Fleet(plans, worker=worker) as fleet:
        fleet.start()
        start, cpu_before = monotonic(), sum(map(cpu_s_of, servers))
        fleet.send_all(settings.seconds + SEND_GRACE_S, watch)
        growth_bytes = _growth(halfway, fleet.ticks)
        wait_all_received(fleet)
        cpu_s = sum(map(cpu_s_of, servers)) - cpu_before
        results = fleet.stop()
    return BenchmarkRun(settings, results, growth_bytes, cpu_s)


def _growth(before: Ticks, after: Ticks) -> int | None:
    """Of the process that gained most."""
    gained = [
        now - then
        for name in before
        if (now := after[name].resident_bytes) and (then := before[name].resident_bytes)
    ]
    return max(gained, default=None)


def wait_all_received(fleet: Fleet) -> None:
    """Until all receivers are done with everything, or nothing comes any more."""
    done, since = -1, monotonic()

    def is_settled(ticks: Ticks) -> bool:
        nonlocal done, since
        receivers = [tick.accounted for name, tick in ticks.items() if name != SENDER]
        is_still = sum(receivers) == done
        if not is_still:
            done, since = sum(receivers), monotonic()
        is_lost = is_still and monotonic() - since > NO_PROGRESS_S
        return is_lost or min(receivers) >= ticks[SENDER].sent

    fleet.watch(is_settled, DRAIN_S)


def measure(
    name: str,
    settings: BenchSettings,
    cases: Sequence[BenchCase],
    repeat: int = 1,
    on_tick: Callable[[BenchCase, int, float, Ticks], None] = lambda *_: None,
) -> list[BenchRow]:
    """A row for each case: medians over runs that alternate between the cases, and their spread."""
    check_range("repeat", repeat, 1)
    for case in cases:
        _refuse(plans_of(name, settings, case)[0], case)
    found: dict[BenchCase, list[BenchRow]] = {case: [] for case in cases}
    for turn in range(1, repeat + 1):
        for case, rows in found.items():

            def tell(
                elapsed: float, ticks: Ticks, case: BenchCase = case, turn: int = turn
            ) -> None:
                on_tick(case, turn, elapsed, ticks)

            rows.append(run_once(name, settings, case, tell))
    return [_summary(settings, case, rows) for case, rows in found.items()]


def _refuse(plan: WorkerPlan, case: BenchCase) -> None:
    """Say at once what a member would say only when it runs."""
    if systems()[case.system].worker is WORKER:
        Options.resolve(plan.group, {**plan.options, "name": plan.name})


def _summary(settings: BenchSettings, case: BenchCase, rows: Sequence[BenchRow]) -> BenchRow:
    by_key = {key: [row[key] for row in rows if row[key] is not None] for key in rows[0]}
    return {
        "system": case.system,
        "version": systems()[case.system].version(),
        "receivers": settings.receivers,
        "size": settings.size,
        "datagram": case.datagram,
        "sealed": case.key is not None,
        **{key: median(values) if values else None for key, values in by_key.items()},
        "runs": len(rows),
        "spread": {key: [min(values), max(values)] for key, values in by_key.items() if values},
    }


def label(row: BenchRow) -> str:
    """What a row is about."""
    return str(BenchCase(row["system"], row["datagram"], "sealed" if row["sealed"] else None))


def title(row: BenchRow) -> str:
    """The same with the name that its makers give a system."""
    return label(row).replace(row["system"], systems()[row["system"]].title, 1)


def loss_warnings(rows: Sequence[BenchRow]) -> list[str]:
    """What a system that loses nothing lost all the same, in words."""
    warnings = []
    for row in rows:
        if not systems()[row["system"]].loses_nothing:
            continue
        highest = {key: high for key, (_, high) in row["spread"].items()}
        if highest.get("wrong_items"):
            warnings.append(
                f"{label(row)}: {highest['wrong_items']} items wrong at the slow receiver"
            )
        elif "wrong_items" not in highest and highest.get("missed_ratio"):
            warnings.append(
                f"{label(row)}: {highest['missed_ratio']:.2%} did not reach every receiver"
            )
    return warnings
