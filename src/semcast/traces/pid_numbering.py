"""Numbers 0 to n - 1 for the processes of a run with views, as readers of a trace need them.

Live processes number themselves by hashes of their names, and journals have these large numbers.
Here processes with a journal get small ones, in the order of their names; processes that are only
mentioned get the next ones.  A file beside the journals keeps the numbers, so that a journal that
comes later fits in.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from semcast.traces.errors import BadFile
from semcast.traces.files import new_file

SUFFIX: Final = ".pids"


class PidNumbering:
    """Of one run; whoever uses it has the turn.  Invariant: the numbers are 0 to n - 1."""

    def __init__(self, folder: Path, run_id: int) -> None:
        """`folder` is that of the journals."""
        self._path = folder / f"{run_id}{SUFFIX}"
        content = self._path.read_bytes() if self._path.exists() else b"{}"
        try:
            self._numbers = msgspec.json.decode(content, type=dict[int, int])
        except msgspec.DecodeError as error:
            raise BadFile(f"{self._path}: damaged: {error}") from None
        if sorted(self._numbers.values()) != list(range(len(self._numbers))):
            raise BadFile(f"{self._path}: damaged: its numbers are not 0 to n - 1")

    def assign(self, named: Iterable[tuple[str, int]]) -> None:
        """Processes by name and own number, to be numbered in the order of the names."""
        for _, pid in sorted(named):
            self.of(pid)

    def of(self, pid: int) -> int:
        """The number of a process in the trace; what names nobody still does."""
        return pid if pid < 0 else self._numbers.setdefault(pid, len(self._numbers))

    def save(self) -> None:
        """Keep them, all or nothing."""
        new = self._path.with_suffix(".new")
        new_file(new).write_bytes(msgspec.json.encode(self._numbers))
        new.replace(self._path)
