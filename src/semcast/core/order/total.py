"""Total order: a sequencer gives messages their places; there they wait for the application.

Guarantees: every message of the view except order messages gets a position, in each stream in its
order; a purged message leaves its position empty.  So members that hold different messages give
each the same position [SRM §4.4].
Purging: a message without a position is purged only from the retransmission store, by its sender's
own relation.  Positions up to `final_upto` are final: a message there that still waits is purged by
any later one of the same item, whichever member sent it.  Purging before a position is final would
be safe for members of the next view, but a ready application would miss messages.
Idea: the first member of a view is the sequencer.  Its *order messages* come after the messages
that they place.  Positions are final once f + 1 members hold the order message; under `vs`, which
asks for no agreement between views, at once, and there members confirm what all have taken.
The next order message leaves when all have reported the last one: in an idle group at once, under
load messages gather.  If a report is late, a timer sends it: docs/decisions/0031-evidence.md.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from semcast.core.order.protocols import After, Ordering, PurgedBy, Queue
from semcast.core.order.quorum_count import QuorumCount
from semcast.core.recipe import Recipe
from semcast.kernel import Run, later_than, payload_bytes, run_of
from semcast.terms.effects import Effects
from semcast.terms.ids import EVERYONE, NEVER, SEQ_MAX, Rank, Seq
from semcast.terms.messages import DataMessage
from semcast.terms.outputs import Confirmed, Delivery
from semcast.terms.views import GroupView, OrderProgress

if TYPE_CHECKING:
    from semcast.core.member_buffers import MemberBuffers

LOAD_MESSAGES = 256  # placed by one order message: after more, the next one waits for the timer


class TotalOrderQueue(Queue):
    """Lives as long as the view.  Invariant: what has its place has a position <= `last`.

    Messages wait as the runs that they came in, and are taken apart when one of them has to go.
    """

    def __init__(self, recipe: Recipe, bases: Sequence[Seq] = ()) -> None:
        members = recipe.members
        self.purges = recipe.purges
        # What waits for its place, by sender: single messages, and after them runs.
        self.unordered: list[dict[Seq, DataMessage]] = [{} for _ in range(members)]
        self.unordered_runs: list[deque[Run]] = [deque() for _ in range(members)]
        # What has its place, by position: single messages, and runs by that of their first.
        self.ordered: dict[int, DataMessage] = {}
        self.ordered_runs: dict[int, Run] = {}
        # By sender: the last number that has a position, the last one that came here, and the last
        # one up to which nothing waits.  `absent` has numbers after `handed` that do not wait.
        self.reached: list[Seq] = list(bases) or [0] * members
        self.pushed: list[Seq] = list(self.reached)
        self.handed: list[Seq] = list(self.reached)
        self.absent: list[set[Seq]] = [set() for _ in range(members)]
        self.orders: set[Seq] = set()  # of the sequencer's stream, not yet passed over
        self.bounds: deque[tuple[Seq, int]] = deque()  # of order messages: their last position
        self.newest: dict[int | None, int] = {}  # by item, the position that a later one purges
        self.last_order: Seq = 0
        self.last = 0
        self.position = 0  # of what was handed out last
        self.cursor = 1  # the first position that may yet hold something
        self.final_upto = 0
        self.purged_upto = 0
        self.confirms = recipe.confirms
        # Handed out: position and number of the first, and how many.
        self.unconfirmed: deque[tuple[int, Rank, Seq, int]] = deque()

    def __repr__(self) -> str:
        name, placed = type(self).__name__, [*self.ordered, *self.ordered_runs]
        return f"{name}(placed={placed}, waiting={len(self)}, final_upto={self.final_upto})"

    def __len__(self) -> int:
        runs = (*self.ordered_runs.values(), *(run for lane in self.unordered_runs for run in lane))
        return len(self.ordered) + sum(map(len, self.unordered)) + sum(run.count for run in runs)

    @property
    def has_next(self) -> bool:
        """Whether there is something to hand out."""
        ordered, runs, cursor = self.ordered, self.ordered_runs, self.cursor
        while cursor <= self.final_upto and cursor not in ordered and cursor not in runs:
            cursor += 1
        self.cursor = cursor
        return cursor <= self.final_upto

    def holds(self, message: DataMessage) -> bool:
        """Whether this message waits here."""
        sender, seq = message.sender, message.seq
        return self.handed[sender] < seq <= self.pushed[sender] and seq not in self.absent[sender]

    def count_waiting(self, messages: Sequence[DataMessage]) -> tuple[int, int]:
        """Of these messages of one stream, how many wait here, and their payload."""
        sender = messages[0].sender
        waiting, absent = later_than(messages, self.handed[sender]), self.absent[sender]
        if absent:
            waiting = [message for message in waiting if message.seq not in absent]
        return len(waiting), payload_bytes(waiting)

    def push(self, run: Run) -> Sequence[PurgedBy]:
        """The next messages of a stream wait for their places; an order message comes alone."""
        sender, first = run.sender, run.first
        if first > self.pushed[sender] + 1:
            self._leave(sender, range(self.pushed[sender] + 1, first))
        self.pushed[sender] = first + run.count - 1
        if run.after:
            self.assign_positions(run.after)
            self._note_order(first)
        else:
            self.unordered_runs[sender].append(run)
        return ()

    def remove_unordered(self, sender: Rank, messages: Sequence[DataMessage]) -> int:
        """What waited for its place does no more."""
        unordered, runs = self.unordered[sender], self.unordered_runs[sender]
        while runs:
            run = runs.popleft()
            unordered.update(zip(range(run.first, run.first + run.count), run, strict=True))
        removed = [m.seq for m in messages if unordered.pop(m.seq, None) is not None]
        self._leave(sender, removed)
        return len(removed)

    def assign_positions(self, runs: After) -> None:
        """Give out positions, stream by stream."""
        for sender, upto in runs:
            self._assign(sender, upto)
            self.reached[sender] = max(self.reached[sender], upto)
        self._pass_orders()

    def _assign(self, sender: Rank, upto: Seq) -> None:
        unordered, runs = self.unordered[sender], self.unordered_runs[sender]
        seq = self.reached[sender] + 1
        while seq <= upto:
            if runs and runs[0].first == seq:
                run = runs.popleft()
                count = upto - seq + 1
                if count < run.count:
                    runs.appendleft(run.slice_run(count, run.count))
                    run = run.slice_run(0, count)
                self.ordered_runs[self.last + 1] = run
                self.last += run.count
                seq += run.count
                continue
            if sender == 0 and seq in self.orders:
                self.orders.remove(seq)
            else:
                self.last += 1
                message = unordered.pop(seq, None)
                if message is not None:
                    self.ordered[self.last] = message
            seq += 1

    def _take_apart(self, position: int) -> None:
        """Let each message of the run at this position wait by itself."""
        self.ordered.update(enumerate(self.ordered_runs.pop(position), position))

    def _note_order(self, seq: Seq) -> None:
        """Note an order message: it takes no position itself, and waits for none."""
        self.last_order = seq
        self.orders.add(seq)
        self._pass_orders()
        self._leave(0, (seq,))
        self.bounds.append((seq, self.last))

    def _pass_orders(self) -> None:
        """Forget the order messages that come next in the sequencer's stream."""
        while self.reached[0] + 1 in self.orders:
            self.reached[0] += 1
            self.orders.remove(self.reached[0])

    def finalize(self, order: Seq) -> None:
        """Let the messages be handed out that order messages up to `order` have placed."""
        while self.bounds and self.bounds[0][0] <= order:
            self.final_upto = self.bounds.popleft()[1]

    def purge(self) -> list[tuple[DataMessage, int, DataMessage]]:
        """Drop messages that a later final position supersedes: (purged, position, by)."""
        purged: list[tuple[DataMessage, int, DataMessage]] = []
        if not self.purges:
            return purged
        for position in [p for p in self.ordered_runs if p <= self.final_upto]:
            self._take_apart(position)
        for position in range(max(self.purged_upto + 1, self.cursor), self.final_upto + 1):
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
            self._leave(old.sender, (old.seq,))
            purged.append((old, before, message))
        if not message.never_purge:
            self.newest[message.item] = position

    def pop(self, limit: int) -> Run:
        """Hand out what is next, which `has_next` has found: at most so many messages."""
        position = self.cursor
        if position in self.ordered_runs and self.ordered_runs[position].count > limit:
            self._take_apart(position)
        run = self.ordered_runs.pop(position, None)
        if run is None:
            message = self.ordered.pop(position)
            if self.newest.get(message.item) == position:
                del self.newest[message.item]
            run = run_of([message])
        self._hand_out(run.sender, run.first + run.count - 1)
        self.cursor = position + run.count
        self.position = self.cursor - 1
        if self.confirms:
            self.unconfirmed.append((position, run.sender, run.first, run.count))
        return run

    def _hand_out(self, sender: Rank, upto: Seq) -> None:
        if self.absent[sender]:
            self.absent[sender].difference_update(range(self.handed[sender] + 1, upto))
        self.handed[sender] = upto
        self._leave(sender, ())

    def _leave(self, sender: Rank, seqs: Iterable[Seq]) -> None:
        """Note that these numbers do not wait here; `handed` passes those that come next."""
        absent, upto = self.absent[sender], self.handed[sender]
        absent.update(seqs)
        while upto + 1 in absent:
            upto += 1
            absent.remove(upto)
        self.handed[sender] = upto


class SequencedOrder(Ordering):
    """Lives as long as the view.  Invariant: the sequencer has placed each stream to `ordered`."""

    def __init__(
        self,
        recipe: Recipe,
        view: GroupView,
        rank: Rank,
        buffers: "MemberBuffers",
        frontier: Sequence[Seq],
    ) -> None:
        assert isinstance(buffers.queue, TotalOrderQueue)
        members = len(view.members)
        self.rank = rank
        self.view = view.id
        self.members = members
        self.confirms = recipe.confirms
        self.order_s = recipe.order_s
        self.tell_s = recipe.period_s
        self.queue = buffers.queue
        self.buffers = buffers
        self.frontier = frontier  # shared with the receiver, which alone writes it
        self.ordered: list[Seq] = list(view.seq_bases)
        self.placed = 0  # by the last order message
        self.order_at, self.order_last = NEVER, -NEVER
        self.tell_at, self.tell_last = NEVER, -NEVER  # of OrderProgress
        self.last_report = OrderProgress(view.id, 0, 0)
        self.handed = 0  # a position that the application had before this input
        self.is_busy: bool | None = None  # the application is; None: it does not say
        self.held = QuorumCount(members, 1 if recipe.confirms else recipe.f + 1)
        self.consumed = QuorumCount(members, members)
        # A member with an order message knows two holders: the sequencer and itself.
        only_sequencer_counts = not recipe.confirms and self.held.quorum <= 2
        self.audience = (view.members[0].pid,) if only_sequencer_counts else EVERYONE
        self.polls = rank == 0
        if rank != 0:
            buffers.exempt_upto[0] = SEQ_MAX  # Order messages need no room.

    def __repr__(self) -> str:
        return f"SequencedOrder(ordered={self.ordered}, {self.held}, {self.consumed})"

    @property
    def progress(self) -> tuple[Seq, int]:
        """The last order message here with all that it places, and what was handed over."""
        return self.frontier[0], self.handed

    def pause(self) -> None:
        """The sequencer sends nothing for the while."""
        self.order_at = NEVER
        self.deadline = self.tell_at

    def pace(self, is_busy: bool) -> bool:
        """An application that says whether it is busy sets the pace: the next one waits for it
        instead of reports, and what was handed over is not reported."""
        was_busy, self.is_busy = self.is_busy, is_busy
        return bool(was_busy) and not is_busy and self.order_at < NEVER

    def poll(self, last: Seq, now: float) -> After:
        """The sequencer places what it has. [SRM §4.4]"""
        frontier, ordered = self.frontier, self.ordered
        new = [r for r in range(1, len(ordered)) if frontier[r] > ordered[r]]
        if last > ordered[0]:
            new.insert(0, 0)
        if not new:
            self.order_at = NEVER
            return ()
        waits = self.is_busy
        if waits is None:
            waits = min(self.held.reports) < self.queue.last_order
        if waits or self.placed > LOAD_MESSAGES:
            self.order_at = self.order_last + self.order_s
            if now < self.order_at:
                return ()
        runs = tuple((r, frontier[r] if r else last) for r in new)
        self.placed = sum(upto - ordered[rank] for rank, upto in runs)
        for rank, upto in runs:
            ordered[rank] = upto
        self.order_last, self.order_at = now, NEVER
        return runs

    def on_progress(self, peer: Rank, held: Seq, delivered: int) -> None:
        """A peer holds order messages up to `held`; its application has what was `delivered`."""
        self.held.on_report(peer, held)
        self.consumed.on_report(peer, delivered)

    def settle(self, now: float, out: Effects) -> None:
        """Count the own progress, and tell the others."""
        queue = self.queue
        if self.frontier[0] > self.held.reports[self.rank]:
            self.held.on_report(self.rank, self.frontier[0])
            self.held.on_report(0, self.frontier[0])  # which sent it
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
        if self.confirms:
            self.tell_at = self._report_handed(now, out)
        elif self.rank and queue.last_order > self.last_report.held:
            self._report(out)  # The sequencer waits for it.
        self.deadline = min(self.order_at, self.tell_at)

    def _hand_over(self, out: Effects) -> None:
        """Positions have become final: deliver them, purge what has to wait."""
        self.buffers.deliver_ready(out)
        for purged, position, by in self.queue.purge():
            self.buffers.left_queue(purged, out)
            self.buffers.trace.purged_at(position, purged, by, self.buffers.messages, out)

    def _confirm(self, out: Effects) -> None:
        """Everything up to a position was delivered at every member. [VSD app. A]"""
        agreed, unconfirmed = self.consumed.agreed, self.queue.unconfirmed
        confirmed: dict[Rank, Seq] = {}
        while unconfirmed and unconfirmed[0][0] <= agreed:
            position, sender, seq, count = unconfirmed.popleft()
            left = position + count - 1 - agreed
            if left > 0:
                unconfirmed.appendleft((agreed + 1, sender, seq + count - left, left))
            confirmed[sender] = seq + count - 1 - max(0, left)
        out.outputs.append(Confirmed(self.view, agreed))
        for sender, seq in confirmed.items():
            self.buffers.trace.confirmed(sender, seq, out)

    def _report_handed(self, now: float, out: Effects) -> float:
        """Tell what was handed over once all have what was told before; when to look again.  Where
        the application sets the pace nobody waits for it, and heartbeats tell it."""
        last, position = self.last_report.delivered, self.queue.position
        if position == last or self.members == 1 or self.is_busy is not None:
            return NEVER
        due = now if self.consumed.agreed >= last else self.tell_last + self.tell_s
        if due <= now and self.handed > last:
            self._report(out)
            self.tell_last = now
            due = NEVER if self.handed == position else now + self.tell_s
        return max(due, now)

    def _report(self, out: Effects) -> None:
        self.last_report = OrderProgress(self.view, self.frontier[0], self.handed)
        out.send.append((self.audience, self.last_report))

    def close(self, cut: Sequence[Seq] | None, out: Effects) -> None:
        """With a cut, what has no place up to there gets one, sender by sender."""
        if cut is not None:
            self.queue.assign_positions(tuple(enumerate(cut)))
        self.queue.final_upto = self.queue.last
        self._hand_over(out)
