"""Simulated protocol events per second and core, with the monitors on and off.

One group of five on the stock mix with a slow member and some loss; the swarm is the same
engine with smaller groups, more gossip per message, and faults.
"""

from collections.abc import Callable

from side_by_side import report, side_by_side

from semcast.core.member import Member
from semcast.core.recipe import Recipe
from semcast.faults import Constant, Link
from semcast.sim.application import Consumer, Producer
from semcast.sim.clock import rng_stream
from semcast.sim.network import Network
from semcast.sim.simulation import Simulation, once
from semcast.sim.swarm import run_seed
from semcast.specs.monitors import Monitors
from semcast.terms.events import Event
from semcast.workloads import arrivals
from semcast.workloads.stock import quotes

MEMBERS = 5
SECONDS = 3.0


def group(*, monitored: bool, batch: int) -> Callable[[], int]:
    """A run of 1,000 messages per second; returns its number of trace events."""

    def run() -> int:
        recipe = Recipe(members=MEMBERS, buffer=200)
        members = [Member(recipe, rank, rng_stream(1, "member", rank)) for rank in range(MEMBERS)]
        monitors = Monitors(recipe.protocol, recipe.order, recipe.relation, recipe.f, MEMBERS)
        count = 0

        def observe(event: Event) -> None:
            nonlocal count
            count += 1
            if monitored:
                monitors.on_event(event)

        simulation = Simulation(
            once(members),
            Network(MEMBERS, Link(latency=Constant(0.0005), loss=0.01)),
            seed=1,
            consumers={MEMBERS - 1: Consumer(0.004, 1)},
            producers={
                0: Producer(
                    arrivals.constant(1000.0), quotes(rng_stream(1, "workload")), batch=batch
                )
            },
            observers=[observe],
        )
        simulation.run(SECONDS)
        monitors.on_end(frozenset(range(MEMBERS)), complete=False)
        if monitors.violations:
            raise SystemExit(str(monitors.violations[0]))
        return count

    return run


def swarm() -> int:
    """Forty seeds of S-RM, one after the other, judged in full."""
    return sum(run_seed("s-rm", None, seed).events for seed in range(40))


def main() -> None:
    """Print the table."""
    candidates = {
        "monitors on": group(monitored=True, batch=1),
        "monitors off": group(monitored=False, batch=1),
        "monitors on, batches of 8": group(monitored=True, batch=8),
        "swarm of S-RM": swarm,
    }
    rounds = side_by_side(candidates, rounds=5)
    report("simulator, one core", "event", rounds, "monitors on")


if __name__ == "__main__":
    main()
