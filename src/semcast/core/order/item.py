"""Order per sender and item: a newer value takes the place of the one that it supersedes.

Order per sender and item holds, FIFO order across items does not.  Nothing moves across a message
of the same sender that may not be purged, which may be what gives later values their meaning.
Rejected: a heap by item age; the slot of an insertion-ordered table is already the place.
"""

from collections import defaultdict
from collections.abc import Sequence

from semcast.core.order.fifo import FifoQueue
from semcast.core.order.protocols import PurgedBy
from semcast.core.recipe import Recipe
from semcast.kernel import Run, run_of
from semcast.terms.ids import Rank, Seq
from semcast.terms.messages import DataMessage


class ItemQueue(FifoQueue):
    """Lives as long as the view."""

    def __init__(self, recipe: Recipe, bases: Sequence[Seq] = ()) -> None:
        super().__init__(recipe, bases)
        # By sender, the slot of the last message not to be crossed.
        self.barrier: defaultdict[Rank, int] = defaultdict(int)

    def _place(self, message: DataMessage, purged: list[PurgedBy]) -> int:
        """The slot of the value this one supersedes, unless that means crossing a barrier."""
        sender = message.sender
        if message.never_purge or message.item is None:
            slot = self.barrier[sender] = super()._place(message, purged)
            return slot
        if purged:
            slot = self.slot_of[sender][purged[-1][0].seq]
            if slot > self.barrier[sender]:
                return slot
        return super()._place(message, purged)

    def pop(self, limit: int) -> Run:
        """Hand out the message that waited longest, or took the place of one that did."""
        return run_of([self._pop()])  # Later ones may have gone before it, so it settles nothing.
