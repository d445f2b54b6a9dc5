"""A live member seen from outside: its status and its peers' reports as one snapshot."""

import asyncio
import os
from collections.abc import Sequence
from time import monotonic
from typing import Final, Protocol

from semcast import __version__
from semcast.runtime.application.port import GroupPort
from semcast.runtime.driver import Driver
from semcast.runtime.membership.directory import Directory, ReportFigures
from semcast.runtime.membership.reports import MemberReport
from semcast.runtime.operations.snapshot import Peer, Snapshot, ViewSeen
from semcast.runtime.options.options import Options
from semcast.runtime.transport.udp import Transport
from semcast.terms.ids import Pid, Rank
from semcast.terms.machine import Status

SCRAPE_S: Final = 5.0
SLOW_SHARE_MIN: Final = 1 / 16  # of the buffer: less comes and goes with everyone

_NO_REPORT: Final[tuple[ReportFigures, ReportFigures]] = (
    MemberReport(0, 0, 0, 0),
    MemberReport(0, 0, 0, 0),
)


class MembershipRules(Protocol):
    """What depends on how a group's membership is kept."""

    def pids(self, status: Status) -> Sequence[Pid]:
        """The members by rank."""
        ...

    def tolerated(self, members: int) -> int:
        """How many of so many members may crash."""
        ...

    def view_seen(self, status: Status) -> ViewSeen | None:
        """The view that a member is in, if views change."""
        ...


class SnapshotBuilder:
    """Lives as long as the group; changes nothing."""

    def __init__(
        self,
        options: Options,
        driver: Driver,
        port: GroupPort,
        directory: Directory,
        transport: Transport,
        rules: MembershipRules,
        *,
        is_sealed: bool,
    ) -> None:
        self._options = options
        self._driver = driver
        self._port = port
        self._directory = directory
        self._transport = transport
        self._rules = rules
        self._is_sealed = is_sealed
        self._since = monotonic()
        self._loop = asyncio.get_running_loop()

    def latest(self) -> Snapshot:
        """The snapshot, for other threads than the event loop's."""
        taking = asyncio.run_coroutine_threadsafe(self._latest(), self._loop)
        try:
            return taking.result(SCRAPE_S)
        finally:
            taking.cancel()  # Otherwise a loop that is busy for longer would collect them.

    async def _latest(self) -> Snapshot:
        return self.snapshot()

    def snapshot(self) -> Snapshot:
        """Everything at this moment."""
        options, transport, port = self._options, self._transport, self._port
        status, now = self._driver.status(), monotonic()
        pids, own = self._rules.pids(status), self._directory.own_pid
        rank = pids.index(own) if own in pids else 0
        return Snapshot(
            group=options.group,
            name=options.name,
            rank=rank,
            pid=os.getpid(),
            version=__version__,
            protocol=options.protocol,
            order=options.order,
            f=self._rules.tolerated(len(pids)),
            up_s=now - self._since,
            sent=self._driver.sent,
            delivered=port.delivered,
            # A machine that lasts knows of more than the application was told already.
            skipped=max(status.skipped, port.skipped),
            purged=status.purged,
            queued=status.queued,
            held=status.held,
            held_bytes=status.held_bytes,
            buffer=options.buffer,
            is_blocked=status.is_blocked,
            is_sealed=self._is_sealed,
            datagrams_in=transport.datagrams_in,
            datagrams_out=transport.datagrams_out,
            bytes_in=transport.bytes_in,
            bytes_out=transport.bytes_out,
            discarded=dict(transport.discarded + self._driver.discarded),
            slowest=self._slowest(pids, status),
            peers=[self._peer(r, pid, status, now) for r, pid in enumerate(pids) if pid != own],
            view=self._rules.view_seen(status),
        )

    def _peer(self, rank: Rank, pid: Pid, status: Status, now: float) -> Peer:
        known = self._directory
        _, report = known.reports.get(pid, _NO_REPORT)
        return Peer(
            name=known.name_of(pid),
            rank=rank,
            lag=status.lags.get(rank, 0),
            heard_ago_s=status.silent_s.get(pid, now - known.heard_at.get(pid, self._since)),
            delivered=report.delivered,
            skipped=report.skipped,
            queued=report.queued,
            held=report.held,
            is_forgotten=rank in status.forgotten,
        )

    def _slowest(self, pids: Sequence[Pid], status: Status) -> str | None:
        """Who has most waiting, lags or lately skipped most; nobody if that is little."""
        burdens = {
            pid: self._burden(rank, pid, status)
            for rank, pid in enumerate(pids)
            if rank not in status.forgotten
        }
        pid = max(burdens, key=lambda each: burdens[each], default=self._directory.own_pid)
        noticeable = self._options.buffer * SLOW_SHARE_MIN
        return self._directory.name_of(pid) if burdens.get(pid, 0) > noticeable else None

    def _burden(self, rank: Rank, pid: Pid, status: Status) -> int:
        before, latest = self._directory.reports.get(pid, _NO_REPORT)
        queued = status.queued if pid == self._directory.own_pid else latest.queued
        return latest.skipped - before.skipped + queued + status.lags.get(rank, 0)
