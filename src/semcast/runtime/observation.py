"""A live member seen from outside: its state and its peers' reports as one snapshot."""

import asyncio
import os
from abc import ABC, abstractmethod
from time import monotonic
from typing import Any, Final

from semcast import __version__
from semcast.runtime.host import Host, Report
from semcast.runtime.options import Options
from semcast.runtime.snapshot import Peer, Snapshot
from semcast.runtime.transport import Transport
from semcast.terms.ids import Rank
from semcast.terms.machine import Status

SCRAPE_S: Final = 5.0
NOTICEABLE: Final = 1 / 16  # of the buffer: less comes and goes with everyone

_SILENT: Final = (Report(0, 0, 0, 0), Report(0, 0, 0, 0))


class Observation(ABC):
    """Lives as long as the group; changes nothing."""

    def __init__(self, options: Options, transport: Transport, *, is_sealed: bool) -> None:
        self._options = options
        self._transport = transport
        self._is_sealed = is_sealed
        self._since = monotonic()
        self._loop = asyncio.get_running_loop()

    @abstractmethod
    def snapshot(self) -> Snapshot:
        """Everything at this moment."""

    def latest(self) -> Snapshot:
        """The snapshot, for other threads than the event loop's."""
        return asyncio.run_coroutine_threadsafe(self._latest(), self._loop).result(SCRAPE_S)

    async def _latest(self) -> Snapshot:
        return self.snapshot()

    def _common(self, now: float) -> dict[str, Any]:
        """What any member says of itself."""
        options, transport = self._options, self._transport
        return {
            "group": options.group,
            "name": options.name,
            "pid": os.getpid(),
            "version": __version__,
            "protocol": options.protocol,
            "order": options.order,
            "up_s": now - self._since,
            "buffer": options.buffer,
            "is_sealed": self._is_sealed,
            "datagrams_in": transport.datagrams_in,
            "datagrams_out": transport.datagrams_out,
            "bytes_in": transport.bytes_in,
            "bytes_out": transport.bytes_out,
            "discarded": dict(transport.discarded),
        }


class FixedObservation(Observation):
    """Of a member of a fixed group."""

    def __init__(
        self, options: Options, host: Host, transport: Transport, *, is_sealed: bool
    ) -> None:
        super().__init__(options, transport, is_sealed=is_sealed)
        self._host = host

    def snapshot(self) -> Snapshot:
        """Everything at this moment."""
        host, member, now = self._host, self._host.member, monotonic()
        own = host.status()
        return Snapshot(
            **self._common(now),
            rank=member.rank,
            f=member.recipe.f,
            sent=own.sent,
            delivered=host.delivered,
            skipped=own.skipped,
            purged=own.purged,
            queued=own.queued,
            held=own.held,
            held_bytes=own.held_bytes,
            is_blocked=own.is_blocked,
            slowest=self._slowest(own),
            peers=[self._peer(r, own, now) for r in range(len(host.names)) if r != member.rank],
        )

    def _peer(self, rank: Rank, own: Status, now: float) -> Peer:
        host = self._host
        _, report = host.reports.get(rank, _SILENT)
        return Peer(
            name=host.names[rank],
            rank=rank,
            lag=own.lags.get(rank, 0),
            heard_ago_s=now - host.heard_at.get(rank, self._since),
            delivered=report.delivered,
            skipped=report.skipped,
            queued=report.queued,
            held=report.held,
            is_forgotten=rank in own.forgotten,
        )

    def _slowest(self, own: Status) -> str | None:
        """Who has most waiting, lags or lately skipped most; nobody if that is little."""
        names = self._host.names
        burdens = {r: self._burden(r, own) for r in range(len(names)) if r not in own.forgotten}
        rank = max(burdens, key=lambda each: burdens[each])
        return names[rank] if burdens[rank] > self._options.buffer * NOTICEABLE else None

    def _burden(self, rank: Rank, own: Status) -> int:
        before, latest = self._host.reports.get(rank, _SILENT)
        return latest.skipped - before.skipped + latest.queued + own.lags.get(rank, 0)
