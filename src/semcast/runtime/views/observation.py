"""A live member of changing views seen from outside."""

from time import monotonic
from typing import Final

from semcast.core.views.recipe import quorum
from semcast.runtime.observation import NOTICEABLE, Observation
from semcast.runtime.options import Options
from semcast.runtime.snapshot import Peer, Snapshot, ViewSeen
from semcast.runtime.transport import Transport
from semcast.runtime.views.host import ViewHost
from semcast.runtime.views.introductions import Standing
from semcast.terms.ids import Rank
from semcast.terms.machine import Status

_SILENT: Final = Standing(0, 0, 0, (), (), "")


class ViewObservation(Observation):
    """Lives as long as the group; changes nothing."""

    def __init__(
        self, options: Options, host: ViewHost, transport: Transport, *, is_sealed: bool
    ) -> None:
        super().__init__(options, transport, is_sealed=is_sealed)
        self._host = host

    def snapshot(self) -> Snapshot:
        """Everything at this moment."""
        host, life, now = self._host, self._host.member.life, monotonic()
        own, status = host.standing(), host.status()
        members = status.view.members
        rank = members.index(life) if life in members else 0
        peers = [self._peer(r, status, now) for r in range(len(members)) if r != rank]
        common = self._common(now)
        common["discarded"] = dict(self._transport.discarded + host.discarded)
        return Snapshot(
            **common,
            rank=rank,
            f=len(members) - quorum(len(members)) if members else 0,
            sent=host.sent,
            delivered=own.delivered,
            skipped=own.skipped,
            purged=status.purged,
            queued=own.queued,
            held=own.held,
            held_bytes=status.held_bytes,
            is_blocked=status.is_blocked,
            slowest=self._slowest(own, peers),
            peers=peers,
            view=self._view(own),
        )

    def _view(self, own: Standing) -> ViewSeen:
        host, name_of = self._host, self._host.introductions.name_of
        members = own.members
        return ViewSeen(
            id=own.view,
            members=[name_of(pid) for pid, _ in members],
            status=own.status,
            is_primary=host.view.is_primary,
            needed=quorum(len(members)) if host.recipe.is_primary and members else 1,
            suspected=[name_of(pid) for pid in own.suspects],
        )

    def _peer(self, rank: Rank, status: Status, now: float) -> Peer:
        known, pid = self._host.introductions, status.view.members[rank].pid
        standing = known.heard.get(pid, _SILENT)
        return Peer(
            name=known.name_of(pid),
            rank=rank,
            lag=status.lags.get(rank, 0),
            heard_ago_s=status.silent_s.get(pid, now - self._since),
            delivered=standing.delivered,
            skipped=standing.skipped,
            queued=standing.queued,
            held=standing.held,
            is_forgotten=False,
        )

    def _slowest(self, own: Standing, peers: list[Peer]) -> str | None:
        """Who has most waiting or lags most; nobody if that is little."""
        burdens = {peer.name: peer.queued + peer.lag for peer in peers}
        burdens[self._options.name] = own.queued
        name = max(burdens, key=lambda each: burdens[each])
        return name if burdens[name] > self._options.buffer * NOTICEABLE else None
