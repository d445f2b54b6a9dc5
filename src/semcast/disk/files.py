"""File operations that the log needs: on a real directory, or on a simulated disk that fails."""

from collections.abc import Sequence
from typing import Protocol


class Files(Protocol):
    """One directory.  Every call may raise OSError.

    What was appended or cut off is on stable storage after `sync` of the file, a new name after
    `sync_names`, what `replace` wrote when it returns.
    """

    def names(self) -> Sequence[str]:
        """The names of all files."""
        ...

    def size(self, name: str) -> int:
        """How many bytes a file has."""
        ...

    def read(self, name: str, start: int = 0, size: int | None = None) -> bytes:
        """The bytes from `start` on, `size` of them or all that there are."""
        ...

    def append(self, name: str, data: bytes | bytearray) -> None:
        """Write at the end; without the file, create it."""
        ...

    def truncate(self, name: str, size: int) -> None:
        """Cut off what lies behind `size` bytes."""
        ...

    def sync(self, name: str) -> None:
        """Bring the file to stable storage."""
        ...

    def sync_names(self) -> None:
        """Bring names that came or went to stable storage."""
        ...

    def replace(self, name: str, data: bytes) -> None:
        """Give the file this content, durably: after a crash it has the old or the new one."""
        ...

    def remove(self, name: str) -> None:
        """Delete a file; after a crash it may be there again."""
        ...
