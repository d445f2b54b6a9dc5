"""First transmissions: optimistic, in batches, under an optional cap.

Guarantees: every own message leaves once, in order, in datagrams of at most `datagram_bytes`
unless it is larger itself; not faster than `bandwidth_max` [SRM §5.3].  Messages may wait
`coalesce_s` for company.  Once nothing follows, *window empty* tells where the stream ends, so
that the loss of its tail is noticed at once [SRB §2.5]; gossip says it again if that is lost.
What was purged while it waited for bandwidth does not leave; a notice goes in its place.
Without IP multicast each member gets its own copy, as over the channels of [SRB §3.2].  One that
asks for a wide range has lost most of what was sent to it; more would only take the bandwidth
that its repair needs, so it is left to pull from the store, which purges, until it has caught up.
What the sender knows to be safe goes along: were its buffers purged before those of fast members,
these would fill up first and miss messages.
"""

from collections import deque

from semcast.core.detector import NEVER
from semcast.core.recipe import Recipe
from semcast.core.retransmission import RetransmissionStore
from semcast.terms.effects import Effects
from semcast.terms.messages import EVERYONE, Data, Message, Nack, Purged, Rank, Seq, WindowEmpty

HEADER_BYTES = 24  # per message beside its payload; an estimate good enough to fill datagrams


def batches(messages: list[Message], datagram_bytes: int) -> list[tuple[Message, ...]]:
    """Cut messages into what fits a datagram each."""
    cut: list[tuple[Message, ...]] = []
    start = size = 0
    for place, message in enumerate(messages):
        needs = len(message.payload) + len(message.covers) + HEADER_BYTES
        if size and size + needs > datagram_bytes:
            cut.append(tuple(messages[start:place]))
            start, size = place, 0
        size += needs
    if start < len(messages):
        cut.append(tuple(messages[start:]))
    return cut


class Outbox:
    """Lives as long as the member."""

    def __init__(self, recipe: Recipe, rank: Rank, store: RetransmissionStore) -> None:
        self.rank = rank
        self.alone = recipe.members == 1
        self.store = store
        self.datagram_bytes = recipe.datagram_bytes
        self.coalesce_s = recipe.coalesce_s
        self.idle_s = recipe.period_s
        self.rate = recipe.bandwidth_max
        self.credit = float(recipe.datagram_bytes)
        self.credited_at = 0.0
        self.peers = [peer for peer in range(recipe.members) if peer != rank]
        self.unicast = recipe.unicast
        self.wide = max(1, recipe.buffer // 8)
        self.pulling: dict[Rank, Seq] = {}  # who pulls, and what it must have reached to be sent to
        self.waiting: deque[Message] = deque()
        self.flush_at = NEVER
        self.idle_at = NEVER
        self.last = 0

    def __repr__(self) -> str:
        return f"Outbox(waiting={len(self.waiting)}, last={self.last})"

    def add(self, message: Message, now: float) -> None:
        """Queue an own message for its first transmission."""
        if self.alone:
            return
        self.last = message.seq
        self.waiting.append(message)
        if self.flush_at == NEVER:
            self.flush_at = now + self.coalesce_s

    def flush(self, now: float, out: Effects) -> None:
        """Send every full datagram, and the rest when it has waited long enough."""
        while self.waiting:
            messages, notices, taken = self._next_batch()
            if taken == len(self.waiting) and now < self.flush_at:
                return
            size = sum(len(m.payload) + HEADER_BYTES for m in messages)
            if self.rate is not None and not self._spend(size, now):
                return
            for _ in range(taken):
                self.waiting.popleft()
            self._transmit(Data(messages, notices, safe=self.store.stream(self.rank).safe), out)
            self.idle_at = now + self.idle_s
        self.flush_at = NEVER

    def _transmit(self, data: Data, out: Effects) -> None:
        if not self.unicast:
            out.send.append((EVERYONE, data))
            return
        for peer in self.peers:
            if peer not in self.pulling:
                out.send.append((peer, data))

    def on_nack(self, peer: Rank, nack: Nack) -> None:
        """A peer asks for own messages; over a wide range it had better pull."""
        if self.unicast and nack.ranges[-1][1] - nack.ranges[0][0] >= self.wide:
            self.pulling[peer] = self.last

    def on_claim(self, peer: Rank, frontier: Seq) -> None:
        """A peer has come so far in the own stream."""
        if frontier >= self.pulling.get(peer, self.last + 1):
            del self.pulling[peer]

    def forget(self, member: Rank) -> None:
        """Send nothing to this member any more."""
        self.peers.remove(member)
        self.pulling.pop(member, None)

    def _next_batch(self) -> tuple[tuple[Message, ...], tuple[Purged, ...], int]:
        """What goes into the next datagram, and how many waiting messages that accounts for."""
        messages: list[Message] = []
        notices: dict[int, Purged] = {}
        size = taken = 0
        kept = self.store.stream(self.rank)
        for message in self.waiting:
            needs = len(message.payload) + len(message.covers) + HEADER_BYTES
            if message.seq in kept.buffer.held:
                if messages and size + needs > self.datagram_bytes:
                    break
                messages.append(message)
                size += needs
            else:
                hole = kept.holes.at(message.seq)
                if hole is not None:
                    notices[hole.first] = Purged(self.rank, *hole)
            taken += 1
        return tuple(messages), tuple(notices.values()), taken

    def _spend(self, size: int, now: float) -> bool:
        """Leaky bucket: pay for a datagram, or set the time when there will be enough."""
        assert self.rate is not None
        burst = float(max(self.datagram_bytes, size))
        self.credit = min(burst, self.credit + (now - self.credited_at) * self.rate)
        self.credited_at = now
        if self.credit < size - 0.5:  # Less than a byte short is rounding.
            self.flush_at = now + (size - self.credit) / self.rate
            return False
        self.credit -= size
        return True

    def on_time(self, now: float, out: Effects) -> None:
        """Flush what has waited, and say when the stream has ended."""
        if now >= self.flush_at:
            self.flush(now, out)
        if now >= self.idle_at:
            self.idle_at = NEVER
            if not self.waiting and self.store.stream(self.rank).stable < self.last:
                out.send.append((EVERYONE, WindowEmpty(self.rank, self.last)))
