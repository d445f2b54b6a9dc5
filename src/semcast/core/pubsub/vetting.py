"""What this group can say: processes that exist, and who may speak for whom.

The codec has checked that numbers are numbers and spans are spans; this is what only the group
knows.  What fails is discarded: it is another group's, or nobody's.
"""

from collections.abc import Callable
from typing import Any

from semcast.core.pubsub.recipe import PubsubRecipe
from semcast.terms.ids import Rank
from semcast.terms.pubsub import (
    STREAMS_MAX,
    Absent,
    Ack,
    Collected,
    Digest,
    Gap,
    Gone,
    Gossip,
    Heard,
    Holds,
    Lasts,
    Members,
    Part,
    Publication,
    PublisherHeartbeat,
    PubsubDatagram,
    Repair,
    RepairRequest,
    Welcome,
)


class PubsubValidator:
    """One per participant; changes nothing."""

    def __init__(self, recipe: PubsubRecipe, pid: Rank) -> None:
        self.pid = pid
        self.members = recipe.members
        self.publishers = min(recipe.members, STREAMS_MAX)
        self.loggers = frozenset(recipe.keepers)

    def allows(self, source: Rank, datagram: PubsubDatagram) -> bool:
        """Whether `source` can mean this."""
        check = _CHECKS.get(type(datagram))
        known = 0 <= source < self.members
        return known and (check is None or check(self, source, datagram))

    def _publication(self, source: Rank, publication: Publication) -> bool:
        is_own = all(message.sender == source for message in publication.messages)
        return is_own and self._publish((source,))

    def _repair(self, source: Rank, repair: Repair) -> bool:
        return self._publish(message.sender for message in repair.messages) and self._publish(
            notice.sender for notice in repair.purged
        )

    def _heartbeat(self, source: Rank, heartbeat: PublisherHeartbeat) -> bool:
        return heartbeat.sender == source and self._publish((source,))

    def _parts(self, parts: tuple[Part, ...]) -> bool:
        return self._publish(part.sender for part in parts)

    def _streams(self, streams: tuple[Heard, ...]) -> bool:
        return self._publish(heard.sender for heard in streams)

    def _members(self, source: Rank, members: Members) -> bool:
        return members.last < self.members and self._exist(e.pid for e in members.entries)

    def _ack(self, source: Rank, ack: Ack) -> bool:
        return source in self.loggers and ack.part.sender == self.pid

    def _holds(self, source: Rank, holds: Holds) -> bool:
        return source in self.loggers and holds.part.sender == self.pid

    def _gap(self, source: Rank, gap: Gap) -> bool:
        return self._speaks_for(source, gap.part.sender)

    def _gone(self, source: Rank, gone: Gone) -> bool:
        return source in self.loggers and self._publish((gone.part.sender,))

    def _absent(self, source: Rank, absent: Absent) -> bool:
        return self._speaks_for(source, absent.part.sender)

    def _speaks_for(self, source: Rank, sender: Rank) -> bool:
        return self._publish((sender,)) and (source in self.loggers or source == sender)

    def _exist(self, pids: Any) -> bool:
        return all(0 <= pid < self.members for pid in pids)

    def _publish(self, pids: Any) -> bool:
        return all(0 <= pid < self.publishers for pid in pids)


_CHECKS: dict[type, Callable[[PubsubValidator, Rank, Any], bool]] = {
    Publication: PubsubValidator._publication,
    Repair: PubsubValidator._repair,
    PublisherHeartbeat: PubsubValidator._heartbeat,
    RepairRequest: lambda v, source, d: v._parts(d.lacks),
    Gossip: lambda v, source, d: v._parts(d.lacks) and v._streams(d.streams),
    Digest: lambda v, source, d: v._parts(d.holds),
    Collected: lambda v, source, d: v._parts(d.parts),
    Lasts: lambda v, source, d: v._streams(d.streams),
    Members: PubsubValidator._members,
    Welcome: lambda v, source, d: v._streams(d.lasts),
    Ack: PubsubValidator._ack,
    Holds: PubsubValidator._holds,
    Gap: PubsubValidator._gap,
    Gone: PubsubValidator._gone,
    Absent: PubsubValidator._absent,
}
