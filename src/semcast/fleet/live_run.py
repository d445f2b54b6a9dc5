"""One live run from launch to verdict: started, disturbed, left to fall quiet, stopped, judged.

Every process records itself; the launcher adds what only it knows, who was killed and whether the
run fell quiet.  All processes share a clock, so purging is judged as strictly as in the simulator.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import msgspec

from semcast.families import find
from semcast.fleet.plan import WorkerPlan, WorkerResult
from semcast.fleet.processes import QUIET_S, Fleet
from semcast.fleet.trace_verdict import judge
from semcast.runtime.membership.incarnations import pid_of_name
from semcast.specs.verdict import CheckVerdict, facts_of
from semcast.traces.kept_results import CHECK, keep

SKEW_S: Final = 0.001
SENDING_S: Final = 60.0  # beyond what the load was meant to take

Disturb = Callable[[Fleet], None]


@dataclass(frozen=True, slots=True)
class LiveRun:
    """What came of a run: by name, what the processes that were left have to show.

    `started_ns` is when the start signal took effect, by the wall clock of the trace.
    """

    directory: Path
    started_ns: int
    is_quiet: bool
    results: Mapping[str, WorkerResult]
    verdict: CheckVerdict

    @property
    def agrees(self) -> bool:
        """Whether all that were left have the same last message of every sender and item."""
        return len({result.state for result in self.results.values()}) == 1


def run_live(
    plans: Sequence[WorkerPlan],
    directory: str | Path,
    name: str,
    disturb: Disturb = lambda _: None,
    *,
    quiet_s: float = QUIET_S,
    on_joined: Callable[[], object] = lambda: None,
    launchers: Mapping[str, Sequence[str]] | None = None,
) -> LiveRun:
    """Carry out the plans and judge what was recorded in `directory`.

    `disturb` is called once all have joined and begun; what it leaves to be sent is waited for.
    `on_joined` is called before the start signal.  `launchers` says by name what to put before a
    process's command line.

        run = run_live(plans, "out/trace", "kill", lambda fleet: fleet.kill("a"))
        assert run.is_quiet and run.agrees and run.verdict.passed
    """
    plans = [_recorded(plan, directory) for plan in plans]
    sending_s = max((plan.load.seconds for plan in plans if plan.load), default=0.0)
    with Fleet(plans, launchers) as fleet:
        fleet.start(on_joined=on_joined)
        disturb(fleet)
        is_quiet = fleet.send_all(sending_s + SENDING_S) and fleet.fall_quiet(quiet_s)
        results = fleet.stop()
    record(directory, name, [plan.name for plan in plans], fleet, is_quiet=is_quiet)
    verdict = judge(directory, skew_s=SKEW_S)
    keep(Path(directory), CHECK, facts_of(verdict))
    return LiveRun(Path(directory), fleet.started_ns, is_quiet, results, verdict)


def _recorded(plan: WorkerPlan, directory: str | Path) -> WorkerPlan:
    return msgspec.structs.replace(plan, options={**plan.options, "trace": str(directory)})


def record(
    directory: str | Path, name: str, names: Sequence[str], fleet: Fleet, *, is_quiet: bool
) -> None:
    """Add to the processes' own records what only their launcher knows."""
    from semcast.traces.journal_conversion import write_run
    from semcast.traces.parquet import read_runs  # pyarrow is an extra, and slow to import

    [run] = read_runs(directory)
    if find(run.protocol).group_type != "fixed":
        pids = {member: pid_of_name(member) for member in names}
    else:
        pids = {member: rank for rank, member in enumerate(sorted(names))}
    crashes = {pids[member]: ns for member, ns in fleet.killed_ns.items()}
    run = replace(run, name=name, parameters={**run.parameters, "skew_ms": f"{SKEW_S * 1e3:g}"})
    by_pid = {pid: member for member, pid in pids.items()}
    write_run(directory, run, by_pid, complete=is_quiet, crashes=crashes)
