"""What an order is made of: a queue, and for some orders an `Ordering`."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Protocol, TypeAlias

from semcast.kernel import Run, payload_bytes
from semcast.terms.effects import Effects
from semcast.terms.ids import NEVER, Rank, Seq
from semcast.terms.messages import DataMessage

After: TypeAlias = tuple[tuple[Rank, Seq], ...]  # by sender, what a message comes after
PurgedBy: TypeAlias = tuple[DataMessage, Seq]  # a message, and the later one that made it obsolete


class Queue(Protocol):
    """What waits for the application.  `position` is the place in a total order of what was handed
    out last, 0 if the order gives no places."""

    position: int

    @abstractmethod
    def __len__(self) -> int: ...

    @property
    @abstractmethod
    def has_next(self) -> bool:
        """Whether there is something to hand out."""
        ...

    @abstractmethod
    def holds(self, message: DataMessage) -> bool:
        """Whether this message waits here."""
        ...

    def count_waiting(self, messages: Sequence[DataMessage]) -> tuple[int, int]:
        """Of these messages of one stream, how many wait here, and their payload."""
        waiting = [message for message in messages if self.holds(message)]
        return len(waiting), payload_bytes(waiting)

    @abstractmethod
    def push(self, run: Run) -> Sequence[PurgedBy]:
        """Queue the next messages of a stream; what they purged from here."""
        ...

    @abstractmethod
    def pop(self, limit: int) -> Run:
        """Hand out what is next, which `has_next` has found: at most so many messages."""
        ...

    def would_purge(self, message: DataMessage) -> Sequence[DataMessage]:
        """What waits here and `message` would make obsolete."""
        return ()

    def purge_obsolete(self) -> Sequence[PurgedBy]:
        """Room is short: drop whatever is obsolete here."""
        return ()

    def remove_unordered(self, sender: Rank, messages: Sequence[DataMessage]) -> int:
        """The store has purged these messages of a stream: drop those that have no place yet, and
        return how many they were."""
        return 0


class Ordering(Protocol):
    """What an order adds to a member.  It looks for work after every input and at `deadline`."""

    deadline: float = NEVER
    polls: bool = False  # whether `poll` may have something to put into place

    def after(self) -> After:
        """What the next own message comes after."""
        return ()

    def poll(self, last: Seq, now: float) -> After:
        """What to put into place now by a message of its own; `last` is the last own update."""
        return ()

    def settle(self, now: float, out: Effects) -> None:
        """Hand out what may be, and tell the others how far that went."""
        return

    def pause(self) -> None:
        """Nothing of its own is sent for the while."""
        return

    def pace(self, is_busy: bool) -> bool:
        """The application says whether it is busy with what it got; whether to settle now."""
        return False

    def on_progress(self, peer: Rank, held: Seq, delivered: int) -> None:
        """A peer tells how far it got in the order."""
        return

    @property
    def progress(self) -> tuple[Seq, int]:
        """The same of this member."""
        return 0, 0

    def close(self, cut: Sequence[Seq] | None, out: Effects) -> None:
        """The view is over; with a cut, what is not yet in place up to there comes in its order."""
        return
