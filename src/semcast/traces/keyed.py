"""Keyed files of other programs, row by row: CSV, JSON lines (both also gzipped) and Parquet.

A row has a key (the item), a kind (U, C, D or R; without a column for it every row is an update),
and perhaps a time in µs and a size in bytes.  Rows come in the order of the file, streamed.
Whatever is wrong with a file is a `BadFile` of one line: the file, the line, the reason.
"""

import csv
import gzip
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, TypeAlias

from semcast.terms.errors import unknown_value
from semcast.traces.arrow import pyarrow
from semcast.traces.errors import BadFile

KINDS: Final = ("U", "C", "D", "R")
SUFFIXES: Final = (".csv", ".csv.gz", ".jsonl", ".jsonl.gz", ".ndjson", ".ndjson.gz", ".parquet")

# The place of a row for an error message, and its cells in the order of the columns asked for.
_Cells: TypeAlias = tuple[str, Sequence[Any]]
_Reader: TypeAlias = Callable[[Path, Sequence[str]], Iterator[_Cells]]


class KeyedRow(NamedTuple):
    """One row of a keyed file."""

    key: str
    kind: str = "U"
    t_us: int | None = None
    size: int = 0


def read_keyed(
    path: str | Path,
    *,
    key: str,
    kind: str | None = None,
    time: str | None = None,
    size: str | None = None,
) -> Iterator[KeyedRow]:
    """The rows of a file, given the names of its columns."""
    path = Path(path)
    suffix = next((s for s in SUFFIXES if path.name.lower().endswith(s)), None)
    if suffix is None:
        raise unknown_value("file name ending", path.name, SUFFIXES)
    reader: _Reader = _parquet
    if suffix != ".parquet":
        reader = _csv if suffix.startswith(".csv") else _json_lines
    columns = {"key": key, "kind": kind, "t_us": time, "size": size}
    fields = [field for field, column in columns.items() if column is not None]
    wanted = [column for column in columns.values() if column is not None]
    return _checked(_parsed(reader(path, wanted), fields, wanted), path)


def _checked(rows: Iterator[KeyedRow], path: Path) -> Iterator[KeyedRow]:
    """The rows, with failures of the libraries below said in one line."""
    try:
        yield from rows
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or str(error).partition("\n")[0]
        raise BadFile(f"{path}: cannot be read: {reason}") from None


def _parsed(rows: Iterable[_Cells], fields: list[str], columns: list[str]) -> Iterator[KeyedRow]:
    readers = [_PARSERS[field] for field in fields]
    for place, cells in rows:
        values = {
            field: read(place, column, cell)
            for field, read, column, cell in zip(fields, readers, columns, cells, strict=True)
        }
        yield KeyedRow(**values)


def _key(place: str, column: str, cell: Any) -> str:
    if cell is None:
        raise BadFile(f"{place}: {column} is missing")
    return str(cell)


def _kind(place: str, column: str, cell: Any) -> str:
    if cell not in KINDS:
        raise BadFile(f"{place}: {column} {cell!r} is not one of {', '.join(KINDS)}")
    return str(cell)


def _time(place: str, column: str, cell: Any) -> int | None:
    return None if cell is None or cell == "" else _whole(place, column, cell)


def _size(place: str, column: str, cell: Any) -> int:
    size = _whole(place, column, cell)
    if size < 0:
        raise BadFile(f"{place}: {column} {cell!r} is not 0 or more")
    return size


def _whole(place: str, column: str, cell: Any) -> int:
    try:
        # int() would also cut floats and take booleans, both of them mistakes of the file.
        if isinstance(cell, str) or type(cell) is int:
            return int(cell)
    except ValueError:
        pass
    raise BadFile(f"{place}: {column} {cell!r} is not a whole number")


_PARSERS: Final[dict[str, Callable[[str, str, Any], Any]]] = {
    "key": _key,
    "kind": _kind,
    "t_us": _time,
    "size": _size,
}


def _csv(path: Path, columns: Sequence[str]) -> Iterator[_Cells]:
    with _text(path) as file:
        lines = csv.reader(file, strict=True)
        header = next(lines, None)
        if header is None:
            raise BadFile(f"{path}: empty, needs a line of column names")
        places = [_column(path, column, header) for column in columns]
        for cells in lines:
            place = f"{path}:{lines.line_num}"
            if not cells:
                continue
            if len(cells) != len(header):
                raise BadFile(f"{place}: {len(cells)} cells, the first line has {len(header)}")
            yield place, [cells[index] for index in places]


def _json_lines(path: Path, columns: Sequence[str]) -> Iterator[_Cells]:
    with _text(path) as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            place = f"{path}:{number}"
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise BadFile(f"{place}: not JSON: {error}") from None
            if not isinstance(row, dict):
                raise BadFile(f"{place}: not a JSON object")
            for column in columns:
                if column not in row:
                    raise BadFile(_absent(place, column, row))
            yield place, [row[column] for column in columns]


def _parquet(path: Path, columns: Sequence[str]) -> Iterator[_Cells]:
    parquet = pyarrow("parquet")
    try:
        with parquet.ParquetFile(path) as file:
            for column in columns:
                _column(path, column, file.schema_arrow.names)
            number = 0
            for batch in file.iter_batches(columns=list(columns)):
                cells = [batch.column(column).to_pylist() for column in columns]
                for row in zip(*cells, strict=True):
                    number += 1
                    yield f"{path}: row {number}", row
    except pyarrow().ArrowException as error:
        raise BadFile(f"{path}: not Parquet: {str(error).partition(chr(10))[0]}") from None


def _text(path: Path) -> IO[str]:
    if path.suffix.lower() == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def _column(path: Path, column: str, names: Sequence[str]) -> int:
    if column not in names:
        raise BadFile(_absent(str(path), column, names))
    return names.index(column)


def _absent(place: str, column: str, names: Iterable[str]) -> str:
    return f"{place}: no column {column!r}, it has {', '.join(names)}"
