"""Group commit: records gather while a sync runs, and the next sync writes all of them.

No timer delays a record.  The simulated process and the live one both commit by these rules; they
differ in how a sync is carried out.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from semcast.disk.entries import Batch
from semcast.disk.segment_log import SegmentLog
from semcast.terms.errors import StorageError
from semcast.terms.records import ReadRequest, ReadResult, Records

_encoder = msgspec.msgpack.Encoder()


class StoredRecords(Records):
    """What a log has, decoded one by one as it is read."""

    def __init__(self, log: SegmentLog, record: Any) -> None:
        """`record` is the type, usually a union, of the records."""
        self._log = log
        self._decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(record)

    def numbered(self) -> Iterator[tuple[int, Any]]:
        """The records with their numbers; a number that is left out cannot be read."""
        for number, body in self._log.bodies():
            yield number, self.decode(number, body)

    @property
    def last(self) -> int:
        """The number of the last record; the first one of the next life follows it."""
        return self._log.last

    @property
    def missing(self) -> Sequence[tuple[int, int]]:
        """Records that were durable and cannot be read; complete once all records were read."""
        return [(hole.first, hole.last) for hole in self._log.damage if not hole.is_torn]

    def fetch(self, request: ReadRequest) -> ReadResult:
        """The records that a machine asks for."""
        bodies = zip(request.numbers, self._log.read(request.numbers), strict=True)
        found = {n: self.decode(n, body) for n, body in bodies if body is not None}
        return ReadResult(found, request.purpose)

    def decode(self, number: int, body: bytes) -> Any:
        """The record that these bytes are."""
        try:
            return self._decoder.decode(body)
        except msgspec.MsgspecError as error:
            raise StorageError(
                f"cannot decode record {number:,} of the log, which is undamaged: {error}; "
                "was it written by another version of Semcast?"
            ) from None


class CommitQueue:
    """Between one machine and its log.  Invariant: at most one batch is under way, and `durable`
    is the number of the last record of the batches that ended."""

    __slots__ = ("_batch", "_encode", "_forget", "_next_ticket", "_ticket", "durable", "is_busy")

    def __init__(self, batch: Batch, encode: Callable[[Any], bytes] = _encoder.encode) -> None:
        """`batch` is the first that follows what the log has."""
        self._batch, self._encode = batch, encode
        self._ticket = self._next_ticket = 0
        self._forget = 0
        self.is_busy = False
        self.durable = batch.first - 1

    def __repr__(self) -> str:
        return f"CommitQueue(durable={self.durable}, waiting={self._batch}, busy={self.is_busy})"

    @property
    def waiting_bytes(self) -> int:
        """How much waits for the disk to be free."""
        return len(self._batch.data)

    def add(self, records: Sequence[tuple[int, Any]]) -> None:
        """Records with their tickets, in order."""
        encode = self._encode
        if len(records) == 1:
            self._batch.add((encode(records[0][1]),))
        else:
            self._batch.add([encode(record) for _, record in records])
        self._next_ticket = records[-1][0]

    def begin(self) -> Batch | None:
        """The batch to commit now; None if there is nothing, or the disk is not free."""
        if self.is_busy or not self._batch.count:
            return None
        batch, self._batch = self._batch, self._batch.follow()
        self.is_busy, self._ticket = True, self._next_ticket
        return batch

    def end(self, batch: Batch) -> int:
        """The batch is durable: up to which ticket that is."""
        self.is_busy = False
        self.durable = batch.first + batch.count - 1
        return self._ticket

    def forget_before(self, number: int) -> None:
        """Records before `number` are needed no longer, once it is durable."""
        self._forget = max(self._forget, number)

    def take_forgotten(self) -> int:
        """Before which record to forget now, or 0."""
        if not 0 < self._forget <= self.durable + 1:
            return 0
        forget, self._forget = self._forget, 0
        return forget
