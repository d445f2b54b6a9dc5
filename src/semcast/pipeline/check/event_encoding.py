"""Events as bytes: one cell for some events of one stream, block and kind.

Each column is written as its least value and how far the others are above it, in as many bytes as
the largest of a batch needs, none where all are equal; so moving events costs a third of what their
numbers would.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from semcast.pipeline.check.event_table import FIELDS, Column

_NAMES: Final = tuple(FIELDS)
# Numbers at the front of a cell: the count, then of each column the least value and the width.
_HEAD: Final = 1 + 2 * len(_NAMES)
_WIDTHS: Final = (2, 4)


def encode_events(fields: Mapping[str, Column], starts: Column, size: int) -> Iterator[bytes]:
    """The cells that begin at these places; columns that are not given are zero."""
    ends = np.append(starts[1:], size)
    heads = np.zeros((len(starts), _HEAD), "<i8")
    heads[:, 0] = ends - starts
    columns = []
    for place, name in enumerate(_NAMES):
        if name in fields:
            minimum, width, above = _offsets_from_min(fields[name], starts, heads[:, 0])
            heads[:, 1 + 2 * place], heads[:, 2 + 2 * place] = minimum, width
            if width:
                columns.append(above)
    for head, start, end in zip(heads, starts.tolist(), ends.tolist(), strict=True):
        yield b"".join(part.data for part in (head, *(column[start:end] for column in columns)))


def _offsets_from_min(values: Column, starts: Column, counts: Column) -> tuple[Any, int, Column]:
    """Of each cell the least value; of all values how far they are above that, and in how many
    bytes."""
    minimum, maximum = np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts)
    minimum = minimum.astype("i8")
    spread = int((maximum.astype("i8").view("u8") - minimum.view("u8")).max())
    if not spread:
        return minimum, 0, values
    for width in _WIDTHS:
        if spread < 1 << 8 * width:
            return minimum, width, (values - np.repeat(minimum, counts)).astype(f"<u{width}")
    return 0, 8, np.ascontiguousarray(values, "<i8")


class EncodedEvents:
    """The events of some cells, column by column."""

    def __init__(self, cells: Sequence[Any]) -> None:
        self._heads = [_head(cell) for cell in cells]
        self._cells = cells
        self._ends = np.cumsum([int(head[0]) for head in self._heads])
        self.size = int(self._ends[-1])

    def column(self, name: str) -> Column:
        """One column of all events."""
        values = np.empty(self.size, FIELDS[name])
        place = _NAMES.index(name)
        for head, cell, end in zip(self._heads, self._cells, self._ends.tolist(), strict=True):
            part = values[end - int(head[0]) : end]
            width = int(head[2 + 2 * place])
            if width:
                part[:] = _column(head, cell, place)
            if width < 8:
                _add(part, int(head[1 + 2 * place]), is_new=not width)
        return values


def _add(part: Column, minimum: int, *, is_new: bool) -> None:
    if is_new:
        part[:] = minimum
    elif minimum:
        part += part.dtype.type(minimum)


def _column(head: Column, cell: Any, place: int) -> Column:
    count, widths = int(head[0]), head[2::2]
    offset = _HEAD * 8 + count * int(widths[:place].sum())
    width = int(widths[place])
    return np.frombuffer(cell, "<i8" if width == 8 else f"<u{width}", count, offset)


def _head(cell: Any) -> Column:
    return np.frombuffer(cell, "<i8", _HEAD)


def first_seq(cell: Any) -> int:
    """The number of the first event of a cell."""
    head, place = _head(cell), _NAMES.index("seq")
    minimum, width = int(head[1 + 2 * place]), int(head[2 + 2 * place])
    return minimum + int(_column(head, cell, place)[0]) if width else minimum
