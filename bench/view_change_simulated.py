"""View changes in the simulator, on a network of 0.1 ms and 1 Gbit/s.

A change lasts from the first `Prepare`, at which members stop sending, until the last survivor is
in the new view: how long it took to notice that one is due is another matter.
"""

from collections.abc import Iterable, Sequence
from itertools import repeat
from time import process_time
from typing import Any, NamedTuple

from semcast.core.views.member import ViewMember
from semcast.core.views.recipe import ViewRecipe
from semcast.faults import Constant, Link, Partition
from semcast.sim.clock import Clock, stream
from semcast.sim.network import Network
from semcast.sim.process import Consumer, Producer
from semcast.sim.views.application import Application
from semcast.sim.views.lives import Departure, Outage, Turn
from semcast.sim.views.simulation import ViewSimulation
from semcast.sim.views.station import Station
from semcast.terms.ids import Life
from semcast.terms.messages import Submission
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
        submissions: Iterable[Submission],
        rate: float,  # messages per second
        turns: Iterable[Turn],
        slow: int | None = None,
    ) -> None:
        producer = Producer(repeat(1 / rate), submissions, batch=max(1, int(rate / 100)))

        def born(life: Life, now: float) -> tuple[ViewMember, Application, Consumer]:
            member = ViewMember(recipe, life, stream(seed, "member", *life), now)
            application = Application(recipe.order, recipe.relation)
            return member, application, Consumer(DEADLINE_S if life.pid == slow else 0.0)

        def station(pid: int, clock: Clock, network: Network, **of_the_run: Any) -> Station:
            return Station(
                pid,
                born,
                clock,
                network,
                founders=tuple(Life(founder, 1) for founder in range(members)),
                producer=producer if pid == SENDER else None,
                **of_the_run,
            )

        self.network = Watched(members)
        self.simulation = ViewSimulation(station, self.network, seed=seed, turns=turns)
        self.network.clock = self.simulation.clock

    def change(self, survivors: Sequence[int]) -> Change:
        """Go on until these are in the second view."""
        simulation, prepared = self.simulation, None
        while not all(simulation.stations[pid].member.view.id > 1 for pid in survivors):
            prepared = self.network.prepared
            simulation.run(simulation.now + (STEP_S if prepared is None else CLOSE_S))
            if simulation.now > DEADLINE_S:
                raise SystemExit(f"no view of {len(survivors)} members: {simulation.stations}")
        assert prepared is not None
        since, cpu_s = prepared
        return Change(simulation.now - since, process_time() - cpu_s)


def against_messages(series: str, count: int, seed: int) -> Change:
    """One of four members leaves, when a sender has sent `count` messages of which one member has
    got nothing, or its application taken next to nothing."""
    items = [None] if series == LIVE else list(range(ITEMS))
    payload = bytes(SIZE)
    submissions = (Submission(payload, items[i % len(items)]) for i in range(count))
    turns: list[Turn] = [Departure(LEAVER, CHANGE_AT_S)]
    if series != SLOW_APPLICATION:
        turns.append(Partition(SENT_BY_S / 100, DEADLINE_S, ((SLOW,),)))
    buffer = BUFFER + (2 * count if series == LIVE else 0)
    recipe = ViewRecipe(
        timeout_s=DEADLINE_S, timeout_max_s=DEADLINE_S, multicast={"buffer": buffer}
    )
    slow = SLOW if series == SLOW_APPLICATION else None
    rate = max(count, 1) / (0.9 * SENT_BY_S)
    return Run(recipe, 4, seed, submissions, rate, turns, slow).change((SENDER, OTHER, SLOW))


def against_members(members: int, seed: int) -> Change:
    """The last of so many members crashes while the first sends 1,000 messages per second."""
    submissions = (Submission(bytes(SIZE), i % ITEMS) for i in range(10**9))
    crash = Outage(members - 1, CHANGE_AT_S, None)
    return Run(ViewRecipe(), members, seed, submissions, 1000.0, [crash]).change(range(members - 1))
