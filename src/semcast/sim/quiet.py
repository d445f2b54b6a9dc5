"""When is a run over?  When nothing has moved for longer than any timeout."""

from collections.abc import Sequence

from semcast.sim.simulation import Simulation
from semcast.terms.machine import Machine

STEP_S = 0.25


def fall_quiet(
    simulation: Simulation, members: Sequence[Machine], within_s: float, still_s: float = 2.0
) -> bool:
    """Run on until frontiers and queues have stood for `still_s`; False if they never do."""
    end = simulation.now + within_s
    seen, still_since = None, simulation.now
    while simulation.now < end:
        simulation.run(simulation.now + STEP_S)
        found = [member.status(simulation.now) for member in members]
        state = [(status.passed, status.queued) for status in found]
        if state != seen:
            seen, still_since = state, simulation.now
        elif simulation.now - still_since >= still_s:
            return True
    return False
