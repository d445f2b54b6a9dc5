"""Events as columns of whole numbers: `records["seq"]`, `records[mask]`, `records[3]`.

A column is made when somebody asks for it, so to leave events out, or to put them together, costs
no more than the columns that are looked at.
Rejected: an array of structures, in which each look at one number loads all of its event.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

FIELDS: Final[Mapping[str, str]] = {
    "pid": "i4",
    "seq": "i8",
    "by": "i8",
    "place": "i8",  # the incarnation and the index in it: local order
    "ts": "i8",
    "flags": "i2",
    "item": "i8",
    "content": "i8",  # stands for what has no field and must arrive as it was multicast
    "own_item": "i8",  # that the application declared; the flags have whether there is one
    "covers": "i4",  # how many of the distances kept beside the records are this one's
}
_ALL: Final = ("kind", *FIELDS)

EventRecord: TypeAlias = Mapping[str, int]  # one event
Column: TypeAlias = NDArray[Any]


class EventTable:
    """Some events; `column` makes one of theirs, `one` finds an event by its place."""

    def __init__(
        self,
        size: int,
        column: Callable[[str], Column],
        one: Callable[[int], EventRecord] | None = None,
    ) -> None:
        self._size = size
        self._column = column
        self._one = one or self._own
        self._made: dict[str, Column] = {}

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[EventRecord]:
        return map(self._one, range(self._size))

    @overload
    def __getitem__(self, key: str) -> Column: ...
    @overload
    def __getitem__(self, key: int | np.integer[Any]) -> EventRecord: ...
    @overload
    def __getitem__(self, key: Column) -> "EventTable": ...

    def __getitem__(
        self, key: str | int | np.integer[Any] | Column
    ) -> "Column | EventRecord | EventTable":
        if isinstance(key, str):
            if key not in self._made:
                self._made[key] = self._column(key)
            return self._made[key]
        if isinstance(key, np.ndarray):
            if key.dtype != np.bool_:
                return self._select_rows(key)
            return self if key.all() else self._select_rows(np.flatnonzero(key))
        return self._one(int(key))

    def _select_rows(self, places: NDArray[np.int64]) -> "EventTable":
        return EventTable(
            len(places), lambda name: self[name][places], lambda i: self._one(int(places[i]))
        )

    def _own(self, i: int) -> EventRecord:
        return {name: int(self[name][i]) for name in _ALL}

    def copy(self) -> "EventTable":
        """The same, without what they were taken from."""
        return EventTable(len(self), {name: self[name] for name in _ALL}.__getitem__)


def concat(parts: Sequence[EventTable]) -> EventTable:
    """All of them, in this order."""
    parts = [part for part in parts if len(part)]
    if len(parts) < 2:
        return parts[0] if parts else NONE
    ends = np.cumsum([len(part) for part in parts])

    def one(i: int) -> EventRecord:
        which = int(np.searchsorted(ends, i, "right"))
        return parts[which][i - int(ends[which]) + len(parts[which])]

    return EventTable(
        int(ends[-1]), lambda name: np.concatenate([part[name] for part in parts]), one
    )


NONE: Final = EventTable(0, lambda name: np.zeros(0, FIELDS.get(name, "i2")))
