"""Everything a member holds, under one bound.

Guarantees: at most `buffer` distinct messages and `buffer_bytes` of payload are held for
retransmission and delivery together [SRM §5.3], plus one message per sender of whom nothing is
held: without that reserve two streams can each fill the buffer that the other needs, and FIFO
order turns flow control into deadlock.
At the bound: purge, then refuse.  Nothing that was admitted is dropped for want of room.
Only what waits is purged: a message that a ready application takes at once never is [SRM §6.3].
"""

from collections.abc import Sequence
from math import ceil

from semcast import kernel
from semcast.core.order import ORDERS
from semcast.core.order.protocols import PurgedBy
from semcast.core.recipe import Recipe
from semcast.core.retransmission_store import RetransmissionStore
from semcast.core.trace import Trace
from semcast.terms.effects import Effects
from semcast.terms.events import (
    DELIVERY,
    RETRANSMISSION,
)
from semcast.terms.ids import Rank, Seq
from semcast.terms.messages import DataMessage
from semcast.terms.outputs import ROOM, Delivery


class MemberBuffers:
    """The delivery queue and the retransmission store of one member."""

    def __init__(
        self,
        recipe: Recipe,
        rank: Rank,
        trace: Trace | None = None,
        bases: Sequence[Seq] = (),
    ) -> None:
        order = ORDERS[recipe.order]
        self.rank = rank
        self.trace = trace or Trace(rank)
        self.at_once = not order.gives_places  # A ready application need not wait for a place.
        self.echo = recipe.echo
        self.replicated = recipe.replicated
        self.eager = recipe.purge == "eager"
        self.messages_max = recipe.buffer
        self.bytes_max = recipe.buffer_bytes
        self.window_bytes = recipe.window_bytes or recipe.buffer_bytes
        self.congested_messages = ceil(recipe.congested_at * recipe.buffer)
        self.congested_bytes = ceil(recipe.congested_at * recipe.buffer_bytes)
        self.queue = order.queue(recipe, bases)
        self.store = RetransmissionStore(recipe, bases)
        self.messages = 0
        self.bytes = 0
        # Whether so much is held that purging for retransmission pays [SRM §6.4].
        self.is_congested = recipe.congested_at == 0
        self.held_by_sender: list[int] = [0] * recipe.members
        self.active = 0  # how many senders have messages here
        self.own_bytes = 0  # of the payload held, what this member sent itself,
        self.own_stored_bytes = 0  # and of that, what is kept for others
        self.admitted_bytes = 0  # of payload, ever
        self.exempt_upto: list[Seq] = [0] * recipe.members  # up to where the bound does not apply
        self.ready = 0  # how many messages the application would take now
        self.delivered: list[Seq] = list(bases) or [0] * recipe.members
        self.skipped = 0  # how many messages the application will never see, being superseded
        self.skips_reported = 0  # of them
        self.purged = 0  # how many left the store as obsolete
        self.has_refused = False  # a sender waits for room
        self.is_purged = True  # the store: nothing came or became safe since all of it was

    def __repr__(self) -> str:
        return f"MemberBuffers({self.messages}/{self.messages_max}, {self.queue}, {self.store})"

    def free_messages(self) -> int:
        """How many more messages fit, as far as their number goes."""
        return self.messages_max - self.messages if self.bytes < self.bytes_max else 0

    def is_full(self) -> bool:
        """Whether the bound is reached."""
        return self.messages >= self.messages_max or self.bytes >= self.bytes_max

    def fits(self, message: DataMessage) -> bool:
        """Whether the bound allows one more."""
        return (
            self.messages < self.messages_max
            and self.bytes + len(message.payload) <= self.bytes_max
        ) or message.seq <= self.exempt_upto[message.sender]

    def exempt(self, sender: Rank, seq: Seq) -> None:
        """The order of a view waits for these: were they refused, nothing would ever leave."""
        if not self.at_once and seq > self.exempt_upto[sender]:
            self.exempt_upto[sender] = seq

    def count_held(self, message: DataMessage) -> None:
        """Count a message as held."""
        self._count(message.sender, 1, len(message.payload))

    def count_released(self, message: DataMessage, out: Effects) -> None:
        """Count a message as no longer held."""
        self._count(message.sender, -1, -len(message.payload))
        if self.has_refused:
            self._tell_room(out)

    def _tell_room(self, out: Effects) -> None:
        self.has_refused = False
        out.outputs.append(ROOM)

    def take_run(self, run: kernel.Run) -> bool:
        """Count messages as held, if the bound allows all of them."""
        if (
            self.messages + run.count > self.messages_max
            or self.bytes + run.payload_bytes > self.bytes_max
        ):
            return False
        self._count(run.sender, run.count, run.payload_bytes)
        return True

    def is_above_bound(self) -> bool:
        """Whether more is held than the bound allows."""
        return self.messages > self.messages_max or self.bytes > self.bytes_max

    def _count(self, sender: Rank, messages: int, payload: int) -> None:
        before = self.held_by_sender[sender]
        after = self.held_by_sender[sender] = before + messages
        if not before or not after:
            self.active += (after > 0) - (before > 0)
        self.messages += messages
        self.bytes += payload
        self.is_congested = (
            self.messages >= self.congested_messages or self.bytes >= self.congested_bytes
        )
        if sender == self.rank:
            self.own_bytes += payload

    def admit(
        self, run: kernel.Run, source: Rank, out: Effects, *, is_counted: bool = False
    ) -> int:
        """Take in the next messages of a stream; how many, from the front, there was room for.

        Those that came early count as held already; they pass or wait, but decide nothing.
        """
        is_own = run.sender == self.rank
        is_awaited = self.echo or not is_own
        admitted, offered = 0, run.count
        while admitted < offered:
            straight = self.at_once and (self.ready > 0 or not is_awaited)
            more = (self.replicated or is_own or not straight) - is_counted  # held, by each
            count = offered - admitted
            if straight and is_awaited and count > self.ready:
                count = self.ready
            if more > 0 and count > 1:
                count = max(1, min(count, self.messages_max - self.messages))
            part = run if count == offered else run.slice_run(admitted, admitted + count)
            if more > 0 and (
                self.messages + count > self.messages_max
                or self.bytes + part.payload_bytes > self.bytes_max
                or (is_own and self._has_its_share())
            ):
                part, count = run.slice_run(admitted, admitted + 1), 1
                if not self._make_room(part[0], out):
                    break
            elif is_counted and self.is_above_bound():
                break
            self._take(part, source, straight, more, out)
            admitted += count
        return admitted

    def _take(self, run: kernel.Run, source: Rank, straight: bool, more: int, out: Effects) -> None:
        """Hold a run for others and for the application, or for neither: then it only passes."""
        sender, payload = run.sender, run.payload_bytes
        is_own = sender == self.rank
        self.admitted_bytes += payload
        if more:
            self._count(sender, more * run.count, more * payload)
            if more < 0 and self.has_refused:
                self._tell_room(out)
        if out.events is not None:
            self.trace.admitted(run, source, self.messages, more, out)
        if is_own:
            self.own_stored_bytes += payload
        if self.replicated or is_own:
            self.store.add(run)
            self.is_purged = False
        if straight:
            self._deliver(run, out)
        else:
            for purged, by in self.queue.push(run):
                self._purge_queued(purged, by, out)
        if self.is_congested:
            if self.replicated and not is_own:  # Own messages purge once they have left.
                self.purge_stored(sender, out)
            if self.is_above_bound():
                self.purge_all(out)  # It was admitted for what it supersedes.

    def _is_for_nobody(self, sender: Rank) -> bool:
        """Whether the application has no use for this stream, being its source."""
        return sender == self.rank and not self.echo

    def _exceeds_share(self, message: DataMessage, out: Effects) -> bool:
        """Whether the own stream would take more than its part, or than others have room for.

        Senders that each fill the buffer with messages of their own leave no room for the others'.
        """
        if not self._has_its_share() or message.seq <= self.exempt_upto[self.rank]:
            return False
        self.purge_all(out)
        return self._has_its_share()

    def own_capacity(self) -> tuple[int, int]:
        """How many more own messages, and how much payload, are no more than that for certain."""
        own = self.held_by_sender[self.rank]
        active = self.active + (own == 0)
        count = self.messages_max - self.messages
        if active > 1:
            count = min(count, -(-self.messages_max // active) - own)
        payload = min(
            self.window_bytes // active - self.own_stored_bytes,
            self.bytes_max // active - self.own_bytes,
        )
        return (count, payload) if count > 0 and payload > 0 else (0, 0)

    def _has_its_share(self) -> bool:
        own, active = self.held_by_sender[self.rank], self.active
        if not own:
            return False
        return self.own_stored_bytes * active >= self.window_bytes or (
            active > 1
            and (own * active >= self.messages_max or self.own_bytes * active >= self.bytes_max)
        )

    def _make_room(self, message: DataMessage, out: Effects) -> bool:
        """At the bound: purge, count on what the message itself supersedes, or reserve."""
        if message.sender == self.rank and self._exceeds_share(message, out):
            return False
        if self.fits(message):
            return True
        self.purge_all(out)
        if self.fits(message) or self.held_by_sender[message.sender] == 0:
            return True
        swapped = [m for m in self.queue.would_purge(message) if not self.store.holds(m)]
        if message.sender == self.rank and not self.replicated:
            swapped += self.store.stream(self.rank).buffer.would_purge(message)
        freed = sum(len(m.payload) for m in swapped)
        return (
            self.messages - len(swapped) < self.messages_max
            and self.bytes - freed + len(message.payload) <= self.bytes_max
        )

    def purge_all(self, out: Effects) -> None:
        """Room is short: purge whatever may be purged."""
        for purged, by in self.queue.purge_obsolete():
            self._purge_queued(purged, by, out)
        if self.is_purged:
            return
        self.is_purged = True
        for sender in self.store.streams:
            if gone := self.store.purge(sender):
                self._left_as_obsolete(sender, gone, out)

    def purge_stored(self, sender: Rank, out: Effects) -> None:
        """Purge one stream of the store if that pays now."""
        pays = self.is_congested if self.eager else self.is_full()
        if pays and (purged := self.store.purge(sender)):
            self._left_as_obsolete(sender, purged, out)

    def _left_as_obsolete(self, sender: Rank, purged: list[PurgedBy], out: Effects) -> None:
        """Messages of one stream have left the store, each for a later one."""
        self.purged += len(purged)
        gone = [message for message, _ in purged]
        withdrawn = self.queue.remove_unordered(sender, gone)
        self.skipped += 0 if self._is_for_nobody(sender) else withdrawn
        self._left_store(sender, gone, out)
        for message, by in purged if out.events is not None else ():
            self.trace.purged(message, by, RETRANSMISSION, self.messages, out)

    def _left_store(self, sender: Rank, messages: Sequence[DataMessage], out: Effects) -> None:
        """Count messages of one stream, no longer in the store, as held only if they are queued."""
        if sender == self.rank:
            self.own_stored_bytes -= kernel.payload_bytes(messages)
        waiting, payload = self.queue.count_waiting(messages)
        self._count(sender, waiting - len(messages), payload - kernel.payload_bytes(messages))
        if self.has_refused:
            self._tell_room(out)

    def _purge_queued(self, purged: DataMessage, by: Seq, out: Effects) -> None:
        self.left_queue(purged, out)
        if out.events is not None:
            self.trace.purged(purged, by, DELIVERY, self.messages, out)

    def left_queue(self, purged: DataMessage, out: Effects) -> None:
        """What waited for the application is superseded."""
        self.skipped += not self._is_for_nobody(purged.sender)
        if not self.store.holds(purged):
            self.count_released(purged, out)

    def on_safe(self, sender: Rank, safe: Seq, out: Effects) -> None:
        """Messages up to `safe` may now purge others from retransmission."""
        self.store.stream(sender).safe = safe
        self.is_purged = False
        self.purge_stored(sender, out)

    def on_stable(self, sender: Rank, stable: Seq, out: Effects) -> None:
        """Every member has received up to `stable`."""
        for run in self.store.reclaim(sender, stable):
            self._left_store(sender, run, out)

    def on_ready(self, count: int, out: Effects) -> None:
        """The application can take `count` more messages, or fewer if that is below 0."""
        self.ready += count
        self.deliver_ready(out)

    def deliver_ready(self, out: Effects) -> None:
        """Deliver what may be, as far as the application wants more."""
        while self.ready > 0 and self.queue.has_next:
            run = self.queue.pop(self.ready)
            if not self.store.holds_run(run):
                self._release(run, out)
            self._deliver(run, out)

    def _release(self, run: kernel.Run, out: Effects) -> None:
        """Count what is in no store as no longer held."""
        for message in run.messages():
            if not self.store.holds(message):
                self.count_released(message, out)

    def _deliver(self, run: kernel.Run, out: Effects) -> None:
        sender, count = run.sender, run.count
        self.delivered[sender] = run.first + count - 1
        position = self.queue.position and self.queue.position - count + 1  # of the first
        if self.echo or sender != self.rank:
            self.ready -= count
            out.outputs.append(Delivery(run, self.skipped - self.skips_reported, position))
            self.skips_reported = self.skipped
        if out.events is not None:
            self.trace.delivered(run, position, self.messages, out)
