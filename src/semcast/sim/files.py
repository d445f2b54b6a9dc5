"""Files of a simulated disk, which a power cut treats as a disk may.

What was written reaches the medium at the next sync.  Of what was not synced a power cut leaves
nothing, all, a prefix, or any of its blocks with zeros between them: disks reorder and tear writes.
A new name that was not synced may be gone, a deleted file may be back, and a file that was cut
short may have its old length.
"""

from collections.abc import Sequence
from random import Random
from typing import Final

BLOCK_BYTES: Final = (16, 64, 512)  # One is drawn for each power cut.


class SimFile:
    """Invariant: the first `synced` bytes survive; `before` has what was cut off since the sync."""

    __slots__ = ("before", "data", "synced")

    def __init__(self, data: bytes = b"") -> None:
        self.data = bytearray(data)
        self.synced = len(data)
        self.before: bytes | None = None

    def cut_power(self, rng: Random) -> None:
        """Lose some of what was not synced."""
        if self.before is not None and rng.random() < 0.5:
            self.data[:] = self.before
        elif len(self.data) > self.synced:
            self.data[self.synced :] = surviving(bytes(self.data[self.synced :]), rng)
        self.synced, self.before = len(self.data), None


def surviving(unsynced: bytes, rng: Random) -> bytes:
    """What a power cut leaves of a write."""
    how = rng.randrange(4)
    if how == 0:
        return b""
    if how == 1:
        return unsynced
    if how == 2:
        return unsynced[: rng.randint(0, len(unsynced))]
    size, left, end = rng.choice(BLOCK_BYTES), bytearray(len(unsynced)), 0
    for start in range(0, len(unsynced), size):
        if rng.random() < 0.5:
            block = unsynced[start : start + size]
            end = start + len(block)
            left[start:end] = block
    return bytes(left[:end])


class SimFiles:
    """One directory on stable storage.  `syncs` counts what was brought there."""

    def __init__(self) -> None:
        self.syncs = 0
        self._files: dict[str, SimFile] = {}
        self._new: set[str] = set()  # names that were not synced
        self._removed: dict[str, SimFile] = {}
        self._copies: list[dict[str, bytes]] = [{}]  # of the medium, at some earlier syncs

    def __repr__(self) -> str:
        sizes = {name: (file.synced, len(file.data)) for name, file in self._files.items()}
        return f"SimFiles({sizes})"

    def names(self) -> Sequence[str]:
        """The names of all files."""
        return sorted(self._files)

    def size(self, name: str) -> int:
        """How many bytes a file has."""
        return len(self._files[name].data)

    def read(self, name: str, start: int = 0, size: int | None = None) -> bytes:
        """The bytes from `start` on, `size` of them or all that there are."""
        data = self._files[name].data
        return bytes(data[start : len(data) if size is None else start + size])

    def append(self, name: str, data: bytes | bytearray) -> None:
        """Write at the end; without the file, create it."""
        file = self._files.get(name)
        if file is None:
            file = self._files[name] = SimFile()
            self._new.add(name)
        file.data += data

    def truncate(self, name: str, size: int) -> None:
        """Cut off what lies behind `size` bytes."""
        file = self._files[name]
        if size < file.synced:
            file.before = file.before or bytes(file.data[: file.synced])
        del file.data[size:]
        file.synced = min(file.synced, size)

    def sync(self, name: str) -> None:
        """Bring the file to stable storage."""
        file = self._files[name]
        file.synced, file.before = len(file.data), None
        self.syncs += 1
        if not self.syncs & (self.syncs - 1):  # 1, 2, 4, 8: few copies, of every age
            self._copies.append({name: bytes(file.data) for name, file in self._files.items()})

    def sync_names(self) -> None:
        """Bring names that came or went to stable storage."""
        self._new.clear()
        self._removed.clear()

    def replace(self, name: str, data: bytes) -> None:
        """Give the file this content, durably."""
        self._files[name] = SimFile(data)
        self.sync_names()

    def remove(self, name: str) -> None:
        """Delete a file; after a crash it may be there again."""
        file = self._files.pop(name)
        if name not in self._new:
            self._removed[name] = file
        self._new.discard(name)

    def cut_power(self, rng: Random) -> None:
        """Lose some of what was not synced."""
        for name in sorted(self._removed):
            if rng.random() < 0.5:
                self._files[name] = self._removed[name]
        for name in sorted(self._new):
            if rng.random() < 0.5:
                del self._files[name]
        for file in self._files.values():
            file.cut_power(rng)
        self.sync_names()

    def go_back(self, rng: Random) -> None:
        """Become the copy of an earlier time: somebody restored a backup."""
        copies = self._copies
        chosen = rng.randrange(len(copies))
        self._files = {name: SimFile(data) for name, data in copies[chosen].items()}
        del copies[chosen + 1 :]
        self.sync_names()

    def wipe(self) -> None:
        """Everything is gone: a new disk in the same machine."""
        self._files.clear()
        self._copies = [{}]
        self.sync_names()
