"""A live member seen from outside: its status and its peers' reports as one snapshot."""

import asyncio
import os
from collections.abc import Sequence
from time import monotonic
from typing import Final, Protocol

from semcast import __version__
from semcast.runtime.application.port import GroupPort
from semcast.runtime.channel import MemberChannel
from semcast.runtime.driver import Driver
from semcast.runtime.membership.directory import Directory, ReportFigures
from semcast.runtime.membership.reports import MemberReport
from semcast.runtime.operations.slow_members import MemberFigures, SlowMember, SlowMembers
from semcast.runtime.operations.snapshot import Peer, ServerFigures, Snapshot, ViewSnapshot
from semcast.runtime.options.options import Options
from semcast.runtime.transport.udp import UdpTransport
from semcast.terms.ids import Pid, Rank
from semcast.terms.machine import Status

SCRAPE_S: Final = 5.0

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

    def view_seen(self, status: Status) -> ViewSnapshot | None:
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
        transport: UdpTransport,
        channel: MemberChannel,
        rules: MembershipRules,
        *,
        is_sealed: bool,
    ) -> None:
        self._options = options
        self._driver = driver
        self._port = port
        self._directory = directory
        self._transport = transport
        self._channel = channel
        self._rules = rules
        self._is_sealed = is_sealed
        self._slow_members = SlowMembers()
        self._blocked_by: str | None = None
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
        slow = self._slow_members.slow(now)
        self._blocker(pids, slow, status)
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
            sent=self._driver.sent_in_all,
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
            slowest=slow[0].name if slow else self._blocked_by if status.is_blocked else None,
            peers=[self._peer(r, pid, status, now) for r, pid in enumerate(pids) if pid != own],
            view=self._rules.view_seen(status),
            slow=slow,
            blocked_s_total=port.blocked_s(now),
            blocked_by=self._blocked_by,
            oldest_waiting_s=self._slow_members.oldest_waiting_s(options.name, now),
            repairs_asked_total=self._channel.repairs_asked,
            repairs_answered_total=self._channel.repairs_answered,
            server=self._server(status),
        )

    def _server(self, status: Status) -> ServerFigures | None:
        if not status.role:
            return None

        def name_of(pid: Pid | None) -> str | None:
            return None if pid is None else self._directory.name_of(pid)

        return ServerFigures(
            role=status.role,
            primary=name_of(status.primary),
            updates=status.version,
            queries=status.queries,
            slowest=name_of(status.slowest),
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

    def observe(self) -> None:
        """Note the pace of every member; called about once a second."""
        status, now = self._driver.status(), monotonic()
        known, own = self._directory, self._directory.own_pid
        names = []
        for rank, pid in enumerate(self._rules.pids(status)):
            if rank in status.forgotten:
                continue
            names.append(known.name_of(pid))
            _, report = known.reports.get(pid, _NO_REPORT)
            if pid == own:
                skipped = max(status.skipped, self._port.skipped)
                figures = MemberFigures(self._port.delivered, skipped, status.queued)
            else:
                # A message that waits there may count as not received, too.
                waiting = max(report.queued, status.lags.get(rank, 0))
                figures = MemberFigures(report.delivered, report.skipped, waiting)
            self._slow_members.note(names[-1], figures, now)
        self._slow_members.keep(names)

    def _blocker(self, pids: Sequence[Pid], slow: Sequence[SlowMember], status: Status) -> None:
        """Remember the member that a blocked sender waits for."""
        if not status.is_blocked:
            return
        lags = {pid: status.lags.get(rank, 0) for rank, pid in enumerate(pids)}
        pid = max(lags, key=lambda each: lags[each], default=self._directory.own_pid)
        others = [each.name for each in slow if each.name != self._options.name]
        self._blocked_by = next(iter(others), self._directory.name_of(pid) if lags else None)
