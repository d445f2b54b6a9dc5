"""EXP-1: one perturbed receiver slows a whole group down, unless messages become obsolete.

Three members, at most 200 messages a second, and one receiver perturbed in one of three ways
[SRM §2, fig. 1; §6.5, fig. 8]: `delivery`, its application takes `delay_ms` for each message;
`latency`, packets to and from it take `delay_ms`; `bandwidth`, its access to the network carries
`kbps` in each direction, behind a queue of `queue_bytes`.  The paper sends 4 bytes, and 1000
where bandwidth is scarce: `size`.

Equation 1 takes the capacity of the bottleneck: messages served, or datagrams of one message
that fit the bandwidth.  It says nothing of latency, where the buffer is the limit.
"""

from semcast.core.recipe import Recipe
from semcast.experiments.experiment import SUSTAINED, Experiment, Parameters, Row, Value
from semcast.experiments.figure import Curve, Figure, Panel
from semcast.experiments.simulated_group import SimulatedGroup, for_relation, recipe_of, recording
from semcast.faults import UDP_IP_BYTES, Constant, Link
from semcast.sim.clock import rng_stream
from semcast.sim.network import Network
from semcast.terms.errors import ConfigError, unknown_value
from semcast.terms.messages import Data, DataMessage
from semcast.wire import encode
from semcast.workloads import arrivals
from semcast.workloads.synthetic import overwrites

PERTURBATIONS = ("delivery", "latency", "bandwidth")
PERTURBED = 2

DEFAULTS: dict[str, Value] = {
    "perturbation": "delivery",
    "delay_ms": 10.0,
    "kbps": 1000.0,
    "queue_bytes": 16_384,
    "protocol": "s-rm",
    "order": "fifo",
    "relation": "bitmap",
    "purge": "eager",
    "members": 3,
    "f": 1,
    "rate": 200.0,
    "r": 0.5,
    "d": 5,
    "k": 32,
    "buffer": 40,
    "size": 4,
    "latency_ms": 0.1,
    "period_ms": 30.0,
    "fanout": 3,
    "unicast": False,
    "seconds": 40.0,
    "warmup_s": 10.0,
}


def run(p: Parameters, seed: int, trace: str | None) -> Row:
    """One point of figures 1 and 8."""
    recipe = _recipe(p)
    size = p.whole("size", at_least=0)
    traffic = overwrites(p.share("r"), p.whole("d"), rng_stream(seed, "workload"), size=size)
    seconds, warmup_s = p.span_s()
    with recording(trace, "perturbed", recipe, seed, p) as record:
        group = SimulatedGroup(
            recipe,
            _network(p),
            arrivals.constant(p.number("rate")),
            for_relation(traffic, recipe),
            seed=seed,
            seconds=seconds,
            warmup_s=warmup_s,
            service_s=_service_s(p),
            record=record,
        )
        meter = group.run()
    row = meter.row(fast=1, slow=PERTURBED)
    return {**row, "model_rate": _model_rate(p), "violations": group.violations}


def live(p: Parameters, seed: int, trace: str | None) -> Row:
    """The same point with real processes; those with links of their own get copies."""
    from semcast.experiments.live_group import LiveGroup, overwriting, reject_overrides

    recipe = _recipe(p)
    if not recipe.unicast:
        reject_overrides(p, DEFAULTS, "latency_ms")
        if p.text("perturbation") != "delivery":
            raise ConfigError(
                "unicast: must be true for live runs, where only unicast links can be slowed down"
            )
    _, warmup_s = p.span_s()
    load = overwriting(p, seed, recipe)
    plain, perturbed = _links(p)
    group = LiveGroup(
        "perturbed",
        recipe,
        load,
        warmup_s=warmup_s,
        service_s=_service_s(p),
        link=(lambda s, d: perturbed if PERTURBED in (s, d) else plain) if recipe.unicast else None,
        trace=trace,
    )
    row = group.run().row(fast=1, slow=PERTURBED)
    return {**row, "model_rate": _model_rate(p), "violations": group.violations}


def _recipe(p: Parameters) -> Recipe:
    if p.text("perturbation") not in PERTURBATIONS:
        raise unknown_value("perturbation", p.text("perturbation"), PERTURBATIONS)
    recipe = recipe_of(p)
    if recipe.members <= PERTURBED:
        raise ConfigError(f"members: {recipe.members} is not at least {PERTURBED + 1}")
    return recipe


def _service_s(p: Parameters) -> dict[int, float]:
    is_slow = p.text("perturbation") == "delivery"
    return {PERTURBED: p.duration_s("delay_ms")} if is_slow else {}


def _links(p: Parameters) -> tuple[Link, Link]:
    """Those of the others, and those of the perturbed receiver."""
    plain = Link(latency=Constant(p.duration_s("latency_ms")))
    is_late = p.text("perturbation") == "latency"
    bounded = p.text("perturbation") == "bandwidth"
    perturbed = Link(
        latency=Constant(p.duration_s("delay_ms")) if is_late else plain.latency,
        bandwidth_bps=p.number("kbps") * 1000 if bounded else None,
        queue_bytes=p.whole("queue_bytes"),
    )
    return plain, perturbed


def _network(p: Parameters) -> Network:
    """All links alike, but for those of the perturbed receiver."""
    members, (plain, perturbed) = p.whole("members"), _links(p)
    return Network(
        members,
        plain,
        links={(PERTURBED, rank): perturbed for rank in range(members) if rank != PERTURBED},
        links_into={PERTURBED: perturbed},
        aggregate=True,
    )


def packet_bytes(payload_bytes: int, *, item: int | None = None, covers: bytes = b"") -> int:
    """What a datagram with one message of a long-running sender takes on the wire."""
    message = DataMessage(0, 10_000, item, covers, payload=bytes(payload_bytes))
    return len(encode(Data((message,)))) + UDP_IP_BYTES


def _model_rate(p: Parameters) -> float | None:
    """Equation 1 where there is a bottleneck of known capacity, else None."""
    from semcast.models.throughput import horizon, purge_ratio, sender_rate

    recipe, rate = recipe_of(p), p.number("rate")
    if p.text("perturbation") == "latency":
        return None
    if p.text("perturbation") == "bandwidth":
        capacity = p.number("kbps") * 125 / packet_bytes(p.whole("size", at_least=0))
    else:
        delay_s = p.duration_s("delay_ms")
        capacity = 1 / delay_s if delay_s else rate
    reach = horizon(recipe.buffer, recipe.reach)
    purges = recipe.purges
    ratio = purge_ratio(p.share("r"), p.whole("d"), reach) if purges else 0.0
    return float(sender_rate(rate, min(capacity, rate), ratio))


PERTURBED_RECEIVER = Experiment(
    "perturbed",
    "one receiver with a slow application or a slow network; what rate do the others get?",
    "SRM figs. 1 and 8",
    DEFAULTS,
    run,
    live,
    answer=SUSTAINED,
)


def _panel(
    title: str,
    x: str,
    xs: tuple[Value, ...],
    x_label: str,
    live_xs: tuple[tuple[Value, ...], tuple[Value, ...]],
    **fixed: Value,
) -> Panel:
    """`live_xs`: of the reliable and of the semantic protocol."""
    perturbation = fixed["perturbation"]
    semantic = Curve("semantic (fig. 8)", "perturbed", x, xs, "fast_rate", fixed)
    reliable = semantic._replace(
        label="reliable (fig. 1)", fixed={**fixed, "protocol": "rm"}, style="reliable"
    )
    copies = semantic._replace(
        label="semantic, a copy for each member", fixed={**fixed, "unicast": True}
    )
    curves = [reliable, semantic]
    if perturbation == "bandwidth":
        curves.append(copies)
    shown = zip((reliable, curves[-1]), live_xs, strict=True)
    # What perturbs live links is a relay, which takes copies.
    unicast = perturbation != "delivery"
    live = tuple(curve.live(*at, unicast=unicast) for curve, at in shown if at)
    if perturbation != "latency":
        curves += [c._replace(y="model_rate", style="model") for c in (reliable, semantic)]
    y_label = "at the unperturbed receiver (msg/s)"
    return Panel(title, x_label, y_label, tuple(curves), live=live)


FIGURES = (
    Figure(
        "perturbed",
        "Throughput of a group with a single perturbed receiver",
        "SRM figs. 1 and 8",
        (
            _panel(
                "(a) Processing delay upon delivery",
                "delay_ms",
                (0.0, 2.5, 5.0, 7.5, 10.0, 12.5, 15.0, 20.0, 25.0, 30.0),
                "delay (ms)",
                ((10.0,), (7.5, 12.5, 25.0)),
                perturbation="delivery",
            ),
            _panel(
                "(b) Packet delay in the network",
                "delay_ms",
                (0.0, 20.0, 40.0, 60.0, 80.0, 100.0, 125.0, 150.0, 200.0),
                "delay each way (ms)",
                ((100.0,), (100.0,)),
                perturbation="latency",
            ),
            _panel(
                "(c) Network link bandwidth",
                "kbps",
                (250.0, 500.0, 750.0, 1000.0, 1250.0, 1500.0, 1750.0, 2000.0, 2500.0),
                "bandwidth (kbit/s)",
                ((), (500.0, 1000.0)),
                perturbation="bandwidth",
                size=1000,
            ),
        ),
        "Buffer 40, k = 32, period 30 ms, fanout 3; r = 0.5 and d = 5 where messages are purged. "
        "In (c) payloads have 1000 bytes and the link's queue 16 KiB; the model counts datagrams "
        "of one message and no gossip. Live points in (b) and (c) get a copy for each member.",
    ),
)
