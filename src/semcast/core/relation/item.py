"""Relation `item`: a message supersedes all earlier ones of its item [SRB §1.3]."""

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Sequence

from semcast.core.relation import protocols
from semcast.core.relation.protocols import (
    Annotation,
    Annotator,
    RelationSettings,
    SemanticIndex,
    reject_lists,
)
from semcast.terms.ids import Seq
from semcast.terms.messages import DataMessage, Update


class TagAnnotator(Annotator):
    """Item tags, "everything before", and the empty relation: nothing to compute."""

    is_plain = True

    def __init__(self, settings: RelationSettings, base: Seq = 0) -> None:
        self.relation = settings.relation

    def annotate(self, seq: Seq, item: int | None, update: Update) -> Annotation:
        reject_lists(self.relation, update)
        return item, b"", update.never_purge


class ChainLimitAnnotator(Annotator):
    """Item tags with a limit: after `limit` superseding messages the next is kept [SRB §2.1].

    Invariant: between two kept messages of an item lie at most `limit` that supersede.  An item
    whose count was forgotten is kept, which can only shorten a chain.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.chain: OrderedDict[int, int] = OrderedDict()
        self.forgetful = False

    def annotate(self, seq: Seq, item: int | None, update: Update) -> Annotation:
        reject_lists("item", update)
        full = item is not None and self.chain.get(item, self.limit * self.forgetful) >= self.limit
        return item, b"", update.never_purge or full

    def remember(self, seq: Seq, annotation: Annotation) -> None:
        item, _, keep = annotation
        if item is None:
            return
        # -1: the first message of an item supersedes nothing.
        self.chain[item] = 0 if keep else self.chain.get(item, -1) + 1
        self.chain.move_to_end(item)
        if len(self.chain) > protocols.ITEMS_REMEMBERED:
            self.chain.popitem(last=False)
            self.forgetful = True


def item_annotator(settings: RelationSettings, base: Seq = 0) -> Annotator:
    """With or without a limit on chains."""
    if settings.chain_limit is not None:
        return ChainLimitAnnotator(settings.chain_limit)
    return TagAnnotator(settings, base)


class ItemIndex(SemanticIndex):
    """Per item, what is held, oldest first.  No horizon."""

    def __init__(self, settings: RelationSettings) -> None:
        self.held: dict[int, list[Seq]] = {}
        self.by_item = self.held

    def add(self, message: DataMessage) -> None:
        if message.item is not None:
            self.held.setdefault(message.item, []).append(message.seq)

    def remove(self, message: DataMessage) -> None:
        if message.item is not None:
            held = self.held[message.item]
            held.remove(message.seq)
            if not held:
                del self.held[message.item]

    def obsoleted_by(self, message: DataMessage) -> Sequence[Seq]:
        held = self.held.get(message.item) if message.item is not None else None
        return held[: bisect_left(held, message.seq)] if held else ()
