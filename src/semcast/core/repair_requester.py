"""Getting what is missing: receiver-initiated, in ranges, under a TCP-like window.

Guarantees: while a stream has a gap and there is room, somebody who may hold the messages is
asked again and again.
Idea: one request per stream is under way at a time; it names the missing ranges and how many
messages the window and the free room allow.  First the sender is asked; under S-RM, when it
stays silent, a member whose gossip claims to be further, then anyone [SRM §5.3].
At the bound: with no room nothing is asked for, which is the flow control of the protocol.
"""

from collections.abc import Collection, Sequence
from random import Random

from semcast import kernel
from semcast.core.congestion_window import CongestionWindow
from semcast.core.member_buffers import MemberBuffers
from semcast.core.port import Port
from semcast.core.receiver import Receiver
from semcast.core.recipe import Recipe
from semcast.terms.effects import Effects
from semcast.terms.ids import NEVER, SEQ_MAX, Rank, Seq
from semcast.terms.messages import Data, Nack

RANGES_MAX = 64
UNKNOWN_BYTES = 1024  # of a message, as long as none is here
REPEATS_REMEMBERED = 8


class PendingNack:
    """One Nack under way, with all its repetitions."""

    __slots__ = ("attempts", "deadline", "sent_at")

    def __init__(self) -> None:
        self.attempts = 0
        self.deadline = NEVER
        self.sent_at: dict[int, float] = {}  # by number, so that an answer tells its round trip

    def resend(self, number: int, now: float, deadline: float) -> None:
        """It goes out once more."""
        self.attempts += 1
        self.deadline = deadline
        self.sent_at[number] = now
        if len(self.sent_at) > REPEATS_REMEMBERED:
            del self.sent_at[next(iter(self.sent_at))]


class RepairRequester:
    """Lives as long as the member."""

    def __init__(
        self,
        recipe: Recipe,
        rank: Rank,
        receiver: Receiver,
        buffers: MemberBuffers,
        rng: Random,
        port: Port | None = None,
    ) -> None:
        self.port = port or Port()
        self.rank = rank
        self.elsewhere = recipe.replicated
        self.delay_s = recipe.nack_delay_s
        self.indirect_delay_s = max(recipe.nack_delay_s, recipe.period_s)
        # Asking for single messages doubles the traffic of a full receiver; an eighth does not.
        self.free_min = recipe.far_behind_messages
        self.receiver = receiver
        self.buffers = buffers
        self.rng = rng
        self.datagram_bytes = recipe.datagram_bytes
        self.window = CongestionWindow(recipe.buffer, recipe.timeout_min_s, recipe.timeout_max_s)
        self.peers = [peer for peer in range(recipe.members) if peer != rank]
        # Streams with gaps: since when, how far they had come, and whether that was hearsay.
        self.gaps_since: dict[Rank, tuple[float, Seq, bool]] = {}
        self.pending: dict[Rank, PendingNack] = {}
        self.no_room: dict[Rank, tuple[int, ...]] = {}  # streams that found no room, and when
        self.holders: dict[Rank, tuple[Rank, Seq]] = {}  # who last claimed to be furthest
        self.suspected: Collection[Rank] = ()  # who seems to have crashed, if somebody watches
        self.sources: Sequence[Rank] = ()  # by stream, who holds all that is still wanted
        self.number = 0
        self.deadline = NEVER
        self.idle_until = -NEVER  # while the receiver knows of nothing new

    def __repr__(self) -> str:
        return f"RepairRequester(asked={list(self.pending)}, {self.window})"

    def on_peer_frontier(self, peer: Rank, sender: Rank, frontier: Seq) -> None:
        """A peer's gossip says how far it has come in a stream."""
        if frontier >= self.holders.get(sender, (peer, 0))[1]:
            self.holders[sender] = (peer, frontier)

    def on_answer(self, data: Data, now: float) -> None:
        """A repair came; if it answers the request under way, the next may go out."""
        for sender, request in self.pending.items():
            sent_at = request.sent_at.get(data.nack_number)
            if sent_at is not None:
                self.window.on_answer(now - sent_at)
                del self.pending[sender]
                self.idle_until = -NEVER
                self._count_in(sender)
                return

    def _count_in(self, sender: Rank) -> None:
        """What was asked for on hearsay and came is no sign that the stream moves by itself."""
        since, _, was_hearsay = self.gaps_since.get(sender, (0.0, 0, False))
        if was_hearsay:
            self.gaps_since[sender] = since, self.receiver.frontier[sender], True

    def poll(self, now: float, out: Effects) -> None:
        """Ask for what is missing, where that is due."""
        receiver = self.receiver
        if now < self.idle_until and not receiver.has_news:
            return
        receiver.has_news = is_overdue = False
        self.deadline = self.idle_until = NEVER
        gaps = receiver.gaps
        if not gaps or not self.peers:
            self.gaps_since.clear()
            self.pending.clear()
            return
        if not gaps.keys() >= self.gaps_since.keys():
            self._forget_closed(gaps)
        for sender in gaps:
            request = self.pending.get(sender)
            due = request.deadline if request else self._missing_at(sender, now)
            if now < due:
                if due < self.deadline:
                    self.deadline = due
                continue
            if request or self.no_room.get(sender) != self._room_for(sender):
                self._ask(sender, now, out)
            is_overdue |= sender not in self.pending
        self.idle_until = now if is_overdue else self.deadline  # Room may come at any time.

    def _forget_closed(self, gaps: Collection[Rank]) -> None:
        for sender in [s for s in self.gaps_since if s not in gaps]:
            del self.gaps_since[sender]
            self.pending.pop(sender, None)

    def _missing_at(self, sender: Rank, now: float) -> float:
        """From when on messages that were noticed to be missing count as lost.

        Hearsay overtakes the messages that it is about, which may not even have left: as long as
        the stream moves it shows nothing.
        """
        frontier = self.receiver.frontier[sender]
        is_hearsay = frontier >= self.receiver.sent_upto[sender]
        since, before, was_hearsay = self.gaps_since.get(sender, (now, frontier, is_hearsay))
        if frontier > before if is_hearsay else was_hearsay:
            since = now
        self.gaps_since[sender] = since, frontier, is_hearsay
        return since + (self.indirect_delay_s if is_hearsay else self.delay_s)

    def _room_for(self, sender: Rank) -> tuple[int, ...]:
        """What decides whether a stream may be asked for: while it stands, so does the answer."""
        buffers, receiver = self.buffers, self.receiver
        return (
            buffers.messages,
            buffers.bytes,
            buffers.held_by_sender[sender],
            buffers.exempt_upto[sender],
            len(buffers.queue),
            receiver.reordered_count,
            receiver.frontier[sender],
        )

    def _ask(self, sender: Rank, now: float, out: Effects) -> None:
        request = self.pending.pop(sender, None)
        if request:
            self.window.on_timeout()
        else:
            request = PendingNack()
        limit = self._limit(sender, out)
        target = self._in_reach(self._target(sender, request.attempts))
        if not limit and self.buffers.eager:
            self.no_room[sender] = self._room_for(sender)
        if not limit or target is None:
            return
        ranges = self.receiver.missing(sender, RANGES_MAX)
        if not ranges:
            return  # Everything is here and waits for causal predecessors.
        self.number += 1
        request.resend(self.number, now, now + self.window.timeout_s)
        self.pending[sender] = request
        self.deadline = min(self.deadline, request.deadline)
        self.buffers.trace.requested(sender, ranges, target, out)
        self.port.send((target,), Nack(sender, ranges, limit, self.number), out)

    def _limit(self, sender: Rank, out: Effects) -> int:
        """How many messages may be asked for: what the window and the room allow."""
        buffers, window = self.buffers, self._window()
        if self.receiver.frontier[sender] < buffers.exempt_upto[sender]:
            return window
        if buffers.free_messages() < self.free_min and not buffers.eager:
            buffers.purge_all(out)
        # What is early gives way to what is next; when the view is being left, nothing is next.
        is_leaving = self.receiver.limit is not None
        early = 0 if is_leaving else self.receiver.reordered_count
        room = buffers.free_messages() + early
        if room < self.free_min <= len(buffers.queue):
            return 0
        if buffers.held_by_sender[sender] == 0 and not is_leaving:
            return max(1, min(window, room))
        refused = self.receiver.refused_next.get(sender)
        if refused is not None and not early and not buffers.fits(refused):
            return 0  # Asked for now, it would be refused again.
        if room <= 0:
            return 0
        return min(window, room)

    def _window(self) -> int:
        """How many messages fill the datagrams of the window, if they are like those held."""
        held = self.buffers
        usual = UNKNOWN_BYTES
        if held.messages:
            usual = held.bytes // held.messages + kernel.HEADER_BYTES
        return int(self.window.size) * max(1, self.datagram_bytes // usual)

    def _target(self, sender: Rank, attempts: int) -> Rank | None:
        """Whom to ask; nobody if the one who could answer was forgotten."""
        if not self.elsewhere:
            return sender if sender in self.peers else None
        if self.sources and attempts % 2 == 0 and self.sources[sender] in self.peers:
            return self.sources[sender]
        if attempts % 3 == 0 and sender in self.peers:
            return sender
        holder, frontier = self.holders.get(sender, (self.rank, 0))
        further = frontier > self.receiver.frontier[sender] and holder in self.peers
        if further and attempts % 3 != 2:
            return holder
        return self.rng.choice(self.peers)

    def _in_reach(self, target: Rank | None) -> Rank | None:
        """Instead of one who seems to have crashed: anybody else, if there is one."""
        if target not in self.suspected:
            return target
        others = [peer for peer in self.peers if peer not in self.suspected]
        return self.rng.choice(others) if others else target

    def ask_at_once(self, sources: Sequence[Rank]) -> None:
        """Whom to ask, by stream, now that the view ends: whoever was asked before."""
        self.sources = sources
        self.pending.clear()
        self.gaps_since = dict.fromkeys(self.receiver.gaps, (-NEVER, SEQ_MAX, False))
        self.deadline, self.idle_until = NEVER, -NEVER

    def forget(self, member: Rank) -> None:
        """Ask this member no more."""
        if member in self.peers:
            self.peers.remove(member)
        self.holders = {s: claim for s, claim in self.holders.items() if claim[0] != member}
        self.pending.clear()
        self.idle_until = -NEVER
