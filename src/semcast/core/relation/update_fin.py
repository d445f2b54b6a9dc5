"""Relation `update-fin`: a *fin* completes a request, and supersedes older updates [SVS §5.2]."""

from collections import OrderedDict

from semcast.core.relation import protocols
from semcast.core.relation.protocols import Annotation, Annotator, RelationSettings, reject_lists
from semcast.terms.ids import Seq
from semcast.terms.messages import COVERS_MAX, Update


class UpdateFinAnnotator(Annotator):
    """Primary-backup: a *fin* makes earlier requests' updates of its own items obsolete.

    An update alone supersedes nothing, or a backup could lose both the old and the new value
    of a request that never finished [SVS §5.2].
    """

    def __init__(self, settings: RelationSettings, base: Seq = 0) -> None:
        self.open: dict[int, list[Seq]] = {}
        self.updates = 0  # of the open request
        self.closed: OrderedDict[int, list[Seq]] = OrderedDict()

    def annotate(self, seq: Seq, item: int | None, update: Update) -> Annotation:
        reject_lists("update-fin", update)
        if item is not None:
            return item, (), update.never_purge
        older = (s for item in self.open for s in self.closed.get(item, ()))
        covers = sorted(seq - s for s in older)[:COVERS_MAX]
        return None, tuple(covers), update.never_purge

    def remember(self, seq: Seq, annotation: Annotation) -> None:
        item = annotation[0]
        if item is not None:
            if self.updates < protocols.ITEMS_REMEMBERED:
                self.updates += 1
                self.open.setdefault(item, []).append(seq)
            return
        for finished, updates in self.open.items():
            self.closed[finished] = updates
            self.closed.move_to_end(finished)
        self.open.clear()
        self.updates = 0
        while len(self.closed) > protocols.ITEMS_REMEMBERED:
            self.closed.popitem(last=False)
