"""Deliberately broken views: what the monitors, the judge and the swarm must catch."""

from collections.abc import Callable, Sequence
from typing import Any

from semcast.core.flush import Flush
from semcast.core.member import Member
from semcast.core.order.total import QuorumCount, SequencedOrder
from semcast.core.recipe import Recipe
from semcast.core.views.agreement import Agreement
from semcast.core.views.lineage import LineageGuard
from semcast.core.views.member import ViewMember
from semcast.core.views.recipe import ViewRecipe
from semcast.core.views.transfer import Transfer
from semcast.sim.mutant import Mutant
from semcast.terms.effects import Effects
from semcast.terms.ids import Pid, Rank, Seq, ViewId
from semcast.terms.views import CHANGING, MEMBER, Prepare, Stamped


def deliver_in_the_next_view(original: Any) -> Callable[..., Any]:
    """A view is entered at once; what the application has not yet taken comes after."""

    def show(self: ViewMember, now: float, out: Effects) -> None:
        while self.shown.id and len(self.members) > 1:
            left = self.members.popleft()
            self._announce(self.members[0].view, None, out)
            left.on_ready(left.holdings.messages, now, out)
        original(self, now, out)

    return show


def purge_before_the_next_view_knows(original: Any) -> Callable[..., Any]:
    """Safe is what one member has: the others may deliver what it has purged."""

    def recipe_of(self: ViewRecipe, members: int) -> Recipe:
        made: Recipe = original(self, members)
        object.__setattr__(made, "f", 0)
        return made

    return recipe_of


def flush_omits_what_was_purged(original: Any) -> Callable[..., Any]:
    """What is missing when the view ends was purged by somebody, or so it is taken."""

    def fetch(self: Flush, cut: Sequence[Seq], holders: Sequence[Rank]) -> None:
        original(self, cut, holders)
        reception = self.reception
        for sender in reception.gaps:
            first, last = reception.frontier[sender] + 1, reception.known[sender]
            if first < last:
                reception.notices[sender].add(first, last - 1, last)

    return fetch


def everybody_its_own_cut(original: Any) -> Callable[..., Any]:
    """A view ends where each member happens to be."""

    def finish(self: Member, cut: Sequence[Seq] | None, now: float, out: Effects) -> None:
        original(self, None if cut is None else tuple(self.frontier), now, out)

    return finish


def accept_what_is_not_here(original: Any) -> property:
    """Who accepts does not wait for what is missing up to the cut."""
    return property(lambda self: True)


def half_is_enough(original: Any) -> Callable[..., Any]:
    """Half of a view decides on the next one, and so does the other half."""

    def init(self: Agreement, *args: Any) -> None:
        original(self, *args)
        self.quorum = max(1, self.members // 2)

    return init


def forget_what_was_accepted(original: Any) -> Callable[..., Any]:
    """A promise does not tell what was accepted before."""

    def on_prepare(
        self: Agreement, source: Rank, prepare: Prepare, now: float, out: Effects
    ) -> None:
        self.accepted_ballot, self.accepted = 0, None
        original(self, source, prepare, now, out)

    return on_prepare


def alone_is_enough(original: Any) -> Callable[..., Any]:
    """A position is final once its sequencer has it: a minority goes on ordering."""

    def init(self: SequencedOrder, *args: Any) -> None:
        original(self, *args)
        self.held = QuorumCount(self.members, 1)

    return init


def speak_between_views(original: Any) -> property:
    """Who consented to a view goes on sending in the one before."""

    def phase(self: ViewMember) -> str:
        told: str = original.fget(self)
        return MEMBER if told == CHANGING else told

    return property(phase)


def confirm_for_the_others(original: Any) -> Callable[..., Any]:
    """Confirmed once all but one have delivered."""

    def init(self: SequencedOrder, *args: Any) -> None:
        original(self, *args)
        self.taken = QuorumCount(self.members, max(1, self.members - 1))

    return init


def state_taken_too_early(original: Any) -> Callable[..., Any]:
    """What was handed to the first joiner is handed to the next one."""

    def on_state(self: Transfer, view: ViewId, state: bytes, out: Effects) -> None:
        original(self, view, vars(self).setdefault("first", state), out)

    return on_state


def first_message_missed(original: Any) -> Callable[..., Any]:
    """What a joiner receives while it waits for its state is forgotten."""

    def show_first(self: ViewMember, head: Member, now: float, out: Effects) -> None:
        queue = head.holdings.queue
        if self.transfer.state is not None and queue.has_next:
            queue.pop()
        original(self, head, now, out)

    return show_first


def any_lineage(original: Any) -> Callable[..., Any]:
    """What comes from another founding is taken like anything else."""

    def admits(self: LineageGuard, source: Pid, stamped: Stamped, now: float) -> bool:
        original(self, source, stamped, now)
        return True

    return admits


VIEW_MUTANTS: dict[str, Mutant] = {
    "any-lineage": Mutant(LineageGuard, "admits", any_lineage, "founded-again", "s-vsm"),
    "deliver-in-the-next-view": Mutant(
        ViewMember, "_show", deliver_in_the_next_view, "slow-through-a-change", "s-vsm"
    ),
    "purge-before-the-next-view-knows": Mutant(
        ViewRecipe, "recipe_of", purge_before_the_next_view_knows, "purger-crash", "s-vsm"
    ),
    "flush-omits-what-was-purged": Mutant(
        Flush, "fetch", flush_omits_what_was_purged, "sender-crash-in-view", "s-vsm"
    ),
    "everybody-its-own-cut": Mutant(
        Member, "finish", everybody_its_own_cut, "sender-crash-in-view", "s-vsm"
    ),
    "accept-what-is-not-here": Mutant(
        Flush, "is_complete", accept_what_is_not_here, "sender-crash-in-view", "s-vsm"
    ),
    "half-is-enough": Mutant(Agreement, "__init__", half_is_enough, "two-halves", "s-vsm"),
    "forget-what-was-accepted": Mutant(
        Agreement, "on_prepare", forget_what_was_accepted, "decided-and-cut-off", "s-vsm"
    ),
    "alone-is-enough": Mutant(
        SequencedOrder, "__init__", alone_is_enough, "sequencer-cut-off", "total"
    ),
    "speak-between-views": Mutant(
        ViewMember, "phase", speak_between_views, "merge-during-flush", "vs"
    ),
    "confirm-for-the-others": Mutant(
        SequencedOrder, "__init__", confirm_for_the_others, "slow-to-confirm", "vs"
    ),
    "state-taken-too-early": Mutant(
        Transfer, "on_state", state_taken_too_early, "two-joiners", "s-vsm"
    ),
    "first-message-missed": Mutant(
        ViewMember, "_show_first", first_message_missed, "two-joiners", "s-vsm"
    ),
}
