"""Records on the disk of a process: of its earlier lives, and those that a machine reads later."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec


class ReadRequest(msgspec.Struct, frozen=True):
    """A machine wants durable records again; `purpose` comes back with them."""

    numbers: tuple[int, ...]
    purpose: Any


class ReadResult(msgspec.Struct, frozen=True):
    """By number, the records that could be read: the others are forgotten or damaged."""

    records: dict[int, Any]
    purpose: Any


class Records(Iterable[Any]):
    """Records in the order they were written, numbered from 1 through all lives of the process.

    A disk reads them while they are iterated, so they need not fit into memory at once.  These are
    in memory: those of a test, or of a process without a disk.
    """

    def __init__(self, records: Sequence[Any] = ()) -> None:
        self._records = records

    def __iter__(self) -> Iterator[Any]:
        return (record for _, record in self.numbered())

    def numbered(self) -> Iterator[tuple[int, Any]]:
        """The records with their numbers; a number that is left out cannot be read."""
        return iter(enumerate(self._records, 1))

    @property
    def last(self) -> int:
        """The number of the last record; the first one of the next life follows it."""
        return len(self._records)

    @property
    def missing(self) -> Sequence[tuple[int, int]]:
        """Records that were durable and cannot be read, first and last of each gap; complete once
        all records were read."""
        return ()


NO_RECORDS: Final = Records()
