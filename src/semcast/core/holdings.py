"""Everything a member holds, under one bound.

Guarantees: at most `buffer` distinct messages and `buffer_bytes` of payload are held for
retransmission and delivery together [SRM §5.3], plus one message per sender of whom nothing is
held: without that reserve two streams can each fill the buffer that the other needs, and FIFO
order turns flow control into deadlock.
At the bound: purge, then refuse.  Nothing that was admitted is dropped for want of room.
Only what waits is purged: a message that a ready application takes at once never is [SRM §6.3].
"""

from collections.abc import Sequence

from semcast import kernel
from semcast.core.order import ORDERS
from semcast.core.recipe import Recipe
from semcast.core.retransmission import RetransmissionStore
from semcast.core.trace import Trace
from semcast.terms.effects import Effects
from semcast.terms.events import (
    DELIVERY,
    RETRANSMISSION,
)
from semcast.terms.ids import Rank, Seq
from semcast.terms.messages import Message
from semcast.terms.outputs import ROOM, Delivery


class Holdings:
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
        self.elsewhere = recipe.elsewhere
        self.eager = recipe.purge == "eager"
        self.messages_max = recipe.buffer
        self.bytes_max = recipe.buffer_bytes
        self.window_bytes = recipe.window_bytes or recipe.buffer_bytes
        self.congested_messages = recipe.congested_at * recipe.buffer
        self.congested_bytes = recipe.congested_at * recipe.buffer_bytes
        self.queue = order.queue(recipe, bases)
        self.store = RetransmissionStore(recipe, bases)
        self.messages = 0
        self.bytes = 0
        self.held_of: list[int] = [0] * recipe.members
        self.active = 0  # how many senders have messages here
        self.own_bytes = 0  # of the payload held, what this member sent itself,
        self.own_stored_bytes = 0  # and of that, what is kept for others
        self.admitted_bytes = 0  # of payload, ever
        self.wanted: list[Seq] = [0] * recipe.members  # up to where the bound does not apply
        self.ready = 0  # how many messages the application would take now
        self.delivered: list[Seq] = list(bases) or [0] * recipe.members
        self.skipped = 0  # how many messages the application will never see, being superseded
        self.told = 0  # of them
        self.purged = 0  # how many left the store as obsolete
        self.refused = False  # a sender waits for room

    def __repr__(self) -> str:
        return f"Holdings({self.messages}/{self.messages_max}, {self.queue}, {self.store})"

    @property
    def free(self) -> int:
        """How many more messages fit, as far as their number goes."""
        return self.messages_max - self.messages if self.bytes < self.bytes_max else 0

    @property
    def is_full(self) -> bool:
        """Whether the bound is reached."""
        return self.messages >= self.messages_max or self.bytes >= self.bytes_max

    @property
    def congested(self) -> bool:
        """Whether so much is held that purging for retransmission pays [SRM §6.4]."""
        return self.messages >= self.congested_messages or self.bytes >= self.congested_bytes

    def fits(self, message: Message) -> bool:
        """Whether the bound allows one more."""
        return (
            self.messages < self.messages_max
            and self.bytes + len(message.payload) <= self.bytes_max
        ) or message.seq <= self.wanted[message.sender]

    def want(self, sender: Rank, seq: Seq) -> None:
        """The order of a view waits for these: were they refused, nothing would ever leave."""
        if not self.at_once and seq > self.wanted[sender]:
            self.wanted[sender] = seq

    def take(self, message: Message) -> None:
        """Count a message as held."""
        self._count(message.sender, 1, len(message.payload))

    def drop(self, message: Message, out: Effects) -> None:
        """Count a message as no longer held."""
        self._count(message.sender, -1, -len(message.payload))
        if self.refused:
            self._tell_room(out)

    def _tell_room(self, out: Effects) -> None:
        self.refused = False
        out.outputs.append(ROOM)

    def take_run(self, messages: Sequence[Message]) -> bool:
        """Count messages of one sender as held, if the bound allows all of them."""
        if (
            self.messages + len(messages) > self.messages_max
            or self.bytes + kernel.payload_bytes(messages) > self.bytes_max
        ):
            return False
        self._count(kernel.start_of(messages)[0], len(messages), kernel.payload_bytes(messages))
        return True

    @property
    def _is_above_bound(self) -> bool:
        return self.messages > self.messages_max or self.bytes > self.bytes_max

    def _count(self, sender: Rank, messages: int, payload: int) -> None:
        before = self.held_of[sender]
        after = self.held_of[sender] = before + messages
        if not before or not after:
            self.active += (after > 0) - (before > 0)
        self.messages += messages
        self.bytes += payload
        if sender == self.rank:
            self.own_bytes += payload

    def admit_run(
        self, messages: Sequence[Message], source: Rank, out: Effects, *, is_counted: bool = False
    ) -> int:
        """Take in the next messages of a stream that pass without a decision: how many.

        There is room for all of them, or they came early and count as held; and the application
        takes each of them at once, or none.  Of own messages the caller brings no more than
        `own_room`.  What they let purge from the store is purged after the last.
        """
        sender, _ = kernel.start_of(messages)
        is_own = sender == self.rank
        is_awaited = not self._is_for_nobody(sender)
        straight = self.at_once and (self.ready > 0 or not is_awaited)
        held = self.elsewhere or is_own or not straight
        more = held - is_counted  # of what is held, by each of them
        count = min(len(messages), self.ready) if straight and is_awaited else len(messages)
        if more > 0:
            count = min(count, self.messages_max - self.messages)
        if count <= 0 or (is_counted and self._is_above_bound):
            return 0
        if count < len(messages):
            messages = messages[:count]
        if not straight:
            messages = list(messages)  # They wait one by one.
        payload = kernel.payload_bytes(messages)
        if not is_counted and self.bytes + payload > self.bytes_max:
            return 0
        self.admitted_bytes += payload
        self._count(sender, more * count, more * payload)
        if more < 0 and self.refused:
            self._tell_room(out)
        if out.events is not None:
            self.trace.admitted(messages, source, self.messages, more, out)
        if self.elsewhere or is_own:
            self._put(sender, messages, payload)
        if straight:
            self._deliver(messages, out)
        else:
            self._enqueue(messages, out)
        if self.elsewhere and not is_own:
            self.purge_stored(sender, out)
        return count

    def admit(self, message: Message, source: Rank, out: Effects) -> bool:
        """Queue the next message of its stream, keep it for others; False if there is no room."""
        stored = self.elsewhere or message.sender == self.rank
        # Then nothing waits.
        straight = self.at_once and (self.ready > 0 or self._is_for_nobody(message.sender))
        held = stored or not straight
        if message.sender == self.rank and self._exceeds_share(message, out):
            return False
        if held and not self.fits(message) and not self._make_room(message, out):
            return False
        self.admitted_bytes += len(message.payload)
        if held:
            self.take(message)
        if out.events is not None:
            self.trace.admitted((message,), source, self.messages, 0, out)
        if stored:
            self._put(message.sender, (message,), len(message.payload))
        if straight:
            self._deliver((message,), out)
        else:
            self._enqueue((message,), out)
        if stored and message.sender != self.rank:  # Own messages purge once they have left.
            self.purge_stored(message.sender, out)
        if self._is_above_bound:
            self.relieve(out)  # It was admitted for what it supersedes.
        return True

    def _is_for_nobody(self, sender: Rank) -> bool:
        """Whether the application has no use for this stream, being its source."""
        return sender == self.rank and not self.echo

    def _put(self, sender: Rank, messages: Sequence[Message], payload: int) -> None:
        if sender == self.rank:
            self.own_stored_bytes += payload
        self.store.put(sender, messages)

    def _exceeds_share(self, message: Message, out: Effects) -> bool:
        """Whether the own stream would take more than its part, or than others have room for.

        Senders that each fill the buffer with messages of their own leave no room for the others'.
        """
        if not self._has_its_share or message.seq <= self.wanted[self.rank]:
            return False
        self.relieve(out)
        return self._has_its_share

    @property
    def own_room(self) -> tuple[int, int]:
        """How many more own messages, and how much payload, are no more than that for certain."""
        own = self.held_of[self.rank]
        active = self.active + (own == 0)
        count = self.messages_max - self.messages
        if active > 1:
            count = min(count, -(-self.messages_max // active) - own)
        payload = min(
            self.window_bytes // active - self.own_stored_bytes,
            self.bytes_max // active - self.own_bytes,
        )
        return (count, payload) if count > 0 and payload > 0 else (0, 0)

    @property
    def _has_its_share(self) -> bool:
        own, active = self.held_of[self.rank], self.active
        if not own:
            return False
        return self.own_stored_bytes * active >= self.window_bytes or (
            active > 1
            and (own * active >= self.messages_max or self.own_bytes * active >= self.bytes_max)
        )

    def _enqueue(self, messages: Sequence[Message], out: Effects) -> None:
        for purged, by in self.queue.push(messages):
            self._purge_queued(purged, by, out)

    def _make_room(self, message: Message, out: Effects) -> bool:
        """At the bound: purge, count on what the message itself supersedes, or reserve."""
        self.relieve(out)
        if self.fits(message) or self.held_of[message.sender] == 0:
            return True
        swapped = [m for m in self.queue.would_purge(message) if not self.store.holds(m)]
        if message.sender == self.rank and not self.elsewhere:
            swapped += self.store.stream(self.rank).buffer.would_purge(message)
        freed = sum(len(m.payload) for m in swapped)
        return (
            self.messages - len(swapped) < self.messages_max
            and self.bytes - freed + len(message.payload) <= self.bytes_max
        )

    def relieve(self, out: Effects) -> None:
        """Room is short: purge whatever may be purged."""
        for purged, by in self.queue.relieve():
            self._purge_queued(purged, by, out)
        for sender in self.store.streams:
            self._purge(sender, out)

    def purge_stored(self, sender: Rank, out: Effects) -> None:
        """Purge one stream of the store if that pays now."""
        if self.congested if self.eager else self.is_full:
            self._purge(sender, out)

    def _purge(self, sender: Rank, out: Effects) -> None:
        purged = self.store.purge(sender)
        if not purged:
            return
        self.purged += len(purged)
        gone = [message for message, _ in purged]
        withdrawn = self.queue.withdraw(gone)
        self.skipped += 0 if self._is_for_nobody(sender) else withdrawn
        self._left_store(sender, gone, out)
        for message, by in purged if out.events is not None else ():
            self.trace.purged(message, by, RETRANSMISSION, self.messages, out)

    def _left_store(self, sender: Rank, messages: Sequence[Message], out: Effects) -> None:
        """Count messages of one stream, no longer in the store, as held only if they are queued."""
        if sender == self.rank:
            self.own_stored_bytes -= kernel.payload_bytes(messages)
        if not self.queue.is_clear_of(sender):
            messages = [message for message in messages if not self.queue.holds(message)]
        self._count(sender, -len(messages), -kernel.payload_bytes(messages))
        if self.refused:
            self._tell_room(out)

    def _purge_queued(self, purged: Message, by: Seq, out: Effects) -> None:
        self.left_queue(purged, out)
        if out.events is not None:
            self.trace.purged(purged, by, DELIVERY, self.messages, out)

    def left_queue(self, purged: Message, out: Effects) -> None:
        """What waited for the application is superseded."""
        self.skipped += not self._is_for_nobody(purged.sender)
        if not self.store.holds(purged):
            self.drop(purged, out)

    def on_safe(self, sender: Rank, safe: Seq, out: Effects) -> None:
        """Messages up to `safe` may now purge others from retransmission."""
        self.store.stream(sender).safe = safe
        self.purge_stored(sender, out)

    def on_stable(self, sender: Rank, stable: Seq, out: Effects) -> None:
        """Every member has received up to `stable`."""
        for run in self.store.reclaim(sender, stable):
            self._left_store(sender, run, out)

    def on_ready(self, count: int, out: Effects) -> None:
        """The application can take `count` more messages, or fewer if that is below 0."""
        self.ready += count
        self.hand_over(out)

    def hand_over(self, out: Effects) -> None:
        """Deliver what may be, as far as the application wants more."""
        while self.ready > 0 and self.queue.has_next:
            message = self.queue.pop()
            if not self.store.holds(message):
                self.drop(message, out)
            self._deliver((message,), out)

    def _deliver(self, messages: Sequence[Message], out: Effects) -> None:
        """Neighbours in one stream."""
        sender, first = kernel.start_of(messages)
        self.delivered[sender] = first + len(messages) - 1
        position = self.queue.position
        if not self._is_for_nobody(sender):
            self.ready -= len(messages)
            out.outputs.append(Delivery(messages, self.skipped - self.told, position))
            self.told = self.skipped
        if out.events is not None:
            self.trace.delivered(messages, position, self.messages, out)
