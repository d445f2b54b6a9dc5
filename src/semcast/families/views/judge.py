"""Judges a run of views: by the monitors of the promised properties, and by what applications know.

Under primary partition every incarnation that enters a view must know the same at that point,
whether it was in the view before or got its state from another member: Semantic View Synchrony and
state transfer guarantee that.  Partitionable views are checked by their automaton, too.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from semcast.core.views.recipe import quorum
from semcast.families.case import AnyCase
from semcast.families.referee import Player, Referee
from semcast.families.views.knowledge import Knower
from semcast.specs.view_service import ViewService
from semcast.specs.violations import ViolationLog
from semcast.terms.events import (
    CONFIRM,
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
from semcast.terms.ids import Incarnation, Lineage, Pid, Seq
from semcast.terms.outputs import Installed
from semcast.terms.views import MEMBER, NO_VIEW

Name: TypeAlias = tuple[Incarnation, Seq]
InLineage: TypeAlias = tuple[Lineage, int]  # a view, whose number means something in its lineage


class SafePurges:
    """What is purged for good is obsolete by a message that n - q + 1 of the n members of the view
    have reached, so that every q of them know of it; [SVS §4.2] asks for less."""

    def __init__(self, ledger: ViolationLog) -> None:
        self._ledger = ledger
        self._members: dict[InLineage, int] = {}
        self._frontier: defaultdict[tuple[InLineage, Incarnation], dict[Pid, Seq]] = defaultdict(
            dict
        )

    def handlers(self) -> Mapping[str, Callable[[Event], None]]:
        """The events it judges or learns from."""
        reach = dict.fromkeys((MULTICAST, RECEIVE, SKIP), self.on_reach)
        return {INSTALL: self.on_install, PURGE: self.on_purge, **reach}

    def on_install(self, event: Event) -> None:
        """Learn how many are in a view."""
        self._members[_view(event)] = len(event.members)

    def on_reach(self, event: Event) -> None:
        """Learn how far a member got in a stream."""
        sender = Incarnation(event.sender, event.sender_inc)
        self._frontier[_view(event), sender][event.pid] = event.seq

    def on_purge(self, event: Event) -> None:
        """Judge a purge, unless nobody has shown the view yet."""
        members = self._members.get(_view(event))
        if event.note != RETRANSMISSION or members is None:
            return
        row = self._frontier[_view(event), Incarnation(event.sender, event.sender_inc)]
        reached = sum(seq >= event.by_seq for seq in row.values())
        if reached <= members - quorum(members):
            what = f"process {event.pid} purged for what {reached} of {members} members had reached"
            self._ledger.add("safe_purge", what, event)


def _name(event: Event) -> Name:
    return Incarnation(event.sender, event.sender_inc), event.seq


class ViewReferee(Referee):
    """Watches what is known where a view begins and, of partitionable views, who has what."""

    def __init__(self, case: AnyCase) -> None:
        self.is_primary = case.recipe.is_primary
        self._knew: dict[InLineage, tuple[Incarnation, bytes]] = {}
        self._known: set[Incarnation] = set()
        self._sent: defaultdict[int, set[Name]] = defaultdict(set)
        self._had: defaultdict[tuple[int, Incarnation], set[Name]] = defaultdict(set)
        self._confirmed: defaultdict[tuple[int, Incarnation], dict[Incarnation, Seq]] = defaultdict(
            dict
        )
        super().__init__(case)
        beside = SafePurges(self.ledger) if self.is_primary else ViewService(self.ledger)
        self.monitors.add(beside.handlers())
        if not self.is_primary:  # Remember who has what, in a view that may be the last.
            has = {DELIVER: self._on_deliver, CONFIRM: self._on_confirm}
            self.monitors.add({MULTICAST: self._on_multicast, **has})

    def _on_deliver(self, event: Event) -> None:
        life = Incarnation(event.pid, event.inc)
        self._had[event.view, life].add(_name(event))

    def _on_confirm(self, event: Event) -> None:
        life, (sender, seq) = Incarnation(event.pid, event.inc), _name(event)
        self._confirmed[event.view, life][sender] = seq

    def _on_multicast(self, event: Event) -> None:
        if event.note != ORDER:
            self._sent[event.view].add(_name(event))

    def on_install(self, life: Incarnation, installed: Installed, state: Knower) -> None:
        """Compare what is known at the beginning of a view."""
        if not self.is_primary:
            return
        view, knows = installed.view, state.state()
        is_new = life not in self._known and view.id > 1
        if is_new != (installed.state is not None):
            what = "joined without a state" if is_new else "was given a state it did not need"
            self.found.append(f"state: {life} {what}, in view {view.id}")
        self._known.add(life)
        other, known = self._knew.setdefault((view.lineage, view.id), (life, knows))
        if knows != known:
            what = f"knows {state.knows}, {other} knew {known!r}"
            self.found.append(f"state: {life} enters view {view.id} and {what}")

    def owes_liveness(self, players: Sequence[Player]) -> bool:
        """Whether those who live can decide on the next view, in one lineage at least: enough of
        them are in the last one that any of them knows, and the application's state was not lost
        with the others."""
        return not self.is_primary or any(map(_is_majority, by_lineage(players)))

    def is_settled(self, players: Sequence[Player]) -> bool:
        """Whether all who live are in one view of their lineage, of them alone, and may speak."""
        return all(map(_is_one_view, by_lineage(players)))

    def is_complete(self, players: Sequence[Player], quiet: bool) -> bool:
        """Whether all who live are in one view."""
        return self.is_settled(players)

    def unsettled(self, players: Sequence[Player]) -> str:
        """Who is where."""
        up = ((one.life, one.status) for one in players if one.is_up)
        states = ", ".join(f"{life} {status.phase} in {status.view.id}" for life, status in up)
        within_s = self.case.quiet_within_s
        return f"liveness: not in one view {within_s} s after the faults: {states}"

    def leftovers(self, players: Sequence[Player]) -> Iterator[str]:
        """Also, all know the same, or have delivered everything."""
        yield from self._different(players) if self.is_primary else self._undelivered(players)
        yield from super().leftovers(players)

    def _different(self, players: Sequence[Player]) -> Iterator[str]:
        for group in by_lineage(players):
            if len({one.application.state.state() for one in group}) > 1:
                known = "; ".join(f"{one.life} {one.application.state.knows}" for one in group)
                yield f"state: not the same in the end: {known}"

    def _undelivered(self, players: Sequence[Player]) -> Iterator[str]:
        """Every member of the last view has delivered what was multicast in it, and been told
        that all have."""
        for life, view in ((one.life, one.status.view) for one in players if one.is_up):
            confirmed = self._confirmed[view.id, life]
            for sender, seq in sorted(self._sent[view.id]):
                if sender not in view.members:
                    continue
                if (sender, seq) not in self._had[view.id, life]:
                    yield f"completeness: {life} never delivered {seq} of {sender}"
                elif confirmed.get(sender, 0) < seq:
                    yield f"completeness: {life} was not told that all have {seq} of {sender}"


def by_lineage(players: Sequence[Player]) -> list[list[Player]]:
    """Groups that were founded apart; who is in none of them yet is a group of its own."""
    groups: defaultdict[Lineage, list[Player]] = defaultdict(list)
    for one in players:
        if one.is_up:
            groups[one.status.view.lineage].append(one)
    return list(groups.values())


def _is_majority(group: Sequence[Player]) -> bool:
    known = (one.status.view for one in group)
    members = max(known, key=lambda view: view.id, default=NO_VIEW).members
    inside = [one for one in group if one.life in members]
    knows = any(one.status.shown != NO_VIEW for one in inside)
    return knows and len(inside) >= quorum(len(members))


def _is_one_view(group: Sequence[Player]) -> bool:
    lives = {one.life for one in group}
    found = [one.status for one in group]
    if len({one.view for one in found}) != 1 or set(found[0].view.members) != lives:
        return False
    return all(one.phase == MEMBER and one.shown == one.view for one in found)


def _view(event: Event) -> InLineage:
    return event.lineage, event.view
