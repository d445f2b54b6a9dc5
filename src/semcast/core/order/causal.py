"""Causal order: a message comes after everything that its sender had delivered [SRM §4.4].

`Receiver` holds a message back until its predecessors have passed.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from semcast.core.order.protocols import After, Ordering
from semcast.core.recipe import Recipe
from semcast.terms.ids import Rank, Seq
from semcast.terms.views import GroupView

if TYPE_CHECKING:
    from semcast.core.member_buffers import MemberBuffers


class Causal(Ordering):
    """Lives as long as the view."""

    def __init__(
        self,
        recipe: Recipe,
        view: GroupView,
        rank: Rank,
        buffers: "MemberBuffers",
        frontier: Sequence[Seq],
    ) -> None:
        self.rank = rank
        self.bases = view.seq_bases
        self.delivered = buffers.delivered  # shared with the buffers, which alone write it

    def after(self) -> After:
        """What was delivered here of the others in this view."""
        pairs = enumerate(zip(self.delivered, self.bases, strict=True))
        return tuple((r, seq) for r, (seq, base) in pairs if seq > base and r != self.rank)
