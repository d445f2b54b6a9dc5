"""A disk as a process sees it: a file that is written, synced, torn by a crash, or lost.

A write reaches the file at once and the medium at the next `sync`.  A crash keeps what was synced
and any prefix of what was not, in bytes, so the last record that survives may be torn; its
checksum tells, and reading ends before it.  Records live here as bytes: a machine gets back what
it wrote, never the objects it shares with somebody.
"""

from collections.abc import Iterator
from random import Random
from struct import Struct
from typing import Any, Final
from zlib import crc32

import msgspec

_HEAD: Final = Struct("<II")  # length and checksum of the body that follows
_encoder = msgspec.msgpack.Encoder()


class SimDisk:
    """One process's stable storage.  Invariant: `synced` <= the bytes of the file, on a record.

    `losses` counts how often everything on it was lost.
    """

    __slots__ = ("_decoder", "_file", "losses", "synced")

    def __init__(self, record: Any) -> None:
        """`record` is the type, usually a union, of what is kept here."""
        self._decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(record)
        self._file = bytearray()
        self.synced = 0
        self.losses = 0

    def __repr__(self) -> str:
        return f"SimDisk(bytes={len(self._file)}, synced={self.synced}, losses={self.losses})"

    def write(self, record: Any) -> None:
        """Append a record; a crash may still take it."""
        body = _encoder.encode(record)
        self._file += _HEAD.pack(len(body), crc32(body)) + body

    @property
    def size(self) -> int:
        """How many bytes were written."""
        return len(self._file)

    def sync(self, upto: int) -> None:
        """From here on a crash takes nothing of the first `upto` bytes."""
        self.synced = max(self.synced, upto)

    def crash(self, rng: Random) -> None:
        """Lose what was not synced, but for a prefix of it: nothing, all, or what is torn."""
        torn = rng.randint(self.synced, len(self._file))
        del self._file[rng.choice((self.synced, torn, len(self._file))) :]
        del self._file[self._whole() :]
        self.synced = len(self._file)

    def wipe(self) -> None:
        """Everything is gone: a new disk in the same machine."""
        self._file.clear()
        self.synced = 0
        self.losses += 1

    def records(self) -> tuple[Any, ...]:
        """What can be read, in the order it was written."""
        return tuple(self._decoder.decode(body) for _, body in self._read())

    def _whole(self) -> int:
        """Where the last whole record ends."""
        return max((end for end, _ in self._read()), default=0)

    def _read(self) -> Iterator[tuple[int, bytes]]:
        start = 0
        while start + _HEAD.size <= len(self._file):
            length, checksum = _HEAD.unpack_from(self._file, start)
            end = start + _HEAD.size + length
            body = bytes(self._file[start + _HEAD.size : end])
            if len(body) < length or crc32(body) != checksum:
                return
            yield end, body
            start = end
