"""One case of any family, carried out and judged.

Safety phase: processes send while faults happen.  Then faults end, and the run must settle within a
bounded time.  In some cases every process then sends one more message, which must reach all members
that are owed it.
"""

from collections.abc import Callable, Iterator
from itertools import repeat
from math import inf
from typing import Final

import msgspec

from semcast.families import find
from semcast.families.case import LAST_WORD, AnyCase, CaseOutcome, updates_of
from semcast.families.referee import Referee
from semcast.families.testing import Testing
from semcast.faults import Constant
from semcast.sim.application import Consumer, Producer
from semcast.sim.circumstances import Machines, Observer
from semcast.sim.clock import CpuModel, rng_stream
from semcast.sim.network import Network
from semcast.sim.simulation import Simulation
from semcast.terms.ids import Incarnation
from semcast.terms.machine import Machine
from semcast.terms.records import Records
from semcast.terms.relations import LISTED, facts_of

STEP_S: Final = 0.05


def read_case(data: bytes) -> AnyCase:
    """A case from its JSON."""
    protocol = str(msgspec.json.decode(data)["recipe"]["protocol"])
    case: AnyCase = msgspec.json.decode(data, type=find(protocol).testing().case)
    return case


def run(case: AnyCase, *observers: Observer) -> CaseOutcome:
    """Carry out one case; `observers` see every event of its trace."""
    testing = find(case.recipe.protocol).testing()
    referee = testing.referee(case)
    simulation = simulate(case, testing, referee, *observers)
    simulation.run(case.phase_s)
    simulation.heal()
    for pid in sorted(simulation.gone):
        simulation.announce(pid)  # A silent member may pin the others' buffers until then.
    late = tuple(liveness(case, simulation, referee))
    found, count = referee.verdict(simulation.processes, quiet=not late)
    return CaseOutcome(
        seed=case.seed,
        events=referee.events,
        crashed=referee.crashes,
        violations=(*found, *late),
        count=count + len(late),
        obligations=dict(referee.monitors.obligations),
    )


def simulate(case: AnyCase, testing: Testing, referee: Referee, *observers: Observer) -> Simulation:
    """The run, before it begins."""
    codec = find(case.recipe.protocol).codec
    return Simulation(
        machines_of(case, testing),
        Network(
            case.processes,
            case.link,
            through_bytes=codec if case.through == "bytes" else None,
            fingerprint=case.through == "fingerprint",
        ),
        seed=case.seed,
        consumers={
            pid: Consumer(Constant(service_s), case.take[pid])
            for pid, service_s in case.service_s.items()
        },
        producers=dict(producers_of(case, testing)),
        habits=testing.habits(case),
        faults=case.faults,
        on_events=referee.on_events,
        observers=observers,
        on_install=referee.on_install,
        channel=referee.channel,
        processors={pid: CpuModel(handler_s=cost_s) for pid, cost_s in case.busy_s.items()},
        sync=case.sync,
        idle_s=case.idle_s,
        on_error=referee.on_error,
    )


def machines_of(case: AnyCase, testing: Testing) -> Machines:
    """The machines of a case, each with its own stream of random numbers."""
    family = find(case.recipe.protocol)

    def born(life: Incarnation, now: float, records: Records) -> Machine:
        rng = rng_stream(case.seed, *testing.chance(life))
        if testing.machine is None:
            return family.machine(case.recipe, life, rng, now, records)
        return testing.machine(case, life, rng, now, records)

    return Machines(
        born=born,
        begins=lambda life: testing.begins(case, life),
        record=family.record,
        kinds=testing.kinds,
        announce=testing.announce,
    )


def producers_of(case: AnyCase, testing: Testing) -> Iterator[tuple[int, Producer]]:
    """Who sends what; all stop when the faults do."""
    recipe = case.recipe
    reach = testing.reach(recipe) if facts_of(recipe.relation).replaces == LISTED else 0
    for sender in case.senders:
        rng = rng_stream(case.seed, "workload", sender.pid)
        updates = updates_of(sender, recipe.relation, reach, rng)
        gaps = repeat(1 / sender.rate)
        yield sender.pid, Producer(gaps, updates, batch=sender.batch, until_s=case.phase_s)


def liveness(case: AnyCase, simulation: Simulation, referee: Referee) -> Iterator[str]:
    """What should have happened by the end, and has not."""
    processes = simulation.processes
    if not run_until_settled(case, simulation, referee):
        if referee.owes_liveness(processes):
            yield referee.unsettled(processes)
        return
    if not case.has_last_words:
        return
    speakers = [processes[player.pid] for player in referee.speakers(processes)]
    if not speakers:
        return  # What goes on then is retries, which need not end.
    for process in speakers:
        process.application.say(LAST_WORD)
    if not run_until_settled(case, simulation, referee):
        yield "liveness: no rest after the last words"
    blocked = [process.life for process in speakers if process.application.is_blocked]
    if blocked:
        yield f"liveness: {blocked} may not speak"


def run_until_settled(case: AnyCase, simulation: Simulation, referee: Referee) -> bool:
    """Run on until nothing was traced for `still_s` and all is where it must come; False if that
    is not so within the time that the case allows, or is not owed."""

    def is_over(still_for_s: float) -> bool:
        if still_for_s >= referee.patience * case.still_s or referee.is_settled(processes):
            return True
        return not referee.owes_liveness(processes)

    processes, within_s = simulation.processes, case.quiet_within_s
    is_quiet = run_until_quiescent(
        simulation, lambda: referee.progress(processes), within_s, case.still_s, is_over
    )
    return is_quiet and (referee.patience < inf or referee.is_settled(processes))


def run_until_quiescent(
    simulation: Simulation,
    progress: Callable[[], object],
    within_s: float,
    still_s: float,
    is_over: Callable[[float], bool] = lambda _: True,
    step_s: float = STEP_S,
) -> bool:
    """Run on until `progress` has not changed for `still_s` or longer, and `is_over` after that
    time; False if never."""
    end = simulation.now + within_s
    seen, still_since = None, simulation.now
    while simulation.now < end:
        simulation.run(simulation.now + step_s)
        state = progress()
        if state != seen:
            seen, still_since = state, simulation.now
        elif (still_for_s := simulation.now - still_since) >= still_s and is_over(still_for_s):
            return True
    return False
