"""What waits for the application, purged at once [SRM §4.3, purge_d].

A newer value goes to the tail: messages leave in the order in which they came.  Under lasting
overload that starves hot items, which order `item` is for.
"""

from collections import OrderedDict
from collections.abc import Sequence

from semcast.core.order.protocols import PurgedBy, Queue
from semcast.core.purging_buffer import PurgingBuffer
from semcast.core.recipe import Recipe
from semcast.kernel import Run, run_of
from semcast.terms.ids import Rank, Seq
from semcast.terms.messages import DataMessage


class FifoQueue(Queue):
    """Lives as long as the view.  Invariant: each lane's held messages stand in `slots`."""

    def __init__(self, recipe: Recipe, bases: Sequence[Seq] = ()) -> None:
        self.recipe = recipe
        self.position = 0
        self.eager = recipe.purge == "eager"
        self.slots: OrderedDict[int, DataMessage] = OrderedDict()
        self.by_sender: dict[Rank, PurgingBuffer] = {}
        self.slot_of: dict[Rank, dict[Seq, int]] = {}
        self.next_slot = 1

    def __len__(self) -> int:
        return len(self.slots)

    def __repr__(self) -> str:
        waiting = ", ".join(f"{m.sender}:{m.seq}" for m in self.slots.values())
        return f"{type(self).__name__}({waiting})"

    @property
    def has_next(self) -> bool:
        """Whether there is something to hand out."""
        return bool(self.slots)

    def holds(self, message: DataMessage) -> bool:
        """Whether this message waits here."""
        lane = self.by_sender.get(message.sender)
        return lane is not None and lane.holds(message.seq)

    def count_waiting(self, messages: Sequence[DataMessage]) -> tuple[int, int]:
        """Of these messages of one stream, how many wait here, and their payload."""
        if not self.slots or not self.slot_of.get(messages[0].sender):
            return 0, 0
        return super().count_waiting(messages)

    def would_purge(self, message: DataMessage) -> list[DataMessage]:
        """What waits here and `message` would make obsolete."""
        lane = self.by_sender.get(message.sender)
        return [] if lane is None else lane.would_purge(message)

    def push(self, run: Run) -> list[PurgedBy]:
        """Queue the next messages of a stream, one by one; purge if eager: pairs (purged, by)."""
        sender = run.sender
        lane = self.by_sender.get(sender)
        if lane is None:
            lane = self.by_sender[sender] = PurgingBuffer(self.recipe)
            self.slot_of[sender] = {}
        all_purged: list[PurgedBy] = []
        for message in run.messages():
            lane.add(message)
            purged = lane.purge(message.seq) if self.eager else []
            slot = self._place(message, purged)
            if purged:
                self._vacate(purged, keeping=slot)
                all_purged += purged
            self.slots[slot] = message
            self.slot_of[sender][message.seq] = slot
        return all_purged

    def _place(self, message: DataMessage, purged: list[PurgedBy]) -> int:
        """The slot of a message that has purged these: the next one."""
        self.next_slot += 1
        return self.next_slot - 1

    def _vacate(self, purged: list[PurgedBy], keeping: int) -> None:
        for message, _ in purged:
            slot = self.slot_of[message.sender].pop(message.seq)
            if slot != keeping:
                del self.slots[slot]

    def pop(self, limit: int) -> Run:
        """Hand out the message that waited longest."""
        message = self._pop()
        self.by_sender[message.sender].drop_unapplied(message.seq)
        return run_of([message])

    def _pop(self) -> DataMessage:
        _, message = self.slots.popitem(last=False)
        sender = message.sender
        del self.slot_of[sender][message.seq]
        self.by_sender[sender].remove(message.seq)
        return message

    def purge_obsolete(self) -> list[PurgedBy]:
        """Room is short: drop whatever is obsolete here, which is nothing if purging is eager."""
        purged: list[PurgedBy] = []
        if self.eager:
            return purged
        for lane in self.by_sender.values():
            if lane.unapplied:
                purged += lane.purge(lane.unapplied[-1].seq)
        self._vacate(purged, keeping=0)
        return purged
