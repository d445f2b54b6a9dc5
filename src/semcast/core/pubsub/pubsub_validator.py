"""Refuses datagrams that no process of this group can send: it does not exist, or may not say that.

The codec has checked that numbers are numbers and spans are spans; this is what only the group
knows.  Datagrams that fail are discarded.
"""

from collections.abc import Callable
from typing import Any

from semcast.core.pubsub.recipe import PubsubRecipe
from semcast.terms.ids import Rank
from semcast.terms.pubsub import (
    STREAMS_MAX,
    Ack,
    Collected,
    Gossip,
    GossipDigest,
    LostSeqs,
    MemberList,
    NotHeld,
    Publication,
    PublisherHeartbeat,
    PubsubDatagram,
    RecoveryReply,
    Repair,
    RepairRequest,
    StatusList,
    StreamSpans,
    StreamStatus,
    UnusedSeqs,
    Welcome,
)


class PubsubValidator:
    """One per participant; changes nothing."""

    def __init__(self, recipe: PubsubRecipe, pid: Rank) -> None:
        self.pid = pid
        self.members = recipe.members
        self.publishers = min(recipe.members, STREAMS_MAX)
        self.loggers = frozenset(recipe.logger_pids)

    def is_valid(self, source: Rank, datagram: PubsubDatagram) -> bool:
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

    def _parts(self, parts: tuple[StreamSpans, ...]) -> bool:
        return self._publish(part.sender for part in parts)

    def _streams(self, streams: tuple[StreamStatus, ...]) -> bool:
        return self._publish(heard.sender for heard in streams)

    def _members(self, source: Rank, members: MemberList) -> bool:
        return members.last < self.members and self._exist(e.pid for e in members.entries)

    def _ack(self, source: Rank, ack: Ack) -> bool:
        return source in self.loggers and ack.part.sender == self.pid

    def _holds(self, source: Rank, holds: RecoveryReply) -> bool:
        return source in self.loggers and holds.part.sender == self.pid

    def _gap(self, source: Rank, gap: UnusedSeqs) -> bool:
        return self._speaks_for(source, gap.part.sender)

    def _gone(self, source: Rank, gone: LostSeqs) -> bool:
        return source in self.loggers and self._publish((gone.part.sender,))

    def _absent(self, source: Rank, absent: NotHeld) -> bool:
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
    RepairRequest: lambda v, source, d: v._parts(d.missing),
    Gossip: lambda v, source, d: v._parts(d.missing) and v._streams(d.streams),
    GossipDigest: lambda v, source, d: v._parts(d.holds),
    Collected: lambda v, source, d: v._parts(d.parts),
    StatusList: lambda v, source, d: v._streams(d.streams),
    MemberList: PubsubValidator._members,
    Welcome: lambda v, source, d: v._streams(d.lasts),
    Ack: PubsubValidator._ack,
    RecoveryReply: PubsubValidator._holds,
    UnusedSeqs: PubsubValidator._gap,
    LostSeqs: PubsubValidator._gone,
    NotHeld: PubsubValidator._absent,
}
