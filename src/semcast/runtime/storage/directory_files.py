"""A directory of the disk, locked for one process at a time."""

import fcntl
import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from semcast.disk.log_header import LOCK, NEW
from semcast.terms.errors import ConfigError


def make_durably(path: Path) -> None:
    """Create a directory and those above it, so that a power cut does not take them away again with
    all that is in them.  A process may have made some of them and died, so all names down to an
    empty directory are brought to stable storage."""
    path = path.absolute()
    made = [each for each in (path, *path.parents) if not each.exists()]
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if any(name != LOCK for name in os.listdir(path)):
        return
    for parent in path.resolve().parents:
        try:
            sync_directory(parent)
        except OSError:
            if any(each.resolve().parent == parent for each in made):
                raise


def sync_directory(path: Path) -> None:
    """Bring the names in it to stable storage."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


class DirectoryFiles:
    """Files of one directory.  Nobody else has it from the moment this is made until `close`."""

    def __init__(self, path: Path) -> None:
        """Create the directory if need be; raises `ConfigError` if it cannot be used."""
        self.path = path
        self._opened: dict[str, int] = {}  # files that are written
        self._lock = -1
        try:
            make_durably(path)
            self._lock = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise ConfigError(
                f"data: {path} is in use by another process; choose another directory, or stop it"
            ) from None
        except OSError as error:
            self.close()
            raise ConfigError(f"data: cannot use {path}: {error.strerror}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def names(self) -> Sequence[str]:
        """The names of all files."""
        return sorted(os.listdir(self.path))

    def size(self, name: str) -> int:
        """How many bytes a file has."""
        return os.stat(self.path / name).st_size

    def read(self, name: str, start: int = 0, size: int | None = None) -> bytes:
        """The bytes from `start` on, `size` of them or all that there are."""
        with open(self.path / name, "rb", buffering=0) as file:
            wanted = max(os.fstat(file.fileno()).st_size - start, 0)
            left = wanted if size is None else min(size, wanted)
            file.seek(start)
            parts = []
            while left and (part := file.read(left)):
                parts.append(part)
                left -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def append(self, name: str, data: bytes | bytearray) -> None:
        """Write at the end; without the file, create it."""
        file = self._open(name)
        left = memoryview(data)
        while left:
            left = left[os.write(file, left) :]

    def truncate(self, name: str, size: int) -> None:
        """Cut off what lies behind `size` bytes."""
        os.ftruncate(self._open(name), size)

    def sync(self, name: str) -> None:
        """Bring the file to stable storage."""
        os.fdatasync(self._open(name))

    def sync_names(self) -> None:
        """Bring names that came or went to stable storage."""
        sync_directory(self.path)

    def replace(self, name: str, data: bytes) -> None:
        """Give the file this content, durably: after a crash it has the old or the new one."""
        made = self.path / (name + NEW)
        file = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            left = memoryview(data)
            while left:
                left = left[os.write(file, left) :]
            os.fsync(file)
        finally:
            os.close(file)
        os.replace(made, self.path / name)
        self.sync_names()

    def remove(self, name: str) -> None:
        """Delete a file; after a crash it may be there again."""
        file = self._opened.pop(name, None)
        if file is not None:
            os.close(file)
        (self.path / name).unlink(missing_ok=True)

    def close(self) -> None:
        """Let others have the directory."""
        for file in self._opened.values():
            os.close(file)
        self._opened.clear()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _open(self, name: str) -> int:
        """The file that is written; one at a time."""
        file = self._opened.get(name)
        if file is None:
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            file = os.open(self.path / name, flags, 0o600)
            for before in self._opened.values():
                os.close(before)
            self._opened = {name: file}
        return file
