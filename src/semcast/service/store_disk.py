"""A store server's records on disk: its updates, its level, and snapshots of its state.

Records take effect in their order.  Staged slices take effect only with the record that ends them,
so a crash in between leaves the state as it was before.
"""

from collections import deque
from collections.abc import Iterator

from semcast.service.store_messages import (
    AdoptedRecord,
    BatchRecord,
    ItemsRecord,
    SafeRecord,
    SnapshotDoneRecord,
    SnapshotRecord,
    StagedBatchRecord,
    StagingRecord,
    StoreRecord,
    entries_of,
)
from semcast.service.store_state import SnapshotReader, StoreState
from semcast.service.update_log import LogBatch, UpdateLog
from semcast.terms.effects import Effects
from semcast.terms.ids import ViewId
from semcast.terms.records import NO_RECORDS, Records


class StoreDisk:
    """Numbers what is to be persisted, and knows what is.  Without `durable` there is no disk, and
    everything counts as persisted at once."""

    __slots__ = (
        "_lengths",
        "appended",
        "durable",
        "length",
        "logged_bytes",
        "persisted",
        "records",
        "safe",
        "ticket",
    )

    def __init__(self, durable: bool, length: int, safe: int, records: int) -> None:
        """`records` is the number of the last record of the lives before."""
        self.durable = durable
        self.records = records
        self.ticket = self.persisted = 0
        self.length = length  # of the log that is on disk, as far as it counts
        self.appended = length  # of the log that was last known to be on disk
        self.safe = safe  # as the last record says
        self.logged_bytes = 0  # of updates that were written in this life
        self._lengths: deque[tuple[int, int]] = deque()  # by ticket, how many updates there are

    @property
    def is_settled(self) -> bool:
        """Whether all that was written is on disk."""
        return self.persisted == self.ticket

    def write(self, record: StoreRecord, out: Effects) -> None:
        """Have a record persisted."""
        if self.durable:
            self.ticket += 1
            out.persist.append((self.ticket, record))

    def write_batch(self, batch: LogBatch, safe: int, out: Effects) -> None:
        """The log has grown by a batch."""
        self.write(BatchRecord(batch.first, batch.updates, batch.payload, safe), out)
        self.safe = safe
        self.logged_bytes += len(batch.payload)
        self._reach(batch.last)

    def write_adopted(self, adopted: AdoptedRecord, length: int, out: Effects) -> None:
        """The log is another one, or has another level: nothing of it counts before that."""
        self._lengths.clear()
        self.length = 0
        self.write(adopted, out)
        self.safe = adopted.safe
        self._reach(length)

    def write_safe(self, safe: int, out: Effects) -> None:
        """More is safe than the records say."""
        self.write(SafeRecord(safe), out)
        self.safe = safe

    def _reach(self, length: int) -> None:
        if self.durable:
            self._lengths.append((self.ticket, length))
        else:
            self.length = length

    def on_persisted(self, ticket: int) -> None:
        """Everything up to `ticket` is on stable storage."""
        self.persisted = max(self.persisted, ticket)
        while self._lengths and self._lengths[0][0] <= ticket:
            self.length = self.appended = self._lengths.popleft()[1]


class SnapshotWriter:
    """Writes a snapshot of the own state to disk, a slice whenever the one before is there."""

    def __init__(self, state: StoreState, log: UpdateLog, disk: StoreDisk) -> None:
        self.reader: SnapshotReader = state.snapshot()
        self.logged_bytes = disk.logged_bytes  # when it was begun
        self._disk = disk
        self._tail = list(log.after(self.reader.index))
        self._digest = log.boundary(self.reader.index)[1]
        self._records = self._all()
        self._awaited = self._first = 0  # tickets
        self._is_complete = False

    def poll(self, level: ViewId, safe: int, out: Effects) -> bool:
        """Write the next slice if it is time.  Once all is on disk, forget what was there before,
        and return True."""
        disk = self._disk
        if disk.persisted < self._awaited:
            return False
        if self._is_complete:
            out.forget_before = disk.records + self._first
            return True
        record = next(self._records, None)
        self._is_complete = record is None
        disk.write(record or SnapshotDoneRecord(level, safe), out)
        self._awaited = disk.ticket
        self._first = self._first or disk.ticket
        return False

    def _all(self) -> Iterator[StoreRecord]:
        reader = self.reader
        yield StagingRecord(True)
        while items := reader.next_items():
            yield ItemsRecord(True, items)
        about = reader.index, self._digest, reader.sessions
        yield SnapshotRecord(True, *about)
        for batch in self._tail:
            yield StagedBatchRecord(True, batch.updates, batch.payload)


class _Staged:
    def __init__(self) -> None:
        self.items: dict[bytes, bytes] = {}
        self.snapshot: SnapshotRecord | None = None
        self.batches: list[StagedBatchRecord] = []

    def add(self, record: ItemsRecord | SnapshotRecord | StagedBatchRecord) -> None:
        if isinstance(record, ItemsRecord):
            self.items.update(record.items)
        elif isinstance(record, SnapshotRecord):
            self.snapshot = record
        else:
            self.batches.append(record)


class StoredState:
    """What the records of a disk make: the state that a new life begins with.

    `has_state` is False if there is none: a new server, or one whose disk was lost.  What was
    written before a record that cannot be read does not count; a complete snapshot behind it does.
    Making this takes long if there is much on disk, so a live server does it beside its event loop.
    """

    def __init__(self, sessions_max: int, records: Records = NO_RECORDS) -> None:
        self.state = StoreState(sessions_max)
        self.log = UpdateLog()
        self.level: ViewId = 0
        self.safe = 0
        self.has_state = False
        self._sessions_max = sessions_max
        self._staged: dict[bool, _Staged | None] = {False: None, True: None}
        expected = 0  # Where the log was cut off, its first record begins a snapshot.
        for number, record in records.numbered():
            if expected and number != expected:
                self._begin_anew()
            self._apply(record)
            expected = number + 1
        self.records = records.last  # the number of the last one
        if not self.has_state or expected <= records.last:
            self._begin_anew()
        self.snapshot_index = self.state.index
        self.safe = max(self.state.index, min(self.safe, self.log.length))
        self._execute_safe()
        del self._staged

    def _execute_safe(self) -> None:
        """Execute what was safe in an earlier life; nobody waits for the answers."""
        state = self.state
        while state.index < self.safe:
            for entry in entries_of(self.log.holding(state.index + 1).payload):
                state.execute(entry)

    def _begin_anew(self) -> None:
        """Records were lost here: nobody knows what they made of those before."""
        self.state, self.log = StoreState(self._sessions_max), UpdateLog()
        self.level, self.safe, self.has_state = 0, 0, False
        self._staged = {False: None, True: None}

    def _apply(self, record: StoreRecord) -> None:
        if isinstance(record, BatchRecord):
            if record.first > self.log.length + 1:  # Earlier records were dropped from the disk.
                self.log = UpdateLog(record.first - 1)
            self.log.append(record.payload, record.count)
            self.safe = max(self.safe, record.safe)
        elif isinstance(record, SafeRecord):
            self.safe = max(self.safe, record.safe)
        elif isinstance(record, StagingRecord):
            self._staged[record.is_own] = _Staged()
        elif isinstance(record, AdoptedRecord):
            self._adopt(record)
        elif isinstance(record, SnapshotDoneRecord):
            self._complete_snapshot(record)
        elif (staged := self._staged[record.is_own]) is not None:
            staged.add(record)

    def _adopt(self, record: AdoptedRecord) -> None:
        staged = self._staged[False] if record.is_handed else _Staged()
        self._staged = {False: None, True: None}
        if staged is not None and staged.snapshot is not None:
            self._restore(staged.items, staged.snapshot)
            self.safe = 0
        elif staged is None or not self.has_state:
            self._begin_anew()
            if staged is None or record.after:
                return  # It goes on from something that was lost.
        self.log.cut(record.after)
        for batch in staged.batches:
            self.log.append(batch.payload, batch.count)
        self.level, self.has_state = record.level, True
        self.safe = max(self.safe, record.safe)

    def _complete_snapshot(self, record: SnapshotDoneRecord) -> None:
        """The tail that was staged, and behind it what was written meanwhile."""
        staged, log = self._staged[True], self.log
        self._staged[True] = None
        if staged is None:
            return  # Its beginning was lost.
        assert staged.snapshot is not None
        self._restore(staged.items, staged.snapshot)
        for batch in staged.batches:
            self.log.append(batch.payload, batch.count)
        for later in log.after(self.log.length):
            self.log.append(later.payload, later.updates)
        self.level, self.has_state = record.level, True
        self.safe = max(self.safe, record.safe)

    def _restore(self, items: dict[bytes, bytes], snapshot: SnapshotRecord) -> None:
        self.state.restore(items, snapshot.sessions, snapshot.index)
        self.log = UpdateLog(snapshot.index, snapshot.digest)
