"""The live twin of `simulated_service.py`: servers and clients are real processes.

The same requests from the same seed, the same times to execute and to apply, the same stops; what
is measured is derived from the same events, as the servers recorded them.  One process has all the
clients.
"""

from contextlib import ExitStack
from pathlib import Path
from secrets import token_hex
from sys import executable
from tempfile import TemporaryDirectory
from typing import Any, Final

from msgspec.structs import replace

from semcast.experiments.experiment import Row
from semcast.experiments.service_meter import ServiceMeter
from semcast.experiments.simulated_service import Durations
from semcast.faults import Stops
from semcast.fleet.live_run import SKEW_S, record
from semcast.fleet.processes import Fleet
from semcast.fleet.service_worker import ServicePlan
from semcast.fleet.trace_verdict import judge
from semcast.service.recipe import PRIMARY_BACKUP, ServiceRecipe
from semcast.sim.clock import rng_stream_seed
from semcast.terms.errors import ConfigError
from semcast.terms.events import INSTALL, MULTICAST, REPLY
from semcast.traces.parquet import read_runs, read_trace

CLIENTS: Final = "clients"
OPEN_S: Final = 60.0  # beyond the time of the run, for the last answers
WORKER: Final = (executable, "-m", "semcast.fleet.service_worker")


class LiveService:
    """A run of `seconds`, of which the first `warmup_s` are not measured."""

    def __init__(
        self,
        recipe: ServiceRecipe,
        durations: Durations,
        stops: Stops,
        *,
        servers: int,
        clients: int,
        items_max: int,
        seed: int,
        seconds: float,
        warmup_s: float,
        trace: str | None,
    ) -> None:
        self.names = [f"server-{number}" for number in range(servers)]
        self.recipe, self.durations, self.stops = recipe, durations, stops
        self.clients, self.items_max, self.seed = clients, items_max, seed
        self.seconds, self.warmup_s, self.trace = seconds, warmup_s, trace
        self.violations = 0

    def run(self) -> Row:
        """Let the processes do it, then measure and judge what they recorded."""
        if self.trace and read_runs(self.trace):
            raise ConfigError(
                f"trace: {self.trace} already holds a trace; choose a new or empty directory"
            )
        with ExitStack() as stack:
            directory = self.trace or stack.enter_context(TemporaryDirectory())
            with Fleet(self._plans(directory), worker=WORKER) as fleet:
                fleet.start()
                is_answered = fleet.watch(
                    lambda ticks: ticks[CLIENTS].sent > 0 and not ticks[CLIENTS].is_sending,
                    self.seconds + OPEN_S,
                )
                fleet.stop()
            record(directory, PRIMARY_BACKUP, self.names, fleet, is_quiet=is_answered)
            verdict = judge(directory, skew_s=SKEW_S)
            self.violations = verdict.violations + (not is_answered)
            return self._measure(Path(directory), fleet.started_ns)

    def _plans(self, directory: str) -> list[ServicePlan]:
        group, slow = f"{PRIMARY_BACKUP}-{token_hex(8)}", self.names[-1]
        common: dict[str, Any] = {"group": group, "seconds": self.seconds}
        servers = [
            ServicePlan(
                **common,
                name=name,
                options={**self._options(), "trace": directory},
                execute_s=self.durations.execute_s,
                apply_s=self._apply_s(name == slow),
                stopped_share=self.stops.share if name == slow else 0.0,
                slice_s=self.stops.slice_s,
            )
            for name in self.names
        ]
        pids = range(len(servers), len(servers) + self.clients)
        seeds = tuple(rng_stream_seed(self.seed, "workload", pid) for pid in pids)
        clients = ServicePlan(
            **common, name=CLIENTS, options={"key": False}, seeds=seeds, items_max=self.items_max
        )
        return [*servers, clients]

    def _apply_s(self, is_slow: bool) -> float:
        return self.durations.perturbed_apply_s if is_slow else self.durations.apply_s

    def _options(self) -> dict[str, Any]:
        group = self.recipe.group
        return {
            "members": len(self.names),
            "relation": group.relation,
            "buffer": group.multicast["buffer"],
            "period": group.multicast["period_s"],
            "timeout": group.timeout_s,
            "key": False,
        }

    def _measure(self, directory: Path, started_ns: int) -> Row:
        trace = read_trace(directory)
        events = [replace(each, ts_ns=each.ts_ns - started_ns) for each in trace.events]
        # Clocks of two processes differ by microseconds: causes first, whatever they say.
        events.sort(key=lambda event: (event.kind not in (INSTALL, MULTICAST), event.ts_ns))
        [slow] = [each.pid for each in trace.processes if each.name == self.names[-1]]
        [primary] = {each.pid for each in events if each.kind == REPLY}
        if primary == slow:
            raise ConfigError("the perturbed server is the primary")
        meter = ServiceMeter(primary, slow, self.warmup_s, self.seconds)
        for event in events:
            meter.on_event(event)
        busy_s = meter.sent * self.durations.execute_s
        return {"throughput_percent": 100 * busy_s / (self.seconds - self.warmup_s), **meter.row()}
