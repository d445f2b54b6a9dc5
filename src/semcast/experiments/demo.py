"""The demonstration: one slow member, the reliable protocol beside the semantic one.

Quotes of a stock exchange go to a group in which one member takes `slow_ms` for each message,
too long by far.  Reliable multicast must wait for it, and with it everyone; semantic multicast
forgets what newer quotes have superseded.  Under order `fifo` a limit on chains of superseded
messages keeps hot stocks from moving to the queue's tail for ever; under order `item` a newer
quote takes the older one's place.

Staleness: every 10 ms, for each of the hottest stocks at the slow member, now minus the multicast
time of the quote it holds, 0 if that is the newest sent.  The first quarter of a run, in which
buffers fill, is not measured.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from semcast.core.recipe import Recipe
from semcast.experiments.group import SENDER, Group
from semcast.faults import Constant, Link
from semcast.faults.limits import finite, positive, within
from semcast.sim.clock import stream
from semcast.sim.network import Network
from semcast.terms.events import DELIVER, MULTICAST, Event
from semcast.workloads import arrivals
from semcast.workloads.items import item_tag
from semcast.workloads.stock import STOCK_GROUPS, quotes

HOT: Final = tuple(item_tag(f"stock-{number}") for number in range(STOCK_GROUPS[0][0]))
TICK_NS: Final = 10_000_000
SECOND_NS: Final = 1_000_000_000
WARMUP_SHARE: Final = 0.25
LATENCY_S: Final = 0.0002

Progress = Callable[[str, float], None]


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What the three runs share.  Half the buffer would do for those that purge."""

    seconds: float = 20.0
    members: int = 5
    slow_ms: float = 4.0
    rate: float = 1000.0
    buffer: int = 400
    seed: int = 1

    def __post_init__(self) -> None:
        finite("seconds", self.seconds, 1)
        within("members", self.members, 3)  # a sender, a fast one and the slow one
        positive("slow-ms", self.slow_ms)
        # A slower one would still be busy with its backlog when the run must have fallen quiet.
        within("slow-ms", self.slow_ms, 0, 100)

    @property
    def slow(self) -> int:
        """The slow member's rank."""
        return self.members - 1


class Variant(NamedTuple):
    """One way to carry the same quotes."""

    title: str
    protocol: str
    order: str
    chain_limit: int | None = None


VARIANTS: Final[Mapping[str, Variant]] = {
    "reliable": Variant("reliable", "rm", "fifo"),
    "semantic": Variant("semantic, order fifo", "s-rm", "fifo", 10),
    "semantic_item": Variant("semantic, order item", "s-rm", "item"),
}


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What one run showed.  Rates are messages per second; `fast_rate` is the fast ones' mean."""

    offered_rate: float
    sender_rate: float
    fast_rate: float
    slow_rate: float
    purged_ratio: float
    staleness_p50_ms: float
    staleness_p99_ms: float
    converged: bool
    violations: int


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """The same by second: delivered by a fast member and by the slow one, median staleness."""

    fast: list[int]
    slow: list[int]
    staleness_ms: list[float]


class Audience:
    """Observes one run: what each member holds of each stock, how old, and how much it got."""

    def __init__(self, settings: Settings, on_progress: Callable[[float], None]) -> None:
        self.slow = settings.slow
        self.end_ns = round(settings.seconds * SECOND_NS)
        self.on_progress = on_progress
        self.tick_ns = TICK_NS
        self.sent_ns = {0: 0}  # A stock not yet held counts from the start.
        self.newest: dict[int | None, int] = {}
        self.held: list[dict[int | None, int]] = [{} for _ in range(settings.members)]
        self.delivered: Counter[tuple[int, int]] = Counter()
        self.ages_ns: list[tuple[int, ...]] = []

    def on_event(self, event: Event) -> None:
        """Note one event, after sampling every tick before it."""
        now = event.ts_ns
        while self.tick_ns < now and self.tick_ns <= self.end_ns:
            self._sample()
        message = event.message
        if message is None:
            return
        if event.kind == MULTICAST:
            self.sent_ns[event.seq] = now
            self.newest[message.item] = event.seq
        elif event.kind == DELIVER:
            self.held[event.pid][message.item] = event.seq
            self.delivered[event.pid, now // SECOND_NS] += 1

    def _sample(self) -> None:
        now, newest, held, sent = self.tick_ns, self.newest, self.held[self.slow], self.sent_ns
        self.ages_ns.append(
            tuple(
                0 if held.get(item) == newest.get(item) else now - sent[held.get(item, 0)]
                for item in HOT
            )
        )
        self.tick_ns += TICK_NS
        if self.tick_ns % (25 * TICK_NS) == 0:
            self.on_progress(self.tick_ns / self.end_ns)

    @property
    def agrees(self) -> bool:
        """Whether every member's last value of every stock is the sender's last."""
        return all(held == self.newest for held in self.held)

    def staleness_ms(self, share: float, start_s: float, end_s: float) -> float:
        """The value that a share of the samples in a period does not exceed."""
        ticks = slice(round(start_s * SECOND_NS) // TICK_NS, round(end_s * SECOND_NS) // TICK_NS)
        ages = sorted(age for tick in self.ages_ns[ticks] for age in tick)
        return ages[min(int(share * len(ages)), len(ages) - 1)] / 1e6 if ages else 0.0


def run(
    settings: Settings, on_progress: Progress = lambda _name, _share: None
) -> dict[str, tuple[Outcome, Series]]:
    """All variants in turn, each from the same seed."""
    return {
        name: run_variant(variant, settings, partial(on_progress, name))
        for name, variant in VARIANTS.items()
    }


def run_variant(
    variant: Variant, settings: Settings, on_progress: Callable[[float], None]
) -> tuple[Outcome, Series]:
    """One run, measured, left to fall quiet and judged."""
    recipe = Recipe(
        protocol=variant.protocol,
        order=variant.order,
        members=settings.members,
        buffer=settings.buffer,
        chain_limit=variant.chain_limit,
    )
    audience = Audience(settings, on_progress)
    group = Group(
        recipe,
        Network(recipe.members, Link(latency=Constant(LATENCY_S))),
        arrivals.constant(settings.rate),
        quotes(stream(settings.seed, "workload")),
        seed=settings.seed,
        seconds=settings.seconds,
        warmup_s=settings.seconds * WARMUP_SHARE,
        service_s={settings.slow: settings.slow_ms / 1000},
        observers=[audience.on_event],
    )
    group.run()
    return _outcome(group, audience, settings), _series(audience, settings)


def _outcome(group: Group, audience: Audience, settings: Settings) -> Outcome:
    meter, slow = group.meter, settings.slow
    fast = range(SENDER + 1, slow)
    measured = (settings.seconds * WARMUP_SHARE, settings.seconds)
    was_judged = not group.monitors.unjudged
    return Outcome(
        offered_rate=settings.rate,
        sender_rate=meter.accepted_rate,
        fast_rate=sum(map(meter.rate, fast)) / len(fast),
        slow_rate=meter.rate(slow),
        purged_ratio=meter.purged_ratio(slow),
        staleness_p50_ms=audience.staleness_ms(0.5, *measured),
        staleness_p99_ms=audience.staleness_ms(0.99, *measured),
        converged=audience.agrees and was_judged and not group.violations,
        violations=group.violations,
    )


def _series(audience: Audience, settings: Settings) -> Series:
    seconds = range(int(settings.seconds))
    return Series(
        fast=[audience.delivered[SENDER + 1, second] for second in seconds],
        slow=[audience.delivered[settings.slow, second] for second in seconds],
        staleness_ms=[audience.staleness_ms(0.5, second, second + 1) for second in seconds],
    )


# Runs often coincide: a thinner line on a thicker one lets both be seen.
LINES: Final = {
    "reliable": ("#d55e00", 5.0),
    "semantic": ("#56b4e9", 3.5),
    "semantic_item": ("#000000", 1.2),
}


def draw(runs: Mapping[str, tuple[Outcome, Series]], settings: Settings, path: Path) -> None:
    """The figure: what a fast member and the slow one deliver, and how old the hot stocks are."""
    from matplotlib.figure import Figure  # an extra, and slow to import

    figure = Figure(figsize=(8, 9), layout="constrained")
    rates, slow_rates, ages = figure.subplots(3, 1, sharex=True)
    for name, (_, series) in runs.items():
        at = [second + 0.5 for second in range(len(series.fast))]
        colour, thickness = LINES[name]
        ages_s = [age / 1000 for age in series.staleness_ms]
        for axes, values in ((rates, series.fast), (slow_rates, series.slow), (ages, ages_s)):
            axes.plot(at, values, color=colour, lw=thickness, label=VARIANTS[name].title)
    rates.set(title="a fast member", ylabel="delivered messages/s")
    slow_rates.set(title="the slow member", ylabel="delivered messages/s")
    slow_rates.set_ylim(0, rates.get_ylim()[1])
    ages.set(
        title=f"the slow member: age of its {len(HOT)} hottest stocks (median)",
        xlabel="time (s)",
        ylabel="staleness (s)",
    )
    for axes in (rates, slow_rates, ages):
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
    rates.legend(loc="center right")
    figure.suptitle(
        f"{settings.members} members, {settings.rate:,.0f} messages/s offered, "
        f"one takes {settings.slow_ms:g} ms for each"
    )
    figure.savefig(path, dpi=120)
