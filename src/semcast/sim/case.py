"""One run of a swarm: everything that a seed decides, as a value, and how it is judged.

A case has a safety phase, in which faults happen and applications send, and a liveness phase,
in which they have stopped: the run must fall quiet within a bounded time, and then every
promised property, the bounds and the emptiness of the buffers are judged.
"""

from collections import deque
from collections.abc import Iterator
from itertools import repeat
from random import Random

import msgspec

from semcast.core.member import Member
from semcast.core.pubsub.recipe import PubsubRecipe
from semcast.core.recipe import Recipe
from semcast.faults import Constant, Crash, Failpoint, Link, OneWayCut, Partition, Pause
from semcast.sim.clock import stream
from semcast.sim.network import Network
from semcast.sim.process import Consumer, Observer, Producer
from semcast.sim.quiet import fall_quiet
from semcast.sim.simulation import Simulation
from semcast.specs.monitors import Monitors
from semcast.terms.events import CRASH, DELIVER, Event
from semcast.terms.messages import Submission

STILL_S = 0.75  # three times the longest timeout that the swarm draws


class Sender(msgspec.Struct, frozen=True, kw_only=True):
    """What one member sends: `count` messages over `items` items, a share `keep` never purged."""

    pid: int
    rate: float
    count: int
    items: int
    overwrite: float
    keep: float
    batch: int
    size: int


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A complete description: the same case gives the same trace, byte for byte."""

    seed: int
    recipe: Recipe
    senders: tuple[Sender, ...]
    service_s: dict[int, float]
    take: dict[int, int]
    link: Link
    faults: tuple[Partition | OneWayCut | Pause | Crash | Failpoint, ...]
    phase_s: float
    quiet_within_s: float
    through_bytes: bool


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How a case went."""

    seed: int
    events: int
    crashed: int
    violations: tuple[str, ...]


def submissions(sender: Sender, recipe: Recipe | PubsubRecipe, rng: Random) -> Iterator[Submission]:
    """What a sender's application says, in the form that the relation takes."""
    payload = bytes(sender.size)
    recent: deque[int] = deque(maxlen=8)  # sequence numbers a list may name
    for seq in range(1, sender.count + 1):
        overwrites = rng.random() < sender.overwrite
        item = rng.randrange(sender.items) if overwrites else None
        named: tuple[int, ...] = ()
        if recipe.relation in ("bitmap", "list") and overwrites:
            near = [old for old in recent if seq - old <= recipe.k]
            named = tuple(sorted(rng.sample(near, min(len(near), rng.choice((1, 1, 2))))))
        if overwrites:
            recent.append(seq)
        yield Submission(
            payload=payload, item=item, obsoletes=named, never_purge=rng.random() < sender.keep
        )


class Judge:
    """Watches one run: monitors, bounds, crashes."""

    def __init__(self, case: Case) -> None:
        recipe = case.recipe
        self.monitors = Monitors(
            recipe.protocol, recipe.order, recipe.relation, recipe.f, recipe.members
        )
        self.bound = recipe.buffer + recipe.members
        self.events = 0
        self.delivered = [0] * recipe.members
        self.overflow: Event | None = None
        self.crashed: set[int] = set()

    def on_event(self, event: Event) -> None:
        """Judge one event."""
        self.events += 1
        kind = event.kind
        if kind == DELIVER:
            self.delivered[event.pid] += 1
        elif kind == CRASH:
            self.crashed.add(event.pid)
        if event.buffered > self.bound:
            self.overflow = self.overflow or event
        self.monitors.on_event(event)

    def verdict(self, case: Case, members: list[Member], quiet: bool) -> list[str]:
        """Everything that was wrong, a line each."""
        correct = frozenset(range(case.recipe.members)) - self.crashed
        self.monitors.on_end(correct, complete=quiet)
        found = [str(violation) for violation in self.monitors.violations]
        if not quiet:
            found.append(f"liveness: not quiet {case.quiet_within_s} s after the faults stopped")
        if self.overflow is not None:
            found.append(f"bound: {self.overflow.buffered} messages held: {self.overflow}")
        if quiet:
            for pid in sorted(correct):
                found += leftovers(members[pid], self.delivered[pid])
        return found


def leftovers(member: Member, delivered: int) -> Iterator[str]:
    """What a member should not have once everything is quiet and every crash was announced."""
    status = member.status(now=0.0)
    if status.held or status.held_bytes:
        yield f"leak: member {member.rank} still holds {status.held} messages"
    if not status.is_drained:
        yield f"unrest: member {member.rank} still asks or gossips: {member}"
    if delivered + status.skipped != status.passed:
        told = f"{delivered} delivered, {status.skipped} skipped"
        yield f"count: member {member.rank}: {told}, of {status.passed}"


def run(case: Case, *observers: Observer) -> Outcome:
    """Carry out one case; `observers` see every event of its trace."""
    recipe = case.recipe
    ranks = range(recipe.members)
    members = [Member(recipe, rank, stream(case.seed, "member", rank)) for rank in ranks]
    judge = Judge(case)
    producers = {
        sender.pid: Producer(
            repeat(1 / sender.rate),
            submissions(sender, recipe, stream(case.seed, "workload", sender.pid)),
            batch=sender.batch,
            until_s=case.phase_s,
        )
        for sender in case.senders
    }
    consumers = {
        pid: Consumer(Constant(service), case.take[pid]) for pid, service in case.service_s.items()
    }
    simulation = Simulation(
        members,
        Network(recipe.members, case.link, through_bytes=case.through_bytes),
        seed=case.seed,
        consumers=consumers,
        producers=producers,
        faults=case.faults,
        observers=[judge.on_event, *observers],
    )
    simulation.run(case.phase_s)
    simulation.heal()
    for pid in sorted(judge.crashed):
        simulation.forget(pid)  # A silent member pins the others' buffers until it is forgotten.
    quiet = fall_quiet(simulation, members, case.quiet_within_s, still_s=STILL_S)
    return Outcome(
        seed=case.seed,
        events=judge.events,
        crashed=len(judge.crashed),
        violations=tuple(judge.verdict(case, members, quiet)),
    )
