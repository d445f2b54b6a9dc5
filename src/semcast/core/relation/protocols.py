"""What a relation is made of: an annotator at the sender, an index in every buffer.

The relation lives within one sender's stream, and the protocol never looks at payloads.  An
annotator turns what the application says into an item tag or the distances that a message covers;
declaring something impossible is an error at the call.  An annotation need not be complete: what
is not recognised as obsolete is merely not purged [SRM §3.2].
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Protocol, TypeAlias

from semcast.terms.errors import LocalProtocolError
from semcast.terms.ids import Seq
from semcast.terms.messages import DataMessage, Update

Annotation: TypeAlias = tuple[int | None, bytes | tuple[int, ...], bool]  # item, covers, keep

ITEMS_REMEMBERED = 1 << 16  # by an annotator; past it purging is less complete, never wrong


class RelationSettings(Protocol):
    """What a relation reads of a recipe."""

    @property
    def relation(self) -> str: ...

    @property
    def k(self) -> int: ...

    @property
    def chain_limit(self) -> int | None: ...

    @property
    def buffer(self) -> int: ...


class Annotator(Protocol):
    """`annotate` has no effect; `remember` follows once the message was accepted.

    If it `is_plain`, a message says nothing but what the application said: runs are made whole.
    """

    is_plain: bool = False

    @abstractmethod
    def annotate(self, seq: Seq, item: int | None, update: Update) -> Annotation: ...

    def remember(self, seq: Seq, annotation: Annotation) -> None:
        """A message was accepted."""
        return


class SemanticIndex(Protocol):
    """What one buffer holds of one sender and may purge.

    The answer costs work by what is obsolete, not by what is held.  Messages that may not be purged
    are never indexed.  If items say all, `by_item` has what is held of each, oldest first: the
    kernel goes through that by whole runs.
    """

    by_item: dict[int, list[Seq]] | None = None

    @abstractmethod
    def add(self, message: DataMessage) -> None: ...

    @abstractmethod
    def remove(self, message: DataMessage) -> None: ...

    @abstractmethod
    def obsoleted_by(self, message: DataMessage) -> Sequence[Seq]: ...


def distances(seq: Seq, update: Update, base: Seq) -> dict[Seq, int]:
    """How far back each lies that the update supersedes; nothing of earlier views is held."""
    if not update.obsoletes:
        return {}
    found = {obsolete: distance(seq, obsolete) for obsolete in update.obsoletes}
    return {obsolete: n for obsolete, n in found.items() if obsolete > base}


def distance(seq: Seq, obsolete: Seq) -> int:
    """How far back `obsolete` lies, or an error if it does not lie in the past."""
    if obsolete >= seq:
        raise LocalProtocolError(
            f"obsoletes: message {seq} can only supersede earlier messages, not {obsolete}"
        )
    if obsolete < 1:
        raise LocalProtocolError(f"obsoletes: {obsolete} is not a sequence number; they start at 1")
    return seq - obsolete


def reject_lists(relation: str, update: Update) -> None:
    """Lists are meaningless to a relation that is computed from something else."""
    if update.obsoletes:
        raise LocalProtocolError(
            f"obsoletes: not allowed with relation {relation}; use relation list or bitmap"
        )
