"""The time in one view: a reliable multicast among its members, and order if there is one.

A member of the view is named by its rank in here and by its process outside.  What is sent
in a view is taken by its members in that view only, so nothing is delivered in another [SVS §4.1].
When the view ends, what its application has not yet taken waits here until it has.
"""

from collections.abc import Sequence
from random import Random

from semcast.core.member import Member
from semcast.core.placing import PlacedQueue
from semcast.core.trace import Trace
from semcast.core.views.recipe import ViewRecipe
from semcast.core.views.tally import Tally
from semcast.terms.effects import Effects
from semcast.terms.errors import RemoteProtocolError
from semcast.terms.ids import EVERYONE, NEVER, Life, Pid, Rank, Seq
from semcast.terms.messages import Data, Submission
from semcast.terms.outputs import Confirmed, Delivery, Ended
from semcast.terms.views import Enclosed, OrderProgress, View

ALWAYS: Seq = 2**63 - 1


class Tenure:
    """One per view and member.  Invariant: once it is closed, only `on_ready` gets anything out."""

    def __init__(self, recipe: ViewRecipe, view: View, life: Life, rng: Random) -> None:
        self.recipe = recipe
        self.view = view
        self.life = life
        self.rank: Rank = view.members.index(life)
        self.rank_of: dict[Pid, Rank] = {m.pid: rank for rank, m in enumerate(view.members)}
        inner = recipe.recipe_of(len(view.members))
        self.placed = PlacedQueue(inner, view.bases) if recipe.order == "total" else None
        self.trace = Trace(self.rank, view, is_total=self.placed is not None)
        self.member = Member(inner, self.rank, rng, self.placed, self.trace, view.bases)
        self.is_frozen = False
        self.is_silent = False  # for the while: nothing of its own is sent
        self.is_closed = False
        self.ordered: list[Seq] = list(view.bases)  # by the sequencer: what it has placed
        self.last_own: Seq = view.bases[self.rank]  # the sequencer's last message that is no order
        self.order_at = NEVER
        self.order_last = -NEVER
        self.told_at = NEVER  # when OrderProgress is due
        self.told_last = -NEVER
        self.told = OrderProgress(view.id, 0, 0)
        self.handed = 0  # a position that the application had before this input
        quorum = inner.f + 1 if recipe.is_primary else 1
        self.held = Tally(len(view.members), quorum)
        self.taken = Tally(len(view.members), len(view.members))
        self._marks: list[tuple[int, Rank, Seq]] = []  # delivered, to be confirmed by position
        self._inner = Effects(recording=False)
        self._mark = 0  # what the outputs of this input come after
        if self.placed is not None and self.rank != 0:
            self.member.holdings.wanted[0] = ALWAYS  # Orders must come through, however full.

    def __repr__(self) -> str:
        return f"Tenure({self.view}, frozen={self.is_frozen}, closed={self.is_closed})"

    @property
    def deadline(self) -> float:
        """When `on_time` wants to be called."""
        return min(self.member.deadline, self.order_at, self.told_at)

    @property
    def progress(self) -> tuple[Seq, int]:
        """How far it got in the total order of the view, as `OrderProgress` tells it."""
        return (0, 0) if self.placed is None else (self.frontier[0], self.handed)

    @property
    def slowest(self) -> tuple[Life, ...]:
        """The member that is furthest behind in the own stream, if any is."""
        reached = self.member.outbox.reached
        rank = min(reached, key=lambda peer: reached[peer], default=None)
        if rank is None or reached[rank] == self.member.sent:
            return ()
        return (self.view.members[rank],)

    @property
    def frontier(self) -> Sequence[Seq]:
        """How far each stream was passed here."""
        return self.member.reception.frontier

    @property
    def is_empty(self) -> bool:
        """Whether the application has taken everything that it may."""
        return not self.member.holdings.queue.has_next

    def submit(self, submissions: Sequence[Submission], now: float, out: Effects) -> int:
        """As `Member.submit`."""
        before = self.member.sent
        try:
            return self.member.submit(submissions, now, self._enter(out))
        finally:
            if self.member.sent > before:
                self.last_own = self.member.sent
            self._leave(now, out)

    def on_datagram(self, source: Pid, enclosed: Enclosed, now: float, out: Effects) -> None:
        """A member of this view says something in it."""
        rank = self.rank_of.get(source)
        if rank is None:
            raise RemoteProtocolError(f"view {self.view.id}: process {source} is not a member")
        self.member.on_datagram(rank, enclosed.datagram, now, self._enter(out))
        self._leave(now, out)

    def on_reached(self, source: Pid, held: Seq, delivered: int, now: float, out: Effects) -> None:
        """A member tells how far it got in the order of the view."""
        rank = self.rank_of.get(source)
        if rank is None or self.placed is None:
            return
        self._enter(out)
        self.held.on_report(rank, held)
        self.taken.on_report(rank, delivered)
        self._leave(now, out)

    def on_ready(self, count: int, now: float, out: Effects) -> None:
        """As `Member.on_ready`."""
        self.member.on_ready(count, now, self._enter(out))
        self._leave(now, out)

    def on_time(self, now: float, out: Effects) -> None:
        """Time has passed."""
        inner = self._enter(out)
        if self.member.deadline <= now:
            self.member.on_time(now, inner)
        self._leave(now, out)

    def on_idle(self, now: float, out: Effects) -> None:
        """As `Member.on_idle`."""
        self.member.on_idle(now, self._enter(out))
        self._leave(now, out)

    def freeze(self, now: float, out: Effects) -> None:
        """Send nothing of its own any more, and let no frontier move."""
        if not self.is_frozen:
            self.is_frozen = True
            self.member.freeze(now, self._enter(out))
            self._leave(now, out)

    def aim(self, cut: Sequence[Seq], sources: Sequence[Rank], now: float, out: Effects) -> None:
        """Get everything up to the cut, from those who have it."""
        self.member.aim(cut, sources, now, self._enter(out))
        self._leave(now, out)

    @property
    def holds_cut(self) -> bool:
        """Whether everything up to the cut is here."""
        return self.member.reception.is_complete

    def close(self, cut: Sequence[Seq] | None, now: float, out: Effects) -> None:
        """The view is over.  With a cut everything up to it is delivered here; without, what has
        its place is."""
        inner = self._enter(out)
        holdings = self.member.holdings
        if cut is not None:
            self.member.release(cut, now, inner)
            if self.placed is not None:
                self.placed.place(list(enumerate(cut)))
        if self.placed is not None:
            self.placed.open_to = self.placed.last
            holdings.hand_over_placed(inner)
        self.is_closed = True
        self._leave(now, out)

    def _enter(self, out: Effects) -> Effects:
        inner = self._inner
        inner.events, inner.outputs, self._mark = out.events, out.outputs, len(out.outputs)
        return inner

    def _leave(self, now: float, out: Effects) -> None:
        """After every input: order what came, tell how far it got, and pass on what it did."""
        if self.placed is not None and not self.is_closed:
            self._order(now)
            self._tell(now, out)
        self._pass_on(out)

    def _order(self, now: float) -> None:
        """The sequencer, which is the first member, places what it has. [SRM §4.4]"""
        if self.rank != 0 or self.is_frozen or self.is_silent:
            self.order_at = NEVER
            return
        frontier, ordered = self.frontier, self.ordered
        new = [r for r in range(1, len(ordered)) if frontier[r] > ordered[r]]
        if self.last_own > ordered[0]:
            new.insert(0, 0)
        if not new:
            self.order_at = NEVER
            return
        if self.order_at == NEVER:
            self.order_at = max(now, self.order_last + self.recipe.order_s)
        if now < self.order_at:
            return
        runs = tuple((r, frontier[r] if r else self.last_own) for r in new)
        for rank, upto in runs:
            ordered[rank] = upto
        self.member.order(runs, now, self._inner)
        self.order_last, self.order_at = now, NEVER

    def _tell(self, now: float, out: Effects) -> None:
        """Count the own progress, and tell the others soon."""
        assert self.placed is not None
        holdings, me = self.member.holdings, self.rank
        self.held.on_report(me, self.frontier[0])
        self.placed.finalize(self.held.agreed)
        if self.placed.has_next:
            holdings.hand_over_placed(self._inner)
        self._note_deliveries(out)
        if not any(isinstance(output, Delivery) for output in out.outputs):
            self.handed = self.placed.position
        self.taken.on_report(me, self.placed.position)
        self._confirm(out)
        is_primary = self.recipe.is_primary
        told, placed = self.told, self.placed
        news = placed.last_order > told.held if is_primary else placed.position > told.delivered
        if not news or len(self.view.members) == 1:
            self.told_at = NEVER
            return
        pause_s = self.recipe.order_s if is_primary else self.member.recipe.period_s
        if self.told_at == NEVER:
            self.told_at = max(now, self.told_last + pause_s)
        if now >= self.told_at:
            self.told = OrderProgress(self.view.id, self.frontier[0], self.handed)
            self.told_last = now
            is_told = is_primary or self.handed == placed.position
            self.told_at = NEVER if is_told else now + pause_s
            out.send.append((EVERYONE, self.told))

    def _note_deliveries(self, out: Effects) -> None:
        if not self.recipe.is_primary:
            for output in out.outputs[self._mark :]:
                if isinstance(output, Delivery):
                    (message,) = output.messages
                    self._marks.append((output.position, message.sender, message.seq))

    def _confirm(self, out: Effects) -> None:
        """Everything up to a position was delivered at every member. [VSD app. A]"""
        if self.recipe.is_primary or not self._marks or self._marks[0][0] > self.taken.agreed:
            return
        agreed = self.taken.agreed
        place = sum(position <= agreed for position, _, _ in self._marks)
        confirmed, self._marks = self._marks[:place], self._marks[place:]
        out.outputs.append(Confirmed(self.view.id, agreed))
        for rank, seq in {rank: seq for _, rank, seq in confirmed}.items():
            self.trace.confirmed(rank, seq, out)

    def _pass_on(self, out: Effects) -> None:
        """From ranks to processes."""
        inner, members, view = self._inner, self.view.members, self.view.id
        for to, datagram in inner.send:
            if self.is_closed and (to is EVERYONE or not isinstance(datagram, Data)):
                continue  # Of a view that is over only repair is sent.
            pids = to if to is EVERYONE else [members[rank].pid for rank in to]
            out.send.append((pids, Enclosed(view, datagram)))
        inner.send.clear()
        if self.member.excluded:  # Who is in the view, its members decide elsewhere.
            own = out.outputs[self._mark :]
            out.outputs[self._mark :] = [each for each in own if not isinstance(each, Ended)]
