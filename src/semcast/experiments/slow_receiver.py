"""EXP-3: what one slow receiver costs the sender, and what purging wins back [SRM §6.2, fig. 5].

A sender, fast receivers, and one receiver that spends `delay_ms` on each message.  Equations 1
and 2 stand beside the simulation.  `buffers` says what N = `buffer` bounds: `each` process, so
that the path to the slow receiver holds up to 2 N; `split`, N in halves at the sender and at the
slow receiver; or `queue`, no protocol at all but one FIFO queue of N, as the paper simulated it
[SRM §5.2].
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf
from typing import TypeAlias

from semcast.core.recipe import Recipe
from semcast.experiments.experiment import SUSTAINED, Experiment, Parameters, Row, Value
from semcast.experiments.figure import Curve, Figure, Panel, PaperValue
from semcast.experiments.simulated_group import (
    SENDER,
    SimulatedGroup,
    for_relation,
    recipe_of,
    recording,
)
from semcast.faults import Constant, Link
from semcast.sim.clock import rng_stream
from semcast.sim.network import Network
from semcast.terms.errors import ConfigError, unknown_value
from semcast.terms.items import Item
from semcast.workloads import arrivals
from semcast.workloads.synthetic import overwrites

BUFFERS = ("each", "split", "queue")

DEFAULTS: dict[str, Value] = {
    "protocol": "s-rm",
    "order": "fifo",
    "relation": "item",
    "purge": "eager",
    "members": 3,
    "f": 1,
    "rate": 100.0,
    "delay_ms": 20.0,
    "r": 0.5,
    "d": 1,
    "k": 32,
    "buffer": 20,
    "buffers": "each",
    "batch": 1,
    "size": 4,
    "latency_ms": 0.1,
    "loss": 0.0,
    "period_ms": 30.0,
    "fanout": 3,
    "seconds": 60.0,
    "warmup_s": 10.0,
}


def run(p: Parameters, seed: int, trace: str | None) -> Row:
    """One point of figure 5."""
    is_queue = _buffers(p) == "queue"
    measured = _queue(p, seed, trace) if is_queue else _group(p, seed, trace)
    return {**measured, **_model(p)}


def _buffers(p: Parameters) -> str:
    if p.text("buffers") not in BUFFERS:
        raise unknown_value("buffers", p.text("buffers"), BUFFERS)
    return p.text("buffers")


def _recipe(p: Parameters) -> Recipe:
    recipe = recipe_of(p)
    if recipe.members < 2:
        raise ConfigError(f"members: {recipe.members} is not at least 2: a sender and a receiver")
    return recipe


def _bounds(p: Parameters, recipe: Recipe) -> dict[int, int] | None:
    """Of the sender and the slow receiver, unless they have the recipe's."""
    if _buffers(p) != "split":
        return None
    half = recipe.buffer // 2
    if not half:
        raise ConfigError("buffer: 1 cannot be split into two halves; use at least 2")
    return {SENDER: half, recipe.members - 1: recipe.buffer - half}


def _group(p: Parameters, seed: int, trace: str | None) -> Row:
    """The protocol itself."""
    recipe = _recipe(p)
    slow = recipe.members - 1
    traffic = overwrites(
        p.share("r"), p.whole("d"), rng_stream(seed, "workload"), size=p.whole("size", at_least=0)
    )
    seconds, warmup_s = p.span_s()
    link = Link(latency=Constant(p.duration_s("latency_ms")), loss=p.share("loss"))
    with recording(trace, "slow-receiver", recipe, seed, p) as record:
        group = SimulatedGroup(
            recipe,
            Network(recipe.members, link),
            arrivals.constant(p.number("rate")),
            for_relation(traffic, recipe),
            seed=seed,
            seconds=seconds,
            warmup_s=warmup_s,
            service_s={slow: p.duration_s("delay_ms")},
            buffers=_bounds(p, recipe),
            batch=p.whole("batch"),
            record=record,
        )
        meter = group.run()
    return {**meter.row(fast=1, slow=slow), "violations": group.violations}


def live(p: Parameters, seed: int, trace: str | None) -> Row:
    """The same point with real processes on this machine's network."""
    from semcast.experiments.live_group import LiveGroup, overwriting, reject_overrides

    reject_overrides(p, DEFAULTS, "batch", "latency_ms", "loss")
    if _buffers(p) == "queue":
        raise ConfigError("buffers: queue runs no protocol, so there is nothing to run live")
    recipe = _recipe(p)
    slow = recipe.members - 1
    _, warmup_s = p.span_s()
    load = overwriting(p, seed, recipe)
    group = LiveGroup(
        "slow-receiver",
        recipe,
        load,
        warmup_s=warmup_s,
        service_s={slow: p.duration_s("delay_ms")},
        buffers=_bounds(p, recipe),
        trace=trace,
    )
    row = group.run().row(fast=1, slow=slow)
    return {**row, "violations": group.violations, **_model(p)}


def _model(p: Parameters) -> Row:
    """Equations 1 and 2 for the same parameters."""
    from semcast.models.throughput import (  # numpy is an extra, and slow to import
        horizon,
        purge_ratio,
        purged_share,
        sender_rate,
    )

    rate, delay_s = p.number("rate"), p.duration_s("delay_ms")
    capacity = min(rate, 1 / delay_s) if delay_s else rate
    recipe = recipe_of(p)
    reach = horizon(recipe.buffer, recipe.reach)
    purges = recipe.purges
    ratio = purge_ratio(p.share("r"), p.whole("d"), reach) if purges else 0.0
    return {
        "model_rate": float(sender_rate(rate, capacity, ratio)),
        "model_purged_ratio": float(purged_share(rate, capacity, ratio)),
    }


@dataclass(slots=True)
class BareQueue:
    """The slow receiver's queue and nothing else: no sender's buffer, no network, no safety.

    Independent of `core/` on purpose, so that what the protocol adds can be told from what
    purging does.  The message being served has left the queue.  With `in_place` a newer value
    takes the place of the one it supersedes, otherwise it goes to the tail.
    """

    reach: float  # the farthest distance that the relation can express
    service_s: float
    in_place: bool
    held: dict[int, tuple[int, Item, float]]  # by place: number, item (0: none), time of entry
    free_at: float = 0.0
    purged: int = 0

    def serve(self, until: float) -> Iterator[float]:
        """What the consumer takes up to a time: how long each had waited."""
        while self.held and self.free_at <= until:
            _, _, entered = self.held.pop(next(iter(self.held)))
            start = max(self.free_at, entered)
            self.free_at = start + self.service_s
            yield start - entered

    def purge(self, number: int, item: Item) -> int:
        """Drop what a message makes obsolete; the place where the message belongs."""
        gone = [
            place
            for place, (earlier, of, _) in self.held.items()
            if item and of == item and number - earlier <= self.reach
        ]
        self.purged += len(gone)
        place = gone.pop() if self.in_place and gone else number
        for obsolete in gone:
            del self.held[obsolete]
        return place


def _queue(p: Parameters, seed: int, trace: str | None) -> Row:
    """A producer that blocks on a full queue, and a consumer [SRM §5.1, §5.2]."""
    if trace is not None:
        raise ConfigError("buffers: queue runs no protocol, so there is nothing to trace")
    recipe = recipe_of(p)
    reach = {"none": 0.0, "bitmap": float(recipe.k)}.get(recipe.relation, inf)
    queue = BareQueue(reach, p.duration_s("delay_ms"), recipe.order == "item", {})
    end_s, start_s = p.span_s()
    gap_s, now, accepted, waits_s = 1 / p.number("rate"), 0.0, 0, []
    traffic = overwrites(p.share("r"), p.whole("d"), rng_stream(seed, "workload"), size=0)
    for number, update in enumerate(traffic):
        now += gap_s
        served = list(queue.serve(now))
        item = update.item or 0
        place = queue.purge(number, item)
        if len(queue.held) == recipe.buffer and place not in queue.held:
            now = queue.free_at
            served += queue.serve(now)
        if now > end_s:
            break
        queue.held[place] = number, item, now
        if now <= start_s:
            queue.purged = 0
            continue
        accepted += 1
        waits_s += served
    delivered = len(waits_s)
    return {
        "accepted_rate": accepted / (end_s - start_s),
        "fast_rate": accepted / (end_s - start_s),
        "slow_rate": delivered / (end_s - start_s),
        "purged_ratio": queue.purged / max(1, queue.purged + delivered),
        "fast_purged_ratio": 0.0,
        "latency_mean_ms": 1000 * sum(waits_s) / max(1, delivered),
        "violations": 0,
    }


SLOW_RECEIVER = Experiment(
    "slow-receiver",
    "one receiver takes long for each message; what rate can the sender sustain?",
    "SRM fig. 5",
    DEFAULTS,
    run,
    live,
    answer=SUSTAINED,
)

DELAYS = ("delay_ms", (5.0, 10.0, 12.5, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0))
LIVE_DELAYS = ((5.0, 20.0), (20.0, 40.0), (15.0, 25.0, 40.0), (40.0,))  # by share, none first
SIZES = ("buffer", (4, 8, 12, 20, 30, 40, 50))
REACHES = ("k", (2, 4, 8, 16, 32, 64))
SHARES = tuple((f"r = {r:g}", {"r": r}) for r in (0.25, 0.5, 0.75))
MIXES = tuple((f"r = {r:g}", {"r": r, "d": 5}) for r in (0.25, 0.5, 0.75))
KINDS = tuple((f"d = {d}", {"r": 1.0, "d": d}) for d in (10, 20, 50))

# Where purging nearly suffices, a buffer gains a few messages a second and fills slowly.
CONGESTED: dict[str, Value] = {"delay_ms": 25.0, "seconds": 90.0, "warmup_s": 40.0}
ONE_QUEUE: dict[str, Value] = {**CONGESTED, "buffers": "queue", "seconds": 340.0}
LARGE: dict[str, Value] = {
    **CONGESTED,
    "relation": "bitmap",
    "buffer": 100,
    "seconds": 140.0,
    "warmup_s": 80.0,
}

Axis: TypeAlias = tuple[str, tuple[Value, ...]]
TrafficMix: TypeAlias = tuple[tuple[str, Mapping[str, Value]], ...]
CurveVariant: TypeAlias = tuple[str, Mapping[str, Value]]  # how it is drawn, what is fixed


def _sweep(
    axis: Axis, traffic: TrafficMix, y: str, fixed: Mapping[str, Value], style: str = "simulation"
) -> tuple[Curve, ...]:
    return tuple(
        Curve(label, "slow-receiver", *axis, y, {**fixed, **kind}, style) for label, kind in traffic
    )


def _delays(title: str, y: str, y_label: str, readings: tuple[PaperValue, ...] = ()) -> Panel:
    reliable = Curve("no purging", "slow-receiver", *DELAYS, y, {"protocol": "rm"}, "reliable")
    simulated = _sweep(DELAYS, SHARES, y, {})
    model = _sweep(DELAYS, SHARES, "model_" + y.removeprefix("accepted_"), {}, "model")
    shown = zip((reliable, *simulated), LIVE_DELAYS, strict=True)
    live = tuple(curve.live(*at) for curve, at in shown)
    curves = (reliable, *simulated, *model)
    return Panel(title, "delay (ms)", y_label, curves, readings, live=live)


def _sensitivity(title: str, axis: Axis, traffic: TrafficMix, *variants: CurveVariant) -> Panel:
    curves = [
        curve
        for style, fixed in variants
        for curve in _sweep(axis, traffic, "accepted_rate", fixed, style)
    ]
    model = _sweep(axis, traffic, "model_rate", variants[0][1], "model")
    x_label = "buffer N (messages)" if axis is SIZES else "bitmap k (messages)"
    return Panel(title, x_label, "accepted (msg/s)", (*curves, *model), log_x=axis is REACHES)


QUEUES: tuple[CurveVariant, ...] = (
    ("simulation", ONE_QUEUE),
    ("newer in the obsolete one's place", {**ONE_QUEUE, "order": "item"}),
)
PROTOCOL: tuple[CurveVariant, ...] = (
    ("simulation", CONGESTED),
    ("sender N/2, receiver N/2", {**CONGESTED, "buffers": "split"}),
)

FIGURES = (
    Figure(
        "slow-receiver",
        "Purging efficiency with one slow receiver",
        "SRM fig. 5",
        (
            _delays(
                "(a-c) Throughput, d = 1, N = 20",
                "accepted_rate",
                "accepted (msg/s)",
                (
                    PaperValue("no purging: 50", 20, 50),
                    PaperValue("r = 0.5: 100", 20, 100),
                    PaperValue("r = 0.25: 75 in the text", 20, 75),
                ),
            ),
            _delays("(d-f) Messages purged, d = 1, N = 20", "purged_ratio", "purged (share)"),
            _sensitivity("(g, h) One queue of N, newer at the tail, d = 5", SIZES, MIXES, *QUEUES),
            _sensitivity("(j, k) One queue of N, newer at the tail, r = 1", SIZES, KINDS, *QUEUES),
            _sensitivity("(g, h) Protocol, N at each process, d = 5", SIZES, MIXES, *PROTOCOL),
            _sensitivity("(j, k) Protocol, N at each process, r = 1", SIZES, KINDS, *PROTOCOL),
            _sensitivity("(i) Bitmap of k, N = 100, d = 5", REACHES, MIXES, ("simulation", LARGE)),
            _sensitivity("(l) Bitmap of k, N = 100, r = 1", REACHES, KINDS, ("simulation", LARGE)),
        ),
        "The sender offers 100 msg/s; in (g-l) the slow receiver takes 40. For r = 0.25 and 20 ms "
        "equation 1 gives 50 / 0.75 = 66.7 msg/s, the paper's text 75. The paper finds the model "
        "optimistic in (g-i) and pessimistic in (j, k): one queue shows both only if a newer "
        "message takes the place of the obsolete one; at the tail, as FIFO order demands, the "
        "model is pessimistic throughout.",
    ),
)
