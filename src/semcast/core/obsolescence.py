"""The sender's side of obsolescence: from what the application says to what a message carries.

Idea: the relation lives within one sender's stream, and the protocol never looks at payloads.
An annotator turns each submission into an item tag or the distances it covers; declaring
something impossible is an error at the call.  An annotation need not be complete: what is not
recognised as obsolete is merely not purged [SRM §3.2].
Rule: [SRB §1.3] for tags, [SRM §3.2] for bitmaps, [SRM §3.1] for stubborn channels; [SVS §5.2] for
update/fin; [SRB §2.1] for the chain limit.
"""

from collections import OrderedDict, deque
from typing import Protocol, TypeAlias

from semcast.core.recipe import Recipe
from semcast.terms.errors import LocalProtocolError
from semcast.terms.ids import Seq
from semcast.terms.messages import COVERS_MAX, Submission

Annotation: TypeAlias = tuple[int | None, bytes | tuple[int, ...], bool]  # item, covers, keep

# Items and messages an annotator remembers; past it purging is less complete, never wrong.
ITEMS_REMEMBERED = 1 << 16
LISTS_REMEMBERED = 1 << 10


class Annotator(Protocol):
    """`annotate` has no effect; `remember` follows once the message was accepted."""

    def annotate(self, seq: Seq, submission: Submission) -> Annotation: ...

    def remember(self, seq: Seq, annotation: Annotation) -> None: ...


def annotator(recipe: Recipe, base: Seq = 0) -> Annotator:
    """The annotator of a recipe's relation, in a view where the own stream goes on after `base`."""
    if recipe.relation == "bitmap":
        return BitmapAnnotator(recipe.k, base)
    if recipe.relation == "list":
        return ListAnnotator(base)
    if recipe.relation == "update-fin":
        return UpdateFinAnnotator()
    if recipe.relation == "item" and recipe.chain_limit is not None:
        return ChainAnnotator(recipe.chain_limit)
    return TagAnnotator(recipe.relation)


def distances(seq: Seq, submission: Submission, base: Seq) -> dict[Seq, int]:
    """How far back each lies that the submission supersedes; nothing of earlier views is held."""
    found = {obsolete: distance(seq, obsolete) for obsolete in submission.obsoletes}
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


def refuse_lists(relation: str, submission: Submission) -> None:
    """Lists are meaningless to a relation that is computed from something else."""
    if submission.obsoletes:
        raise LocalProtocolError(
            f"obsoletes: not allowed with relation {relation}; use relation list or bitmap"
        )


class TagAnnotator:
    """Item tags, "everything before", and the empty relation: nothing to compute."""

    def __init__(self, relation: str) -> None:
        self.relation = relation

    def annotate(self, seq: Seq, submission: Submission) -> Annotation:
        refuse_lists(self.relation, submission)
        return submission.item, b"", submission.never_purge

    def remember(self, seq: Seq, annotation: Annotation) -> None:
        pass


class ChainAnnotator:
    """Item tags with a limit: after `limit` superseding messages the next is kept [SRB §2.1].

    Invariant: between two kept messages of an item lie at most `limit` that supersede.  An item
    whose count was forgotten is kept, which can only shorten a chain.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.chain: OrderedDict[int, int] = OrderedDict()
        self.forgetful = False

    def annotate(self, seq: Seq, submission: Submission) -> Annotation:
        refuse_lists("item", submission)
        item = submission.item
        full = item is not None and self.chain.get(item, self.limit * self.forgetful) >= self.limit
        return item, b"", submission.never_purge or full

    def remember(self, seq: Seq, annotation: Annotation) -> None:
        item, _, keep = annotation
        if item is None:
            return
        # -1: the first message of an item supersedes nothing.
        self.chain[item] = 0 if keep else self.chain.get(item, -1) + 1
        self.chain.move_to_end(item)
        if len(self.chain) > ITEMS_REMEMBERED:
            self.chain.popitem(last=False)
            self.forgetful = True


class BitmapAnnotator:
    """k-bitmaps: bit n names the n-th preceding message; closure by shift and or [SRM §3.2]."""

    def __init__(self, k: int, base: Seq = 0) -> None:
        self.k = k
        self.base = base
        self.mask = (1 << k) - 1
        self.recent: deque[int] = deque(maxlen=k)  # newest first

    def annotate(self, seq: Seq, submission: Submission) -> Annotation:
        bits = 0
        for obsolete, n in distances(seq, submission, self.base).items():
            if n > self.k:
                raise LocalProtocolError(
                    f"obsoletes: message {obsolete} is {n} messages back; "
                    f"the bitmap reaches k = {self.k}"
                )
            bits |= 1 << (n - 1) | self.recent[n - 1] << n
        bits &= self.mask
        covers = bits.to_bytes((bits.bit_length() + 7) // 8, "little")
        return submission.item, covers, submission.never_purge

    def remember(self, seq: Seq, annotation: Annotation) -> None:
        covers = annotation[1]
        assert isinstance(covers, bytes)
        self.recent.appendleft(int.from_bytes(covers, "little"))


class ListAnnotator:
    """Explicit lists, no horizon; the closure reaches as far as recent lists are remembered."""

    def __init__(self, base: Seq = 0) -> None:
        self.base = base
        self.recent: OrderedDict[Seq, tuple[Seq, ...]] = OrderedDict()

    def annotate(self, seq: Seq, submission: Submission) -> Annotation:
        covered = distances(seq, submission, self.base)
        for obsolete in tuple(covered):
            for older in self.recent.get(obsolete, ()):
                if seq - older <= LISTS_REMEMBERED:
                    covered[older] = seq - older
        return submission.item, tuple(sorted(covered.values())[:COVERS_MAX]), submission.never_purge

    def remember(self, seq: Seq, annotation: Annotation) -> None:
        if annotation[1]:
            self.recent[seq] = tuple(seq - n for n in annotation[1])
        while self.recent and next(iter(self.recent)) <= seq - LISTS_REMEMBERED:
            self.recent.popitem(last=False)


class UpdateFinAnnotator:
    """Primary-backup: a *fin* makes earlier requests' updates of its own items obsolete.

    An update alone supersedes nothing, or a backup could lose both the old and the new value
    of a request that never finished [SVS §5.2].
    """

    def __init__(self) -> None:
        self.open: dict[int, list[Seq]] = {}
        self.updates = 0  # of the open request
        self.closed: OrderedDict[int, list[Seq]] = OrderedDict()

    def annotate(self, seq: Seq, submission: Submission) -> Annotation:
        refuse_lists("update-fin", submission)
        if submission.item is not None:
            return submission.item, (), submission.never_purge
        older = (s for item in self.open for s in self.closed.get(item, ()))
        covers = sorted(seq - s for s in older)[:COVERS_MAX]
        return None, tuple(covers), submission.never_purge

    def remember(self, seq: Seq, annotation: Annotation) -> None:
        item = annotation[0]
        if item is not None:
            if self.updates < ITEMS_REMEMBERED:
                self.updates += 1
                self.open.setdefault(item, []).append(seq)
            return
        for finished, updates in self.open.items():
            self.closed[finished] = updates
            self.closed.move_to_end(finished)
        self.open.clear()
        self.updates = 0
        while len(self.closed) > ITEMS_REMEMBERED:
            self.closed.popitem(last=False)
