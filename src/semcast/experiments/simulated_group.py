"""One simulated group with one sender: assembled, run, measured and judged.

The measured time is followed by a quiet one, so that liveness is judged of every point: the
sender stops, the slow ones finish, and then each member must have what it was promised.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol

from semcast.core.member import Member
from semcast.core.recipe import Recipe
from semcast.experiments.experiment import Parameters
from semcast.experiments.meter import Meter
from semcast.sim.application import Consumer, Producer
from semcast.sim.circumstances import Observer
from semcast.sim.clock import CpuModel, rng_stream
from semcast.sim.network import Network
from semcast.sim.run import run_until_quiescent
from semcast.sim.simulation import Simulation, once
from semcast.specs.monitors import Monitors
from semcast.terms.events import Event
from semcast.terms.messages import Update
from semcast.workloads.predecessor_lists import list_predecessors

SENDER = 0
QUIET_WITHIN_S = 120.0
STILL_S = 2.0
STEP_S = 0.25


class RunRecording:
    """Where a run's events go, and whether it was left to fall quiet."""

    def __init__(self, *observers: Observer) -> None:
        self.observers = observers
        self.complete = False


class RecipeInfo(Protocol):
    """What a trace says of a run's recipe."""

    @property
    def protocol(self) -> str: ...
    @property
    def order(self) -> str: ...
    @property
    def relation(self) -> str: ...
    @property
    def f(self) -> int: ...
    @property
    def members(self) -> int: ...


class SimulatedGroup:
    """A run of `seconds`, of which the first `warmup_s` are not measured.

    `buffers` gives single members other bounds than the recipe's; `service_s` is what a member's
    application spends on each message, nothing for those not named.
    """

    def __init__(
        self,
        recipe: Recipe,
        network: Network,
        arrivals: Iterable[float],
        updates: Iterable[Update],
        *,
        seed: int,
        seconds: float,
        warmup_s: float,
        service_s: Mapping[int, float] | None = None,
        buffers: Mapping[int, int] | None = None,
        batch: int = 1,
        processor: CpuModel | None = None,
        observers: Iterable[Observer] = (),
        record: RunRecording | None = None,
    ) -> None:
        self.recipe = recipe
        self.record = record or RunRecording()
        self.is_quiet = False
        self.members = members_of(recipe, buffers or {}, seed)
        self.seconds = seconds
        self.network = network
        ranks = range(recipe.members)
        self.meter = Meter(SENDER, warmup_s, seconds)
        self.monitors = Monitors(
            recipe.protocol, recipe.order, recipe.relation, recipe.f, recipe.members
        )
        self.simulation = Simulation(
            once(self.members),
            network,
            seed=seed,
            consumers={pid: Consumer(s, 1) for pid, s in (service_s or {}).items() if s},
            producers={SENDER: Producer(arrivals, updates, batch=batch, until_s=seconds)},
            on_events=self.monitors.on_events,
            observers=[self.meter.on_event, *observers, *self.record.observers],
            processors={} if processor is None else dict.fromkeys(ranks, processor),
        )

    def run(self) -> Meter:
        """Measure, then let it fall quiet and judge."""
        self.simulation.run(self.seconds)
        self.is_quiet = run_until_quiescent(
            self.simulation, self._progress, QUIET_WITHIN_S, STILL_S, step_s=STEP_S
        )
        self.record.complete = self.is_quiet
        self.monitors.on_end(frozenset(range(self.recipe.members)), complete=self.is_quiet)
        return self.meter

    def _progress(self) -> list[tuple[int, int]]:
        """How far every member got, and what waits for its application."""
        found = (member.status(self.simulation.now) for member in self.members)
        return [(status.passed, status.queued) for status in found]

    @property
    def violations(self) -> int:
        """How many promises were broken; never to fall quiet is one more."""
        return sum(self.monitors.counts.values()) + (not self.is_quiet)


def members_of(recipe: Recipe, buffers: Mapping[int, int], seed: int) -> list[Member]:
    """The members of a group, some with bounds of their own."""
    return [
        Member(
            replace(recipe, buffer=buffers.get(rank, recipe.buffer)),
            rank,
            rng_stream(seed, "member", rank),
        )
        for rank in range(recipe.members)
    ]


def recipe_of(p: Parameters) -> Recipe:
    """The recipe that an experiment's parameters describe."""
    return Recipe(
        protocol=p.text("protocol"),
        order=p.text("order"),
        relation=p.text("relation"),
        purge=p.text("purge"),
        members=p.whole("members"),
        f=p.whole("f", at_least=0),
        k=p.whole("k"),
        buffer=p.whole("buffer"),
        fanout=p.whole("fanout"),
        period_s=p.number("period_ms") / 1000,
        unicast=bool(p.get("unicast")),
    )


def for_relation(traffic: Iterator[Update], recipe: Recipe) -> Iterator[Update]:
    """Traffic by items in the form that the recipe's relation takes."""
    reach = reach_of(recipe)
    return traffic if reach is None else list_predecessors(traffic, reach)


def reach_of(recipe: Recipe) -> int | None:
    """How far back messages name what they make obsolete; None where they need not."""
    return {"bitmap": recipe.k, "list": recipe.buffer * recipe.members}.get(recipe.relation)


@contextmanager
def recording(
    directory: str | None, name: str, recipe: RecipeInfo, seed: int, parameters: Parameters
) -> Iterator[RunRecording]:
    """What writes a trace to `directory`, or nothing."""
    if directory is None:
        yield RunRecording()
        return
    from semcast.traces.parquet import TraceWriter  # pyarrow is an extra, and slow to import
    from semcast.traces.schema import RunInfo

    run = RunInfo(
        name=name,
        protocol=recipe.protocol,
        order=recipe.order,
        relation=recipe.relation,
        f=recipe.f,
        seed=seed,
        parameters={key: str(value) for key, value in parameters.items()} | {"skew_ms": "0"},
    )
    names = [f"p{rank}" for rank in range(recipe.members)]
    with TraceWriter(directory, run, names) as writer:

        def observe(event: Event) -> None:
            writer.append((event,))

        record = RunRecording(observe)
        yield record
        writer.close(complete=record.complete)
