"""A buffer that forgets what is obsolete.

Guarantees: a message leaves by `purge` only while one that makes it obsolete is in the same
buffer [SRB §2.3, TP4 and TP5].  Work per arrival is proportional to what it purges.
Idea: arrivals wait in `unapplied` until somebody lets them purge.  Eager or lazy, safe or not
is therefore the caller's choice of when and how far, not another buffer [SRM §6.3].
"""

from collections import deque

from semcast.core.index import index
from semcast.core.recipe import Recipe
from semcast.terms.messages import Message, Seq


class PurgingBuffer:
    """One sender's messages in one buffer, in order of arrival, which is that of the stream."""

    __slots__ = ("held", "index", "purges", "unapplied")

    def __init__(self, recipe: Recipe) -> None:
        self.held: dict[Seq, Message] = {}
        self.index = index(recipe)
        self.purges = recipe.relation != "none"
        self.unapplied: deque[Message] = deque()

    def __repr__(self) -> str:
        return f"PurgingBuffer(held={list(self.held)}, unapplied={len(self.unapplied)})"

    def add(self, message: Message) -> None:
        """Hold the next message of the stream; it purges nothing yet."""
        self.held[message.seq] = message
        if self.purges:
            if not message.keep:
                self.index.add(message)
            self.unapplied.append(message)

    def remove(self, seq: Seq) -> Message:
        """Let one message go, for whatever reason."""
        message = self.held.pop(seq)
        if self.purges and not message.keep:
            self.index.remove(message)
        return message

    def settle(self, horizon: Seq) -> None:
        """Messages up to `horizon` have left for good and will purge nothing."""
        unapplied = self.unapplied
        while unapplied and unapplied[0].seq <= horizon:
            unapplied.popleft()

    def purge(self, horizon: Seq) -> list[tuple[Message, Seq]]:
        """Purge what held messages up to `horizon` make obsolete: pairs (purged, by)."""
        purged: list[tuple[Message, Seq]] = []
        unapplied = self.unapplied
        while unapplied and unapplied[0].seq <= horizon:
            by = unapplied.popleft()
            if by.seq in self.held:
                for seq in self.index.obsoleted_by(by):
                    purged.append((self.remove(seq), by.seq))  # noqa: PERF401
        return purged
