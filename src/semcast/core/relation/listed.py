"""Relation `list`: a message lists the distances of those that it supersedes."""

from collections import OrderedDict
from collections.abc import Sequence

from semcast.core.relation.protocols import (
    Annotation,
    Annotator,
    RelationSettings,
    SemanticIndex,
    distances,
)
from semcast.terms.ids import Seq
from semcast.terms.messages import COVERS_MAX, DataMessage, Update

LISTS_REMEMBERED = 1 << 10  # messages; past it purging is less complete, never wrong


class ListAnnotator(Annotator):
    """Explicit lists, no horizon; the closure reaches as far as recent lists are remembered."""

    def __init__(self, settings: RelationSettings, base: Seq = 0) -> None:
        self.base = base
        self.recent: OrderedDict[Seq, tuple[Seq, ...]] = OrderedDict()

    def annotate(self, seq: Seq, item: int | None, update: Update) -> Annotation:
        listed = distances(seq, update, self.base)
        older = set().union(*(self.recent.get(obsolete, ()) for obsolete in listed))
        reach = seq - LISTS_REMEMBERED
        covers = {*listed.values(), *[seq - each for each in older if each >= reach]}
        return item, tuple(sorted(covers)[:COVERS_MAX]), update.never_purge

    def remember(self, seq: Seq, annotation: Annotation) -> None:
        if annotation[1]:
            self.recent[seq] = tuple([seq - n for n in annotation[1]])
        while self.recent and next(iter(self.recent)) <= seq - LISTS_REMEMBERED:
            self.recent.popitem(last=False)


class ListIndex(SemanticIndex):
    """Explicit distances, looked up one by one."""

    def __init__(self, settings: RelationSettings) -> None:
        self.held: set[Seq] = set()

    def add(self, message: DataMessage) -> None:
        self.held.add(message.seq)

    def remove(self, message: DataMessage) -> None:
        self.held.remove(message.seq)

    def obsoleted_by(self, message: DataMessage) -> Sequence[Seq]:
        held, seq = self.held, message.seq
        return [seq - n for n in message.covers if seq - n in held]
