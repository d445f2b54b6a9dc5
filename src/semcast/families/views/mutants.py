"""Deliberately broken views: what the monitors, the judge and the swarm must catch."""

from collections.abc import Callable, Sequence
from typing import Any

from semcast.core.flush import Flush
from semcast.core.member import Member
from semcast.core.order.quorum_count import QuorumCount
from semcast.core.order.total import SequencedOrder
from semcast.core.recipe import Recipe
from semcast.core.views.lineage import LineageGuard
from semcast.core.views.member import ViewMember
from semcast.core.views.recipe import ViewRecipe
from semcast.core.views.state_transfer import StateTransfer
from semcast.core.views.view_agreement import ViewAgreement
from semcast.families.testing import MutantTable
from semcast.terms.effects import Effects
from semcast.terms.ids import Pid, Rank, Seq, ViewId
from semcast.terms.views import CHANGING, MEMBER, Prepare, Stamped

MUTANTS = MutantTable()


@MUTANTS.add(
    "deliver-in-the-next-view", ViewMember, "_show", scenario="slow-through-a-change", swarm="s-vsm"
)
def deliver_in_the_next_view(original: Any) -> Callable[..., Any]:
    """A view is entered at once; what the application has not yet taken comes after."""

    def show(self: ViewMember, now: float, out: Effects) -> None:
        while self.shown.id and len(self.members) > 1:
            left = self.members.popleft()
            self._announce(self.members[0].view, None, out)
            left.on_ready(left.buffers.messages, now, out)
        original(self, now, out)

    return show


@MUTANTS.add(
    "purge-before-the-next-view-knows",
    ViewRecipe,
    "recipe_of",
    scenario="purger-crash",
    swarm="s-vsm",
)
def purge_before_the_next_view_knows(original: Any) -> Callable[..., Any]:
    """Safe is what one member has: the others may deliver what it has purged."""

    def recipe_of(self: ViewRecipe, members: int) -> Recipe:
        made: Recipe = original(self, members)
        object.__setattr__(made, "f", 0)
        return made

    return recipe_of


@MUTANTS.add(
    "flush-omits-what-was-purged", Flush, "fetch", scenario="sender-crash-in-view", swarm="s-vsm"
)
def flush_omits_what_was_purged(original: Any) -> Callable[..., Any]:
    """What is missing when the view ends was purged by somebody, or so it is taken."""

    def fetch(self: Flush, cut: Sequence[Seq], holders: Sequence[Rank]) -> None:
        original(self, cut, holders)
        receiver = self.receiver
        for sender in receiver.gaps:
            first, last = receiver.frontier[sender] + 1, receiver.known[sender]
            if first < last:
                receiver.notices[sender].add(first, last - 1, last)

    return fetch


@MUTANTS.add(
    "everybody-its-own-cut", Member, "finish", scenario="sender-crash-in-view", swarm="s-vsm"
)
def everybody_its_own_cut(original: Any) -> Callable[..., Any]:
    """A view ends where each member happens to be."""

    def finish(self: Member, cut: Sequence[Seq] | None, now: float, out: Effects) -> None:
        original(self, None if cut is None else tuple(self.frontier), now, out)

    return finish


@MUTANTS.add(
    "accept-what-is-not-here", Flush, "is_complete", scenario="sender-crash-in-view", swarm="s-vsm"
)
def accept_what_is_not_here(original: Any) -> property:
    """Who accepts does not wait for what is missing up to the cut."""
    return property(lambda self: True)


@MUTANTS.add("half-is-enough", ViewAgreement, "__init__", scenario="two-halves", swarm="s-vsm")
def half_is_enough(original: Any) -> Callable[..., Any]:
    """Half of a view decides on the next one, and so does the other half."""

    def init(self: ViewAgreement, *args: Any) -> None:
        original(self, *args)
        self.quorum = max(1, self.members // 2)

    return init


@MUTANTS.add(
    "forget-what-was-accepted",
    ViewAgreement,
    "on_prepare",
    scenario="decided-and-cut-off",
    swarm="s-vsm",
)
def forget_what_was_accepted(original: Any) -> Callable[..., Any]:
    """A promise does not tell what was accepted before."""

    def on_prepare(
        self: ViewAgreement, source: Rank, prepare: Prepare, now: float, out: Effects
    ) -> None:
        self.accepted_ballot, self.accepted = 0, None
        original(self, source, prepare, now, out)

    return on_prepare


@MUTANTS.add(
    "alone-is-enough", SequencedOrder, "__init__", scenario="sequencer-cut-off", swarm="total"
)
def alone_is_enough(original: Any) -> Callable[..., Any]:
    """A position is final once its sequencer has it: a minority goes on ordering."""

    def init(self: SequencedOrder, *args: Any) -> None:
        original(self, *args)
        self.held = QuorumCount(self.members, 1)

    return init


@MUTANTS.add("speak-between-views", ViewMember, "phase", scenario="merge-during-flush", swarm="vs")
def speak_between_views(original: Any) -> property:
    """Who consented to a view goes on sending in the one before."""

    def phase(self: ViewMember) -> str:
        phase: str = original.fget(self)
        return MEMBER if phase == CHANGING else phase

    return property(phase)


@MUTANTS.add(
    "confirm-for-the-others", SequencedOrder, "__init__", scenario="slow-to-confirm", swarm="vs"
)
def confirm_for_the_others(original: Any) -> Callable[..., Any]:
    """Confirmed once all but one have delivered."""

    def init(self: SequencedOrder, *args: Any) -> None:
        original(self, *args)
        self.consumed = QuorumCount(self.members, max(1, self.members - 1))

    return init


@MUTANTS.add(
    "state-taken-too-early", StateTransfer, "on_state", scenario="two-joiners", swarm="s-vsm"
)
def state_taken_too_early(original: Any) -> Callable[..., Any]:
    """What was handed to the first joiner is handed to the next one."""

    def on_state(self: StateTransfer, view: ViewId, state: bytes, out: Effects) -> None:
        original(self, view, vars(self).setdefault("first", state), out)

    return on_state


@MUTANTS.add(
    "first-message-missed", ViewMember, "_show_first", scenario="two-joiners", swarm="s-vsm"
)
def first_message_missed(original: Any) -> Callable[..., Any]:
    """What a joiner receives while it waits for its state is forgotten."""

    def show_first(self: ViewMember, head: Member, now: float, out: Effects) -> None:
        queue = head.buffers.queue
        if self.transfer.state is not None and queue.has_next:
            queue.pop(1)
        original(self, head, now, out)

    return show_first


@MUTANTS.add("any-lineage", LineageGuard, "admits", scenario="founded-again", swarm="s-vsm")
def any_lineage(original: Any) -> Callable[..., Any]:
    """What comes from another founding is taken like anything else."""

    def admits(self: LineageGuard, source: Pid, stamped: Stamped, now: float, count: int) -> bool:
        original(self, source, stamped, now, count)
        return True

    return admits
