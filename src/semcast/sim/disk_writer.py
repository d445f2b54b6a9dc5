"""Writing to a disk that takes its time.

Written is not durable: there is one sync at a time, it covers what was written before it began, and
only when it ends the process is told.
"""

from random import Random
from typing import TYPE_CHECKING, Any

from semcast.faults import Latency
from semcast.sim.disk import SimDisk

if TYPE_CHECKING:
    from semcast.sim.process import SimProcess


class DiskWriter:
    """The disk of one process, if `record` says what it writes; it outlives incarnations."""

    __slots__ = ("_is_syncing", "_latency", "_process", "_rng", "_written", "disk")

    def __init__(self, record: Any, latency: Latency, rng: Random, process: "SimProcess") -> None:
        self.disk = None if record is None else SimDisk(record)
        self._latency, self._rng, self._process = latency, rng, process
        self.begin()

    def begin(self) -> None:
        """An incarnation begins; its tickets are its own."""
        self._written, self._is_syncing = 0, False

    def records(self) -> tuple[Any, ...]:
        """What an incarnation finds."""
        return () if self.disk is None else self.disk.records()

    def crash(self, loses_disk: bool) -> None:
        """Lose what was not synced, or all."""
        if self.disk is not None:
            self.disk.crash(self._rng)
            if loses_disk:
                self.disk.wipe()

    def write(self, records: list[tuple[int, Any]]) -> None:
        """Write all records, and sync them as soon as that can begin."""
        for ticket, record in records:
            if self.disk is not None:
                self.disk.write(record)
            self._written = ticket
        records.clear()
        if not self._is_syncing:
            self._begin_sync()

    def _begin_sync(self) -> None:
        self._is_syncing = True
        process = self._process
        covers = (process.life.inc, self._written, 0 if self.disk is None else self.disk.size)
        process.clock.at(process.clock.now + self._latency.draw(self._rng), self._end_sync, covers)

    def _end_sync(self, inc: int, ticket: int, upto: int) -> None:
        if inc != self._process.life.inc or not self._process.is_up:
            return  # The incarnation that asked for it is over.
        if self.disk is not None:
            self.disk.sync(upto)
        self._is_syncing = False
        if ticket < self._written:
            self._begin_sync()
        self._process.on_synced(ticket)
