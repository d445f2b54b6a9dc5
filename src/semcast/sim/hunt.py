"""Runs one mutant against the scenario built for it, then against the swarm: is it caught?

The scenario must provoke the mistake every time, the swarm within a number of seeds.  A mutant is
caught when both fail; `by` names what caught it, so a scenario or swarm that missed it shows.
"""

from collections.abc import Callable, Sequence

import msgspec

from semcast.sim.run import run
from semcast.sim.swarm import SwarmSummary, mutants, mutated, scenarios, swarm
from semcast.terms.errors import unknown_value


class MutantResult(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one mutant: the property that first failed, None where nothing did."""

    name: str
    protocol: str
    scenario: str
    in_scenario: str | None
    in_swarm: str | None
    seed: int | None

    @property
    def caught(self) -> bool:
        """Whether both noticed."""
        return self.in_scenario is not None and self.in_swarm is not None

    @property
    def by(self) -> str | None:
        """Which property failed, in which scenario and at which seed."""
        found = []
        if self.in_scenario is not None:
            found.append(f"{self.in_scenario} in scenario {self.scenario}")
        if self.in_swarm is not None:
            found.append(f"{self.in_swarm} at seed {self.seed}")
        return ", ".join(found) or None


def run_mutant(
    name: str,
    seeds: range,
    *,
    jobs: int | None = None,
    on_progress: Callable[[SwarmSummary], None] = lambda _: None,
) -> MutantResult:
    """Run one mutant; odd seeds crash members at failpoints, so `seeds` should hold some."""
    known = mutants()
    if name not in known:
        raise unknown_value("mutant", name, known)
    mutant = known[name]
    summary = swarm(
        mutant.protocol, seeds, mutant=name, jobs=jobs, until_caught=True, on_progress=on_progress
    )
    caught = summary.first_failure is not None
    return MutantResult(
        name=name,
        protocol=mutant.protocol,
        scenario=mutant.scenario,
        in_scenario=_in_scenario(name, mutant.scenario),
        in_swarm=_property(summary.explanation) if caught else None,
        seed=seeds[summary.seeds - 1] if caught else None,
    )


def mutants_of(protocol: str | None) -> Sequence[str]:
    """The mutants that the swarm of a protocol hunts, or all."""
    known = mutants()
    protocols = sorted({mutant.protocol for mutant in known.values()})
    if protocol is not None and protocol not in protocols:
        raise unknown_value("protocol", protocol, protocols)
    return [name for name, mutant in known.items() if protocol in (None, mutant.protocol)]


def _in_scenario(name: str, scenario: str) -> str | None:
    try:
        with mutated(name):
            violations = run(scenarios()[scenario]).violations
    except Exception as error:  # A machine that raises has been noticed too.
        return f"exception {type(error).__name__}"
    return _property(violations[0]) if violations else None


def _property(violation: str) -> str:
    """A violation is told as `property: explanation`."""
    return violation.partition(":")[0]
