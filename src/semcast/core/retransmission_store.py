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
from semcast.core.purged_spans import PurgedSpans
from semcast.core.purging_buffer import PurgingBuffer
from semcast.core.recipe import Recipe
from semcast.terms.ids import SEQ_MAX, Rank, Seq
from semcast.terms.messages import DataMessage, PurgeNotice


class StoredStream:
    """One sender's stream: messages and holes between `stable` and the frontier."""

    __slots__ = ("buffer", "holes", "safe", "stable")

    def __init__(self, recipe: Recipe, base: Seq = 0) -> None:
        self.buffer = PurgingBuffer(recipe)
        self.holes = PurgedSpans()
        self.safe: Seq = 0
        self.stable: Seq = base

    def __repr__(self) -> str:
        return f"StoredStream(stable={self.stable}, safe={self.safe}, {self.buffer}, {self.holes})"


class RetransmissionStore:
    """Lives as long as the member; streams open when their first message is kept."""

    def __init__(self, recipe: Recipe, bases: Sequence[Seq] = ()) -> None:
        self.recipe = recipe
        self.bases = bases
        self.needs_safety = recipe.needs_safety
        self.streams: dict[Rank, StoredStream] = {}

    def __repr__(self) -> str:
        return f"RetransmissionStore({self.streams})"

    def stream(self, sender: Rank) -> StoredStream:
        """The stream of `sender`, opened when needed."""
        stored = self.streams.get(sender)
        if stored is None:
            stored = self.streams[sender] = StoredStream(
                self.recipe, self.bases[sender] if self.bases else 0
            )
        return stored

    def holds(self, message: DataMessage) -> bool:
        """Whether this message is kept here."""
        stored = self.streams.get(message.sender)
        return stored is not None and stored.buffer.holds(message.seq)

    def holds_run(self, run: kernel.Run) -> bool:
        """Whether all of these are kept here, as far as that is easily told."""
        stored = self.streams.get(run.sender)
        return stored is not None and stored.buffer.holds_run(run)

    def add(self, run: kernel.Run) -> None:
        """Keep the next messages of a stream."""
        stored = self.streams.get(run.sender) or self.stream(run.sender)
        stored.buffer.add_run(run)

    def add_notice(self, sender: Rank, first: Seq, last: Seq, witness: Seq) -> None:
        """Keep the notice of messages that were purged before they came here."""
        self.stream(sender).holes.add(first, last, witness)

    def purge(self, sender: Rank) -> list[tuple[DataMessage, Seq]]:
        """Drop what is obsolete for certain: pairs (purged, by)."""
        stored = self.streams.get(sender) or self.stream(sender)
        purged = stored.buffer.purge(stored.safe if self.needs_safety else SEQ_MAX)
        if purged:
            stored.holes.add_singles((message.seq, by) for message, by in purged)
        return purged

    def reclaim(self, sender: Rank, stable: Seq) -> list[Sequence[DataMessage]]:
        """Drop what every member has received, and tell it by runs."""
        stored = self.stream(sender)
        reclaimed = stored.buffer.remove_range(stored.stable + 1, stable)
        stored.stable = max(stored.stable, stable)
        stored.holes.forget(stable)
        return reclaimed

    def find(
        self, sender: Rank, ranges: tuple[tuple[Seq, Seq], ...], frontier: Seq, limit: int
    ) -> tuple[list[DataMessage], list[PurgeNotice]]:
        """Answer a Nack: at most `limit` messages, and every notice met on the way."""
        messages: list[DataMessage] = []
        notices: list[PurgeNotice] = []
        stored = self.streams.get(sender)
        if stored is None:
            return messages, notices
        for first, last in ranges:
            seq, last = max(first, stored.stable + 1), min(last, frontier)
            while seq <= last:
                run = stored.buffer.run_from(seq, last, limit - len(messages))
                if run:
                    messages += run
                    seq += len(run)
                    continue
                hole = stored.holes.find(seq)
                if hole is None:
                    if stored.buffer.holds(seq):
                        return messages, notices
                    break  # Neither data nor notice: not ours to tell.
                notices.append(PurgeNotice(sender, seq, hole.last, hole.witness))
                seq = hole.last + 1
        return messages, notices
