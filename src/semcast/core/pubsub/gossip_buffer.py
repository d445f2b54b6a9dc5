"""Recent messages, kept for members that miss them.

A message is kept for the collection limit, `rounds` gossip periods [RPB §4.1]; when the buffer is
full, the oldest goes first [RPB §7.2].  Where a topic retains only the latest, what is obsolete
goes at once.  Whatever is gone is a logger's matter: who asks is told that it was collected.
"""

from collections import deque

from semcast.core.pubsub.recipe import PubsubRecipe
from semcast.core.relation import make_index
from semcast.core.relation.protocols import SemanticIndex
from semcast.core.span_set import SpanSet, spans_of
from semcast.kernel import size_of
from semcast.terms.ids import Rank, Seq
from semcast.terms.messages import DataMessage
from semcast.terms.pubsub import SPANS_MAX, StreamSpans
from semcast.terms.relations import NOTHING, facts_of


class BufferedStream:
    """Of one stream.  Only what came in the order of the stream is indexed, and so purged."""

    __slots__ = ("index", "indexed", "messages")

    def __init__(self, recipe: PubsubRecipe) -> None:
        self.messages: dict[Seq, DataMessage] = {}
        self.index: SemanticIndex = make_index(recipe.annotation)
        self.indexed: dict[Seq, None] = {}


class GossipBuffer:
    """Lives as long as the participant.  Invariant: `count` messages of `size` bytes are held."""

    def __init__(self, recipe: PubsubRecipe) -> None:
        self.recipe = recipe
        self.limit_s = recipe.rounds * recipe.period_s
        self.purges = recipe.retain != "all" and facts_of(recipe.relation).replaces != NOTHING
        self.streams: dict[Rank, BufferedStream] = {}
        self.ages: deque[tuple[float, DataMessage]] = deque()  # when to let go, oldest first
        self.count = 0
        self.size = 0

    def __repr__(self) -> str:
        held = {sender: list(stream.messages) for sender, stream in self.streams.items()}
        return f"GossipBuffer({held})"

    def add(self, message: DataMessage, now: float) -> None:
        """Keep a message that came; it may have come before, and been forgotten elsewhere."""
        stream = self.streams.get(message.sender)
        if stream is None:
            stream = self.streams[message.sender] = BufferedStream(self.recipe)
        elif message.seq in stream.messages:
            return
        stream.messages[message.seq] = message
        self.ages.append((now + self.limit_s, message))
        self.count += 1
        self.size += size_of(message)
        if self.purges:
            self._purge(stream, message)
        self.on_time(now)

    def _purge(self, stream: BufferedStream, message: DataMessage) -> None:
        newest = next(reversed(stream.indexed), 0)
        if message.seq < newest:
            return  # An index takes a stream in order; this one will go by age.
        for seq in stream.index.obsoleted_by(message):
            self._drop(stream, seq)
        if not message.never_purge:
            stream.index.add(message)
            stream.indexed[message.seq] = None

    def on_time(self, now: float) -> None:
        """Let go of what is too old, or too much."""
        ages, recipe = self.ages, self.recipe
        while ages and (
            ages[0][0] <= now
            or self.count > recipe.gossip_buffer
            or self.size > recipe.gossip_buffer_bytes
        ):
            _, message = ages.popleft()
            stream = self.streams[message.sender]
            if message.seq in stream.messages:
                self._drop(stream, message.seq)

    def _drop(self, stream: BufferedStream, seq: Seq) -> None:
        message = stream.messages.pop(seq)
        self.count -= 1
        self.size -= size_of(message)
        if seq in stream.indexed:
            del stream.indexed[seq]
            stream.index.remove(message)

    def find(self, part: StreamSpans, limit: int) -> tuple[list[DataMessage], SpanSet]:
        """At most `limit` of the messages named, and the numbers that are not held."""
        found: list[DataMessage] = []
        absent = SpanSet()
        stream = self.streams.get(part.sender)
        held = stream.messages if stream is not None else {}
        for first, last in part.spans:
            if last - first >= limit:
                absent.add(first + limit, last)
                last = first + limit - 1
            for seq in range(first, last + 1):
                message = held.get(seq)
                if message is None:
                    absent.add(seq, seq)
                elif len(found) < limit:
                    found.append(message)
        return found, absent

    def digest(self, parts_max: int) -> tuple[StreamSpans, ...]:
        """What is held, as intervals, for the streams most recently begun [RPB §7.4]."""
        parts = [
            StreamSpans(sender, spans_of(sorted(stream.messages))[-SPANS_MAX:])
            for sender, stream in self.streams.items()
            if stream.messages
        ]
        return tuple(parts[-parts_max:])
