"""Total order: a sequencer gives messages their places; there they wait for the application.

Guarantees: positions are given to every message of the view but the sequencer's order messages,
in each stream in its order; what was purged leaves its position empty.  So members that hold
different messages give each the same place [SRM §4.4].
Purging: while a message waits for its place, only by its sender's own relation once what supersedes
it is safe, which is the retransmission store's doing.  Up to `final_upto` positions are final and
may be handed out; what still waits there is purged by any later one of the same item, whoever sent
it, since now there is a last word across senders.  Purging earlier would be as right for who goes
on to the next view, which contains every order it has seen; but who is ready would miss messages.
Idea: the first member of a view is the sequencer.  Its *markers* are messages that come after what
they put into place.  Places are final once f + 1 members hold the marker; under `vs`, which asks
for no agreement between views, at once, and there members confirm what all have taken.
"""

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from semcast.core.order.protocols import After, Ordering, PurgedBy, Queue
from semcast.core.recipe import Recipe
from semcast.kernel import Run
from semcast.terms.effects import Effects
from semcast.terms.ids import EVERYONE, NEVER, SEQ_MAX, Rank, Seq
from semcast.terms.messages import DataMessage
from semcast.terms.outputs import Confirmed, Delivery
from semcast.terms.views import GroupView, OrderProgress

if TYPE_CHECKING:
    from semcast.core.member_buffers import MemberBuffers


class TotalOrderQueue(Queue):
    """Lives as long as the view.  Invariant: what is in `ordered` has a position <= `last`."""

    def __init__(self, recipe: Recipe, bases: Sequence[Seq] = ()) -> None:
        self.purges = recipe.relation == "item"
        self.unordered: list[dict[Seq, DataMessage]] = [{} for _ in range(recipe.members)]
        # Up to where positions were given.
        self.reached: list[Seq] = list(bases) or [0] * recipe.members
        self.orders: set[Seq] = set()  # of the sequencer's stream, not yet passed over
        self.bounds: deque[tuple[Seq, int]] = deque()  # of order messages: their last position
        self.ordered: dict[int, DataMessage] = {}
        self.position_of: list[dict[Seq, int]] = [{} for _ in range(recipe.members)]
        self.newest: dict[int | None, int] = {}  # by item, the position that a later one purges
        self.last_order: Seq = 0
        self.last = 0
        self.position = 0  # of what was handed out last
        self.cursor = 1  # the first position that may yet hold something
        self.final_upto = 0
        self.purged_upto = 0
        self.confirms = recipe.confirms
        self.unconfirmed: deque[tuple[int, Rank, Seq]] = deque()  # handed out, by position

    def __repr__(self) -> str:
        waiting = sum(map(len, self.unordered))
        name = type(self).__name__
        return f"{name}(placed={list(self.ordered)}, unplaced={waiting}, open={self.final_upto})"

    def __len__(self) -> int:
        return len(self.ordered) + sum(map(len, self.unordered))

    @property
    def has_next(self) -> bool:
        """Whether there is something to hand out."""
        placed, cursor = self.ordered, self.cursor
        while cursor <= self.final_upto and cursor not in placed:
            cursor += 1
        self.cursor = cursor
        return cursor <= self.final_upto

    def holds(self, message: DataMessage) -> bool:
        """Whether this message waits here."""
        sender, seq = message.sender, message.seq
        return seq in self.position_of[sender] or seq in self.unordered[sender]

    def has_none_from(self, sender: Rank) -> bool:
        """Whether nothing of this sender waits here."""
        return not self.position_of[sender] and not self.unordered[sender]

    def push(self, run: Run) -> Sequence[PurgedBy]:
        """The next messages of a stream wait for their places; a marker comes by itself."""
        first = run.first
        if run.after:
            self.assign_positions(run.after)
            self._note_marker(first)
            return ()
        numbers = range(first, first + run.count)
        self.unordered[run.sender].update(zip(numbers, run.messages(), strict=True))
        return ()

    def remove_unordered(self, messages: Sequence[DataMessage]) -> int:
        """What waited for its place does no more."""
        waiting = [m for m in messages if self.unordered[m.sender].pop(m.seq, None) is not None]
        return len(waiting)

    def assign_positions(self, runs: After) -> None:
        """Give out positions, run by run."""
        for sender, upto in runs:
            unplaced, place_of = self.unordered[sender], self.position_of[sender]
            for seq in range(self.reached[sender] + 1, upto + 1):
                if sender == 0 and seq in self.orders:
                    self.orders.remove(seq)
                    continue
                self.last += 1
                message = unplaced.pop(seq, None)
                if message is not None:
                    self.ordered[self.last] = message
                    place_of[seq] = self.last
            self.reached[sender] = max(self.reached[sender], upto)

    def _note_marker(self, seq: Seq) -> None:
        """It takes no position itself."""
        self.last_order = seq
        self.orders.add(seq)
        self.bounds.append((seq, self.last))

    def finalize(self, order: Seq) -> None:
        """What markers up to `order` have placed may be handed out."""
        while self.bounds and self.bounds[0][0] <= order:
            self.final_upto = self.bounds.popleft()[1]

    def purge(self) -> list[tuple[DataMessage, int, DataMessage]]:
        """Drop what waits though a later open position supersedes it: (purged, where, by)."""
        purged: list[tuple[DataMessage, int, DataMessage]] = []
        if self.purges:
            for position in range(self.purged_upto + 1, self.final_upto + 1):
                message = self.ordered.get(position)
                if message is not None and message.item is not None:
                    self._supersede(position, message, purged)
        self.purged_upto = self.final_upto
        return purged

    def _supersede(
        self,
        position: int,
        message: DataMessage,
        purged: list[tuple[DataMessage, int, DataMessage]],
    ) -> None:
        before = self.newest.pop(message.item, 0)
        if before:
            old = self.ordered.pop(before)
            del self.position_of[old.sender][old.seq]
            purged.append((old, before, message))
        if not message.never_purge:
            self.newest[message.item] = position

    def pop(self) -> DataMessage:
        """Hand out the next, which `has_next` has found."""
        self.position = self.cursor
        message = self.ordered.pop(self.position)
        del self.position_of[message.sender][message.seq]
        if self.newest.get(message.item) == self.position:
            del self.newest[message.item]
        if self.confirms:
            self.unconfirmed.append((self.position, message.sender, message.seq))
        return message


class QuorumCount:
    """A number that every member reports.  Invariant: `quorum` members have reached `agreed`."""

    __slots__ = ("agreed", "quorum", "reports")

    def __init__(self, members: int, quorum: int) -> None:
        self.quorum = quorum
        self.reports = [0] * members
        self.agreed = 0

    def __repr__(self) -> str:
        return f"QuorumCount(quorum={self.quorum}, agreed={self.agreed}, reports={self.reports})"

    def on_report(self, rank: int, reached: int) -> None:
        """A member has come so far.  Old reports change nothing."""
        if reached > self.reports[rank]:
            self.reports[rank] = reached
            self.agreed = sorted(self.reports, reverse=True)[self.quorum - 1]


class SequencedOrder(Ordering):
    """Lives as long as the view.  Invariant: the sequencer has placed each stream to `ordered`."""

    def __init__(
        self,
        recipe: Recipe,
        view: GroupView,
        rank: Rank,
        holdings: "MemberBuffers",
        frontier: Sequence[Seq],
    ) -> None:
        assert isinstance(holdings.queue, TotalOrderQueue)
        members = len(view.members)
        self.rank = rank
        self.view = view.id
        self.members = members
        self.confirms = recipe.confirms
        self.order_s = recipe.order_s
        self.tell_s = recipe.period_s if recipe.confirms else recipe.order_s
        self.queue = holdings.queue
        self.holdings = holdings
        self.frontier = frontier  # shared with the reception, which alone writes it
        self.ordered: list[Seq] = list(view.seq_bases)
        self.order_at = NEVER
        self.order_last = -NEVER
        self.tell_at = NEVER  # when OrderProgress is due
        self.tell_last = -NEVER
        self.last_report = OrderProgress(view.id, 0, 0)
        self.handed = 0  # a position that the application had before this input
        self.held = QuorumCount(members, 1 if recipe.confirms else recipe.f + 1)
        self.consumed = QuorumCount(members, members)
        self.polls = rank == 0
        if rank != 0:
            holdings.exempt_upto[0] = SEQ_MAX  # Markers must come through, however full it is.

    def __repr__(self) -> str:
        return f"SequencedOrder(ordered={self.ordered}, {self.held}, {self.consumed})"

    @property
    def progress(self) -> tuple[Seq, int]:
        """The last marker that is here with all that it places, and what was handed over."""
        return self.frontier[0], self.handed

    def pause(self) -> None:
        """The sequencer sends nothing for the while."""
        self.order_at = NEVER
        self.deadline = self.tell_at

    def poll(self, last: Seq, now: float) -> After:
        """The sequencer places what it has. [SRM §4.4]"""
        frontier, ordered = self.frontier, self.ordered
        new = [r for r in range(1, len(ordered)) if frontier[r] > ordered[r]]
        if last > ordered[0]:
            new.insert(0, 0)
        if not new:
            self.order_at = NEVER
            return ()
        if self.order_at == NEVER:
            self.order_at = max(now, self.order_last + self.order_s)
        if now < self.order_at:
            return ()
        runs = tuple((r, frontier[r] if r else last) for r in new)
        for rank, upto in runs:
            ordered[rank] = upto
        self.order_last, self.order_at = now, NEVER
        return runs

    def on_progress(self, peer: Rank, held: Seq, delivered: int) -> None:
        """A peer holds markers up to `held`, and its application has what was `delivered`."""
        self.held.on_report(peer, held)
        self.consumed.on_report(peer, delivered)

    def settle(self, now: float, out: Effects) -> None:
        """Count the own progress, and tell the others soon."""
        queue = self.queue
        if self.frontier[0] > self.held.reports[self.rank]:
            self.held.on_report(self.rank, self.frontier[0])
        if queue.bounds and queue.bounds[0][0] <= self.held.agreed:
            queue.finalize(self.held.agreed)
        if queue.final_upto >= queue.cursor and queue.has_next:
            self._hand_over(out)
        # What was delivered before is with the application, unless it still lies in these outputs.
        if self.handed != queue.position and not any(type(o) is Delivery for o in out.outputs):
            self.handed = queue.position
        if queue.position > self.consumed.reports[self.rank]:
            self.consumed.on_report(self.rank, queue.position)
        if queue.unconfirmed and queue.unconfirmed[0][0] <= self.consumed.agreed:
            self._confirm(out)
        last = self.last_report
        if queue.position > last.delivered if self.confirms else queue.last_order > last.held:
            self._tell(now, out)
        else:
            self.tell_at = NEVER
        self.deadline = min(self.order_at, self.tell_at)

    def _hand_over(self, out: Effects) -> None:
        """Positions have become final: deliver them, purge what has to wait."""
        self.holdings.deliver_ready(out)
        for purged, position, by in self.queue.purge():
            self.holdings.left_queue(purged, out)
            self.holdings.trace.purged_at(position, purged, by, self.holdings.messages, out)

    def _confirm(self, out: Effects) -> None:
        """Everything up to a position was delivered at every member. [VSD app. A]"""
        agreed, unconfirmed = self.consumed.agreed, self.queue.unconfirmed
        confirmed: dict[Rank, Seq] = {}
        while unconfirmed and unconfirmed[0][0] <= agreed:
            _, sender, seq = unconfirmed.popleft()
            confirmed[sender] = seq
        out.outputs.append(Confirmed(self.view, agreed))
        for sender, seq in confirmed.items():
            self.holdings.trace.confirmed(sender, seq, out)

    def _tell(self, now: float, out: Effects) -> None:
        if self.members == 1:
            return
        if self.tell_at == NEVER:
            self.tell_at = max(now, self.tell_last + self.tell_s)
        if now >= self.tell_at:
            self.last_report = OrderProgress(self.view, self.frontier[0], self.handed)
            self.tell_last = now
            is_told = not self.confirms or self.handed == self.queue.position
            self.tell_at = NEVER if is_told else now + self.tell_s
            out.send.append((EVERYONE, self.last_report))

    def close(self, cut: Sequence[Seq] | None, out: Effects) -> None:
        """With a cut, what has no place up to there gets one, sender by sender."""
        if cut is not None:
            self.queue.assign_positions(tuple(enumerate(cut)))
        self.queue.final_upto = self.queue.last
        self._hand_over(out)
