"""First transmissions: optimistic, in batches, under an optional cap.

Guarantees: every own message leaves once, in order, in datagrams of at most `datagram_bytes`
unless it is larger itself; not faster than `bandwidth_max` [SRM §5.3].  Messages may wait
`coalesce_s` for company.  Once nothing follows, *window empty* tells where the stream ends, so
that the loss of its tail is noticed at once [SRB §2.5]; gossip says it again if that is lost.
What was purged while it waited for bandwidth does not leave; a notice goes in its place.
Without IP multicast each member gets its own copy, as over the channels of [SRB §3.2].  A member
that requests many messages loses most first transmissions, and more of them would only take the
bandwidth that its repair needs.  So the sender stops sending them to it; it pulls from the store,
which purges, until it has caught up.
Each datagram says what is safe.  If only the sender purged, the buffers of fast members would fill
first and they would miss messages.
"""

from collections.abc import Sequence
from typing import cast

from semcast import kernel
from semcast.core.port import Port
from semcast.core.recipe import Recipe
from semcast.core.retransmission_store import RetransmissionStore
from semcast.terms.effects import Effects
from semcast.terms.ids import EVERYONE, NEVER, Rank, Seq
from semcast.terms.messages import Data, DataMessage, Nack, PurgeNotice, WindowEmpty

NOTICE_BYTES = 32


def split_into_datagrams(
    messages: list[DataMessage], datagram_bytes: int
) -> list[tuple[DataMessage, ...]]:
    """Cut messages into what fits a datagram each."""
    cut: list[tuple[DataMessage, ...]] = []
    start = size = 0
    for place, message in enumerate(messages):
        needs = kernel.size_of(message)
        if size and size + needs > datagram_bytes:
            cut.append(tuple(messages[start:place]))
            start, size = place, 0
        size += needs
    if start < len(messages):
        cut.append(tuple(messages[start:]))
    return cut


def repair_datagrams(
    messages: list[DataMessage], notices: list[PurgeNotice], datagram_bytes: int
) -> list[Data]:
    """The datagrams of an answer, at least one; a few notices travel with the last messages."""
    many = max(1, datagram_bytes // NOTICE_BYTES)
    few = len(notices) <= many // 4
    room = datagram_bytes - NOTICE_BYTES * len(notices) if few else datagram_bytes
    parts = [Data(batch) for batch in split_into_datagrams(messages, room)]
    if few:
        *parts, last = parts or [Data(())]
        return [*parts, Data(last.messages, tuple(notices))]
    chunks = range(0, len(notices), many)
    return parts + [Data((), tuple(notices[start : start + many])) for start in chunks]


class Outbox:
    """Lives as long as the member."""

    def __init__(
        self,
        recipe: Recipe,
        rank: Rank,
        store: RetransmissionStore,
        base: Seq = 0,
        port: Port | None = None,
    ) -> None:
        self.port = port or Port()
        self.rank = rank
        self.is_single = recipe.members == 1
        self.store = store
        self.datagram_bytes = recipe.datagram_bytes
        self.coalesce_s = recipe.coalesce_s
        self.idle_s = recipe.period_s
        self.rate = recipe.bandwidth_max
        self.credit = float(recipe.datagram_bytes)
        self.credited_at = 0.0
        self.is_blocked = False  # until flush_at, for want of bandwidth
        self.peers = [peer for peer in range(recipe.members) if peer != rank]
        self.unicast = recipe.unicast
        self.far_behind_messages = recipe.far_behind_messages
        self.peer_frontier: dict[Rank, Seq] = dict.fromkeys(self.peers, base)  # in the own stream
        self.pulling: dict[Rank, Seq] = {}  # who pulls, and what it must have reached to be sent to
        self.flush_at = NEVER
        self.idle_at = NEVER
        self.last: Seq = base
        self.sent: Seq = base  # what lies above waits for its first transmission
        self.unsent_bytes = 0  # of it, as it was added

    def __repr__(self) -> str:
        return f"Outbox(sent={self.sent}, last={self.last}, pulling={list(self.pulling)})"

    def add(self, last: Seq, size: int, now: float) -> None:
        """Own messages up to `last` wait for their first transmission, in the store."""
        self.last = last
        if self.is_single:
            self.sent = last
            return
        self.unsent_bytes += size
        if self.flush_at == NEVER:
            self.flush_at = now + self.coalesce_s

    def flush(self, now: float, out: Effects) -> None:
        """Send every full datagram, and the rest when it has waited long enough."""
        while self.sent < self.last:
            if now < self.flush_at and (self.is_blocked or self.unsent_bytes < self.datagram_bytes):
                return
            messages, size, notices, upto = self._next_batch()
            cost = (size + NOTICE_BYTES * len(notices)) * self._copies()
            if self.rate is not None and not self._spend(cost, now):
                return
            self.sent = upto
            self.unsent_bytes = max(0, self.unsent_bytes - size) if upto < self.last else 0
            if messages or notices:
                safe = self.store.stream(self.rank).safe
                self._transmit(
                    Data(cast("tuple[DataMessage, ...]", messages), notices, 0, safe), out
                )
                self.idle_at = now + self.idle_s
        self.flush_at = NEVER

    @property
    def is_empty(self) -> bool:
        """Whether every own message has left once."""
        return self.sent == self.last

    @property
    def audience(self) -> Sequence[Rank]:
        """To whom goes what is for all."""
        return self.peers if self.unicast else EVERYONE

    @property
    def slowest(self) -> Rank | None:
        """The peer that is furthest behind, if any is."""
        reached = self.peer_frontier
        peer = min(reached, key=lambda peer: reached[peer], default=None)
        return None if peer is None or reached[peer] == self.last else peer

    @property
    def laggard(self) -> Rank | None:
        """The peer that lacks twice as much of the own stream as any other, if there is one."""
        reached, last = self.peer_frontier, self.last
        lags = sorted((last - reached[peer], peer) for peer in reached)
        is_distinct = len(lags) > 1 and lags[-1][0] >= max(1, 2 * lags[-2][0])
        return lags[-1][1] if is_distinct else None

    def send_soon(self, now: float) -> None:
        """What waits for company need not wait any longer."""
        if not self.is_blocked:
            self.flush_at = min(self.flush_at, now)

    def _copies(self) -> int:
        return len(self.peers) - len(self.pulling) if self.unicast else 1

    def _transmit(self, data: Data, out: Effects) -> None:
        audience = self.audience
        if self.pulling:
            audience = [peer for peer in self.peers if peer not in self.pulling]
        if audience:
            self.port.send(audience, data, out)

    def on_stable(self, stable: Seq) -> None:
        """Everyone has come so far in the own stream."""
        for peer in self.peers:
            self.on_peer_frontier(peer, stable)

    def on_nack(self, peer: Rank, nack: Nack) -> None:
        """A peer asks for own messages; one that lacks many had better pull."""
        self.on_peer_frontier(peer, nack.spans[0][0] - 1)
        lacking = sum(last - first + 1 for first, last in nack.spans)
        if self.unicast and lacking > self.far_behind_messages and peer in self.peers:
            self.pulling[peer] = self.last

    def on_peer_frontier(self, peer: Rank, frontier: Seq) -> None:
        """A peer has come so far in the own stream."""
        if frontier > self.peer_frontier.get(peer, frontier):
            self.peer_frontier[peer] = frontier
        if peer in self.pulling and frontier >= self.pulling[peer]:
            del self.pulling[peer]

    def forget(self, member: Rank) -> None:
        """Send nothing to this member any more."""
        self.peers = [peer for peer in self.peers if peer != member]
        del self.peer_frontier[member]
        self.pulling.pop(member, None)

    def _next_batch(self) -> tuple[Sequence[DataMessage], int, tuple[PurgeNotice, ...], Seq]:
        """What goes into the next datagram, its messages' size, and up to where that is all."""
        runs: list[Sequence[DataMessage]] = []
        notices: list[PurgeNotice] = []
        stored = self.store.stream(self.rank)
        size, seq = 0, max(self.sent, stored.stable) + 1
        while seq <= self.last:
            room = self.datagram_bytes - size - NOTICE_BYTES * len(notices)
            run, run_bytes = stored.buffer.take_fitting(seq, self.last, room, not runs)
            if run:
                runs.append(run)
                size += run_bytes
                seq += len(run)
                continue
            hole = stored.holes.find(seq)
            assert hole or stored.buffer.holds(seq), "an own message is held, purged or stable"
            if hole is None or size + NOTICE_BYTES * len(notices) >= self.datagram_bytes:
                break
            notices.append(PurgeNotice(self.rank, seq, hole.last, hole.witness))
            seq = hole.last + 1
        return kernel.concat_runs(runs) if runs else (), size, tuple(notices), seq - 1

    def _spend(self, size: int, now: float) -> bool:
        """Leaky bucket: pay for a datagram, or set the time when there will be enough."""
        assert self.rate is not None
        burst = float(max(self.datagram_bytes, size))
        self.credit = min(burst, self.credit + (now - self.credited_at) * self.rate)
        self.credited_at = now
        self.is_blocked = self.credit < size - 0.5  # Less than a byte short is rounding.
        if self.is_blocked:
            self.flush_at = now + (size - self.credit) / self.rate
        else:
            self.credit -= size
        return not self.is_blocked

    def on_time(self, now: float, out: Effects) -> None:
        """Flush what has waited, and say when the stream has ended."""
        if now >= self.flush_at:
            self.flush(now, out)
        if now >= self.idle_at:
            self.idle_at = NEVER
            if self.sent == self.last and self.store.stream(self.rank).stable < self.last:
                self.port.send(self.audience, WindowEmpty(self.rank, self.last), out)
