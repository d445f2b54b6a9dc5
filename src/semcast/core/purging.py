"""A buffer that forgets what is obsolete.

Guarantees: a message leaves by `purge` only while one that makes it obsolete is in the same
buffer [SRB §2.3, TP4 and TP5].  Work per arrival is proportional to what it purges.
Idea: arrivals wait in `unapplied` until somebody lets them purge.  Eager or lazy, safe or not
is therefore the caller's choice of when and how far, not another buffer [SRM §6.3].  Until
then they are not indexed either: while nothing is congested, an arrival costs its place in a table.
"""

from collections import deque
from collections.abc import Sequence

from semcast import kernel
from semcast.core.index import index
from semcast.core.recipe import Recipe
from semcast.terms.messages import Message, Seq


class PurgingBuffer:
    """One sender's messages in one buffer, in order of arrival, which is that of the stream."""

    __slots__ = ("held", "index", "indexed", "only_tagged", "purges", "unapplied")

    def __init__(self, recipe: Recipe) -> None:
        self.held: dict[Seq, Message] = {}
        self.index = index(recipe)
        self.indexed: Seq = 0  # up to where messages are in the index
        self.purges = recipe.relation != "none"
        self.only_tagged = (
            recipe.relation == "item"
        )  # What has no item neither purges nor is purged.
        self.unapplied: deque[Message] = deque()

    def __repr__(self) -> str:
        return f"PurgingBuffer(held={list(self.held)}, unapplied={len(self.unapplied)})"

    def add(self, message: Message) -> None:
        """Hold the next message of the stream; it purges nothing yet."""
        self.held[message.seq] = message
        if self.purges:
            self.unapplied.append(message)

    def add_run(self, messages: Sequence[Message]) -> None:
        """Hold the next messages of the stream."""
        first = messages[0].seq
        self.held.update(zip(range(first, first + len(messages)), messages, strict=True))
        if self.purges:
            self.unapplied.extend(kernel.tagged(messages) if self.only_tagged else messages)

    def _index(self) -> None:
        """Let the index know what has come since it was last asked."""
        late = []
        for message in reversed(self.unapplied):
            if message.seq <= self.indexed:
                break
            if not message.keep and message.seq in self.held:
                late.append(message)
        for message in reversed(late):
            self.index.add(message)
        if self.unapplied:
            self.indexed = max(self.indexed, self.unapplied[-1].seq)

    def would_purge(self, message: Message) -> list[Message]:
        """What is held and `message` makes obsolete."""
        self._index()
        return [self.held[seq] for seq in self.index.obsoleted_by(message)]

    def remove(self, seq: Seq) -> Message:
        """Let one message go, for whatever reason."""
        message = self.held.pop(seq)
        if seq <= self.indexed and not message.keep:
            self.index.remove(message)
        return message

    def remove_range(self, first: Seq, last: Seq) -> list[Message]:
        """Let everything up to `last` go; nothing before `first` is held."""
        gone = kernel.take_range(self.held, first, last)
        if first <= self.indexed:
            for message in gone:
                if message.seq <= self.indexed and not message.keep:
                    self.index.remove(message)
        self.settle(last)
        return gone

    def settle(self, horizon: Seq) -> None:
        """Messages up to `horizon` have left for good and will purge nothing."""
        kernel.settle(self.unapplied, horizon)

    def purge(self, horizon: Seq) -> list[tuple[Message, Seq]]:
        """Purge what held messages up to `horizon` make obsolete: pairs (purged, by)."""
        purged: list[tuple[Message, Seq]] = []
        unapplied = self.unapplied
        if unapplied and unapplied[0].seq <= horizon:
            self._index()
        while unapplied and unapplied[0].seq <= horizon:
            by = unapplied.popleft()
            if by.seq in self.held:
                for seq in self.index.obsoleted_by(by):
                    purged.append((self.remove(seq), by.seq))  # noqa: PERF401
        return purged
