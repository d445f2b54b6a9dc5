"""EXP-5: what a growing group costs its sender, and how soon it agrees [SRM §6.4, fig. 7].

Centralised mode [SRM §5.4]: handlers' measured time, times `processor_factor`, and 10 µs for each
traversal of the UDP/IP stack advance the simulated clock; a factor of 0 charges the stack alone,
which makes a run repeatable.  Members share a switched network of 100 Mbit/s.  When `congested`,
one receiver takes a third of what is offered, T_s = 3 T_r.
Processor and network are those of the sender, outgoing bytes only, where a multicast counts once.
The paper does not say what f was: 1 here, and -1 stands for (members - 1) // 2.
Departs: there a purge fakes stability, so the paper's stability latency covers purged messages
too [SRM §5.3]; `release_latency_ms` is that, the time until the sender may forget a message.
"""

from dataclasses import replace
from typing import NamedTuple

from semcast.core.recipe import Recipe
from semcast.experiments.experiment import Experiment, Parameters, Row, Value
from semcast.experiments.figure import Curve, Figure, Panel
from semcast.experiments.simulated_group import (
    SENDER,
    SimulatedGroup,
    for_relation,
    recipe_of,
    recording,
)
from semcast.faults import Constant, Link
from semcast.sim.clock import CpuModel, rng_stream
from semcast.sim.network import Network
from semcast.terms.events import (
    MULTICAST,
    PURGE,
    RECLAIM,
    RETRANSMISSION,
    SAFE,
    STABLE,
    Event,
)
from semcast.terms.messages import SafetyGossip, StabilityGossip
from semcast.workloads import arrivals
from semcast.workloads.synthetic import overwrites

STACK_S = 10e-6
BANDWIDTH_BPS = 100e6
SLOWDOWN = 3
GOSSIP = (StabilityGossip.__name__, SafetyGossip.__name__)

DEFAULTS: dict[str, Value] = {
    "protocol": "s-rm",
    "order": "fifo",
    "relation": "item",
    "purge": "eager",
    "members": 16,
    "f": 1,
    "congested": False,
    "safety_always": False,
    "rate": 100.0,
    "r": 0.5,
    "d": 5,
    "k": 32,
    "buffer": 30,
    "size": 4,
    "latency_ms": 0.1,
    "period_ms": 30.0,
    "fanout": 3,
    "processor_factor": 1.0,
    "seconds": 7.0,
    "warmup_s": 2.0,
}


class ReleaseLatency:
    """How long the sender holds its own messages, until they are stable or purged."""

    def __init__(self, start_s: float, end_s: float) -> None:
        self.start_ns, self.end_ns = round(start_s * 1e9), round(end_s * 1e9)
        self.sent_at: dict[int, int] = {}  # of what is still held
        self.released = self.released_ns = 0

    def on_event(self, event: Event) -> None:
        """Note what the sender takes up and lets go of."""
        if event.pid != SENDER or event.sender != SENDER:
            return
        if event.kind == MULTICAST:
            self.sent_at[event.seq] = event.ts_ns
        elif event.kind == PURGE and event.note == RETRANSMISSION:
            self._release([event.seq], event.ts_ns)
        elif event.kind == RECLAIM:
            self._release([seq for seq in self.sent_at if seq <= event.seq], event.ts_ns)

    def _release(self, seqs: list[int], now: int) -> None:
        times = [self.sent_at.pop(seq) for seq in seqs]
        if self.start_ns < now <= self.end_ns:
            self.released += len(times)
            self.released_ns += sum(now - then for then in times)

    @property
    def mean_ms(self) -> float | None:
        """Mean time held."""
        return self.released_ns / self.released / 1e6 if self.released else None


class SenderUsage(NamedTuple):
    """What the sender has used so far: processor seconds, bytes by type of datagram."""

    busy_s: float
    sent_bytes: dict[str, int]

    def since(self, before: "SenderUsage") -> "SenderUsage":
        """What was used in between."""
        sent = {kind: n - before.sent_bytes.get(kind, 0) for kind, n in self.sent_bytes.items()}
        return SenderUsage(self.busy_s - before.busy_s, sent)

    def row(self, seconds: float) -> Row:
        """This usage as shares and rates."""
        sent = sum(self.sent_bytes.values())
        gossip = sum(self.sent_bytes.get(kind, 0) for kind in GOSSIP)
        return {
            "processor_share": self.busy_s / seconds,
            "network_bytes_per_s": sent / seconds,
            "gossip_bytes_per_s": gossip / seconds,
            "gossip_share": gossip / sent if sent else 0.0,
        }


def usage(group: SimulatedGroup) -> SenderUsage:
    """The sender's usage up to now."""
    simulation = group.simulation
    traffic = group.network.traffic
    sent = {kind: t.bytes for (source, kind), t in traffic.items() if source == SENDER}
    return SenderUsage(simulation.processes[SENDER].busy_s, sent)


def run(p: Parameters, seed: int, trace: str | None) -> Row:
    """One point of figure 7."""
    recipe = _recipe(p)
    seconds, warmup_s = p.span_s()
    size = p.whole("size", at_least=0)
    traffic = overwrites(p.share("r"), p.whole("d"), rng_stream(seed, "workload"), size=size)
    factor = p.number("processor_factor", above=-1e-9)
    release = ReleaseLatency(warmup_s, seconds)
    with recording(trace, "scale", recipe, seed, p) as record:
        group = SimulatedGroup(
            recipe,
            _network(p),
            arrivals.constant(p.number("rate")),
            for_relation(traffic, recipe),
            seed=seed,
            seconds=seconds,
            warmup_s=warmup_s,
            service_s={recipe.members - 1: SLOWDOWN / p.number("rate")} if p["congested"] else {},
            processor=CpuModel(factor=factor, stack_s=STACK_S),
            observers=[release.on_event],
            record=record,
        )
        group.simulation.run(warmup_s)
        before = usage(group)
        group.simulation.run(seconds)
        used = usage(group).since(before)
        meter = group.run()
    return {
        **used.row(meter.seconds),
        "stability_latency_ms": meter.agreement_ms(STABLE),
        "release_latency_ms": release.mean_ms,
        "safety_latency_ms": meter.agreement_ms(SAFE),
        "accepted_rate": meter.accepted_rate,
        "purged_ratio": meter.purged_ratio(recipe.members - 1),
        "violations": group.violations,
    }


def _recipe(p: Parameters) -> Recipe:
    """The recipe of a group of any size, f told as a number or as the most it can be."""
    members, f = p.whole("members", at_least=2), p.whole("f", at_least=-1)
    parameters = Parameters({**p, "f": f if f >= 0 else (members - 1) // 2})
    return replace(recipe_of(parameters), safety_always=bool(p["safety_always"]))


def _network(p: Parameters) -> Network:
    link = Link(latency=Constant(p.duration_s("latency_ms")), bandwidth_bps=BANDWIDTH_BPS)
    return Network(p.whole("members"), link, aggregate=True, accounting=True)


SCALE = Experiment(
    "scale",
    "CPU, network and detection latency at the sender as the group grows",
    "SRM fig. 7",
    DEFAULTS,
    run,
    is_measured=lambda p: bool(p["processor_factor"]),
    answer="The sender uses {processor_share} of a processor; a message is stable after "
    "{stability_latency_ms}.",
)

_SIZES = (4, 8, 16, 32, 64, 256)
_CALM: dict[str, Value] = {"congested": False}
_CONGESTED: dict[str, Value] = {"congested": True}
_RELIABLE: dict[str, Value] = {"protocol": "rm"}
_ALWAYS: dict[str, Value] = {"protocol": "s-rm", "safety_always": True}
_SWITCHED: dict[str, Value] = {"protocol": "s-rm", "safety_always": False}


def _by_size(label: str, y: str, fixed: dict[str, Value], style: str = "simulation") -> Curve:
    return Curve(label, "scale", "members", _SIZES, y, fixed, style)


def _usage(y: str) -> tuple[Curve, ...]:
    """The reliable protocol, and the semantic one with safety detection always on or not."""
    return (
        _by_size("reliable", y, {**_RELIABLE, **_CALM}, "reliable"),
        _by_size("semantic", y, {**_ALWAYS, **_CALM}),
        _by_size("semantic, safety as needed", y, {**_SWITCHED, **_CALM}),
        _by_size("reliable", y, {**_RELIABLE, **_CONGESTED}, "one slow receiver"),
        _by_size("semantic", y, {**_ALWAYS, **_CONGESTED}, "one slow receiver"),
    )


def _latencies(congestion: dict[str, Value]) -> tuple[Curve, ...]:
    reliable, semantic = {**_RELIABLE, **congestion}, {**_ALWAYS, **congestion}
    return (
        _by_size("stable, reliable", "stability_latency_ms", reliable, "reliable"),
        _by_size("stable, semantic", "stability_latency_ms", semantic),
        _by_size("stable or purged, semantic", "release_latency_ms", semantic),
        _by_size("safe, semantic", "safety_latency_ms", semantic),
    )


def _panel(title: str, y_label: str, curves: tuple[Curve, ...]) -> Panel:
    return Panel(title, "members", y_label, curves, log_x=True)


FIGURES = (
    Figure(
        "scale",
        "Cost of a growing group at its sender",
        "SRM fig. 7",
        (
            _panel("(a) CPU usage", "share of a CPU", _usage("processor_share")),
            _panel("(b) network usage", "bytes/s sent", _usage("network_bytes_per_s")),
            _panel("(c) latency, no congestion", "ms", _latencies(_CALM)),
            _panel("(d) latency, T_s = 3 T_r", "ms", _latencies(_CONGESTED)),
        ),
        note="100 messages/s, N = 30, r = 0.5, d = 5, f = 1; a Python handler's time stands in for "
        "the prototype's.",
    ),
)
