"""Broken annotators: each annotates what was not declared, and is named after its mistake."""

from collections.abc import Callable
from typing import Any

from semcast.core.relation.bitmap import BitmapAnnotator
from semcast.core.relation.item import ChainLimitAnnotator
from semcast.core.relation.listed import ListAnnotator
from semcast.core.relation.protocols import Annotation
from semcast.core.relation.update_fin import UpdateFinAnnotator
from semcast.families.testing import MutantTable
from semcast.terms.ids import Seq
from semcast.terms.messages import COVERS_MAX, Update

ANNOTATOR_MUTANTS = MutantTable()


@ANNOTATOR_MUTANTS.add(
    "every-update-supersedes", UpdateFinAnnotator, "annotate", scenario="slow-backup", swarm="s-rm"
)
def every_update_supersedes(original: Any) -> Callable[..., Any]:
    """The naive relation of SVS §5.2: an update makes earlier ones of its item obsolete, though
    its own request may never end."""

    def annotate(
        self: UpdateFinAnnotator, seq: Seq, item: int | None, update: Update
    ) -> Annotation:
        item, covers, keep = original(self, seq, item, update)
        if item is not None:
            older = [*self.closed.get(item, ()), *self.open.get(item, ())]
            covers = tuple(sorted(seq - s for s in older)[:COVERS_MAX])
        return item, covers, keep

    return annotate


@ANNOTATOR_MUTANTS.add(
    "fin-covers-its-own-request",
    UpdateFinAnnotator,
    "annotate",
    scenario="slow-backup",
    swarm="s-rm",
)
def fin_covers_its_own_request(original: Any) -> Callable[..., Any]:
    """The updates of the request that ends are called obsolete with those of earlier ones."""

    def annotate(
        self: UpdateFinAnnotator, seq: Seq, item: int | None, update: Update
    ) -> Annotation:
        item, covers, keep = original(self, seq, item, update)
        if item is None:
            own = {seq - s for updates in self.open.values() for s in updates}
            covers = tuple(sorted(own | set(covers))[:COVERS_MAX])
        return item, covers, keep

    return annotate


@ANNOTATOR_MUTANTS.add(
    "bitmap-shifted-by-one", BitmapAnnotator, "annotate", scenario="slow-bitmap", swarm="s-rm"
)
def bitmap_shifted_by_one(original: Any) -> Callable[..., Any]:
    """The closure is or-ed one place off [SRM §3.2]."""

    def annotate(self: BitmapAnnotator, seq: Seq, item: int | None, update: Update) -> Annotation:
        item, _, keep = original(self, seq, item, update)
        bits = 0
        for obsolete in update.obsoletes:
            n = seq - obsolete
            bits |= 1 << (n - 1) | self.recent[n - 1] << (n - 1)
        bits &= self.mask
        return item, bits.to_bytes((bits.bit_length() + 7) // 8, "little"), keep

    return annotate


@ANNOTATOR_MUTANTS.add(
    "list-closure-from-here", ListAnnotator, "annotate", scenario="slow-list", swarm="s-rm"
)
def list_closure_from_here(original: Any) -> Callable[..., Any]:
    """Distances that an older message lists are taken over as if they were from the new one."""

    def annotate(self: ListAnnotator, seq: Seq, item: int | None, update: Update) -> Annotation:
        item, _, keep = original(self, seq, item, update)
        covered = {seq - obsolete for obsolete in update.obsoletes}
        for obsolete in update.obsoletes:
            covered |= {obsolete - older for older in self.recent.get(obsolete, ())}
        return item, tuple(sorted(covered)[:COVERS_MAX]), keep

    return annotate


@ANNOTATOR_MUTANTS.add(
    "tag-that-items-share", ChainLimitAnnotator, "annotate", scenario="slow-chain", swarm="s-rm"
)
def tag_that_items_share(original: Any) -> Callable[..., Any]:
    """Two items get one tag."""

    def annotate(
        self: ChainLimitAnnotator, seq: Seq, item: int | None, update: Update
    ) -> Annotation:
        item, covers, keep = original(self, seq, item, update)
        return (None if item is None else item // 2), covers, keep

    return annotate
