"""A durable log of numbered records in segment files: appended in batches, dropped from the front.

Guarantees: a record of a batch that was synced is read again, in order, until it is forgotten.  A
bad entry costs its own record alone, and is reported.  What a crash left of the batch that was
being written is kept up to its first bad entry; the rest is cut off.
Idea: a batch is written only when the one before is on stable storage.  So only the last batch may
be torn, and every entry proves that a bad one in an earlier batch was whole once.
After a write or a sync failed, the content of the disk is unknown: the log ends, and refuses every
later call.
Departs: a bad entry in the last batch of a log that was not closed looks like a torn one, and what
follows it in that batch is cut off.  To tell them apart would take a second sync for each batch.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Final

import msgspec

from semcast.disk.entries import Batch, EntryKey, Marks, SegmentScan
from semcast.disk.files import Files
from semcast.disk.log_header import (
    HEADER,
    NEW,
    LogHeader,
    LogOwner,
    check_new,
    check_owner,
    decode_header,
    encode_header,
    segment_firsts,
    segment_name,
)
from semcast.terms.errors import StorageError

SEGMENT_BYTES: Final = 16 << 20  # opening a log reads the last segment
READ_BYTES: Final = 64 << 10

_first = attrgetter("first")


class Segment:
    """One file, with the records from `first` on.  `marks` is None until somebody reads it."""

    __slots__ = ("first", "marks", "name", "size")

    def __init__(self, first: int, size: int) -> None:
        self.first = first
        self.name = segment_name(first)
        self.size = size
        self.marks: Marks | None = None

    def __repr__(self) -> str:
        return f"Segment({self.first}, bytes={self.size})"


class Damage(msgspec.Struct, frozen=True):
    """Records `first` to `last` cannot be read.  If the write was torn by a crash, they were never
    durable, and `cut` whole entries behind the first bad one are cut off with it."""

    segment: str
    start: int
    end: int
    first: int
    last: int
    is_torn: bool = False
    cut: int = 0

    def __str__(self) -> str:
        place = f"{self.segment}, bytes {self.start:,} to {self.end:,}"
        if self.is_torn:
            return f"{place}: a torn write, from record {self.first:,} on; {self.cut} whole cut off"
        return f"{place}: records {self.first:,} to {self.last:,} cannot be read"


class SegmentLog:
    """Lives from `open_log` to `close`.  Its calls take as long as the disk does.

    Invariant: the records `base` to `last` are in `segments`, but for those that are damaged.
    `damage` has what was found so far.
    """

    def __init__(self, files: Files, header: LogHeader, segment_bytes: int = SEGMENT_BYTES) -> None:
        self.header = header
        self.damage: list[Damage] = []
        self.segments: list[Segment] = []
        self.last = header.base - 1
        self._key = EntryKey(bytes.fromhex(header.salt))
        self._files = files
        self._segment_bytes = segment_bytes
        self._unsynced: Segment | None = None
        self._has_new_name = False
        self._is_failed = False

    def __repr__(self) -> str:
        return f"SegmentLog({self.base} to {self.last}, segments={self.segments})"

    @property
    def base(self) -> int:
        """The first record that is still needed."""
        return self.header.base

    def next_batch(self) -> Batch:
        """An empty batch that follows what was written."""
        return Batch(self._key, self.last + 1)

    # Opening

    def inspect(self) -> None:
        """Find the segments and where the last one ends, and change nothing."""
        firsts = segment_firsts(self._files.names())
        needed = max(bisect_right(firsts, self.base) - 1, 0)
        sizes = (self._files.size(segment_name(first)) for first in firsts[needed:])
        self.segments = [Segment(*one) for one in zip(firsts[needed:], sizes, strict=True)]
        self.last = max(self.last, self.header.synced)
        if self.segments:
            self._find_end(self.segments[-1])

    def _find_end(self, segment: Segment) -> None:
        scan = SegmentScan(self._files.read(segment.name), self._key, segment.first)
        numbers = [number for number, _, _ in scan]
        synced = max(scan.synced, self.header.synced, self.base - 1)
        size, segment.size = segment.size, scan.end
        self.last = max(scan.last, synced)
        for hole in scan.holes:
            if hole.first > synced:  # Nothing proves that it ever was whole.
                segment.size, self.last = hole.start, hole.first - 1
                cut = len(numbers) - bisect_right(numbers, self.last)
                torn = Damage(segment.name, hole.start, size, hole.first, hole.first, True, cut)
                self.damage.append(torn)
                return

    def recover(self) -> None:
        """Cut off what the last write left torn; what is left counts as durable from here on."""
        self.inspect()
        files, needed = self._files, {segment.name for segment in self.segments}
        for name in files.names():
            if name == HEADER + NEW or (segment_firsts([name]) and name not in needed):
                files.remove(name)  # A crash came in between.
        if self.segments:
            end = self.segments[-1]
            if files.size(end.name) > end.size:
                files.truncate(end.name, end.size)
            files.sync(end.name)
        files.sync_names()
        self.close()

    # Reading

    def bodies(self) -> Iterator[tuple[int, bytes]]:
        """Number and body of every record that is needed, one segment in memory at a time."""
        expected, segments = self.base, list(self.segments)
        ends = [*(segment.first - 1 for segment in segments[1:]), self.last][: len(segments)]
        if not segments:
            self._note("no segment", 0, 0, expected, self.last)
        for segment, upto in zip(segments, ends, strict=True):
            self._note(segment.name, 0, 0, expected, segment.first - 1)
            data = self._files.read(segment.name, 0, segment.size)
            scan = SegmentScan(data, self._key, segment.first)
            for number, start, end in scan:
                if number >= self.base:
                    yield number, data[start:end]
            segment.marks = scan.marks
            for hole in scan.holes:
                self._note(segment.name, *hole[:3], upto if hole.last is None else hole.last)
            if not (scan.holes and scan.holes[-1].last is None):
                self._note(segment.name, scan.end, scan.end, scan.last + 1, upto)
            expected = max(expected, upto + 1)

    def _note(self, segment: str, start: int, end: int, first: int, last: int) -> None:
        first = max(first, self.base)
        if first <= last:
            found = Damage(segment, start, end, first, last)
            if found not in self.damage:
                self.damage.append(found)

    def read(self, numbers: Iterable[int]) -> list[bytes | None]:
        """The bodies of single records; None for what is forgotten, damaged or not written."""
        return [self._read_one(number) for number in numbers]

    def _read_one(self, number: int) -> bytes | None:
        place = bisect_right(self.segments, number, key=_first) - 1
        if place < 0 or not self.base <= number <= self.last:
            return None
        segment = self.segments[place]
        if segment.marks is None:
            data = self._files.read(segment.name, 0, segment.size)
            scan = SegmentScan(data, self._key, segment.first)
            for _ in scan:
                pass
            segment.marks = scan.marks
        return self._walk(segment, segment.marks.nearest(number), number)

    def _walk(self, segment: Segment, at: int, number: int) -> bytes | None:
        """Go from entry to entry, or past a damaged one, until there is the record."""
        size = READ_BYTES
        while at < segment.size:
            window = self._files.read(segment.name, at, min(size, segment.size - at))
            scan = SegmentScan(window, self._key, 0)
            for found, start, end in scan:
                if found >= number:
                    return window[start:end] if found == number else None
            if at + len(window) == segment.size:
                return None
            at += scan.end
            size = READ_BYTES if scan.end else 2 * size  # a large record, or damage
        return None

    # Writing

    def write(self, batch: Batch) -> None:
        """Write a batch; it is durable after `sync`."""
        self._check()
        if batch.first != self.last + 1 or self._unsynced is not None:
            raise ValueError(f"a batch from {batch.first} on, after record {self.last}")
        segment = self._segment_for(batch)
        try:
            self._files.append(segment.name, batch.data)
        except OSError:
            self._is_failed = True
            raise
        if segment.marks is not None:
            segment.marks.extend(batch.marks, segment.size)
        segment.size += len(batch.data)
        self.last += batch.count
        self._unsynced = segment

    def _segment_for(self, batch: Batch) -> Segment:
        if self.segments and self.segments[-1].size < self._segment_bytes:
            return self.segments[-1]
        segment = Segment(batch.first, 0)
        segment.marks = Marks()
        self.segments.append(segment)
        self._has_new_name = True
        return segment

    def sync(self) -> None:
        """Bring what was written to stable storage."""
        self._check()
        try:
            if self._unsynced is not None:
                self._files.sync(self._unsynced.name)
            if self._has_new_name:
                self._files.sync_names()
        except OSError:
            self._is_failed = True
            raise
        self._unsynced, self._has_new_name = None, False

    def commit(self, batch: Batch) -> None:
        """Write a batch and bring it to stable storage."""
        self.write(batch)
        self.sync()

    def forget_before(self, number: int) -> None:
        """Records before `number` are needed no longer; those up to it must be durable."""
        self._check()
        if self._unsynced is not None or number > self.last + 1:
            raise ValueError(f"forget before {number}: not durable yet")
        if number > self.base:
            self._write_header(msgspec.structs.replace(self.header, base=number))
            while len(self.segments) > 1 and self.segments[1].first <= number:
                self._files.remove(self.segments.pop(0).name)

    def close(self) -> None:
        """Write down that everything is durable, so that no bad entry is taken for a torn one."""
        if not self._is_failed and self._unsynced is None and self.last > self.header.synced:
            self._write_header(msgspec.structs.replace(self.header, synced=self.last))

    def _write_header(self, header: LogHeader) -> None:
        try:
            self._files.replace(HEADER, encode_header(header))
        except OSError:
            self._is_failed = True
            raise
        self.header = header

    def _check(self) -> None:
        if self._is_failed:
            raise StorageError("the log has ended: an earlier write or sync failed")


def open_log(
    files: Files, owner: LogOwner, salt: bytes, segment_bytes: int = SEGMENT_BYTES
) -> SegmentLog:
    """The log of `owner`; in an empty directory it begins with the random `salt`."""
    names = files.names()
    if HEADER in names:
        header = decode_header(files.read(HEADER))
        check_owner(header, owner)
    else:
        check_new(names)
        header = LogHeader(group=owner.group, owner=owner.name, salt=salt.hex())
        files.replace(HEADER, encode_header(header))
    log = SegmentLog(files, header, segment_bytes)
    log.recover()
    return log


def verify_log(files: Files) -> tuple[SegmentLog, int]:
    """Read everything and change nothing: the log, with its damage, and how many records it has."""
    if HEADER not in files.names():
        raise StorageError(f"there is no log: the directory has no {HEADER}")
    log = SegmentLog(files, decode_header(files.read(HEADER)))
    log.inspect()
    return log, sum(1 for _ in log.bodies())
