"""Figures 4-2, 7-2 to 7-8 and table 7.2 of the thesis in one picture, and what grows with a group.

The thesis's curves are lost with its pictures; what its text says of them stands in
`docs/results.md` beside what came out.  Table 7.2 is text, and drawn as readings.
"""

from semcast.experiments import convergence
from semcast.experiments.experiment import Value
from semcast.experiments.figure import Curve, Figure, Panel, PaperValue
from semcast.sim.topology import tiers

_TOPOLOGY = tiers()
_NODES = _TOPOLOGY.members
_LINKS = tuple(range(len(_TOPOLOGY.links)))
_PROTOCOLS = {"LBRM": "lbrm", "pbcast": "pbcast", "rpbcast": "rpbcast"}
_SELECTIONS = ("uniform", "linear", "quadratic")
_RATES = (180.0, 720.0, 1440.0, 2880.0, 4320.0, 5040.0, 5760.0)
_SENDERS = (1, 6, 12, 17, 18)
_LOSSES = (0.001, 0.01, 0.025, 0.05)
_FIVE: dict[str, Value] = {"seconds": 5.0}  # enough for a backlog to show at such rates
_MINUTE: dict[str, Value] = {"seconds": 60.0}  # few packets need a repair at all
_SIZES = (18, 100, 1000, 10_000)


def _profile(label: str, places: tuple[int, ...], y: str, fixed: dict[str, Value]) -> Curve:
    return Curve(label, "pubsub", "", places, y, fixed)


def _profiles(places: tuple[int, ...], y: str, *labels: str) -> tuple[Curve, ...]:
    return tuple(_profile(label, places, y, {"protocol": _PROTOCOLS[label]}) for label in labels)


def _swept(
    x: str, xs: tuple[Value, ...], y: str, *labels: str, **fixed: Value
) -> tuple[Curve, ...]:
    return tuple(
        Curve(label, "pubsub", x, xs, y, {"protocol": _PROTOCOLS[label], **fixed})
        for label in labels
    )


def _load() -> tuple[Panel, ...]:
    return (
        Panel(
            "(7-2) load of nodes",
            "node; 14 is the logger",
            "repairs sent",
            _profiles(_NODES, "load", "LBRM", "rpbcast"),
        ),
        Panel(
            "(7-3) traffic of links",
            "link",
            "MB, both directions",
            _profiles(_LINKS, "link", "LBRM", "rpbcast"),
        ),
    )


def _latency() -> tuple[Panel, ...]:
    return (
        Panel(
            "(7-4) latency by rate",
            "packets/s of all senders",
            "ms until all have it",
            _swept("rate", _RATES, "latency_mean_ms", *_PROTOCOLS, **_FIVE),
            log_y=True,
        ),
        Panel(
            "(7-5) unreliable packets",
            "packets/s of all senders",
            "packets that some lack for good",
            _swept("rate", _RATES, "unreliable", "pbcast", "rpbcast", **_FIVE),
        ),
    )


def _overhead() -> tuple[Panel, ...]:
    return (
        Panel(
            "(7-6) overhead by senders",
            "senders, together 360 packets/s",
            "overhead (bytes/s)",
            _swept("senders", _SENDERS, "overhead_bytes_per_s", *_PROTOCOLS),
        ),
        Panel(
            "(7-7) overhead by loss",
            "loss",
            "overhead (bytes/s)",
            _swept("loss", _LOSSES, "overhead_bytes_per_s", *_PROTOCOLS),
        ),
    )


def _selection() -> tuple[Panel, ...]:
    biases = tuple(range(len(_SELECTIONS)))
    latency = (
        Curve("mean", "pubsub", "bias", biases, "latency_mean_ms", _MINUTE),
        Curve("standard deviation", "pubsub", "bias", biases, "latency_std_ms", _MINUTE),
    )
    readings = ((69.4, 162.2), (82.3, 187.5), (136.0, 439.5))
    return (
        Panel(
            "(7-8) traffic of links by selection",
            "link",
            "MB, both directions",
            tuple(
                _profile(name, _LINKS, "link", {"bias": bias, **_MINUTE})
                for bias, name in enumerate(_SELECTIONS)
            ),
        ),
        Panel(
            "(table 7.2) latency by selection",
            "0 uniform, 1 linear, 2 quadratic",
            "ms until all have it",
            latency,
            tuple(
                PaperValue(f"{curve.label}: {readings[bias][place]:g}", bias, readings[bias][place])
                for place, curve in enumerate(latency)
                for bias in biases
            ),
        ),
    )


def _by_size(title: str, y_label: str, y: str) -> Panel:
    fixed: dict[str, Value] = {"senders": 1, "publishers": 1, "rate": 10.0}
    curves = (
        *_swept("members", _SIZES[:-1], y, "LBRM", "pbcast", **fixed),
        *_swept("members", _SIZES, y, "rpbcast", **fixed),
    )
    return Panel(title, "members", y_label, curves, log_x=True, log_y=True)


FIGURES = (
    Figure(
        "pubsub",
        "Loggers, gossip and both: 18 members at the edge of a network of 30 nodes",
        "RPB figs. 4-2, 7-2 to 7-8, table 7.2",
        (convergence.FIGURES[0].panels[0], *_load(), *_latency(), *_overhead(), *_selection()),
        note="360 packets/s of 1 kB from 18 senders and 1 % loss unless an axis says otherwise; "
        "10 s of traffic, at higher rates 5 s, for selections a minute.",
    ),
    Figure(
        "pubsub-scale",
        "One sender of 10 packets/s in a growing group",
        "RPB §8",
        (
            _by_size("latency", "ms until all have it", "latency_mean_ms"),
            _by_size("overhead", "bytes/s of a member", "member_overhead_bytes_per_s"),
            _by_size("load", "most repairs of one node", "load_max"),
        ),
        note="Membership is known to all from the start and shared.",
    ),
)
