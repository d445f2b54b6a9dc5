"""Own messages: what the application offers becomes numbered, annotated, checked and held.

Messages that surely fit and need no annotation are made as one run, others one by one.
"""

from collections.abc import Sequence

from semcast import kernel
from semcast.core.datagram_validator import DatagramValidator
from semcast.core.member_buffers import MemberBuffers
from semcast.core.order import ORDERS
from semcast.core.order.protocols import After, Ordering
from semcast.core.outbox import Outbox
from semcast.core.receiver import Receiver
from semcast.core.recipe import Recipe
from semcast.core.relation import make_annotator
from semcast.terms.effects import Effects
from semcast.terms.errors import BufferFull, LocalProtocolError
from semcast.terms.ids import Rank, Seq
from semcast.terms.messages import DataMessage, Update


class Sending:
    """Lives as long as the member.  Invariant: own messages up to `last` were admitted."""

    def __init__(
        self,
        recipe: Recipe,
        rank: Rank,
        buffers: MemberBuffers,
        receiver: Receiver,
        validator: DatagramValidator,
        outbox: Outbox,
        base: Seq = 0,
        ordering: Ordering | None = None,
    ) -> None:
        self.rank = rank
        self.last: Seq = base
        self.last_update: Seq = base  # which orders nothing
        self.raises = recipe.overflow == "error"
        self.message_bytes = recipe.message_bytes
        self.annotator = make_annotator(recipe, self.last)
        self.labels = kernel.ItemLabels()
        self.ordering = ordering
        # Others come after something or need an annotation each, so they are made one by one.
        self.makes_runs = self.annotator.is_plain and not ORDERS[recipe.order].come_after
        self.buffers = buffers
        self.receiver = receiver
        self.validator = validator
        self.outbox = outbox

    def __repr__(self) -> str:
        return f"Sending(last={self.last}, {self.annotator})"

    def _after(self) -> After:
        return () if self.ordering is None else self.ordering.after()

    def submit(self, updates: Sequence[Update], now: float, out: Effects) -> int:
        """Take in what there is room for, from the front; how many."""
        accepted, since = 0, 0 if out.events is None else len(out.events)
        try:
            accepted = self._submit_run(updates, now, out)
            for update in updates[accepted:] if accepted < len(updates) else ():
                if not self._submit_one(update, now, out):
                    self.buffers.has_refused = True
                    break
                accepted += 1
        except LocalProtocolError:
            if not accepted:
                raise  # Else when the rest is offered: what was accepted has to be counted.
        if accepted and out.events is not None:
            declared = [(self.labels.identify(u)[0], u) for u in updates[:accepted]]
            self.buffers.trace.declared(declared, since, out)
        if not accepted and updates and self.raises:
            raise BufferFull(
                f"buffer full: none of its {self.buffers.messages} messages can be purged; "
                "wait, use a larger buffer, or forget the member that blocks them"
            )
        return accepted

    def _submit_run(self, updates: Sequence[Update], now: float, out: Effects) -> int:
        """Take in, as one run, those that surely fit and need no annotation; how many."""
        if not self.makes_runs or not updates:
            return 0
        count, payload = self.buffers.own_capacity()
        if not count:
            return 0
        run, size = kernel.make_run(
            self.rank, self.last, updates, self.labels, count, payload, self.message_bytes
        )
        count = 0 if run is None else self.buffers.admit(run, self.rank, out)
        if run is not None and count:
            if count < run.count:
                size = kernel.sizes_of(run[:count])
            self._note(self.last + count, size, now)
            self.last_update = self.last
        return count

    def _submit_one(self, update: Update, now: float, out: Effects) -> bool:
        seq = self.last + 1
        item, name = self.labels.identify(update)
        annotation = self.annotator.annotate(seq, item, update)
        message = DataMessage(self.rank, seq, *annotation, self._after(), update.payload, name)
        size = kernel.size_of(message)
        self.validator.check_own(message, size)
        if not self.buffers.fits(message):
            self.outbox.flush(now, out)  # What has left may be purged to make room.
        if not self.buffers.admit(kernel.run_of([message]), self.rank, out):
            return False
        self.annotator.remember(seq, annotation)
        self._note(seq, size, now)
        self.last_update = seq
        return True

    def order(self, runs: After, now: float, out: Effects) -> None:
        """Take in an order message: it gives the next places, and comes after what it places."""
        seq = self.last + 1
        message = DataMessage(self.rank, seq, never_purge=True, after=runs)
        self.buffers.exempt(self.rank, seq)  # It is what makes room.
        self.buffers.admit(kernel.run_of([message]), self.rank, out)
        self._note(seq, kernel.size_of(message), now)

    def _note(self, last: Seq, size: int, now: float) -> None:
        self.last = last
        self.receiver.on_own(last)
        self.outbox.add(last, size, now)
