"""What broken protocols record, each in the scenario built for it, and sound ones in every one."""

from collections.abc import Iterator
from dataclasses import dataclass

from semcast.pipeline.check.properties import PROPERTIES
from semcast.sim.mutant_hunt import ALL_SCENARIOS
from semcast.sim.mutants import MUTANTS, mutated
from semcast.sim.swarm import carry_out
from semcast.sim.views.case import ViewCase
from semcast.terms.events import CRASH, RECOVER, Event

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
    mutants = [recorded(mutant.scenario, name) for name, mutant in MUTANTS.items()]
    return [*mutants, *(recorded(scenario, None) for scenario in ALL_SCENARIOS)]


def recorded(scenario: str, mutant: str | None) -> Simulated:
    case, events = ALL_SCENARIOS[scenario], []
    with mutated(mutant):
        violations = carry_out(case, events.append).violations
    recipe = case.recipe
    n = case.size if isinstance(case, ViewCase) else recipe.members
    told = ((name, getattr(recipe, name, None)) for name in ("copies", "recovery"))
    return Simulated(
        recipe.protocol,
        recipe.order,
        recipe.relation,
        n,
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
