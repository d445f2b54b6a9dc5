"""The disk of a simulated process: the same log and the same rules as live, and a sync that takes
its time.

Written is not durable: there is one sync at a time, it covers what was appended before it began,
and only when it ends the process is told.  What is appended meanwhile is in memory alone.
"""

from random import Random
from typing import TYPE_CHECKING, Any, Final

from semcast.disk.commit_queue import CommitQueue, StoredRecords
from semcast.disk.entries import Batch, EntryKey
from semcast.disk.log_header import LogOwner
from semcast.disk.segment_log import SegmentLog, open_log
from semcast.faults import Latency
from semcast.sim.files import SimFiles
from semcast.terms.effects import Effects
from semcast.terms.errors import LocalProtocolError
from semcast.terms.records import ReadRequest, Records

if TYPE_CHECKING:
    from semcast.sim.process import SimProcess

SEGMENT_BYTES: Final = 4 << 10  # small, so that logs have many
SALT: Final = b"semcast!"


class DiskWriter:
    """The disk of one process; it outlives incarnations.  Without a type of `record`, in runs in
    which nobody crashes, it takes its time and keeps nothing."""

    def __init__(self, record: Any, latency: Latency, rng: Random, process: "SimProcess") -> None:
        self.files = SimFiles()
        self._record, self._latency, self._rng, self._process = record, latency, rng, process
        self._log: SegmentLog | None = None
        self._records: StoredRecords | None = None
        self._slow_until = 0.0

    def begin(self) -> Records:
        """An incarnation begins: what it finds."""
        if self._record is None:
            self._queue = CommitQueue(Batch(EntryKey(SALT), 1), lambda _: b"")
            return Records()
        process = self._process
        self._log = open_log(
            self.files, LogOwner("simulated", str(process.pid)), SALT, SEGMENT_BYTES
        )
        self._queue = CommitQueue(self._log.next_batch())
        self._records = StoredRecords(self._log, self._record)
        return self._records

    def crash(self, *, is_lost: bool, is_old: bool) -> None:
        """Lose what was not synced, or all, or what was written since some earlier time."""
        self.files.cut_power(self._rng)
        if is_lost:
            self.files.wipe()
        elif is_old:
            self.files.go_back(self._rng)

    def slow_down(self, until: float) -> None:
        """No sync ends before this time."""
        self._slow_until = max(self._slow_until, until)

    def carry_out(self, out: Effects) -> None:
        """Write what a machine wants to keep, as soon as the disk is free."""
        if out.persist:
            self._queue.add(out.persist)
            out.persist.clear()
        if out.forget_before:
            self._queue.forget_before(out.forget_before)
            out.forget_before = 0
        self._begin_sync()

    def _begin_sync(self) -> None:
        queue, log = self._queue, self._log
        if queue.is_busy:
            return
        if (forgotten := queue.take_forgotten()) and log is not None:
            log.forget_before(forgotten)
        batch = queue.begin()
        if batch is not None:
            if log is not None:
                log.write(batch)
            process = self._process
            ends = process.clock.now + self._latency.draw(self._rng)
            arguments = (process.life.inc, batch)
            process.clock.at(max(ends, self._slow_until), self._end_sync, arguments)

    def _end_sync(self, inc: int, batch: Batch) -> None:
        process = self._process
        if inc != process.life.inc or not process.is_up:
            return  # The incarnation that asked for it is over.
        if self._log is not None:
            self._log.sync()
        ticket = self._queue.end(batch)
        self._begin_sync()
        process.enter(process.machine.on_persisted, ticket)

    def read(self, requests: list[ReadRequest]) -> None:
        """Answer each request after the time that a sync takes."""
        process = self._process
        for request in requests:
            ends = process.clock.now + self._latency.draw(self._rng)
            arguments = (process.life.inc, request)
            process.clock.at(max(ends, self._slow_until), self._end_read, arguments)
        requests.clear()

    def _end_read(self, inc: int, request: ReadRequest) -> None:
        process = self._process
        if inc != process.life.inc or not process.is_up:
            return
        if self._records is None:
            raise LocalProtocolError("this machine reads from its disk, and has none")
        process.enter(process.machine.on_read, self._records.fetch(request))
