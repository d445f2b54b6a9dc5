"""The rows of `semcast top`: one member between two looks.

Rates are differences of two snapshots over the time between them on the member's own clock.  Of a
member elsewhere only that is known which its local peers know.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from semcast.cli.group_changes import by_process, slow_members

if TYPE_CHECKING:
    from semcast.runtime.operations.control import Survey
    from semcast.runtime.operations.snapshot import Peer, Snapshot


class TopRow(msgspec.Struct, frozen=True, kw_only=True):
    """One member between two looks.  `lag` is the largest number of messages of one local member
    that it is not known to have received.  Values that no local member knows are None."""

    group: str
    name: str
    rank: int
    pid: int | None = None
    sent_rate: float | None = None
    delivered_rate: float | None = None
    skipped_rate: float | None = None
    purged_rate: float | None = None
    datagrams_rate: float | None = None
    discarded: int | None = None
    lag: int | None
    held: int
    waiting: int = 0
    oldest_waiting_s: float | None = None
    blocked_share: float | None = None
    blocked_by: str | None = None
    buffer: int | None = None
    is_blocked: bool = False
    is_slow: bool
    is_forgotten: bool
    status: str | None = None  # with views, what it is in its view
    role: str | None = None  # of a server of a replicated service
    updates: int | None = None  # that have made the state of that server

    @property
    def skipped_share(self) -> float | None:
        """The share of its messages that the member skips."""
        if self.delivered_rate is None or self.skipped_rate is None:
            return None
        total = self.delivered_rate + self.skipped_rate
        return self.skipped_rate / total if total else 0.0

    @property
    def state(self) -> str:
        """The state, in words."""
        waits = f"waits for {self.blocked_by}" if self.blocked_by else "blocked"
        states = {
            "slow": self.is_slow,
            waits: self.is_blocked or bool(self.blocked_share and self.blocked_share >= 0.1),
            "left": self.is_forgotten,
            "elsewhere": self.pid is None and not self.is_forgotten,
            self.status or "": self.status not in (None, "member"),
            self.role or "": self.role is not None and self.status in (None, "member"),
        }
        return ", ".join(state for state, applies in states.items() if applies)


def rows(before: "Survey", after: "Survey") -> list[TopRow]:
    """Every member of the groups that have one on this machine, by group and rank."""
    old = by_process(before.snapshots)
    new = by_process(after.snapshots)
    slow = slow_members(after.snapshots)
    found = []
    for group in {snapshot.group for snapshot in after.snapshots}:
        local = {key: snapshot for key, snapshot in new.items() if snapshot.group == group}
        peers: dict[str, list[Peer]] = {}
        for snapshot in local.values():
            for peer in snapshot.peers:
                peers.setdefault(peer.name, []).append(peer)
        for key, snapshot in local.items():
            seen = peers.pop(snapshot.name, [])
            found.append(_local(snapshot, old.get(key, snapshot), seen, slow))
        found += [_remote(group, seen, slow) for seen in peers.values()]
    return sorted(found, key=lambda row: (row.group, row.rank, row.pid or 0))


def _local(
    new: "Snapshot",
    old: "Snapshot",
    seen: list["Peer"],
    slow: Mapping[tuple[str, str], object],
) -> TopRow:
    elapsed_s = new.up_s - old.up_s

    def rate(now: float, then: float) -> float | None:
        # A counter that belongs to a view begins again with the next one.
        return max(0.0, now - then) / elapsed_s if elapsed_s > 0 else None

    return TopRow(
        group=new.group,
        name=new.name,
        rank=new.rank,
        pid=new.pid,
        sent_rate=rate(new.sent, old.sent),
        delivered_rate=rate(new.delivered, old.delivered),
        skipped_rate=rate(new.skipped, old.skipped),
        purged_rate=rate(new.purged, old.purged),
        datagrams_rate=rate(
            new.datagrams_in + new.datagrams_out, old.datagrams_in + old.datagrams_out
        ),
        discarded=sum(new.discarded.values()),
        lag=_lag(seen),
        held=new.held,
        waiting=new.queued,
        oldest_waiting_s=new.oldest_waiting_s if new.queued else None,
        blocked_share=rate(new.blocked_s_total, old.blocked_s_total),
        blocked_by=new.blocked_by,
        buffer=new.buffer,
        is_blocked=new.is_blocked,
        is_slow=(new.group, new.name) in slow,
        is_forgotten=any(peer.is_forgotten for peer in seen),
        status=new.view.status if new.view else None,
        role=new.server.role if new.server else None,
        updates=new.server.updates if new.server else None,
    )


def _remote(group: str, seen: list["Peer"], slow: Mapping[tuple[str, str], object]) -> TopRow:
    latest = min(seen, key=lambda peer: peer.heard_ago_s)
    return TopRow(
        group=group,
        name=latest.name,
        rank=latest.rank,
        lag=_lag(seen),
        held=latest.held,
        waiting=latest.queued,
        is_slow=(group, latest.name) in slow,
        is_forgotten=any(peer.is_forgotten for peer in seen),
    )


def _lag(seen: list["Peer"]) -> int | None:
    return max((peer.lag for peer in seen if not peer.is_forgotten), default=None)
