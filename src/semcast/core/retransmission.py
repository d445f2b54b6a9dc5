"""What a member keeps so that others can still get it.

Guarantees: of each message at or below the member's frontier it keeps the data or the notice
that it was purged, until the message is stable.  Data is purged only for a message that is held
here and safe [SRB §2.3, TP5]; under S-SM, whose sender alone repairs, being held is enough.
The notices of messages that were skipped here only speed repair up: of the f + 1 members that
made the witness safe a correct one had the data, and still has it or purged it itself.
Departs: [SRB §2.5] infers a purge from the window and [SRM §5.3] fakes stability; an explicit
notice is the same for every holder and survives the crash of the purger.
"""

from collections.abc import Sequence

from semcast import kernel
from semcast.core.holes import Holes
from semcast.core.purging import PurgingBuffer
from semcast.core.recipe import Recipe
from semcast.terms.ids import SEQ_MAX, Rank, Seq
from semcast.terms.messages import Message, Purged


class Kept:
    """One sender's stream: messages and holes between `stable` and the frontier."""

    __slots__ = ("buffer", "holes", "safe", "stable")

    def __init__(self, recipe: Recipe, base: Seq = 0) -> None:
        self.buffer = PurgingBuffer(recipe)
        self.holes = Holes()
        self.safe: Seq = 0
        self.stable: Seq = base

    def __repr__(self) -> str:
        return f"Kept(stable={self.stable}, safe={self.safe}, {self.buffer}, {self.holes})"


class RetransmissionStore:
    """Lives as long as the member; streams open when their first message is kept."""

    def __init__(self, recipe: Recipe, bases: Sequence[Seq] = ()) -> None:
        self.recipe = recipe
        self.bases = bases
        self.needs_safety = recipe.needs_safety
        self.streams: dict[Rank, Kept] = {}

    def __repr__(self) -> str:
        return f"RetransmissionStore({self.streams})"

    def stream(self, sender: Rank) -> Kept:
        """The stream of `sender`, opened when needed."""
        kept = self.streams.get(sender)
        if kept is None:
            kept = self.streams[sender] = Kept(self.recipe, self.bases[sender] if self.bases else 0)
        return kept

    def holds(self, message: Message) -> bool:
        """Whether this message is kept here."""
        kept = self.streams.get(message.sender)
        return kept is not None and kept.buffer.holds(message.seq)

    def add(self, run: kernel.Run) -> None:
        """Keep the next messages of a stream."""
        kept = self.streams.get(run.sender) or self.stream(run.sender)
        kept.buffer.add_run(run)

    def skip(self, sender: Rank, first: Seq, last: Seq, witness: Seq) -> None:
        """Keep the notice of messages that were purged before they came here."""
        self.stream(sender).holes.add(first, last, witness)

    def purge(self, sender: Rank) -> list[tuple[Message, Seq]]:
        """Drop what is obsolete for certain: pairs (purged, by)."""
        kept = self.stream(sender)
        purged = kept.buffer.purge(kept.safe if self.needs_safety else SEQ_MAX)
        if purged:
            kept.holes.note((message.seq, by) for message, by in purged)
        return purged

    def reclaim(self, sender: Rank, stable: Seq) -> list[Sequence[Message]]:
        """Drop what every member has received, and tell it by runs."""
        kept = self.stream(sender)
        reclaimed = kept.buffer.remove_range(kept.stable + 1, stable)
        kept.stable = max(kept.stable, stable)
        kept.holes.forget(stable)
        return reclaimed

    def find(
        self, sender: Rank, ranges: tuple[tuple[Seq, Seq], ...], frontier: Seq, limit: int
    ) -> tuple[list[Message], list[Purged]]:
        """Answer a Nack: at most `limit` messages, and every notice met on the way."""
        messages: list[Message] = []
        notices: list[Purged] = []
        kept = self.streams.get(sender)
        if kept is None:
            return messages, notices
        for first, last in ranges:
            seq, last = max(first, kept.stable + 1), min(last, frontier)
            while seq <= last:
                run = kept.buffer.run(seq, last, limit - len(messages))
                if run:
                    messages += run
                    seq += len(run)
                    continue
                hole = kept.holes.at(seq)
                if hole is None:
                    if kept.buffer.holds(seq):
                        return messages, notices
                    break  # Neither data nor notice: not ours to tell.
                notices.append(Purged(sender, seq, hole.last, hole.witness))
                seq = hole.last + 1
        return messages, notices
