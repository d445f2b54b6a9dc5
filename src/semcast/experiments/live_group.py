"""The live twin of `group.py`: one group of real processes with one sender, measured and judged.

The same traffic from the same seed, the same rates, bounds, periods and service times as the
simulated point; what is measured is derived from the same events, as the processes recorded them.
What differs is what is real: timers that ring late, a processor that others use too, datagrams
with a header, a network of this machine; and that members also gossip when an eighth of a buffer
has come, as live ones do.

Where a `link` is given, a relay stands between the processes and each gets its own copy; else they
use the multicast of the loopback interface.
"""

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory
from typing import Any, Final

from msgspec.structs import replace

from semcast.core.recipe import Recipe
from semcast.experiments.experiment import Parameters, Value
from semcast.experiments.meter import Meter
from semcast.experiments.simulated_group import SENDER, reach_of
from semcast.fleet.live_network import LinkOf, relay_links
from semcast.fleet.live_run import LiveRun, run_live
from semcast.fleet.plan import Load, WorkerPlan
from semcast.sim.circumstances import Observer
from semcast.sim.clock import rng_stream_seed
from semcast.terms.errors import ConfigError
from semcast.terms.events import MULTICAST
from semcast.traces.parquet import read_runs, read_trace
from semcast.wire.frames import HEADER_BYTES, TAG_BYTES

QUIET_S: Final = 60.0  # for the slow one to finish


def overwriting(p: Parameters, seed: int, recipe: Recipe) -> Load:
    """The load of a point whose traffic overwrites, message by message that of the simulation."""
    seconds, _ = p.span_s()
    return Load(
        stream="overwrites",
        rate=p.number("rate"),
        seconds=seconds,
        size=p.whole("size", at_least=0),
        seed=rng_stream_seed(seed, "workload"),
        r=p.share("r"),
        d=p.whole("d"),
        reach=reach_of(recipe),
    )


def reject_overrides(p: Parameters, defaults: Mapping[str, Value], *names: str) -> None:
    """What a live point takes from this machine cannot be set."""
    for name in names:
        if p[name] != defaults[name]:
            raise ConfigError(f"{name}: {p[name]!r} cannot be set for live runs; remove it")


class LiveGroup:
    """A run of `load`, of which the first `warmup_s` are not measured.

    `buffers` gives single members other bounds than the recipe's; `service_s` is what a member's
    application spends on each message, nothing for those not named; `link` is what the relay does
    between two ranks.  The execution is recorded in `trace`, if given.
    """

    def __init__(
        self,
        name: str,
        recipe: Recipe,
        load: Load,
        *,
        warmup_s: float,
        service_s: Mapping[int, float],
        buffers: Mapping[int, int] | None = None,
        link: LinkOf | None = None,
        observers: Iterable[Observer] = (),
        trace: str | None = None,
    ) -> None:
        self.name = name
        self.recipe = recipe
        self.load = load
        self.service_s = service_s
        self.buffers = buffers or {}
        self.link = link
        self.meter = Meter(SENDER, warmup_s, load.seconds)
        self.observers = (self.meter.on_event, *observers)
        self.trace = trace
        self.violations = 0

    def run(self) -> Meter:
        """Let the processes do it, then measure and judge what they recorded."""
        if self.trace and read_runs(self.trace):
            raise ConfigError(
                f"trace: {self.trace} already holds a trace; choose a new or empty directory"
            )
        with ExitStack() as stack:
            directory = Path(self.trace or stack.enter_context(TemporaryDirectory()))
            done = run_live(self._plans(stack), directory, self.name, quiet_s=QUIET_S)
            self._observe(done)
        self.violations = done.verdict.violations + (not done.is_quiet)
        return self.meter

    def _observe(self, done: LiveRun) -> None:
        events = read_trace(done.directory).events
        # Clocks of two processes differ by microseconds: causes first, whatever they say.
        for event in sorted(events, key=lambda event: event.kind != MULTICAST):
            event = replace(event, ts_ns=event.ts_ns - done.started_ns)
            for observe in self.observers:
                observe(event)

    def _plans(self, stack: ExitStack) -> list[WorkerPlan]:
        names = [f"p{rank:03}" for rank in range(self.recipe.members)]
        own: dict[str, dict[str, Any]] = {name: {} for name in names}
        if self.link is not None:
            peers = stack.enter_context(relay_links(names, self.link))
            own = {name: {"peers": peers(name)} for name in names}
        group = f"{self.name}-{token_hex(8)}"
        return [
            WorkerPlan(
                group=group,
                name=name,
                options=self._options(rank) | own[name],
                load=self.load if rank == SENDER else None,
                service_s=self.service_s.get(rank, 0.0),
            )
            for rank, name in enumerate(names)
        ]

    def _options(self, rank: int) -> dict[str, Any]:
        recipe = self.recipe
        return {
            "members": recipe.members,
            "protocol": recipe.protocol,
            "order": recipe.order,
            "relation": recipe.relation,
            "purge": recipe.purge,
            "k": recipe.k,
            "f": recipe.f,
            "buffer": self.buffers.get(rank, recipe.buffer),
            "period": recipe.period_s,
            "fanout": recipe.fanout,
            "datagram": recipe.datagram_bytes + HEADER_BYTES + TAG_BYTES,
            "key": False,
        }
