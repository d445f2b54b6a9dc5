"""In what broken protocols record Spark finds what the simulator's monitors found while they ran:
groups with a fixed membership, and loggers.

A mutant that breaks no property, but a bound or a count that only the simulator sees, has nothing
in its trace to find.
"""

from semcast.core.pubsub.recipe import PROTOCOLS as PUBSUB
from semcast.pipeline.check.properties import PROPERTIES
from semcast.pipeline.check.verdict import violations_in
from semcast.sim.case import Case
from semcast.sim.case import run as run_group
from semcast.sim.mutants import MUTANTS, mutated
from semcast.sim.pubsub.case import run as run_pubsub
from semcast.sim.pubsub.scenarios import PUBSUB_SCENARIOS
from semcast.sim.scenarios import SCENARIOS


def recorded(multicasts, case, mutant: str | None):
    """The execution, and the properties that its monitors found broken."""
    recipe, events = case.recipe, []
    with mutated(mutant):
        if isinstance(case, Case):
            outcome, told = run_group(case, events.append), {}
        else:
            outcome = run_pubsub(case, events.append)
            told = {"copies": str(recipe.copies), "recovery": recipe.recovery}
    found = {violation.partition(":")[0] for violation in outcome.violations}
    run = multicasts.Execution(
        recipe.protocol,
        recipe.order,
        recipe.relation,
        n=1 + max(event.pid for event in events),
        f=getattr(recipe, "f", 0),
        complete="liveness" not in found,
        parameters={"skew_ms": "0", **told},
        events=events,
    )
    return run, found & PROPERTIES.keys()


def test_each_is_caught_and_the_sound_protocol_is_not(
    spark, as_trace, executions, multicasts, tmp_path
) -> None:
    scenarios = {**SCENARIOS, **PUBSUB_SCENARIOS}
    names = [name for name, mutant in MUTANTS.items() if mutant.scenario in scenarios]
    sound = scenarios.values()
    runs = [recorded(multicasts, scenarios[MUTANTS[name].scenario], name) for name in names]
    runs += [recorded(multicasts, case, None) for case in sound]
    trace = as_trace(tmp_path, [run for run, _ in runs])
    found: dict[int, set[str]] = {}
    with executions.interpreted(spark):
        rows = violations_in(trace).select("run_id", "property").distinct().collect()
    for row in rows:
        found.setdefault(row["run_id"], set()).add(row["property"])
    labels = [*names, *("" for _ in sound)]
    for run_id, (label, (_, expected)) in enumerate(zip(labels, runs, strict=True), 1):
        assert found.get(run_id, set()) == expected, label
        is_of_a_group = label and MUTANTS[label].protocol not in PUBSUB
        assert bool(expected) or not is_of_a_group, label
