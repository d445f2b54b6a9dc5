"""Who judges a run of views: the monitors of the promised properties, and what no trace tells.

Under primary partition every life that enters a view must know the same at that point, whether it
was in the view before or was given its state: what the members of a view share is what Semantic
View Synchrony and state transfer are for.  Partitionable views run beside their automaton.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from semcast.core.views.recipe import ViewRecipe, quorum
from semcast.sim.views.application import Application
from semcast.sim.views.station import Station
from semcast.specs.monitors import Monitors
from semcast.specs.view_service import ViewService
from semcast.specs.violations import Ledger
from semcast.terms.errors import RemoteProtocolError
from semcast.terms.events import (
    CONFIRM,
    CRASH,
    DELIVER,
    INSTALL,
    MULTICAST,
    ORDER,
    PURGE,
    RECEIVE,
    RETRANSMISSION,
    SKIP,
    Event,
)
from semcast.terms.ids import Life, Lineage, Pid, Seq
from semcast.terms.outputs import Installed
from semcast.terms.views import MEMBER, NO_VIEW

Name: TypeAlias = tuple[Life, Seq]
InLineage: TypeAlias = tuple[Lineage, int]  # a view, whose number means something in its lineage


class SafePurges:
    """What is purged for good is obsolete by a message that n - q + 1 of the n members of the view
    have reached, so that every q of them know of it; [SVS §4.2] asks for less."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._members: dict[InLineage, int] = {}
        self._frontier: defaultdict[tuple[InLineage, Life], dict[Pid, Seq]] = defaultdict(dict)

    def watches(self) -> Mapping[str, Callable[[Event], None]]:
        """The events it judges or learns from."""
        reach = dict.fromkeys((MULTICAST, RECEIVE, SKIP), self.on_reach)
        return {INSTALL: self.on_install, PURGE: self.on_purge, **reach}

    def on_install(self, event: Event) -> None:
        """Learn how many are in a view."""
        self._members[_view(event)] = len(event.members)

    def on_reach(self, event: Event) -> None:
        """Learn how far a member got in a stream."""
        sender = Life(event.sender, event.sender_inc)
        self._frontier[_view(event), sender][event.pid] = event.seq

    def on_purge(self, event: Event) -> None:
        """Judge a purge, unless nobody has shown the view yet."""
        members = self._members.get(_view(event))
        if event.note != RETRANSMISSION or members is None:
            return
        row = self._frontier[_view(event), Life(event.sender, event.sender_inc)]
        reached = sum(seq >= event.by_seq for seq in row.values())
        if reached <= members - quorum(members):
            what = f"process {event.pid} purged for what {reached} of {members} members had reached"
            self._ledger.add("safe_purge", what, event)


class Judge:
    """Watches one run; `found` is what it finds itself, as it happens."""

    def __init__(self, recipe: ViewRecipe, size: int) -> None:
        self.recipe = recipe
        self.monitors = Monitors(recipe.protocol, recipe.order, recipe.relation, f=0, n=size)
        self.ledger = Ledger()
        beside = SafePurges(self.ledger) if recipe.is_primary else ViewService(self.ledger)
        self._watches: Mapping[str, Callable[[Event], None]] = beside.watches()
        self.events = 0
        self.crashes = 0
        self.found: list[str] = []
        self._knew: dict[InLineage, tuple[Life, bytes]] = {}
        self._known: set[Life] = set()
        self._sent: defaultdict[int, set[Name]] = defaultdict(set)
        self._had: defaultdict[tuple[int, Life], set[Name]] = defaultdict(set)
        self._confirmed: defaultdict[tuple[int, Life], dict[Life, Seq]] = defaultdict(dict)

    def on_event(self, event: Event) -> None:
        """Judge one event."""
        self.events += 1
        kind = event.kind
        if kind == CRASH:
            self.crashes += 1
        self.monitors.on_event(event)
        if kind in self._watches:
            self._watches[kind](event)
        if not self.recipe.is_primary:
            self._note(event)

    def _note(self, event: Event) -> None:
        """Remember who has what, in a view that may be the last."""
        view, life = event.view, Life(event.pid, event.inc)
        name = Life(event.sender, event.sender_inc), event.seq
        if event.kind == DELIVER:
            self._had[view, life].add(name)
        elif event.kind == CONFIRM:
            self._confirmed[view, life][name[0]] = event.seq
        elif event.kind == MULTICAST and event.note != ORDER:
            self._sent[view].add(name)

    def on_error(self, life: Life, source: Pid, error: RemoteProtocolError) -> None:
        """Members do not say what cannot be meant."""
        self.found.append(f"nonsense: {life} heard from {source}: {error}")

    def on_install(self, life: Life, installed: Installed, application: Application) -> None:
        """Compare what is known at the beginning of a view."""
        if not self.recipe.is_primary:
            return
        view, knows = installed.view, application.state()
        is_new = life not in self._known and view.id > 1
        if is_new != (installed.state is not None):
            what = "joined without a state" if is_new else "was given a state it did not need"
            self.found.append(f"state: {life} {what}, in view {view.id}")
        self._known.add(life)
        other, known = self._knew.setdefault((view.lineage, view.id), (life, knows))
        if knows != known:
            what = f"knows {application.knows}, {other} knew {known!r}"
            self.found.append(f"state: {life} enters view {view.id} and {what}")

    def has_majority(self, up: Sequence[Station]) -> bool:
        """Whether those who live can decide on the next view, in one lineage at least: enough of
        them are in the last one that any of them knows, and the application's state was not lost
        with the others."""
        return not self.recipe.is_primary or any(map(_is_majority, by_lineage(up)))

    def verdict(self, up: Sequence[Station], is_settled: bool) -> Iterator[str]:
        """Everything that was wrong, a line each."""
        self.monitors.on_end(frozenset(station.pid for station in up), complete=is_settled)
        yield from map(str, (*self.monitors.violations, *self.ledger.kept))
        yield from self.found
        if is_settled:
            yield from self._different(up) if self.recipe.is_primary else self._undelivered(up)
            yield from self._leftovers(up)

    def _different(self, up: Sequence[Station]) -> Iterator[str]:
        for group in by_lineage(up):
            if len({one.application.state() for one in group}) > 1:
                knowledge = "; ".join(f"{one.life} {one.application.knows}" for one in group)
                yield f"state: not the same in the end: {knowledge}"

    def _leftovers(self, up: Sequence[Station]) -> Iterator[str]:
        """What nobody should have once everything is quiet: all is stable, and all is taken."""
        for station in up:
            status = station.status
            if station.wants_to_leave:
                yield f"liveness: {station.life} was never let go"
            if status.has_past:
                yield f"leak: {station.life} still has earlier views: {station.member}"
            if status.held or status.held_bytes:
                yield f"leak: {station.life} still holds {status.held} messages"
            if not status.is_drained:
                yield f"unrest: {station.life} still asks or gossips: {station.member}"

    def _undelivered(self, up: Sequence[Station]) -> Iterator[str]:
        """Every member of the last view has delivered what was multicast in it, and been told
        that all have."""
        for life, view in ((station.life, station.status.view) for station in up):
            confirmed = self._confirmed[view.id, life]
            for sender, seq in sorted(self._sent[view.id]):
                if sender not in view.members:
                    continue
                if (sender, seq) not in self._had[view.id, life]:
                    yield f"completeness: {life} never delivered {seq} of {sender}"
                elif confirmed.get(sender, 0) < seq:
                    yield f"completeness: {life} was not told that all have {seq} of {sender}"


def by_lineage(up: Sequence[Station]) -> list[list[Station]]:
    """Groups that were founded apart; who is in none of them yet is a group of its own."""
    groups: defaultdict[Lineage, list[Station]] = defaultdict(list)
    for station in up:
        groups[station.status.view.lineage].append(station)
    return list(groups.values())


def _is_majority(group: Sequence[Station]) -> bool:
    known = (station.status.view for station in group)
    members = max(known, key=lambda view: view.id, default=NO_VIEW).members
    inside = [station for station in group if station.life in members]
    knows = any(station.status.shown != NO_VIEW for station in inside)
    return knows and len(inside) >= quorum(len(members))


def is_settled(up: Sequence[Station]) -> bool:
    """Whether all who live are in one view of their lineage, of them alone, and may speak."""
    return all(map(_is_one_view, by_lineage(up)))


def _is_one_view(group: Sequence[Station]) -> bool:
    lives = {station.life for station in group}
    found = [station.status for station in group]
    if len({one.view for one in found}) != 1 or set(found[0].view.members) != lives:
        return False
    return all(one.phase == MEMBER and one.shown == one.view for one in found)


def _view(event: Event) -> InLineage:
    return event.lineage, event.view
