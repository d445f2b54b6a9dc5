"""One server of the store hands another what it lacks: updates, or a snapshot and then updates.

Both sides work in slices, so that no input takes long however large the state is.  Slices
that arrive are staged on disk and take effect all at once, when they are complete.
"""

from collections.abc import Iterator, Sequence
from typing import Final
from zlib import crc32

import msgspec

from semcast.service.store_messages import (
    HandoverEnd,
    ItemsRecord,
    ItemsSlice,
    LogSlice,
    SessionsSlice,
    SnapshotRecord,
    SnapshotRest,
    StagedBatchRecord,
    StoreRecord,
)
from semcast.service.store_state import SnapshotReader, StoreState
from semcast.service.update_log import LogBatch, UpdateLog
from semcast.terms.errors import RemoteProtocolError
from semcast.terms.ids import Incarnation, ViewId

SLICE_BYTES: Final = 32 << 10

Handed = ItemsSlice | SessionsSlice | SnapshotRest | LogSlice | HandoverEnd


class StateSender:
    """What one server of the view gets, slice by slice, as it is when the sender is made."""

    def __init__(
        self, view: ViewId, to: Incarnation, log: UpdateLog, state: StoreState, start: int | None
    ) -> None:
        self.to = to
        self.reader: SnapshotReader | None = None
        if start is None:
            self.reader = state.snapshot()
            start = self.reader.index
        after, digest = log.boundary(start)
        end = HandoverEnd(view, log.length, log.digest)
        self._slices = self._all(view, after, digest, log.after(after), end)

    def next_slice(self) -> Handed | None:
        """The next slice; None at the end."""
        return next(self._slices, None)

    def _all(
        self, view: ViewId, after: int, digest: int, batches: Sequence[LogBatch], end: HandoverEnd
    ) -> Iterator[Handed]:
        reader = self.reader
        if reader is not None:
            while items := reader.next_items():
                yield ItemsSlice(view, items)
            for start in range(0, len(reader.sessions), SLICE_BYTES):
                yield SessionsSlice(view, reader.sessions[start : start + SLICE_BYTES])
            yield SnapshotRest(view, reader.index, digest)
        found: list[tuple[int, bytes]] = []
        size = 0
        for batch in batches:
            found.append((batch.updates, batch.payload))
            size += len(found[-1][1])
            if size >= SLICE_BYTES:
                yield LogSlice(view, after, digest, found)
                found, size = [], 0
        yield LogSlice(view, after, digest, found)
        yield end


class StateReceiver:
    """What has come so far in one view; `is_complete` once all has."""

    def __init__(self) -> None:
        self.items: dict[bytes, bytes] = {}
        self.sessions = bytearray()
        self.rest: SnapshotRest | None = None
        self.batches: list[tuple[int, bytes]] = []
        self.after = self.digest = 0
        self.end: HandoverEnd | None = None

    def on_slice(self, handed: Handed) -> Iterator[StoreRecord]:
        """Take a slice; returns the records that stage it."""
        if isinstance(handed, ItemsSlice):
            self.items.update(handed.items)
            yield ItemsRecord(False, handed.items)
        elif isinstance(handed, SessionsSlice):
            self.sessions += handed.part
        elif isinstance(handed, SnapshotRest):
            self.rest = handed
            yield SnapshotRecord(False, handed.index, handed.digest, bytes(self.sessions))
        elif isinstance(handed, LogSlice):
            self.after, self.digest = handed.after, handed.digest
            self.batches += handed.batches
            for count, payload in handed.batches:
                yield StagedBatchRecord(False, count, payload)
        else:
            self.end = handed

    def adopt(self, state: StoreState, log: UpdateLog) -> UpdateLog:
        """Put what came in the place of what was there, if it is complete; returns the log."""
        rest, end = self.rest, self.end
        assert end is not None
        if rest is not None:
            log = UpdateLog(rest.index, rest.digest)
        if log.boundary(self.after) != (self.after, self.digest):
            raise RemoteProtocolError(f"update {self.after}: the histories of two servers differ")
        self._check_batches(end)
        if rest is not None:
            try:
                state.restore(self.items, bytes(self.sessions), rest.index)
            except msgspec.MsgspecError as error:
                raise RemoteProtocolError(f"cannot decode the sessions: {error}") from error
        log.cut(self.after)
        for count, payload in self.batches:
            log.append(payload, count)
        return log

    def _check_batches(self, end: HandoverEnd) -> None:
        """Nothing may have changed yet if something is missing."""
        length, digest = self.after, self.digest
        for count, payload in self.batches:
            length, digest = length + count, crc32(payload, digest)
        if (length, digest) != (end.length, end.digest):
            raise RemoteProtocolError(f"update {length}: what was handed over is incomplete")
