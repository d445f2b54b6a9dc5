"""Judges a run: by the monitors of the promised properties, and by facts that no trace records.

A family has a subclass if it promises more, or if its runs settle in another way.
"""

from collections.abc import Iterator, Sequence
from math import inf
from typing import Any, Final, Protocol

from semcast.families.case import AnyCase
from semcast.families.family import find
from semcast.specs.channel import UnreliableChannel
from semcast.specs.monitors import Monitors
from semcast.specs.violations import Violation, ViolationLog
from semcast.terms.errors import RemoteProtocolError
from semcast.terms.events import CRASH, Event
from semcast.terms.ids import Incarnation, Pid
from semcast.terms.machine import Status
from semcast.terms.messages import DataMessage
from semcast.terms.outputs import Installed
from semcast.terms.promises import PARAMETERS

COPIES_MAX: Final = 2  # of a datagram, as `Link.duplicate` makes them
SENDS_MIN: Final = 50  # so many on a healed link cannot all be lost


class ApplicationState(Protocol):
    """What an application knows."""

    def install(self, installed: Installed) -> None:
        """Enter a view, with the state that comes with it."""

    def deliver(self, message: DataMessage, position: int) -> None:
        """Take a message of the view."""

    def state(self) -> bytes:
        """All of it, as bytes that are equal for equal knowledge."""
        ...


class Speaker(Protocol):
    """What a referee sees of an application."""

    wants_to_leave: bool
    has_ended: bool
    unasked: int

    @property
    def state(self) -> Any: ...
    @property
    def is_blocked(self) -> bool: ...


class Player(Protocol):
    """What a referee sees of a process."""

    pid: Pid
    life: Incarnation

    @property
    def is_up(self) -> bool: ...
    @property
    def is_down(self) -> bool: ...
    @property
    def status(self) -> Status: ...
    @property
    def application(self) -> Speaker: ...


class Referee:
    """Watches one run; `found` is what it finds itself, as it happens.

    A run that has stood still for `patience` times its `still_s` without being settled is judged as
    it is.
    """

    patience = inf

    def __init__(self, case: AnyCase) -> None:
        recipe = case.recipe
        self.case = case
        self.monitors = Monitors(
            recipe.protocol,
            recipe.order,
            recipe.relation,
            f=getattr(recipe, "f", 0),
            n=case.processes,
            parameters={
                name: str(getattr(recipe, name)) for name in PARAMETERS if hasattr(recipe, name)
            },
            promises=find(recipe.protocol).promises(recipe.protocol, recipe.order),
        )
        self.ledger = ViolationLog()
        self.channel: UnreliableChannel | None = None
        if case.is_watched:
            self.channel = UnreliableChannel(case.processes, COPIES_MAX, self.ledger)
        self.events = 0
        self.crashes = 0
        self.found: list[str] = []
        self.bound = inf  # how many messages one process may hold
        self.monitors.add({CRASH: self._on_crash})

    def on_events(self, events: Sequence[Event]) -> None:
        """Judge what one handler recorded; a family adds to the monitors what it wants to see."""
        self.events += len(events)
        self.monitors.on_events(events)
        if self.bound < inf:
            for event in events:
                if event.buffered > self.bound:
                    self.found.append(f"bound: {event.buffered} messages held: {event}")
                    self.bound = inf  # The first one is enough.

    def _on_crash(self, event: Event) -> None:
        self.crashes += 1

    def on_error(self, life: Incarnation, source: Pid, error: RemoteProtocolError) -> None:
        """Members do not say what cannot be meant."""
        self.found.append(f"nonsense: {life} heard from {source}: {error}")

    def on_install(self, life: Incarnation, installed: Installed, state: Any) -> None:
        """An application enters a view."""

    def progress(self, players: Sequence[Player]) -> object:
        """What stands still in a quiet run."""
        return self.events

    def is_settled(self, players: Sequence[Player]) -> bool:
        """Whether a quiet run has come to where it must come."""
        return True

    def owes_liveness(self, players: Sequence[Player]) -> bool:
        """Whether it must come there at all."""
        return True

    def speakers(self, players: Sequence[Player]) -> list[Player]:
        """Those whose last word everybody must get."""
        return [one for one in players if one.is_up and not one.application.has_ended]

    def unsettled(self, players: Sequence[Player]) -> str:
        """What to say of a run that did not settle."""
        within_s = self.case.quiet_within_s
        return f"liveness: not quiet {within_s} s after the faults stopped"

    def is_complete(self, players: Sequence[Player], quiet: bool) -> bool:
        """Whether liveness can be judged."""
        return quiet

    def is_excused(self, violation: Violation) -> bool:
        """Whether a violation of the specification is none of the protocol."""
        return False

    def leftovers(self, players: Sequence[Player]) -> Iterator[str]:
        """What nobody should have once everything is quiet: all is stable, and all is taken."""
        for one in (each for each in players if each.is_up):
            status = one.status
            if one.application.wants_to_leave:
                yield f"liveness: {one.life} was never let go"
            if status.has_past:
                yield f"leak: {one.life} still has earlier views: {status}"
            if status.held or status.held_bytes:
                yield f"leak: {one.life} still holds {status.held} messages"
            if not status.is_drained:
                yield f"unrest: {one.life} still asks or gossips: {status}"

    def verdict(self, players: Sequence[Player], quiet: bool) -> tuple[list[str], int]:
        """Examples of everything that was wrong, a line each, and how many there are in all."""
        up = frozenset(one.pid for one in players if one.is_up)
        is_complete = self.is_complete(players, quiet)
        self.monitors.on_end(up, complete=is_complete)
        if quiet and self.channel is not None:
            self.channel.on_end(up, SENDS_MIN)
        examples = [*self.monitors.violations, *self.ledger.stored]
        excused = {each.property for each in examples if self.is_excused(each)}
        lines = [str(each) for each in examples if each.property not in excused]
        counts = [*self.monitors.counts.items(), *self.ledger.counts.items()]
        count = sum(number for name, number in counts if name not in excused)
        unasked = [one.life for one in players if one.application.unasked]
        if unasked:
            self.found.append(f"readiness: {unasked} were handed more than they had asked for")
        beside = [*self.found, *(self.leftovers(players) if is_complete else ())]
        return [*lines, *beside], count + len(beside)
