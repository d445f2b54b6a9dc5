"""Stable storage of a live machine: its log, and the one thread that waits for the disk.

The event loop never does: it encodes records and hands over a batch when the disk is free.  The
thread writes and syncs it; then the loop tells the driver.  Reading and forgetting run in the same
thread, between two batches.  After anything that fails nothing else is done: the driver ends.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from errno import EDQUOT, ENOSPC
from pathlib import Path
from queue import SimpleQueue
from secrets import token_bytes
from threading import Thread
from typing import Any

from semcast.disk.commit_queue import CommitQueue, StoredRecords
from semcast.disk.entries import SALT_BYTES, Batch
from semcast.disk.files import Files
from semcast.disk.log_header import LogOwner
from semcast.disk.segment_log import SEGMENT_BYTES, SegmentLog, open_log
from semcast.runtime.storage.directory_files import DirectoryFiles
from semcast.runtime.storage.stable_storage import DiskUser
from semcast.runtime.tasks import open_in_thread
from semcast.terms.errors import StorageError
from semcast.terms.records import ReadRequest, ReadResult

log = logging.getLogger("semcast")


def _advice(error: OSError) -> str:
    """What to do about an error of a disk, if that is known."""
    if error.errno in (ENOSPC, EDQUOT):
        return "; free some space there, then start this process again"
    return ""


def _use_directory(path: Path) -> tuple[Files, Callable[[], None]]:
    directory = DirectoryFiles(path)
    return directory, directory.close


def _keep() -> None:
    """What somebody else has opened stays open."""


class DurableLog:
    """Of one process, from `open` to `close`, through all its machines.  Calls belong to the event
    loop in which it was opened."""

    def __init__(
        self, place: Path, segments: SegmentLog, record: Any, on_closed: Callable[[], None]
    ) -> None:
        self.place = place
        self.records = StoredRecords(segments, record)
        self.syncs = 0
        self._segments = segments
        self._queue = CommitQueue(segments.next_batch())
        self._requests: deque[ReadRequest] = deque()
        self._user: DiskUser | None = None
        self._life = 0  # Tickets of an earlier one mean nothing to the next.
        self._failure: Exception | None = None
        self._is_telling = self._has_read = False
        self._reported = 0  # how much of the damage
        self._on_closed = on_closed
        self._loop = asyncio.get_running_loop()
        self._idle = asyncio.Event()
        self._idle.set()
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = Thread(target=self._work, name="semcast-disk", daemon=True)
        self._thread.start()

    @classmethod
    async def open(
        cls,
        path: Path,
        owner: LogOwner,
        record: Any,
        *,
        segment_bytes: int = SEGMENT_BYTES,
        files: Files | None = None,
    ) -> "DurableLog":
        """Open the log in a directory, which is created if need be.

        `record` is the type of its records.  `files` replaces the directory, for tests.  Raises
        `ConfigError` for a directory of somebody else, a newer one, or one in use.
        """

        def open_files() -> tuple[SegmentLog, Callable[[], None]]:
            found, close = (files, _keep) if files is not None else _use_directory(path)
            try:
                return open_log(found, owner, token_bytes(SALT_BYTES), segment_bytes), close
            except BaseException:
                close()
                raise

        try:
            segments, close = await open_in_thread(open_files, lambda opened: opened[1]())
        except OSError as error:
            raise StorageError(
                f"cannot open the log in {path}: {error.strerror}{_advice(error)}"
            ) from error
        return cls(path, segments, record, close)

    def connect(self, user: DiskUser) -> None:
        """From here on another machine's records come, and it is told of them alone."""
        self._user = user
        self._life += 1
        self._requests.clear()
        for damage in self._segments.damage[self._reported :]:
            log.warning("stable storage: %s", damage)
        self._reported = len(self._segments.damage)

    def append(self, records: Sequence[tuple[int, Any]]) -> None:
        """Records with their tickets, in order."""
        if self._failure is None:
            self._queue.add(records)
            self._commit()

    def forget_before(self, number: int) -> None:
        """Records before this one are needed no longer, once it is durable."""
        self._queue.forget_before(number)
        self._commit()

    def read(self, requests: Sequence[ReadRequest]) -> None:
        """Records that are durable; each request is answered by `on_read`."""
        self._requests += requests
        self._commit()

    async def flush(self) -> None:
        """Wait until everything that was appended is durable, or the disk has failed."""
        while not self._idle.is_set():
            await self._idle.wait()

    async def close(self) -> None:
        """Bring everything to stable storage, and give the directory back.  If whoever closes is
        cancelled, the thread gives it back after what it has begun."""
        try:
            await self.flush()
            self._user = None
            if self._failure is None:
                self._submit(self._segments.close, lambda: None)
                await self.flush()
        finally:
            self._user = None
            self._jobs.put(None)
        await asyncio.to_thread(self._thread.join)

    # What the disk is asked for, one thing at a time

    def _commit(self) -> None:
        if self._failure is not None or self._is_telling or not self._idle.is_set():
            return
        if forgotten := self._queue.take_forgotten():
            self._submit(lambda: self._segments.forget_before(forgotten), self._commit)
        elif self._requests and not self._has_read:
            self._has_read = True  # The next turn is for what waits to be written.
            self._read(self._requests.popleft(), self._life)
        elif (batch := self._queue.begin()) is not None:
            self._has_read = False
            life = self._life
            self._submit(
                lambda: self._segments.commit(batch), lambda: self._on_durable(batch, life)
            )

        elif self._requests:
            self._read(self._requests.popleft(), self._life)

    def _read(self, request: ReadRequest, life: int) -> None:
        results: list[ReadResult] = []
        self._submit(
            lambda: results.append(self.records.fetch(request)),
            lambda: self._tell(life, lambda user: user.on_read(results[0])),
        )

    def _on_durable(self, batch: Batch, life: int) -> None:
        self.syncs += 1
        ticket = self._queue.end(batch)
        self._tell(life, lambda user: user.on_persisted(ticket))

    def _tell(self, life: int, tell: Callable[[DiskUser], None]) -> None:
        if self._user is not None and life == self._life:
            self._is_telling = True  # What it answers with shares the next sync.
            try:
                tell(self._user)
            finally:
                self._is_telling = False
        self._commit()

    def _submit(self, work: Callable[[], None], then: Callable[[], None]) -> None:
        """Have the thread do something; unless that fails, the loop goes on with `then`."""
        self._idle.clear()
        self._jobs.put(lambda: self._run(work, then))

    def _run(self, work: Callable[[], None], then: Callable[[], None]) -> None:
        error: Exception | None = None
        try:
            work()
        except Exception as failed:
            error = failed
        with suppress(RuntimeError):  # The loop is closed: nobody waits any more.
            self._loop.call_soon_threadsafe(self._after, then, error)

    def _after(self, then: Callable[[], None], error: Exception | None) -> None:
        self._idle.set()
        if error is None:
            then()
            return
        if isinstance(error, OSError):
            what = f"{error.strerror} in {self.place}{_advice(error)}"
            error = StorageError(f"stable storage failed: {what}")
        self._failure = error
        log.error("%s", error)
        if self._user is not None:
            self._user.on_disk_failed(error)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
        self._on_closed()
