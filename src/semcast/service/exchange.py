"""Brings the members of a new view to the highest expertise among them, before they serve clients
[VSD fig. 7, def. 1].

Departs: the paper multicasts whole histories.  Here a server multicasts how far its history goes;
the one with the highest expertise hands the others what they lack, and these say when they have it.
A server without a state (its disk was lost, or restored from an older copy) counts in no quorum,
and the others do not wait for it; it takes the state while they work.  One exception: if all
founders are present and too few of them have a state, all count, because no server is left that
could know more.  A store begins in this way, in a view of all founders.
Where a quorum confirms, a quorum in place is enough to work: nobody waits for a server that takes
what it lacks slowly, and it counts from when it has it.
"""

from collections.abc import Sequence
from typing import NamedTuple

from semcast.service.store_messages import Expertise
from semcast.service.store_recipe import StoreRecipe
from semcast.terms.ids import Incarnation, Pid, ViewId
from semcast.terms.views import GroupView


class ExchangePlan(NamedTuple):
    """What comes of the expertise of all members.

    `level`, `length` and `safe` are the cumulative expertise, `donor` the server that has it, None
    if no member has a state.  `core` are those whose being in place is awaited; with `needs_quorum`
    a quorum of them is enough.  `starts` has, by server that lacks something, the update behind
    which it begins; None: it takes a snapshot.
    """

    is_primary: bool
    donor: Incarnation | None
    level: ViewId
    length: int
    safe: int
    core: frozenset[Pid]
    starts: dict[Pid, int | None]
    needs_quorum: bool = False


class Exchange:
    """Lives as long as the view."""

    def __init__(self, recipe: StoreRecipe, view: GroupView) -> None:
        self.recipe = recipe
        self.view = view
        self.plan: ExchangePlan | None = None
        self.found: dict[Pid, Expertise] = {}
        self.in_place: set[Pid] = set()
        self.position = 0  # of the last message that matters here
        self.confirmed = 0

    def __repr__(self) -> str:
        return f"Exchange({self.view.id}, {sorted(self.found)}, in_place={sorted(self.in_place)})"

    def on_expertise(self, pid: Pid, expertise: Expertise, position: int) -> bool:
        """A member tells what it knows; returns whether it was the last."""
        self.found[pid] = expertise
        self.position = position
        if len(self.found) < len(self.view.members):
            return False
        self.plan = self._cumulative()
        return True

    def on_in_place(self, pid: Pid, position: int) -> None:
        """A member has what all start from."""
        self.in_place.add(pid)
        if self.plan is not None and pid in self.plan.core:
            self.position = position

    @property
    def is_over(self) -> bool:
        """Whether all that matters was delivered at every member: the expertise is safe."""
        plan = self.plan
        if plan is None or self.confirmed < self.position:
            return False
        lacking = plan.core & plan.starts.keys() - self.in_place
        return not lacking or (plan.needs_quorum and self.recipe.has_quorum(plan.core - lacking))

    def _cumulative(self) -> ExchangePlan:
        """max_X over the members that count [VSD def. 1], and who has to do what for it."""
        recipe, found = self.recipe, self.found
        stateful = {pid for pid in found if self._counts(pid)}
        is_quorum = recipe.has_quorum(stateful)
        is_primary = is_quorum or set(found) == set(recipe.founders)
        core = frozenset(found) if is_primary and not is_quorum else frozenset(stateful)
        if not core:
            return ExchangePlan(False, None, 0, 0, 0, core, {})
        donor = self._most_expert([life for life in self.view.members if life.pid in core])
        best = found[donor.pid]
        safe = max(found[pid].safe for pid in core)
        starts: dict[Pid, int | None] = {}
        for pid, mine in found.items():
            if pid in core and (mine.level, mine.length) == (best.level, best.length):
                continue
            if pid not in core and not is_primary:
                continue  # It has nothing to count with, and gets nothing here.
            start = mine.length if mine.level == best.level else mine.safe
            is_far = start < best.base or best.length - start > recipe.tail_max
            starts[pid] = None if pid not in stateful or is_far else start
        # Queries go round among all of the core, so each of these has to be in place.
        needs_quorum = is_quorum and recipe.confirm == "quorum" and recipe.reads == "local"
        best_of_all = best.level, best.length, safe
        return ExchangePlan(is_primary, donor, *best_of_all, core, starts, needs_quorum)

    def _most_expert(self, lives: Sequence[Incarnation]) -> Incarnation:
        """The one with the longest history among those of the highest level."""
        found = self.found
        return max(lives, key=lambda life: (found[life.pid].level, found[life.pid].length))

    def _counts(self, pid: Pid) -> bool:
        """Whether the server has a state, and nobody knows that it had more on its disk than it has
        now."""
        found = self.found
        if not found[pid].has_state:
            return False
        every = (entry for other in found.values() for entry in other.known)
        had = [(level, length) for known, level, length in every if known == pid]
        return max(had, default=(0, 0)) <= (found[pid].level, found[pid].length)
