"""Up to where every member that is owed has a stream: what a logger may reclaim.

Rule: acknowledgements are derived from negative gossip; the frontier of a member in a stream is the
smallest number it lacks, less one, or the last it knows [RPB §5.2].  A member that is new or came
back in a new life has acknowledged nothing until its own gossip says so; one that is disconnected
is waited for; one that left is struck from all waits.
Departs: the thesis keeps a list of members per message and leaves a leaver in it; one number per
member and stream says the same, and nobody waits for who left.
"""

from collections.abc import Iterable

from semcast.core.pubsub.member_table import MemberTable
from semcast.terms.ids import Rank, Seq
from semcast.terms.pubsub import MEMBER


class Collector:
    """One life of a logger.  Invariant: `acknowledged` are of members that are owed, in this
    life."""

    def __init__(self, roster: MemberTable) -> None:
        self.roster = roster
        self.acknowledged: dict[Rank, dict[Rank, Seq]] = {}  # sender → member → frontier
        # Streams in which somebody advanced since they were asked for last.
        self.changed_streams: dict[Rank, None] = {}
        # Then all of them: who left may have been the last to wait for.
        self.membership_changed = False

    def __repr__(self) -> str:
        return f"Collector({self.acknowledged})"

    def on_acked(self, member: Rank, fresh: int, frontiers: Iterable[tuple[Rank, Seq]]) -> None:
        """A member, whose membership agrees with ours, has these."""
        self.on_membership_change()
        entry = self.roster.entry(member)
        if (
            entry is None
            or entry.status != MEMBER
            or entry.freshness != fresh
            or member == self.roster.pid
        ):
            return  # Of another life, or of nobody we know.
        for sender, frontier in frontiers:
            claims = self.acknowledged.setdefault(sender, {})
            if frontier > claims.get(member, -1):
                claims[member] = frontier
                self.changed_streams[sender] = None

    def on_membership_change(self) -> None:
        """Whoever joined, came back or left: its claims are void."""
        for member in self.roster.changed:
            self.membership_changed = True
            for claims in self.acknowledged.values():
                claims.pop(member, None)
        self.roster.changed.clear()

    def on_own_progress(self, sender: Rank) -> None:
        """The logger itself advanced in a stream."""
        self.changed_streams[sender] = None

    def collectable(self, sender: Rank, own: Seq) -> Seq:
        """Up to here everyone has it, and the logger itself up to `own`."""
        claims = self.acknowledged.get(sender, {})
        if len(claims) < self.roster.owed - 1:
            return 0
        return min(own, min(claims.values(), default=own))

    def take_changed(self, streams: Iterable[Rank]) -> list[Rank]:
        """Which of the streams to look at again."""
        self.on_membership_change()
        moved = list(streams if self.membership_changed else self.changed_streams)
        self.changed_streams.clear()
        self.membership_changed = False
        return moved
