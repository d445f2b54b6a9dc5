"""One run of a swarm of views: everything that a seed decides, and how it is carried out.

A safety phase, in which applications send and everything happens to everybody, then a liveness
phase, in which faults have stopped: within a bounded time all live processes must be in one view,
say something each that all of them deliver, and fall quiet.  Under primary partition that is owed
only while a majority of the last primary lives.
"""

from collections.abc import Iterator
from itertools import repeat
from typing import Any

import msgspec

from semcast.core.views.member import ViewMember
from semcast.core.views.recipe import ViewRecipe
from semcast.faults import Latency, Link
from semcast.sim.case import Outcome, Sender, submissions
from semcast.sim.clock import Clock, stream
from semcast.sim.network import Network
from semcast.sim.process import Consumer, Observer, Producer
from semcast.sim.views.application import Application
from semcast.sim.views.judge import Judge, is_settled
from semcast.sim.views.lives import Turn
from semcast.sim.views.simulation import ViewSimulation
from semcast.sim.views.station import Station
from semcast.terms.ids import Life
from semcast.terms.messages import Submission

STEP_S = 0.05
LAST_WORD = Submission(payload=b"last", never_purge=True)


class ViewCase(msgspec.Struct, frozen=True, kw_only=True):
    """A complete description: the same case gives the same trace, byte for byte.

    The first `founders` of `size` processes begin in one view, the others arrive.  An application
    takes `snapshot` to write its state down; who was excluded is back after `back_after_s`.
    """

    seed: int
    recipe: ViewRecipe
    size: int
    founders: int
    senders: tuple[Sender, ...]
    service_s: dict[int, float]
    take: dict[int, int]
    link: Link
    snapshot: Latency
    back_after_s: float
    turns: tuple[Turn, ...]
    phase_s: float
    settled_within_s: float
    still_s: float
    through_bytes: bool


def simulate(case: ViewCase, judge: Judge, *observers: Observer) -> ViewSimulation:
    """The run, before it begins."""
    recipe = case.recipe
    producers = {
        sender.pid: Producer(
            repeat(1 / sender.rate),
            submissions(sender, recipe.recipe_of(1), stream(case.seed, "workload", sender.pid)),
            batch=sender.batch,
            until_s=case.phase_s,
        )
        for sender in case.senders
    }

    def born(life: Life, now: float) -> tuple[ViewMember, Application, Consumer]:
        member = ViewMember(recipe, life, stream(case.seed, "member", *life), now)
        service_s, take = case.service_s.get(life.pid, 0.0), case.take.get(life.pid)
        return member, Application(recipe.order, recipe.relation), Consumer(service_s, take)

    def station(pid: int, clock: Clock, network: Network, **of_the_run: Any) -> Station:
        return Station(
            pid,
            born,
            clock,
            network,
            founders=tuple(Life(founder, 1) for founder in range(case.founders)),
            producer=producers.get(pid),
            snapshot=case.snapshot,
            back_after_s=case.back_after_s,
            observers=[judge.on_event, *observers],
            on_install=judge.on_install,
            on_error=judge.on_error,
            **of_the_run,
        )

    return ViewSimulation(
        station,
        Network(case.size, case.link),
        seed=case.seed,
        turns=case.turns,
        through_bytes=case.through_bytes,
    )


def settle(case: ViewCase, simulation: ViewSimulation, judge: Judge) -> bool:
    """Run on until all are in one view and nothing was traced for `still_s`; False if never."""
    end = simulation.now + case.settled_within_s
    seen, still_since = -1, simulation.now
    while simulation.now < end:
        simulation.run(simulation.now + STEP_S)
        up = simulation.up
        if judge.events != seen:
            seen, still_since = judge.events, simulation.now
        elif simulation.now - still_since < case.still_s:
            continue
        elif is_settled(up):
            return True
        elif not judge.has_majority(up):
            return False
    return False


def liveness(case: ViewCase, simulation: ViewSimulation, judge: Judge) -> Iterator[str]:
    """What should have happened by now, and has not."""
    if not settle(case, simulation, judge):
        up = simulation.up
        if judge.has_majority(up):
            states = ", ".join(f"{s.life} {s.status.phase} in {s.status.view.id}" for s in up)
            yield f"liveness: not in one view {case.settled_within_s} s after the faults: {states}"
        return
    for station in simulation.up:
        station.offer(LAST_WORD)
    if not settle(case, simulation, judge):
        yield "liveness: no rest after the last words"
    blocked = [station.life for station in simulation.up if station.is_blocked]
    if blocked:
        yield f"liveness: {blocked} may not speak"


def run(case: ViewCase, *observers: Observer) -> Outcome:
    """Carry out one case; `observers` see every event of its trace."""
    judge = Judge(case.recipe, case.size)
    simulation = simulate(case, judge, *observers)
    simulation.run(case.phase_s)
    simulation.heal()
    late = tuple(liveness(case, simulation, judge))
    up = simulation.up
    return Outcome(
        seed=case.seed,
        events=judge.events,
        crashed=judge.crashes,
        violations=(*judge.verdict(up, is_settled(up)), *late),
    )
