"""Relations: which message makes which obsolete.  One value for each in `RELATIONS`.

A relation is an annotator and an index.  `terms/relations.py` has its other facts.
"""

from collections.abc import Callable
from dataclasses import dataclass

from semcast.core.relation.bitmap import BitmapAnnotator, BitmapIndex
from semcast.core.relation.every import AllIndex, NoIndex
from semcast.core.relation.item import ItemIndex, TagAnnotator, item_annotator
from semcast.core.relation.listed import ListAnnotator, ListIndex
from semcast.core.relation.protocols import Annotator, RelationSettings, SemanticIndex
from semcast.core.relation.update_fin import UpdateFinAnnotator
from semcast.terms.ids import Seq
from semcast.terms.messages import COVERS_MAX


def _bitmap_bytes(settings: RelationSettings) -> int:
    return (settings.k + 7) // 8


def _longest_list(settings: RelationSettings) -> int:
    return COVERS_MAX


@dataclass(frozen=True, slots=True)
class RelationKind:
    """`annotator` makes one from a recipe and the number that the own stream starts after.

    `covers_max` is the greatest length of `DataMessage.covers`.
    """

    annotator: Callable[[RelationSettings, Seq], Annotator]
    index: Callable[[RelationSettings], SemanticIndex]
    covers_max: Callable[[RelationSettings], int] = _longest_list


RELATIONS: dict[str, RelationKind] = {
    "item": RelationKind(item_annotator, ItemIndex),
    "bitmap": RelationKind(BitmapAnnotator, BitmapIndex, _bitmap_bytes),
    "list": RelationKind(ListAnnotator, ListIndex),
    "all": RelationKind(TagAnnotator, AllIndex),
    "update-fin": RelationKind(UpdateFinAnnotator, ListIndex),
    "none": RelationKind(TagAnnotator, NoIndex),
}


def make_annotator(settings: RelationSettings, base: Seq = 0) -> Annotator:
    """The annotator of a recipe's relation, for a stream that goes on after `base`."""
    return RELATIONS[settings.relation].annotator(settings, base)


def make_index(settings: RelationSettings) -> SemanticIndex:
    """An empty index for the recipe's relation."""
    return RELATIONS[settings.relation].index(settings)
