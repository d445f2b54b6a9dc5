"""A family from outside the package: registered by a test, it has a swarm, a scenario, a mutant."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import msgspec
import pytest

from semcast.families import Family, register, testing, unregister
from semcast.families.case import AnyCase, Case, NoMore
from semcast.families.draws import draw_cuts, draw_link, draw_senders
from semcast.families.testing import Choice, MutantTable
from semcast.faults import Failpoint, FailpointCrash, Link, Uniform
from semcast.kernel import run_of
from semcast.sim.hunt import run_mutant
from semcast.sim.run import read_case, run
from semcast.sim.swarm import draw, swarm
from semcast.terms.effects import Effects
from semcast.terms.events import DELIVER, MULTICAST, Event
from semcast.terms.ids import EVERYONE, Incarnation, Seq
from semcast.terms.machine import Machine, Status
from semcast.terms.messages import DataMessage, Update
from semcast.terms.outputs import Delivery
from semcast.wire import Codec


@dataclass(frozen=True, kw_only=True)
class ShoutRecipe:
    members: int
    protocol: str = "shout"
    order: str = "fifo"
    relation: str = "none"


class Shout(msgspec.Struct, frozen=True, array_like=True, tag=127):
    message: DataMessage


class Shouter(Machine):
    """Sends each message once, and delivers what is newer than what it has heard."""

    def __init__(
        self,
        recipe: ShoutRecipe,
        life: Incarnation,
        rng: Random,
        now: float,
        records: Sequence[Any],
    ) -> None:
        self.rank, self.deadline, self.last = life.pid, float("inf"), 0
        self.heard = [0] * recipe.members

    @property
    def sent(self) -> Seq:
        return self.last

    def submit(self, updates: Sequence[Update], now: float, out: Effects) -> int:
        for each in updates:
            self.last += 1
            message = DataMessage(self.rank, self.last, payload=each.payload)
            if out.events is not None:
                out.events.append(Event(MULTICAST, self.rank, self.rank, self.last, message))
            out.send.append((EVERYONE, Shout(message)))
            self._deliver(message, out)
        return len(updates)

    def on_datagrams(
        self, source: int, datagrams: Sequence[Shout], now: float, out: Effects
    ) -> None:
        for datagram in datagrams:
            if self.is_new(datagram.message):
                self._deliver(datagram.message, out)

    def is_new(self, message: DataMessage) -> bool:
        return message.seq > self.heard[message.sender]

    def _deliver(self, message: DataMessage, out: Effects) -> None:
        self.heard[message.sender] = max(message.seq, self.heard[message.sender])
        if out.events is not None:
            out.events.append(Event(DELIVER, self.rank, message.sender, message.seq, message))
        out.outputs.append(Delivery(run_of([message])))

    def status(self, now: float) -> Status:
        return Status(sent=self.last)


ShoutCase = Case[ShoutRecipe, NoMore]
MUTANTS = MutantTable()


@MUTANTS.add("hear-twice", Shouter, "is_new", scenario="doubled-shouts", swarm="shout")
def hear_twice(original: Any) -> Any:
    return lambda self, message: True


def shouts(seed: int, rng: Random, link: Link) -> AnyCase:
    return ShoutCase(
        seed=seed,
        recipe=ShoutRecipe(members=3),
        processes=3,
        senders=tuple(draw_senders(3, 0.5, rng)),
        link=link,
        faults=(
            *draw_cuts(3, 0.5, rng),
            FailpointCrash(Failpoint(rng.randrange(3), "shout", None, 5, 0.3)),
        ),
        phase_s=0.5,
        quiet_within_s=5.0,
        still_s=0.5,
        more=NoMore(),
    )


def draw_shouts(choice: Choice, seed: int, rng: Random) -> AnyCase:
    return shouts(seed, rng, draw_link(rng))


DOUBLING = Link(latency=Uniform(0.0005, 0.01), duplicate=0.5)
TOY = Family(
    name="toy",
    protocols=("shout",),
    orders=("fifo",),
    recipe=ShoutRecipe,
    machine=Shouter,
    codec=Codec(Shout, {}),
    promises=lambda protocol, order: frozenset({"integrity", "at_most_once", "fifo_order"}),
    testing=lambda: testing.Testing(
        case=ShoutCase,
        draw=draw_shouts,
        scenarios={"doubled-shouts": shouts(1, Random(1), DOUBLING)},
        mutants=MUTANTS,
    ),
)


@pytest.fixture(autouse=True)
def toy() -> Iterator[None]:
    register(TOY)
    yield
    unregister(TOY)


def test_its_swarm_finds_nothing() -> None:
    summary = swarm("shout", range(40), jobs=1)
    assert summary.violations == 0, summary.explanation
    assert summary.events > 1000
    assert summary.crashes > 10  # at a failpoint on its own kind of datagram


def test_its_mutant_is_caught() -> None:
    caught = run_mutant("hear-twice", range(40), jobs=1)
    assert caught.caught, caught
    assert "in scenario doubled-shouts" in (caught.by or "")


def test_its_cases_can_be_kept() -> None:
    case = draw("shout", 3)
    assert read_case(msgspec.json.encode(case)) == case
    assert run(case).violations == ()
