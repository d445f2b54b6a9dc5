"""Total order: messages wait for their place, then for the application.

Guarantees: positions are given to every message of the view but the sequencer's order messages,
in each stream in its order; what was purged leaves its position empty.  So members that hold
different messages give each the same place [SRM §4.4].
Purging: while a message waits for its place, only by its sender's own relation once what supersedes
it is safe, which is the retransmission store's doing.  Up to `open_to` positions are final and may
be handed out; what still waits there is purged by any later one of the same item, whoever sent
it, since now there is a last word across senders.  Purging earlier would be as right for who goes
on to the next view, which contains every order it has seen; but who is ready would miss messages.
"""

from collections import deque
from collections.abc import Sequence

from semcast.core.recipe import Recipe
from semcast.terms.ids import Rank, Seq
from semcast.terms.messages import Message


class PlacedQueue:
    """Lives as long as the view.  Invariant: what is in `placed` has a position <= `last`."""

    def __init__(self, recipe: Recipe, bases: Sequence[Seq] = ()) -> None:
        self.purges = recipe.relation == "item"
        self.unplaced: list[dict[Seq, Message]] = [{} for _ in range(recipe.members)]
        # Up to where positions were given.
        self.reached: list[Seq] = list(bases) or [0] * recipe.members
        self.orders: set[Seq] = set()  # of the sequencer's stream, not yet passed over
        self.bounds: deque[tuple[Seq, int]] = deque()  # of order messages: their last position
        self.placed: dict[int, Message] = {}
        self.place_of: list[dict[Seq, int]] = [{} for _ in range(recipe.members)]
        self.newest: dict[int | None, int] = {}  # by item, the position that a later one purges
        self.last_order: Seq = 0
        self.last = 0
        self.position = 0  # of what was handed out last
        self.cursor = 1  # the first position that may yet hold something
        self.open_to = 0
        self.purged_to = 0

    def __repr__(self) -> str:
        waiting = sum(map(len, self.unplaced))
        return f"PlacedQueue(placed={list(self.placed)}, unplaced={waiting}, open={self.open_to})"

    def __len__(self) -> int:
        return len(self.placed) + sum(map(len, self.unplaced))

    @property
    def has_next(self) -> bool:
        """Whether there is something to hand out."""
        placed, cursor = self.placed, self.cursor
        while cursor <= self.open_to and cursor not in placed:
            cursor += 1
        self.cursor = cursor
        return cursor <= self.open_to

    def holds(self, message: Message) -> bool:
        """Whether this message waits here."""
        sender, seq = message.sender, message.seq
        return seq in self.place_of[sender] or seq in self.unplaced[sender]

    def is_clear_of(self, sender: Rank) -> bool:
        """Whether nothing of this sender waits here."""
        return not self.place_of[sender] and not self.unplaced[sender]

    def would_purge(self, message: Message) -> list[Message]:
        """A message without a place purges nothing."""
        return []

    def relieve(self) -> list[tuple[Message, Seq]]:
        """What could be purged was."""
        return []

    def push(self, message: Message) -> list[tuple[Message, Seq]]:
        """The next message of its stream waits for its place."""
        self.unplaced[message.sender][message.seq] = message
        return []

    def push_run(self, messages: Sequence[Message]) -> None:
        """The next messages of a stream wait for their places."""
        unplaced, first = self.unplaced[messages[0].sender], messages[0].seq
        unplaced.update(zip(range(first, first + len(messages)), messages, strict=True))

    def withdraw(self, message: Message) -> bool:
        """Whether it waited for its place; if so, it does no more."""
        return self.unplaced[message.sender].pop(message.seq, None) is not None

    def place(self, runs: Sequence[tuple[Rank, Seq]]) -> None:
        """Give out positions, run by run."""
        for sender, upto in runs:
            unplaced, place_of = self.unplaced[sender], self.place_of[sender]
            for seq in range(self.reached[sender] + 1, upto + 1):
                if sender == 0 and seq in self.orders:
                    self.orders.remove(seq)
                    continue
                self.last += 1
                message = unplaced.pop(seq, None)
                if message is not None:
                    self.placed[self.last] = message
                    place_of[seq] = self.last
            self.reached[sender] = max(self.reached[sender], upto)

    def note_order(self, seq: Seq) -> None:
        """The order message `seq` is here; it takes no position itself."""
        self.last_order = seq
        self.orders.add(seq)
        self.bounds.append((seq, self.last))

    def finalize(self, order: Seq) -> None:
        """What order messages up to `order` have placed may be handed out."""
        while self.bounds and self.bounds[0][0] <= order:
            self.open_to = self.bounds.popleft()[1]

    def purge(self) -> list[tuple[Message, int, Message]]:
        """Drop what waits though a later open position supersedes it: (purged, where, by)."""
        purged: list[tuple[Message, int, Message]] = []
        if self.purges:
            for position in range(self.purged_to + 1, self.open_to + 1):
                message = self.placed.get(position)
                if message is not None and message.item is not None:
                    self._supersede(position, message, purged)
        self.purged_to = self.open_to
        return purged

    def _supersede(
        self, position: int, message: Message, purged: list[tuple[Message, int, Message]]
    ) -> None:
        before = self.newest.pop(message.item, 0)
        if before:
            old = self.placed.pop(before)
            del self.place_of[old.sender][old.seq]
            purged.append((old, before, message))
        if not message.keep:
            self.newest[message.item] = position

    def pop(self) -> Message:
        """Hand out the next, which `has_next` has found."""
        self.position = self.cursor
        message = self.placed.pop(self.position)
        del self.place_of[message.sender][message.seq]
        if self.newest.get(message.item) == self.position:
            del self.newest[message.item]
        return message
