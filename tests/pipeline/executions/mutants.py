"""What broken protocols record, each in the scenario built for it, and sound ones in every one."""

from collections.abc import Iterator
from dataclasses import dataclass

from semcast.pipeline.check.properties import PROPERTIES
from semcast.sim.run import run
from semcast.sim.swarm import mutants, mutated, scenarios
from semcast.terms.events import CRASH, RECOVER, Event
from semcast.terms.promises import PARAMETERS

from .execution import Execution


@dataclass
class Simulated(Execution):
    """A run of the simulator: what its judges found, and what of that are broken promises."""

    scenario: str = ""
    mutant: str | None = None
    violations: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        return f"{self.mutant or 'sound'} in {self.scenario}"

    @property
    def broken(self) -> frozenset[str]:
        return frozenset(each.partition(":")[0] for each in self.violations) & PROPERTIES.keys()


def drawn() -> list[Simulated]:
    """Every mutant, and every scenario without one."""
    broken = [recorded(mutant.scenario, name) for name, mutant in mutants().items()]
    return [*broken, *(recorded(scenario, None) for scenario in scenarios())]


def recorded(scenario: str, mutant: str | None) -> Simulated:
    case, events = scenarios()[scenario], []
    with mutated(mutant):
        violations = run(case, events.append).violations
    recipe = case.recipe
    told = ((name, getattr(recipe, name, None)) for name in PARAMETERS)
    return Simulated(
        recipe.protocol,
        recipe.order,
        recipe.relation,
        case.processes,
        events,
        parameters={name: str(value) for name, value in told if value is not None},
        f=getattr(recipe, "f", 0),
        complete=not any(each.startswith("liveness:") for each in violations),
        crashed=frozenset(_down(events)),
        scenario=scenario,
        mutant=mutant,
        violations=violations,
    )


def _down(events: list[Event]) -> Iterator[int]:
    """Who crashed and did not come back."""
    last = {event.pid: event.kind for event in events if event.kind in (CRASH, RECOVER)}
    return (pid for pid, kind in last.items() if kind == CRASH)
