"""EXP-7: a primary-backup service with one perturbed backup [SVS §6, fig. 3].

Five servers and ten clients that ask again as soon as they are answered.  A request updates 1 to 5
items, drawn as the quotes of a stock exchange are, and takes `execute_ms` for each of them; a
backup takes `apply_ms` for each update.  Both are equal, so the primary is busy all the time: that
is 100 %.  The paper does not say what a perturbation of x % is.  Here the last backup is either
`stopped` for x % of every `slice_ms`, or `slower`: each update takes it x % longer.

With `relation=list` all updates of a request are one message, which becomes obsolete only when a
later request updates all the same items [SVS §5.2].  With `overflow=exclude` a backup that holds up
a full buffer for `exclude_after_ms` is put out of the group, and comes back with the state of
another one.
"""

from typing import NamedTuple

from semcast.core.views.recipe import ViewRecipe
from semcast.experiments.experiment import Experiment, Parameters, Row, Value
from semcast.experiments.figure import Curve, Figure, Panel, PaperValue
from semcast.experiments.simulated_group import recording
from semcast.experiments.simulated_service import Durations, SimulatedService
from semcast.faults import Constant, Link, Stops
from semcast.service.recipe import PRIMARY_BACKUP, ServiceRecipe
from semcast.sim.network import Network
from semcast.terms.errors import ConfigError, unknown_value

PERTURBATIONS = ("stopped", "slower")
RETRY_S = 1.0  # longer than an answer takes, unless the backup is stopped for so long
TIMEOUT_MAX_S = 5.0

DEFAULTS: dict[str, Value] = {
    "perturbation": "stopped",
    "perturbed_percent": 30.0,
    "slice_ms": 50.0,
    "protocol": "s-vsm",
    "relation": "update-fin",
    "overflow": "block",
    "servers": 5,
    "clients": 10,
    "items_max": 5,
    "execute_ms": 5.0,
    "apply_ms": 5.0,
    "fin_ms": 0.0,
    "buffer": 44,  # 5 % of 875 items
    "latency_ms": 0.1,
    "period_ms": 10.0,
    "timeout_ms": 500.0,
    "patience_ms": 200.0,
    "exclude_after_ms": 800.0,
    "back_after_ms": 200.0,
    "seconds": 25.0,
    "warmup_s": 5.0,
}


class ServiceRunInfo(NamedTuple):
    """What a trace says of a run; clients are processes, too."""

    protocol: str
    order: str
    relation: str
    f: int
    members: int


def run(p: Parameters, seed: int, trace: str | None) -> Row:
    """One point of figure 3."""
    recipe = recipe_of(p)
    servers = p.whole("servers", at_least=2)
    size = servers + p.whole("clients")
    info = ServiceRunInfo(recipe.protocol, recipe.order, recipe.relation, 0, size)
    seconds, warmup_s = p.span_s()
    with recording(trace, PRIMARY_BACKUP, info, seed, p) as record:
        service = SimulatedService(
            recipe,
            Network(size, Link(latency=Constant(p.duration_s("latency_ms")))),
            _durations(p),
            Stops(_share(p, "stopped"), p.number("slice_ms") / 1000, seconds),
            servers=servers,
            items_max=p.whole("items_max"),
            back_after_s=p.duration_s("back_after_ms"),
            seed=seed,
            seconds=seconds,
            warmup_s=warmup_s,
            record=record,
        )
        row = service.run()
    return {**row, "violations": service.violations}


def live(p: Parameters, seed: int, trace: str | None) -> Row:
    """The same point with real processes; which of them has the network, and which is put out, is
    not to be set."""
    from semcast.experiments.live_group import reject_overrides
    from semcast.experiments.live_service import LiveService

    fixed = ("latency_ms", "fin_ms", "overflow", "patience_ms", "exclude_after_ms", "back_after_ms")
    reject_overrides(p, DEFAULTS, *fixed)
    if p.text("relation") == "list":
        raise ConfigError("relation: list cannot be run live here; use update-fin")
    seconds, warmup_s = p.span_s()
    service = LiveService(
        recipe_of(p),
        _durations(p),
        Stops(_share(p, "stopped"), p.number("slice_ms") / 1000, seconds),
        servers=p.whole("servers", at_least=2),
        clients=p.whole("clients"),
        items_max=p.whole("items_max"),
        seed=seed,
        seconds=seconds,
        warmup_s=warmup_s,
        trace=trace,
    )
    return {**service.run(), "violations": service.violations}


def recipe_of(p: Parameters) -> ServiceRecipe:
    """The recipe that the parameters describe."""
    timeout_s = p.number("timeout_ms") / 1000
    group = ViewRecipe(
        protocol=p.text("protocol"),
        relation=p.text("relation"),
        overflow=p.text("overflow"),
        timeout_s=timeout_s,
        timeout_max_s=max(timeout_s, TIMEOUT_MAX_S),
        patience_s=p.number("patience_ms") / 1000,
        exclude_after_s=p.number("exclude_after_ms") / 1000,
        multicast={"buffer": p.whole("buffer"), "period_s": p.number("period_ms") / 1000},
    )
    return ServiceRecipe(group=group, retry_s=RETRY_S, retry_max_s=RETRY_S)


def _share(p: Parameters, perturbation: str) -> float:
    """How much the backup is perturbed, if in this way."""
    if p.text("perturbation") not in PERTURBATIONS:
        raise unknown_value("perturbation", p.text("perturbation"), PERTURBATIONS)
    percent = p["perturbed_percent"]
    if not isinstance(percent, int | float) or not 0 <= percent < 100:
        raise ConfigError(f"perturbed_percent: {percent!r} is not a number from 0 to below 100")
    return percent / 100 if p.text("perturbation") == perturbation else 0.0


def _durations(p: Parameters) -> Durations:
    apply_s = p.duration_s("apply_ms")
    slower_s = apply_s * (1 + _share(p, "slower"))
    return Durations(p.number("execute_ms") / 1000, apply_s, slower_s, p.duration_s("fin_ms"))


PRIMARY_BACKUP_SERVICE = Experiment(
    PRIMARY_BACKUP,
    "a replicated service with one slow backup; what rate of requests is answered?",
    "SVS fig. 3",
    DEFAULTS,
    run,
    live,
    answer="The service answers {request_rate}, {throughput_percent}; the perturbed backup skips "
    "{purged_ratio} of the updates.",
)

SIMULATION = "simulation"
XS = (0.0, 10.0, 20.0, 30.0, 40.0, 50.0)
# So many requests are on their way that the buffer is the limit, which holds 44 updates and their
# fins, one for three updates on average.
FULL: dict[str, Value] = {"clients": 20, "buffer": 58}
LONG: dict[str, Value] = {
    "clients": 30,  # whose requests fill the buffer, so that it is known who holds it up
    "slice_ms": 6000.0,
    "timeout_ms": 5000.0,  # Nobody is suspected of a crash.
    "seconds": 36.0,
    "warmup_s": 6.0,
}
READINGS = (
    PaperValue("reliable: 90", 10, 90),
    PaperValue("semantic: 100", 30, 100),
    PaperValue("semantic: 90", 40, 90),
)
Y_LABEL = "requests answered (% of capacity)"


def _curve(label: str, style: str, **fixed: Value) -> Curve:
    return Curve(label, PRIMARY_BACKUP, "perturbed_percent", XS, "throughput_percent", fixed, style)


def _curves(**fixed: Value) -> tuple[Curve, ...]:
    return (
        _curve("reliable", "reliable", protocol="vsm", **fixed),
        _curve("semantic", SIMULATION, **fixed),
        _curve("one message a request", SIMULATION, relation="list", **fixed),
    )


EXCLUDING = _curve(
    "excluded and brought back", SIMULATION, protocol="vsm", overflow="exclude", **LONG
)

FIGURES = (
    Figure(
        PRIMARY_BACKUP,
        "Primary-backup replication with an increasingly perturbed backup",
        "SVS fig. 3",
        (
            Panel(
                "(a) The backup is stopped for a share of every 50 ms",
                "share of time (%)",
                Y_LABEL,
                (*_curves(), _curve("semantic, full buffer", SIMULATION, **FULL)),
                READINGS,
                live=(_curves()[0].live(10.0, 30.0), _curves()[1].live(10.0, 20.0, 30.0)),
            ),
            Panel(
                "(b) Each update takes the backup longer",
                "longer (%)",
                Y_LABEL,
                _curves(perturbation="slower")[:2],
                READINGS,
                live=(_curves(perturbation="slower")[1].live(20.0, 40.0),),
            ),
            Panel(
                "(c) The backup is stopped for a share of every 6 s",
                "share of time (%)",
                Y_LABEL,
                (*_curves(**LONG)[:2], EXCLUDING),
            ),
            Panel(
                "(d) Backups that are left meanwhile",
                "share of time (%)",
                "backups in the view, mean",
                tuple(
                    curve._replace(y="backups_mean") for curve in (_curves(**LONG)[0], EXCLUDING)
                ),
            ),
        ),
        "Five servers, ten clients that wait for each answer, 1 to 5 of 875 stocks a request, "
        "buffers of 44 messages; 5 ms to execute and to apply each update. Full buffer: 20 clients "
        "and buffers of 58, which hold 44 updates and their fins. In (c) and (d) there are 30 "
        "clients, and a backup that holds up a full buffer for 0.8 s is excluded.",
    ),
)
