"""Judges a fixed group beyond its properties: the bound of its buffers, and its counters."""

from collections.abc import Iterator, Sequence

from semcast.families.case import AnyCase
from semcast.families.referee import Player, Referee
from semcast.terms.events import DELIVER, Event


class FixedReferee(Referee):
    """Watches the bound of every member, and that nothing is passed over that is not counted.

    Gossip that goes to senders reaches anybody else only now and then, so a member that has missed
    the end of a stream may hear of it late: it is waited for.
    """

    patience = 8.0

    def __init__(self, case: AnyCase) -> None:
        super().__init__(case)
        self.bound = case.recipe.buffer + case.recipe.members
        self.delivered = [0] * case.processes
        self._seen, self._progress = -1, list[tuple[int, int]]()
        self.monitors.add({DELIVER: self._on_deliver})

    def _on_deliver(self, event: Event) -> None:
        self.delivered[event.pid] += 1

    def progress(self, players: Sequence[Player]) -> object:
        """Frontiers and queues: a message that is refused again and again is no progress."""
        if self.events != self._seen:  # Else all of them are where they were.
            self._seen = self.events
            found = (one.status for one in players)
            self._progress = [(status.passed, status.queued) for status in found]
        return self._progress

    def is_settled(self, players: Sequence[Player]) -> bool:
        """Whether nobody asks or gossips any more."""
        return all(one.status.is_drained for one in players if one.is_up)

    def leftovers(self, players: Sequence[Player]) -> Iterator[str]:
        """What a member should not have once all is quiet and every crash was announced."""
        yield from super().leftovers(players)
        for one in (each for each in players if each.is_up):
            status, delivered = one.status, self.delivered[one.pid]
            if delivered + status.skipped != status.passed:
                counted = f"{delivered} delivered, {status.skipped} skipped"
                yield f"count: member {one.pid}: {counted}, of {status.passed}"
