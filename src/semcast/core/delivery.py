"""What waits for the application, purged at once [SRM §4.3, purge_d].

Orders: under `fifo` a newer value goes to the tail, as in the papers.  That starves hot items
under lasting overload, so under `item` it takes the place of the value it supersedes: order per
sender and item holds, FIFO order across items does not.  Nothing moves across a message of the
same sender that may not be purged, which may be what gives later values their meaning.
Rejected: a heap by item age; the slot of an insertion-ordered table is already the place.
"""

from collections import OrderedDict

from semcast.core.purging import PurgingBuffer
from semcast.core.recipe import Recipe
from semcast.terms.ids import Rank, Seq
from semcast.terms.messages import Message


class DeliveryQueue:
    """Lives as long as the member.  Invariant: each lane's held messages stand in `slots`."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.eager = recipe.purge == "eager"
        self.in_place = recipe.order == "item"
        self.slots: OrderedDict[int, Message] = OrderedDict()
        self.lanes: dict[Rank, PurgingBuffer] = {}
        self.slot_of: dict[Rank, dict[Seq, int]] = {}
        self.barrier: dict[Rank, int] = {}  # the slot of the last message not to be crossed
        self.next_slot = 1

    def __len__(self) -> int:
        return len(self.slots)

    def __repr__(self) -> str:
        waiting = ", ".join(f"{m.sender}:{m.seq}" for m in self.slots.values())
        return f"DeliveryQueue({waiting})"

    @property
    def has_next(self) -> bool:
        """Whether there is something to hand out."""
        return bool(self.slots)

    def holds(self, message: Message) -> bool:
        """Whether this message waits here."""
        lane = self.lanes.get(message.sender)
        return lane is not None and lane.holds(message.seq)

    def is_clear_of(self, sender: Rank) -> bool:
        """Whether nothing of this sender waits here."""
        lane = self.lanes.get(sender)
        return lane is None or not lane.held

    def would_purge(self, message: Message) -> list[Message]:
        """What waits here and `message` would make obsolete."""
        lane = self.lanes.get(message.sender)
        return [] if lane is None else lane.would_purge(message)

    def push(self, message: Message) -> list[tuple[Message, Seq]]:
        """Queue the next message of its stream; purge if eager: pairs (purged, by)."""
        sender = message.sender
        lane = self.lanes.get(sender)
        if lane is None:
            lane = self.lanes[sender] = PurgingBuffer(self.recipe)
            self.slot_of[sender] = {}
            self.barrier[sender] = 0
        lane.add(message)
        purged = lane.purge(message.seq) if self.eager else []
        fixed = message.keep or message.item is None
        slot = self._place(message, purged) if self.in_place and not fixed else 0
        if not slot:
            slot = self.next_slot
            self.next_slot += 1
        self._vacate(purged, keeping=slot)
        self.slots[slot] = message
        self.slot_of[sender][message.seq] = slot
        if fixed:
            self.barrier[sender] = slot
        return purged

    def _place(self, message: Message, purged: list[tuple[Message, Seq]]) -> int:
        """The slot of the value this one supersedes, unless that means crossing a barrier."""
        if not purged:
            return 0
        slot = self.slot_of[message.sender][purged[-1][0].seq]
        return slot if slot > self.barrier[message.sender] else 0

    def _vacate(self, purged: list[tuple[Message, Seq]], keeping: int) -> None:
        for message, _ in purged:
            slot = self.slot_of[message.sender].pop(message.seq)
            if slot != keeping:
                del self.slots[slot]

    def pop(self) -> Message:
        """Hand out the message that waited longest, or took the place of one that did."""
        _, message = self.slots.popitem(last=False)
        sender = message.sender
        del self.slot_of[sender][message.seq]
        lane = self.lanes[sender]
        lane.remove(message.seq)
        if not self.in_place:
            lane.settle(message.seq)
        return message

    def relieve(self) -> list[tuple[Message, Seq]]:
        """Room is short: drop whatever is obsolete here, which is nothing if purging is eager."""
        purged: list[tuple[Message, Seq]] = []
        for lane in self.lanes.values():
            if lane.unapplied:
                purged += lane.purge(lane.unapplied[-1].seq)
        self._vacate(purged, keeping=0)
        return purged
