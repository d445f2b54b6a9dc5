"""What a member that is no logger has for others: recent messages, and its own that it holds.

Who asks for something that was here and is not any more is told that it was collected, if it was
owed here at all [RPB §4.3].  A logger that asks a publisher for its own messages is told what the
publisher no longer holds.
"""

from semcast.core.pubsub.gossip_buffer import GossipBuffer
from semcast.core.pubsub.publisher import Publisher
from semcast.core.pubsub.recipe import PubsubRecipe
from semcast.core.pubsub.repair_sending import (
    ANSWERS_MAX,
    RequestCounter,
    multicast_repair,
    send_repair,
)
from semcast.core.pubsub.seq_tracker import SeqTracker
from semcast.core.span_set import SpanSet
from semcast.terms.effects import Effects
from semcast.terms.ids import Rank
from semcast.terms.messages import DataMessage
from semcast.terms.pubsub import SPANS_MAX, Collected, NotHeld, StreamSpans


class RepairServer:
    """Lives as long as the participant."""

    def __init__(
        self, recipe: PubsubRecipe, tracker: SeqTracker, buffer: GossipBuffer, publisher: Publisher
    ) -> None:
        self.recipe = recipe
        self.tracker = tracker
        self.buffer = buffer
        self.publisher = publisher
        self.loggers = frozenset(recipe.logger_pids)
        self.demand = RequestCounter(recipe.multicast_at)
        self.tells_collected = recipe.protocol == "rpbcast"

    def __repr__(self) -> str:
        return f"RepairServer({self.buffer})"

    def on_request(
        self, peer: Rank, lacks: tuple[StreamSpans, ...], now: float, out: Effects
    ) -> None:
        """Give what is here of what is asked for."""
        self.buffer.on_time(now)
        found: list[DataMessage] = []
        collected: list[StreamSpans] = []
        for part in lacks:
            budget = ANSWERS_MAX - len(found)
            if budget <= 0:
                break
            messages, absent = self.buffer.find(part, budget)
            if part.sender == self.publisher.pid:
                messages += self._own(peer, part.sender, absent, out)
            elif self.tells_collected:
                spans = self._collected(part.sender, absent)
                if spans:
                    collected.append(StreamSpans(part.sender, tuple(spans)[:SPANS_MAX]))
            found += messages
        alone, everyone = self.demand.split_answers(peer, found)
        pid = self.publisher.pid
        send_repair(pid, (peer,), alone, (), self.recipe, 0, out)
        multicast_repair(pid, everyone, self.recipe, 0, out)
        if collected:
            out.send.append(((peer,), Collected(tuple(collected))))

    def _own(self, peer: Rank, sender: Rank, absent: SpanSet, out: Effects) -> list[DataMessage]:
        """Own messages that loggers do not all have; to a logger, also what is not held."""
        held = self.publisher.find(StreamSpans(sender, tuple(absent)), ANSWERS_MAX)
        for message in held:
            absent.remove(message.seq, message.seq)
        released = [
            span for first, last in absent for span in self.publisher.no_longer_held(first, last)
        ]
        if released and peer in self.loggers:
            out.send.append(((peer,), NotHeld(StreamSpans(sender, tuple(released)[:SPANS_MAX]))))
        elif released and self.tells_collected:
            out.send.append(
                ((peer,), Collected((StreamSpans(sender, tuple(released)[:SPANS_MAX]),)))
            )
        return held

    def _collected(self, sender: Rank, absent: SpanSet) -> SpanSet:
        """Of what is not held, that which was taken here once."""
        stream = self.tracker.streams.get(sender)
        received = SpanSet()
        if stream is None:
            return received
        for first, last in absent:
            first, last = max(first, stream.start + 1), min(last, stream.last)
            if first <= last:
                for a, b in stream.missing.outside(first, last):
                    received.add(a, b)
        return received
