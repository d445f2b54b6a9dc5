"""Judges publish/subscribe beyond its properties: by automata, and by what is collected.

The automata of [RPB §2.1, §2.3, §6.1] check the same events as the monitors.
"""

from collections.abc import Iterator, Sequence

from semcast.families.case import AnyCase
from semcast.families.referee import Player, Referee
from semcast.faults import Crash, FailpointCrash, LateJoin, LeaveAt
from semcast.specs.multicast_with_crashes import AtLeastOnce, MulticastWithCrashes
from semcast.specs.reliable_multicast import ReliableMulticast
from semcast.specs.violations import Violation, ViolationLog
from semcast.terms.events import (
    ACKNOWLEDGE,
    AGE,
    CRASH,
    DISK,
    JOIN,
    LEAVE,
    NACK,
    RECLAIM,
    REPAIR,
    Event,
)
from semcast.terms.ids import SEQ_MAX, Rank, Seq


class PubsubReferee(Referee):
    """Watches one run: monitors, automata, the bound of every subscriber, and who collected what.

    A subscriber whose buffer is full takes one message more of a stream if others wait for that.
    """

    def __init__(self, case: AnyCase) -> None:
        super().__init__(case)
        self.bound = case.recipe.buffer + case.recipe.members
        self.automaton = automaton(case, self.ledger)
        self.has_lost = False  # a disk, or a message by age
        self.disks_lost = 0
        self.recovery_events = 0  # requests and their answers
        self.subscribed: set[Rank] = set()
        self.promised: dict[Rank, Seq] = {}
        self.reclaimed: dict[tuple[Rank, Rank], Seq] = {}
        self.monitors.add(self.automaton.handlers())
        self.monitors.add(
            {
                CRASH: self._on_disk,
                JOIN: self._on_join,
                LEAVE: self._on_leave,
                ACKNOWLEDGE: self._on_acknowledge,
                RECLAIM: self._on_reclaim,
                **dict.fromkeys((NACK, REPAIR), self._on_recovery),
            }
        )

    def _on_disk(self, event: Event) -> None:
        """A crash may take the disk with it."""
        self.has_lost |= event.note == DISK
        self.disks_lost += event.note == DISK

    def _on_join(self, event: Event) -> None:
        self.subscribed.add(event.pid)

    def _on_leave(self, event: Event) -> None:
        self.subscribed.discard(event.pid)

    def _on_acknowledge(self, event: Event) -> None:
        self.promised[event.sender] = max(self.promised.get(event.sender, 0), event.seq)

    def _on_reclaim(self, event: Event) -> None:
        self.reclaimed[event.pid, event.sender] = event.seq
        self.has_lost |= event.note == AGE

    def _on_recovery(self, event: Event) -> None:
        self.recovery_events += 1

    def progress(self, players: Sequence[Player]) -> object:
        """Without recovery: a member of pbcast goes on asking for what nobody holds any more."""
        return self.events - self.recovery_events

    def is_excused(self, violation: Violation) -> bool:
        """An acknowledgement on its way does not know that the disk behind it, or the message, is
        gone meanwhile; then only what the automaton says of it counts."""
        return violation.property == "durability" and self.has_lost

    def is_settled(self, players: Sequence[Player]) -> bool:
        """Gossip needs its time to reach every logger, so collection is waited for longer."""
        return not any(self.leftovers(players))

    def unsettled(self, players: Sequence[Player]) -> str:
        """What is left, if that is it."""
        return next(self.leftovers(players), super().unsettled(players))

    def speakers(self, players: Sequence[Player]) -> list[Player]:
        """Publishers."""
        senders = {sender.pid for sender in self.case.senders}
        return [one for one in super().speakers(players) if one.pid in senders]

    def verdict(self, players: Sequence[Player], quiet: bool) -> tuple[list[str], int]:
        """Also what the automaton says of the end."""
        if quiet and self.case.recipe.protocol != "pbcast":
            up = {one.pid for one in players if one.is_up}
            self.automaton.on_end(frozenset(up & self.subscribed))
        return super().verdict(players, quiet)

    def leftovers(self, players: Sequence[Player]) -> Iterator[str]:
        """What should be done once everything is quiet, and nobody who is waited for is gone.

        A leave is known to `copies` loggers; with so many disks it may be forgotten.
        """
        recipe = self.case.recipe
        is_known = self.disks_lost < recipe.copies
        if recipe.protocol == "rpbcast" and is_known and not any(one.is_down for one in players):
            yield from self.uncollected()

    def uncollected(self) -> Iterator[str]:
        """Everybody who is owed it has it, so no logger keeps it [RPB §5.2]."""
        for logger in self.case.recipe.logger_pids:
            for sender, last in self.promised.items():
                upto = self.reclaimed.get((logger, sender), 0)
                if upto < last:
                    yield f"collection: logger {logger} still keeps {sender}:{upto + 1}-{last}"


def automaton(case: AnyCase, ledger: ViolationLog) -> ReliableMulticast:
    """The specification that this case must implement."""
    recipe, n = case.recipe, case.recipe.members
    changing = any(
        isinstance(each, LateJoin | LeaveAt | Crash | FailpointCrash) for each in case.faults
    )
    if not changing and recipe.protocol != "pbcast" and recipe.age_s is None:
        return ReliableMulticast(n, recipe.relation, ledger)
    kind = AtLeastOnce if recipe.recovery == "at-least-once" else MulticastWithCrashes
    made = kind(n, recipe.relation, ledger)
    if recipe.protocol == "pbcast":
        made.aged = [SEQ_MAX] * n  # It gives up what nobody has kept, without anybody's word.
    return made
