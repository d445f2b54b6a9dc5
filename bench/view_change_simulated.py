"""View changes in the simulator, on a network of 0.1 ms and 1 Gbit/s.

A change lasts from the first `Prepare`, at which members stop sending, until the last survivor is
in the new view: how long it took to notice that one is due is another matter.
"""

from collections.abc import Iterable, Sequence
from itertools import repeat
from time import process_time
from typing import Any, NamedTuple

from semcast.core.views.recipe import ViewRecipe
from semcast.families.testing import Habits
from semcast.families.views import VIEWS
from semcast.families.views.knowledge import Knower
from semcast.faults import Constant, Crash, Fault, LeaveAt, Link, Partition
from semcast.sim.application import Consumer, Producer
from semcast.sim.circumstances import Machines
from semcast.sim.clock import rng_stream
from semcast.sim.network import Network
from semcast.sim.simulation import Simulation
from semcast.terms.ids import Incarnation
from semcast.terms.machine import FoundGroup
from semcast.terms.messages import Update
from semcast.terms.views import Prepare

LINK = Link(latency=Constant(0.0001), bandwidth_bps=1e9, queue_bytes=1 << 24)
SIZE = 100  # bytes of a message
ITEMS = 10
BUFFER = 64  # messages; what is not obsolete needs more
SENDER, LEAVER, OTHER, SLOW = range(4)
SENT_BY_S, CHANGE_AT_S, DEADLINE_S = 1.0, 1.2, 60.0
STEP_S = 0.0001
CLOSE_S = 0.00001  # while a change is under way

LIVE = "live, one member behind"
PURGED = "purged, one member behind"
SLOW_APPLICATION = "purged, one application slow"


class Change(NamedTuple):
    """How long one took, and the processor time of all members together from then on."""

    seconds: float
    cpu_s: float


class Watched(Network):
    """A network that notes when the first `Prepare` is sent, and is whole from then on: who was cut
    off is in the view, takes part in the change, and has everything yet to get."""

    def __init__(self, size: int) -> None:
        super().__init__(size, LINK)
        self.prepared: tuple[float, float] | None = None  # simulated time, processor time

    def send(self, source: int, sends: Sequence[tuple[Sequence[int], Any]]) -> None:
        if self.prepared is None and any(type(stamped.datagram) is Prepare for _, stamped in sends):
            self.prepared = self.clock.now, process_time()
            self.heal()
        super().send(source, sends)


class Run:
    """A group of founders, and what happens to it."""

    def __init__(
        self,
        recipe: ViewRecipe,
        members: int,
        seed: int,
        updates: Iterable[Update],
        rate: float,  # messages per second
        faults: Iterable[Fault],
        slow: int | None = None,
    ) -> None:
        producer = Producer(repeat(1 / rate), updates, batch=max(1, int(rate / 100)))
        founding = FoundGroup(tuple(Incarnation(founder, 1) for founder in range(members)), 1)
        self.network = Watched(members)
        self.simulation = Simulation(
            Machines(
                born=lambda life, now, _: VIEWS.machine(
                    recipe, life, rng_stream(seed, "member", *life), now, ()
                ),
                begins=lambda _: (founding,),
            ),
            self.network,
            seed=seed,
            consumers={} if slow is None else {slow: Consumer(DEADLINE_S)},
            producers={SENDER: producer},
            habits=Habits(new_state=lambda: Knower(recipe.order, recipe.relation)),
            faults=faults,
        )
        self.network.clock = self.simulation.clock

    def change(self, survivors: Sequence[int]) -> Change:
        """Go on until these are in the second view."""
        simulation, prepared = self.simulation, None
        while not all(simulation.processes[pid].status.view.id > 1 for pid in survivors):
            prepared = self.network.prepared
            simulation.run(simulation.now + (STEP_S if prepared is None else CLOSE_S))
            if simulation.now > DEADLINE_S:
                raise SystemExit(f"no view of {len(survivors)} members: {simulation.processes}")
        assert prepared is not None
        since, cpu_s = prepared
        return Change(simulation.now - since, process_time() - cpu_s)


def against_messages(series: str, count: int, seed: int) -> Change:
    """One of four members leaves, when a sender has sent `count` messages of which one member has
    got nothing, or its application taken next to nothing."""
    items = [None] if series == LIVE else list(range(ITEMS))
    payload = bytes(SIZE)
    updates = (Update(payload, items[i % len(items)]) for i in range(count))
    faults: list[Fault] = [LeaveAt(LEAVER, CHANGE_AT_S)]
    if series != SLOW_APPLICATION:
        faults.append(Partition(SENT_BY_S / 100, DEADLINE_S, ((SLOW,),)))
    buffer = BUFFER + (2 * count if series == LIVE else 0)
    recipe = ViewRecipe(
        timeout_s=DEADLINE_S, timeout_max_s=DEADLINE_S, multicast={"buffer": buffer}
    )
    slow = SLOW if series == SLOW_APPLICATION else None
    rate = max(count, 1) / (0.9 * SENT_BY_S)
    return Run(recipe, 4, seed, updates, rate, faults, slow).change((SENDER, OTHER, SLOW))


def against_members(members: int, seed: int) -> Change:
    """The last of so many members crashes while the first sends 1,000 messages per second."""
    updates = (Update(bytes(SIZE), i % ITEMS) for i in range(10**9))
    crash = Crash(members - 1, CHANGE_AT_S)
    return Run(ViewRecipe(), members, seed, updates, 1000.0, [crash]).change(range(members - 1))
