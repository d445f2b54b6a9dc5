"""EXP-4: where the buffer stands, when it purges, how long safety takes [SRM §6.3, fig. 6].

A sender, a fast receiver and one that spends `delay_ms` on each message.  `buffer` bounds all of
them but the slow one, which has `receiver_buffer`: 1 leaves purging to the sender, a single
buffer, and more of it splits the buffer.  S-SM by default: nothing waits for safety.  Stability
is told every 5 ms, so that the sender holds what the slow receiver has not taken and little else.
The model is that of one buffer of `buffer` messages.
Departs: under S-RM a member also keeps what it received until that is stable, so that a slow
receiver with room for 1 takes one message per stability latency; panels d and e give it 4.
"""

from dataclasses import replace

from semcast.core.recipe import Recipe
from semcast.experiments.experiment import SUSTAINED, Experiment, Parameters, Row, Value
from semcast.experiments.figure import Curve, Figure, Panel
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
from semcast.terms.events import SAFE, SKIP, Event
from semcast.workloads import arrivals
from semcast.workloads.synthetic import overwrites

DEFAULTS: dict[str, Value] = {
    "protocol": "s-sm",
    "order": "fifo",
    "relation": "item",
    "purge": "eager",
    "members": 3,
    "f": 1,
    "rate": 100.0,
    "delay_ms": 20.0,
    "r": 1.0,
    "d": 20,
    "k": 32,
    "buffer": 10,
    "receiver_buffer": 10,
    "size": 4,
    "latency_ms": 0.1,
    "period_ms": 5.0,
    "safety_period_ms": 0.0,  # the same as period_ms
    "fanout": 3,
    "seconds": 40.0,
    "warmup_s": 10.0,
}


class Occupancy:
    """How full one member's buffer was on average, and how many messages it skipped."""

    def __init__(self, pid: int, start_s: float, end_s: float) -> None:
        self.pid = pid
        self.start_ns, self.end_ns = round(start_s * 1e9), round(end_s * 1e9)
        self.skipped = 0
        self._held, self._since_ns, self._held_ns = 0, self.start_ns, 0

    def on_event(self, event: Event) -> None:
        """Weigh what was held with how long it was."""
        if event.pid != self.pid or event.ts_ns > self.end_ns:
            return
        if event.ts_ns > self.start_ns:
            self.skipped += event.kind == SKIP
            self._held_ns += self._held * (event.ts_ns - self._since_ns)
            self._since_ns = event.ts_ns
        self._held = event.buffered

    @property
    def mean(self) -> float:
        """Messages held, averaged over time."""
        rest = self._held * (self.end_ns - self._since_ns)
        return (self._held_ns + rest) / (self.end_ns - self.start_ns)


def run(p: Parameters, seed: int, trace: str | None) -> Row:
    """One point of figure 6."""
    recipe = replace(recipe_of(p), safety_period_s=p.duration_s("safety_period_ms"))
    seconds, warmup_s = p.span_s()
    size = p.whole("size", at_least=0)
    traffic = overwrites(p.share("r"), p.whole("d"), rng_stream(seed, "workload"), size=size)
    fast, slow = 1, p.whole("members", at_least=3) - 1
    sender_held, slow_held = (Occupancy(pid, warmup_s, seconds) for pid in (SENDER, slow))
    with recording(trace, "buffers", recipe, seed, p) as record:
        group = SimulatedGroup(
            recipe,
            Network(recipe.members, Link(latency=Constant(p.duration_s("latency_ms")))),
            arrivals.constant(p.number("rate")),
            for_relation(traffic, recipe),
            seed=seed,
            seconds=seconds,
            warmup_s=warmup_s,
            service_s={slow: p.duration_s("delay_ms")},
            buffers={slow: p.whole("receiver_buffer")},
            observers=[sender_held.on_event, slow_held.on_event],
            record=record,
        )
        meter = group.run()
    passed = meter.delivered[slow] + meter.omitted[slow]
    return {
        "accepted_rate": meter.accepted_rate,
        "slow_rate": meter.rate(slow),
        "purged_ratio": meter.purged_ratio(slow),
        "purged_at_sender": slow_held.skipped / passed if passed else 0.0,
        "purged_at_receiver": (meter.omitted[slow] - slow_held.skipped) / passed if passed else 0.0,
        "fast_purged_ratio": meter.purged_ratio(fast),
        "latency_mean_ms": meter.latency_ms(slow),
        "safety_latency_ms": meter.agreement_ms(SAFE),
        "sender_held_mean": sender_held.mean,
        "slow_held_mean": slow_held.mean,
        "model_rate": _model_rate(p, recipe),
        "violations": group.violations,
    }


def _model_rate(p: Parameters, recipe: Recipe) -> float:
    from semcast.models.throughput import (  # numpy is an extra, and slow to import
        horizon,
        purge_ratio,
        sender_rate,
    )

    rate, delay_s = p.number("rate"), p.duration_s("delay_ms")
    reach = horizon(recipe.buffer, recipe.reach)
    purges = recipe.purges
    ratio = purge_ratio(p.share("r"), p.whole("d"), reach) if purges else 0.0
    return float(sender_rate(rate, min(rate, 1 / delay_s) if delay_s else rate, ratio))


BUFFERS = Experiment(
    "buffers",
    "single or split buffers, eager or lazy purging, and the cost of waiting for safety",
    "SRM fig. 6",
    DEFAULTS,
    run,
    answer=SUSTAINED,
)

_DELAYS = (8.0, 12.0, 16.0, 18.0, 20.0, 22.0, 24.0, 28.0, 32.0, 40.0)
_SAFETY_PERIODS = (5.0, 30.0, 60.0, 100.0, 150.0, 200.0, 300.0)
_TEN: dict[str, Value] = {"buffer": 10, "receiver_buffer": 1}
_TWENTY: dict[str, Value] = {"buffer": 20, "receiver_buffer": 1}
_SPLIT: dict[str, Value] = {"buffer": 10, "receiver_buffer": 10}
_SAFETY: dict[str, Value] = {"protocol": "s-rm", "r": 0.5, "d": 5, "buffer": 30}
_SINGLE_SAFETY: dict[str, Value] = {**_SAFETY, "receiver_buffer": 4}
_SPLIT_SAFETY: dict[str, Value] = {**_SAFETY, "receiver_buffer": 30}


def _by_delay(label: str, y: str, fixed: dict[str, Value], style: str = "simulation") -> Curve:
    return Curve(label, "buffers", "delay_ms", _DELAYS, y, fixed, style)


def _by_safety(y: str) -> tuple[Curve, ...]:
    sets = (("N=30 at the sender", _SINGLE_SAFETY), ("N=30 at each", _SPLIT_SAFETY))
    return tuple(
        Curve(
            f"{label}, {delay:g} ms",
            "buffers",
            "safety_period_ms",
            _SAFETY_PERIODS,
            y,
            {**fixed, "delay_ms": delay},
        )
        for label, fixed in sets
        for delay in (15.0, 20.0)
    )


FIGURES = (
    Figure(
        "buffers",
        "Buffer placement, purging policy and the cost of safety",
        "SRM fig. 6",
        (
            Panel(
                "(a) throughput (r=1, d=20)",
                "processing delay (ms)",
                "accepted (msg/s)",
                (
                    _by_delay("N=20", "accepted_rate", _TWENTY),
                    _by_delay("N=10+10", "accepted_rate", _SPLIT),
                    _by_delay("N=10", "accepted_rate", _TEN),
                    _by_delay("N=20, model", "model_rate", _TWENTY, "model"),
                    _by_delay("N=10, model", "model_rate", _TEN, "model"),
                ),
            ),
            Panel(
                "(b) purging, single buffer",
                "processing delay (ms)",
                "purged (share)",
                (
                    _by_delay("N=20", "purged_ratio", _TWENTY),
                    _by_delay("N=10", "purged_ratio", _TEN),
                ),
            ),
            Panel(
                "(c) purging, split buffer",
                "processing delay (ms)",
                "purged (share)",
                (
                    _by_delay("both", "purged_ratio", _SPLIT),
                    _by_delay("at the sender", "purged_at_sender", _SPLIT),
                    _by_delay("at the receiver", "purged_at_receiver", _SPLIT),
                ),
            ),
            Panel(
                "(d) throughput by safety detection (r=0.5, d=5)",
                "safety period (ms)",
                "accepted (msg/s)",
                _by_safety("accepted_rate"),
            ),
            Panel(
                "(e) end-to-end latency by safety detection",
                "safety period (ms)",
                "mean latency, slow receiver (ms)",
                _by_safety("latency_mean_ms"),
            ),
            Panel(
                "eager and lazy purging: latency",
                "processing delay (ms)",
                "mean latency, slow receiver (ms)",
                (
                    _by_delay("eager", "latency_mean_ms", _TWENTY),
                    _by_delay("lazy", "latency_mean_ms", {**_TWENTY, "purge": "lazy"}),
                ),
            ),
        ),
        note="Where the slow receiver has N=30 too it purges without waiting for safety, and the "
        "safety period hardly matters.",
    ),
)
