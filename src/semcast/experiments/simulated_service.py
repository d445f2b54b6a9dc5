"""One simulated primary-backup service: assembled, run, measured and judged.

Each client asks again as soon as it is answered.  Executing a request takes processor time of the
primary, which does nothing else meanwhile; applying an update takes time of a backup, and until it
is over the next one waits in the buffer of its group, where it can be superseded.  The last backup
may be slower than the others, or be stopped for a part of every slice of time.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from random import Random
from typing import Any, Final, NamedTuple

from semcast.experiments.experiment import Row
from semcast.experiments.service_meter import ServiceMeter
from semcast.experiments.simulated_group import QUIET_WITHIN_S, STEP_S, STILL_S, RunRecording
from semcast.families.testing import Habits
from semcast.faults import Stops
from semcast.service.client import ServiceClient
from semcast.service.recipe import ServiceRecipe
from semcast.service.replica import Replica
from semcast.service.replica_state import decode_value, encode_value
from semcast.sim.application import Consumer, Producer
from semcast.sim.circumstances import Machines
from semcast.sim.clock import CpuModel, rng_stream
from semcast.sim.network import Network
from semcast.sim.run import run_until_quiescent
from semcast.sim.simulation import Simulation
from semcast.specs.monitors import Monitors
from semcast.terms.effects import Effects
from semcast.terms.ids import Incarnation
from semcast.terms.machine import Command, FoundGroup, Machine
from semcast.terms.messages import DataMessage, Update
from semcast.terms.records import Records
from semcast.workloads.quote_service import QuoteService
from semcast.workloads.stock import quote_requests

PRIMARY: Final = 0
_LINEAGE: Final = 1


class Durations(NamedTuple):
    """How long it takes to execute a request, for each item; to apply an update, at most backups
    and at the perturbed one; and to handle a *fin*."""

    execute_s: float
    apply_s: float
    perturbed_apply_s: float
    fin_s: float


class ExecutionTime(CpuModel):
    """A handler costs `execute_s` for each item of the requests that it executed, nothing else."""

    __slots__ = ("_execute_s", "_items")

    def __init__(self, execute_s: float) -> None:
        super().__init__(stack_s=0.0, handler_s=0.0)
        self._execute_s = execute_s
        self._items = 0

    def spend(self, items: int) -> None:
        """A request was executed."""
        self._items += items

    def run(
        self, handler: Callable[..., None], args: tuple[Any, ...], now: float, out: Effects
    ) -> float:
        """Run a handler; the seconds in which it executed requests."""
        super().run(handler, args, now, out)
        items, self._items = self._items, 0
        return items * self._execute_s


class Backup(Consumer):
    """Applies one update after the other."""

    __slots__ = ("_apply_s", "_fin_s", "_packs", "_stops")

    def __init__(self, apply_s: float, fin_s: float, packs: bool, stops: Stops) -> None:
        super().__init__(take=1)
        self._apply_s, self._fin_s, self._packs, self._stops = apply_s, fin_s, packs, stops

    def service_s(self, message: DataMessage, now: float, rng: Random) -> float:
        """By the number of items in the message, which is 0 of a *fin*."""
        if message.item is None:
            work_s = self._fin_s
        else:
            work_s = self._apply_s * (len(decode_value(message.payload)) if self._packs else 1)
        return self._stops.elapsed_s(now, work_s)


class SimulatedService:
    """A run of `seconds`, of which the first `warmup_s` are not measured.

    The first process is the primary, the last of the `servers` is perturbed, the others are
    clients.  A server that was put out is back after `back_after_s`.
    """

    def __init__(
        self,
        recipe: ServiceRecipe,
        network: Network,
        durations: Durations,
        stops: Stops,
        *,
        servers: int,
        items_max: int,
        back_after_s: float,
        seed: int,
        seconds: float,
        warmup_s: float,
        record: RunRecording,
    ) -> None:
        self.servers, self.clients = range(servers), range(servers, network.size)
        self.recipe, self.seed, self.record = recipe, seed, record
        self.seconds, self.warmup_s = seconds, warmup_s
        self.is_quiet = False
        self.processor = ExecutionTime(durations.execute_s)
        self.monitors = Monitors(
            recipe.protocol, recipe.order, recipe.relation, f=0, n=network.size
        )
        slow = servers - 1
        self.meter = ServiceMeter(PRIMARY, slow, warmup_s, seconds)
        self.simulation = Simulation(
            Machines(born=self._born, begins=self._begins),
            network,
            seed=seed,
            consumers=self._backups(durations, stops, slow),
            producers={pid: self._asking(pid, items_max) for pid in self.clients},
            habits=Habits(back_after_s=back_after_s),
            faults=tuple(stops.pauses(slow)),
            on_events=self.monitors.on_events,
            observers=[self.meter.on_event, *record.observers],
            processors={PRIMARY: self.processor},
        )

    def _born(self, life: Incarnation, now: float, records: Records) -> Machine:
        rng = rng_stream(self.seed, "member", *life)
        if life.pid in self.servers:
            return Replica(self.recipe, life, rng, now, QuoteService(self.processor.spend))
        return ServiceClient(self.recipe, life, rng, now)

    def _begins(self, life: Incarnation) -> Sequence[Command]:
        founders = tuple(Incarnation(pid, 1) for pid in self.servers)
        return (FoundGroup(founders, _LINEAGE),) if life in founders else ()

    def _backups(self, durations: Durations, stops: Stops, slow: int) -> Mapping[int, Consumer]:
        packs, fin_s = self.recipe.packs_updates, durations.fin_s
        backups: dict[int, Consumer] = {
            pid: Backup(durations.apply_s, fin_s, packs, stops._replace(share=0.0))
            for pid in self.servers
            if pid != PRIMARY
        }
        backups[slow] = Backup(durations.perturbed_apply_s, fin_s, packs, stops)
        return backups

    def _asking(self, pid: int, items_max: int) -> Producer:
        requests = quote_requests(rng_stream(self.seed, "workload", pid), items_max)
        updates = (Update(payload=encode_value(names)) for names in requests)
        return Producer(repeat(0.0), updates, until_s=self.seconds)

    def run(self) -> Row:
        """Measure, then let it fall quiet and judge."""
        simulation = self.simulation
        simulation.run(self.warmup_s)
        busy_s = simulation.processes[PRIMARY].busy_s
        simulation.run(self.seconds)
        busy_s = simulation.processes[PRIMARY].busy_s - busy_s
        simulation.heal()
        is_still = run_until_quiescent(
            simulation, self._progress, QUIET_WITHIN_S, STILL_S, step_s=STEP_S
        )
        asks = any(simulation.processes[pid].status.is_blocked for pid in self.clients)
        self.is_quiet = self.record.complete = is_still and not asks
        self.monitors.on_end(frozenset(range(simulation.network.size)), complete=self.is_quiet)
        measured_s = self.seconds - self.warmup_s
        return {"throughput_percent": 100 * busy_s / measured_s, **self.meter.row()}

    def _progress(self) -> int:
        return sum(process.recorded for process in self.simulation.processes)

    @property
    def violations(self) -> int:
        """How many promises were broken; never to answer or to fall quiet is one more."""
        return sum(self.monitors.counts.values()) + (not self.is_quiet)
