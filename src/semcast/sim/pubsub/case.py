"""One run of a swarm of participants: everything that a seed decides, and how it is judged.

A safety phase, in which applications send and everything happens to everybody, then a liveness
phase, in which faults have stopped: trace and network must fall quiet within a bounded time, every
subscriber must have what it is owed, and loggers must have collected what is stable.  The monitors
of the promised properties, the automata of [RPB §2.1, §2.3, §6.1] and a few facts about the
machines are the judges.
"""

from collections.abc import Iterator
from itertools import repeat
from typing import Any

import msgspec

from semcast.core.pubsub.participant import Participant
from semcast.core.pubsub.recipe import PubsubRecipe
from semcast.faults import Latency, Link
from semcast.sim.case import Outcome, Sender, submissions
from semcast.sim.clock import stream
from semcast.sim.network import Network
from semcast.sim.process import Observer, Producer
from semcast.sim.pubsub.lives import Arrival, Departure, Outage, Stumble, Turn
from semcast.sim.pubsub.simulation import PubsubSimulation
from semcast.specs.channel import UnreliableChannel
from semcast.specs.monitors import Monitors
from semcast.specs.multicast_with_crashes import AtLeastOnce, MulticastWithCrashes
from semcast.specs.reliable_multicast import ReliableMulticast
from semcast.specs.violations import Ledger
from semcast.terms.events import ACKNOWLEDGE, AGE, CRASH, DISK, JOIN, LEAVE, RECLAIM, Event
from semcast.terms.ids import SEQ_MAX, Rank, Seq
from semcast.terms.pubsub import Record

STEP_S = 0.25
COPIES_MAX = 2  # of a datagram, as `Link.duplicate` makes them
SENDS_MIN = 50  # so many on a healed link cannot all be lost


class PubsubCase(msgspec.Struct, frozen=True, kw_only=True):
    """A complete description: the same case gives the same trace, byte for byte.

    `unaware[p]` are the founders that p does not know of at first.  `declines[p]` = k: the
    application of p does not want every k-th message recovered.  Who is `silent` never subscribes.
    """

    seed: int
    recipe: PubsubRecipe
    senders: tuple[Sender, ...]
    unaware: dict[Rank, tuple[Rank, ...]]
    declines: dict[Rank, int]
    silent: tuple[Rank, ...]
    link: Link
    sync: Latency
    turns: tuple[Turn, ...]
    phase_s: float
    quiet_within_s: float
    still_s: float
    through_bytes: bool
    watched: bool


class Judge:
    """Watches one run: monitors, automata, and who collected what."""

    def __init__(self, case: PubsubCase) -> None:
        recipe, n = case.recipe, case.recipe.members
        self.case = case
        self.monitors = Monitors(
            recipe.protocol,
            recipe.order,
            recipe.relation,
            f=0,
            n=n,
            parameters={"copies": str(recipe.copies), "recovery": recipe.recovery},
        )
        self.ledger = Ledger()
        self.automaton = automaton(case, self.ledger)
        self.channel = UnreliableChannel(n, COPIES_MAX, self.ledger) if case.watched else None
        self.events = 0
        self.crashes = 0
        self.has_lost = False  # a disk, or a message by age
        self.disks_lost = 0
        self.subscribed: set[Rank] = set()
        self.promised: dict[Rank, Seq] = {}
        self.reclaimed: dict[tuple[Rank, Rank], Seq] = {}
        self._watches = self.automaton.watches()

    def on_event(self, event: Event) -> None:
        """Judge one event."""
        self.events += 1
        kind = event.kind
        if kind == CRASH:
            self.crashes += 1
            self.has_lost |= event.note == DISK
            self.disks_lost += event.note == DISK
        elif kind == JOIN:
            self.subscribed.add(event.pid)
        elif kind == LEAVE:
            self.subscribed.discard(event.pid)
        elif kind == ACKNOWLEDGE:
            self.promised[event.sender] = max(self.promised.get(event.sender, 0), event.seq)
        elif kind == RECLAIM:
            self.reclaimed[event.pid, event.sender] = event.seq
            self.has_lost |= event.note == AGE
        self.monitors.on_event(event)
        if kind in self._watches:
            self._watches[kind](event)

    def verdict(self, simulation: PubsubSimulation, quiet: bool) -> list[str]:
        """Everything that was wrong, a line each."""
        case = self.case
        up = frozenset(s.pid for s in simulation.stations if not s.is_down)
        self.monitors.on_end(up, complete=quiet)
        if quiet and case.recipe.protocol != "pbcast":
            self.automaton.on_end(up & self.subscribed)
        if quiet and self.channel is not None:
            self.channel.on_end(up, SENDS_MIN)
        found = [
            str(violation)
            for violation in (*self.monitors.violations, *self.ledger.kept)
            # An acknowledgement on its way does not know that the disk behind it, or the message,
            # is gone meanwhile; then only what the automaton says of it counts.
            if violation.property != "durability" or not self.has_lost
        ]
        if not quiet:
            found.append(f"liveness: not quiet {case.quiet_within_s} s after the faults stopped")
        found += self.leftovers(simulation)
        return found

    def leftovers(self, simulation: PubsubSimulation) -> Iterator[str]:
        """What should be done once everything is quiet, and nobody who is waited for is gone.

        A leave is known to `copies` loggers; with so many disks it may be forgotten.
        """
        recipe, stations = self.case.recipe, simulation.stations
        is_known = self.disks_lost < recipe.copies
        if recipe.protocol == "rpbcast" and is_known and not any(s.is_down for s in stations):
            yield from self.uncollected()

    def uncollected(self) -> Iterator[str]:
        """Everybody who is owed it has it, so no logger keeps it [RPB §5.2]."""
        for logger in self.case.recipe.keepers:
            for sender, last in self.promised.items():
                upto = self.reclaimed.get((logger, sender), 0)
                if upto < last:
                    yield f"collection: logger {logger} still keeps {sender}:{upto + 1}-{last}"


def automaton(case: PubsubCase, ledger: Ledger) -> ReliableMulticast:
    """The specification that this case must implement."""
    recipe, n = case.recipe, case.recipe.members
    changing = any(isinstance(turn, Arrival | Departure | Outage | Stumble) for turn in case.turns)
    if not changing and recipe.protocol != "pbcast" and recipe.age_s is None:
        return ReliableMulticast(n, recipe.relation, ledger)
    kind = AtLeastOnce if recipe.recovery == "at-least-once" else MulticastWithCrashes
    made = kind(n, recipe.relation, ledger)
    if recipe.protocol == "pbcast":
        made.aged = [SEQ_MAX] * n  # It gives up what nobody has kept, without anybody's word.
    return made


def simulate(case: PubsubCase, judge: Judge, *observers: Observer) -> PubsubSimulation:
    """The run, before it begins."""
    recipe = case.recipe
    producers = {
        sender.pid: Producer(
            repeat(1 / sender.rate),
            submissions(sender, recipe, stream(case.seed, "workload", sender.pid)),
            batch=sender.batch,
            until_s=case.phase_s,
        )
        for sender in case.senders
    }

    def born(pid: int, inc: int, now: float, records: tuple[Any, ...]) -> Participant:
        k = case.declines.get(pid)
        return Participant(
            recipe,
            pid,
            stream(case.seed, "participant", pid, inc),
            now,
            inc=inc,
            records=records,
            interest=None if k is None else lambda sender, seq: bool(seq % k),
            unaware_of=case.unaware.get(pid, ()),
        )

    return PubsubSimulation(
        born,
        Network(recipe.members, case.link),
        record=Record,
        seed=case.seed,
        sync=case.sync,
        silent=case.silent,
        producers=producers,
        turns=case.turns,
        observers=[judge.on_event, *observers],
        channel=judge.channel,
        through_bytes=case.through_bytes,
    )


def fall_quiet(simulation: PubsubSimulation, judge: Judge) -> bool:
    """Run on until nothing was traced for `still_s`; False if it never stops.

    Gossip needs its time to reach every logger, so collection is waited for longer.
    """
    case = judge.case
    end = simulation.now + case.quiet_within_s
    seen, still_since = -1, simulation.now
    while simulation.now < end:
        simulation.run(simulation.now + STEP_S)
        if judge.events != seen:
            seen, still_since = judge.events, simulation.now
        elif simulation.now - still_since >= case.still_s and not any(judge.leftovers(simulation)):
            return True
    return simulation.now - still_since >= case.still_s


def run(case: PubsubCase, *observers: Observer) -> Outcome:
    """Carry out one case; `observers` see every event of its trace."""
    judge = Judge(case)
    simulation = simulate(case, judge, *observers)
    simulation.run(case.phase_s)
    simulation.heal()
    quiet = fall_quiet(simulation, judge)
    return Outcome(
        seed=case.seed,
        events=judge.events,
        crashed=judge.crashes,
        violations=tuple(judge.verdict(simulation, quiet)),
    )
