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
from semcast.terms.messages import Rank
from semcast.terms.views import LEFT

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
        host, member, now = self._host, self._host.member, monotonic()
        own = host.standing()
        holdings = [tenure.member.holdings for tenure in member.tenures]
        members = member.view.members
        rank = members.index(member.life) if member.life in members else 0
        peers = [self._peer(r, now) for r in range(len(members)) if r != rank]
        return Snapshot(
            **self._common(now),
            rank=rank,
            f=len(members) - quorum(len(members)) if members else 0,
            sent=host.sent,
            delivered=own.delivered,
            skipped=own.skipped,
            purged=sum(each.purged for each in holdings),
            queued=own.queued,
            held=own.held,
            held_bytes=sum(each.bytes for each in holdings),
            is_blocked=member.is_refused or any(each.refused for each in holdings),
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

    def _peer(self, rank: Rank, now: float) -> Peer:
        host, member = self._host, self._host.member
        life = member.view.members[rank]
        standing = host.introductions.heard.get(life.pid, _SILENT)
        heard_at = member.suspicion.heard.get(life.pid, self._since)
        inner = member.tenures[-1].member
        lag = inner.last - inner.outbox.reached.get(rank, inner.last)
        return Peer(
            name=host.introductions.name_of(life.pid),
            rank=rank,
            lag=0 if member.status == LEFT else lag,  # Who lets it go has everything.
            heard_ago_s=now - heard_at,
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
