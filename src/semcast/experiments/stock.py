"""EXP-2: quotes of a stock exchange through one bottleneck [SRB §3.2, fig. 4].

Five processes and one producer of quotes with item tags.  The bottleneck has a fixed `capacity`
in messages a second: the `receiver` spends its inverse on each message, or the `network` carries
that many datagrams of one quote, over all links into one process, behind a queue of
`queue_bytes`.  The input is given in per cent of it.  With 40 messages of buffer equation 1
promises 151 % of the bottleneck; the paper saw "about 150 %" and does not state its buffer.
"""

from semcast.experiments.experiment import Experiment, Parameters, Row, Value
from semcast.experiments.figure import Curve, Figure, Panel, PaperValue
from semcast.experiments.perturbed import packet_bytes
from semcast.experiments.simulated_group import SimulatedGroup, for_relation, recipe_of, recording
from semcast.faults import Constant, Link
from semcast.sim.clock import rng_stream
from semcast.sim.network import Network
from semcast.terms.errors import ConfigError, unknown_value
from semcast.terms.items import item_tag
from semcast.workloads import arrivals
from semcast.workloads.stock import quotes, stock_probabilities

BOTTLENECKS = ("receiver", "network")

DEFAULTS: dict[str, Value] = {
    "bottleneck": "receiver",
    "input_percent": 150.0,
    "capacity": 100.0,
    "queue_bytes": 65536,
    "protocol": "s-rm",
    "order": "fifo",
    "relation": "item",
    "purge": "eager",
    "members": 5,
    "f": 2,
    "k": 32,
    "buffer": 40,
    "size": 8000,
    "latency_ms": 0.1,
    "period_ms": 30.0,
    "fanout": 3,
    "unicast": True,
    "seconds": 60.0,
    "warmup_s": 20.0,
}


def run(p: Parameters, seed: int, trace: str | None) -> Row:
    """One point of figure 4."""
    if p.text("bottleneck") not in BOTTLENECKS:
        raise unknown_value("bottleneck", p.text("bottleneck"), BOTTLENECKS)
    recipe = recipe_of(p)
    if recipe.members < 3:
        raise ConfigError(f"members: {recipe.members} is not at least 3")
    capacity, last = p.number("capacity"), recipe.members - 1
    traffic = quotes(rng_stream(seed, "workload"), size=p.whole("size", at_least=0))
    seconds, warmup_s = p.span_s()
    with recording(trace, "stock", recipe, seed, p) as record:
        group = SimulatedGroup(
            recipe,
            _network(p, last),
            arrivals.constant(capacity * p.number("input_percent") / 100),
            for_relation(traffic, recipe),
            seed=seed,
            seconds=seconds,
            warmup_s=warmup_s,
            service_s={last: 1 / capacity if p.text("bottleneck") == "receiver" else 0.0},
            record=record,
        )
        meter = group.run()
    return {
        "input_percent": p.number("input_percent"),
        "output_percent": 100 * meter.accepted_rate / capacity,
        "latency_mean_ms": meter.latency_ms(last),
        "purged_ratio": meter.purged_ratio(last),
        "fast_purged_ratio": meter.purged_ratio(1),
        "model_percent": _model_percent(p),
        "violations": group.violations,
    }


def _network(p: Parameters, last: int) -> Network:
    """The aggregate bandwidth into the last process bounded, if the network is the bottleneck."""
    link = Link(latency=Constant(p.duration_s("latency_ms")))
    if p.text("bottleneck") != "network":
        return Network(p.whole("members"), link)
    quote_bytes = packet_bytes(p.whole("size", at_least=0), item=item_tag("stock-0"))
    narrow = Link(
        latency=link.latency,
        bandwidth_bps=8 * quote_bytes * p.number("capacity"),
        queue_bytes=p.whole("queue_bytes"),
    )
    return Network(p.whole("members"), link, links_into={last: narrow}, aggregate=True)


def _model_percent(p: Parameters) -> float:
    """Equation 1 as a share of the bottleneck's capacity."""
    from semcast.models.throughput import horizon, purge_ratio_of_items, sender_rate

    recipe, given = recipe_of(p), p.number("input_percent")
    reach = horizon(recipe.buffer, recipe.reach)
    purges = recipe.purges
    ratio = purge_ratio_of_items(stock_probabilities(), reach) if purges else 0.0
    return float(sender_rate(given, min(100.0, given), ratio))


STOCK = Experiment(
    "stock",
    "stock quotes with a slow receiver or a slow network; what input rate is sustained?",
    "SRB fig. 4",
    DEFAULTS,
    run,
    answer="The group sustains {output_percent}.",
)

INPUTS = (25.0, 50.0, 75.0, 90.0, 100.0, 110.0, 125.0, 150.0, 175.0, 200.0)


def _curve(label: str, y: str, style: str, **fixed: Value) -> Curve:
    return Curve(label, "stock", "input_percent", INPUTS, y, fixed, style)


def _panel(
    title: str, y_label: str, y: str, *more: Curve, readings: tuple[PaperValue, ...] = ()
) -> Panel:
    curves = (
        _curve("reliable", y, "reliable", protocol="rm"),
        _curve("semantic", y, "simulation"),
        _curve("reliable", y, "bottleneck in the network", protocol="rm", bottleneck="network"),
        _curve("semantic", y, "bottleneck in the network", bottleneck="network"),
    )
    return Panel(title, "input (% of the bottleneck)", y_label, (*curves, *more), readings)


FIGURES = (
    Figure(
        "stock",
        "Stock quotes with a slow receiver or a slow network",
        "SRB fig. 4",
        (
            _panel(
                "(a) Sustained output",
                "output (% of the bottleneck)",
                "output_percent",
                _curve("semantic", "model_percent", "model"),
                readings=(
                    PaperValue("reliable: 100", 150, 100),
                    PaperValue("semantic: 150", 150, 150),
                ),
            ),
            _panel("(b) Latency at the bottleneck", "mean latency (ms)", "latency_mean_ms"),
            _panel(
                "Messages purged on the way to the bottleneck", "purged (share)", "purged_ratio"
            ),
        ),
        "Five processes, 875 stocks, buffer 40, for which equation 1 gives 151 %. Solid: one "
        "receiver takes 10 ms for each message. Dotted: the links into one process together carry "
        "100 datagrams of one quote a second, gossip included.",
    ),
)
