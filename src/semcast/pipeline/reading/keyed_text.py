"""Text files with keys, a block of lines at a time, as Arrow: what a Spark task runs for a file.

A record is a line.  A line that is no record, or whose cells are not what they should be, comes
out with the column and the reason, so that nothing is lost unsaid.  Cells are judged a block at
once; only lines with odd quotes, and cells that are wrong, are looked at one by one.

Departs: `traces.keyed` lets a quoted cell go on in the next line; here that is a bad line, since
one stray quote would otherwise swallow the rest of the file.
"""

import csv
import gzip
import re
import zlib
from collections.abc import Iterator
from itertools import compress
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, cast

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from semcast.traces.errors import BadFile
from semcast.traces.keyed import KINDS

BLOCK_BYTES: Final = 4 << 20
LINE_BYTES_MAX: Final = 64 << 20
_NEWLINE: Final = ord("\n")
_CELL: Final = rb'(?:"[^"\n]*(?:""[^"\n]*)*"|[^",\n]*)'
_NOT_WELL_QUOTED: Final = re.compile(b"(?m)^(?!%b(?:,%b)*$).+$" % (_CELL, _CELL))
SCHEMA: Final = pa.schema(
    [
        ("file", pa.int32()),
        ("nth", pa.int64()),
        ("row", pa.int64()),
        ("sender", pa.string()),
        ("order", pa.int64()),
        ("key", pa.string()),
        ("kind", pa.string()),
        ("column", pa.string()),
        ("reason", pa.string()),
    ]
)


class KeyedColumns(NamedTuple):
    """What the columns of a file are called, where it has them."""

    key: str
    order: str | None = None
    sender: str | None = None
    kind: str | None = None

    def named(self) -> dict[str, str]:
        """Field → column, of those it has."""
        return {field: name for field, name in self._asdict().items() if name is not None}


class TextLines(NamedTuple):
    """Records of a file, none empty, and the number of the line that each one is."""

    data: bytes
    row: Any

    def iter_lines(self) -> list[bytes]:
        """They one by one, which takes longer than reading them all at once."""
        return self.data.split(b"\n")


class RowProblems(dict[int, tuple[str | None, str]]):
    """What is wrong with the records of a block: place in it → column, reason; the first found."""


def read_blocks(
    path: Path, number: int, columns: KeyedColumns, block_bytes: int = BLOCK_BYTES
) -> Iterator[Any]:
    """Batches of `SCHEMA`, in the order of the file; `number` stands in them for its name."""
    nth = 1
    try:
        with open_text(path) as file:
            header = read_header(path, file, columns) if is_csv(path) else None
            for lines in _lines(path, file, 1 if header is None else 2, block_bytes):
                if not lines.data:
                    continue
                problems = RowProblems()
                if header is None:
                    cells = _json_cells(lines, columns, problems)
                else:
                    cells = _csv_cells(lines, header, columns, problems)
                yield make_block(number, nth, lines.row, cells, problems)
                nth += len(lines.row)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error).partition("\n")[0]
        raise BadFile(f"{path}: cannot be read: {reason}") from None


def is_csv(path: Path) -> bool:
    """By its name: otherwise it is JSON lines."""
    return path.name.lower().removesuffix(".gz").endswith(".csv")


def open_text(path: Path) -> IO[bytes]:
    """The file, unpacked."""
    is_packed = path.name.lower().endswith(".gz")
    return cast(IO[bytes], gzip.open(path, "rb")) if is_packed else path.open("rb")


def read_names(path: Path, file: IO[bytes]) -> list[str]:
    """The names in the first line."""
    try:
        line = file.readline(LINE_BYTES_MAX).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadFile(f"{path}:1: the column names are not UTF-8") from None
    names = next(csv.reader([line]), [])
    if not names:
        raise BadFile(f"{path}: empty, needs a line of column names")
    return names


def read_header(path: Path, file: IO[bytes], columns: KeyedColumns) -> list[str]:
    """The names in the first line, among them those asked for."""
    names = read_names(path, file)
    for name in columns.named().values():
        if name not in names:
            raise BadFile(f"{path}: no column {name!r}, it has {', '.join(names)}")
    return names


def _lines(path: Path, file: IO[bytes], row: int, block_bytes: int) -> Iterator[TextLines]:
    """Blocks of whole lines that are not empty; `row` is the number of the next line."""
    rest = b""
    while data := file.read(block_bytes):
        data = rest + data
        cut = data.rfind(b"\n") + 1
        rest = data[cut:]
        if len(rest) > LINE_BYTES_MAX:
            raise BadFile(f"{path}:{row}: a line of more than {LINE_BYTES_MAX:,} bytes")
        whole = _with_newlines(data[:cut])
        yield _not_empty(whole, row)
        row += whole.count(b"\n")
    if rest:
        yield _not_empty(_with_newlines(rest), row)


def _with_newlines(data: bytes) -> bytes:
    """Whatever ends its lines."""
    return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in data else data


def _not_empty(data: bytes, row: int) -> TextLines:
    data = data.removesuffix(b"\n")
    rows = np.arange(row, row + data.count(b"\n") + 1)
    if data and b"\n\n" not in data and data[0] != _NEWLINE and data[-1] != _NEWLINE:
        return TextLines(data, rows)
    text = data.split(b"\n")
    has_text = [bool(line) for line in text]
    return TextLines(b"\n".join(compress(text, has_text)), rows[has_text])


def _csv_cells(
    lines: TextLines, header: list[str], columns: KeyedColumns, problems: RowProblems
) -> dict[str, Any]:
    """Field → its cells, null for lines with problems."""
    data, size = lines.data, len(lines.row)
    if b'"' in data:
        data = _replace_unquotable(data, problems)
    torn: list[int] = []

    def tear(record: Any) -> str:
        torn.append(record.number - 1)
        found = f"{record.actual_columns} cells, the first line has {record.expected_columns}"
        problems.setdefault(record.number - 1, (None, found))
        return "skip"

    wanted = columns.named()
    table = pa_csv.read_csv(
        pa.BufferReader(data),
        # One block in one thread: only then the records have numbers.
        pa_csv.ReadOptions(use_threads=False, column_names=header, block_size=len(data) + 1),
        pa_csv.ParseOptions(invalid_row_handler=tear, ignore_empty_lines=False),
        pa_csv.ConvertOptions(
            column_types={name: pa.binary() for name in wanted.values()},
            include_columns=list(dict.fromkeys(wanted.values())),
        ),
    )
    if torn:
        good = np.delete(np.arange(size), torn)
        places = pa.array(_inverse(good, size), mask=np.isin(np.arange(size), torn))
        table = table.take(places)
    return validate_cells(
        {f: table[name].combine_chunks() for f, name in wanted.items()}, columns, problems
    )


def _replace_unquotable(data: bytes, problems: RowProblems) -> bytes:
    """The lines, with a single cell in place of one whose quotes would swallow the next line."""
    pieces, place, upto = [], 0, 0
    for found in _NOT_WELL_QUOTED.finditer(data):
        line = found[0]
        place += data.count(b"\n", upto, found.start())
        pieces.append(data[upto : found.start()])
        try:
            # Bytes that are no UTF-8 are judged cell by cell, later.
            next(csv.reader([line.decode("latin-1")], strict=True))
        except csv.Error as error:
            problems[place] = None, f"quotes: {error}"
            line = b"x"
        pieces.append(line)
        upto = found.end()
    return b"".join([*pieces, data[upto:]])


def _inverse(places: Any, size: int) -> Any:
    """Where each of `size` places stands among `places`; 0 for those that do not."""
    inverse = np.zeros(size, dtype=np.int64)
    inverse[places] = np.arange(len(places))
    return inverse


def _json_cells(lines: TextLines, columns: KeyedColumns, problems: RowProblems) -> dict[str, Any]:
    wanted = columns.named()
    cells: dict[str, list[str | None]] = {field: [] for field in wanted}
    decode = msgspec.json.Decoder(dict[str, Any]).decode
    for place, line in enumerate(lines.iter_lines()):
        try:
            record = decode(line.removeprefix(b"\xef\xbb\xbf"))
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            problems[place] = None, f"not a JSON object: {error}"
            record = {}
        for field, name in wanted.items():
            cell = record.get(name)
            cells[field].append(None if cell is None else str(cell))
    arrays = {field: pa.array(column, pa.string()) for field, column in cells.items()}
    return validate_cells(arrays, columns, problems)


def validate_cells(
    cells: dict[str, Any], columns: KeyedColumns, problems: RowProblems
) -> dict[str, Any]:
    """Field → its cells as text, the order as whole numbers; what is wrong goes to `problems`."""
    named = columns.named()
    found = {field: _text(cells[field], name, problems) for field, name in named.items()}
    if columns.kind is not None:
        for place in _places(pc.invert(pc.is_in(found["kind"], pa.array(KINDS)))):
            reason = f"{found['kind'][place].as_py()!r} is not one of {', '.join(KINDS)}"
            problems.setdefault(place, (columns.kind, reason))
    if columns.order is not None:
        found["order"] = _whole(found["order"], columns.order, problems)
    return found


def _text(cells: Any, column: str, problems: RowProblems) -> Any:
    try:
        text = cells.cast(pa.string())
    except pa.ArrowInvalid:
        text = pa.array([_utf8(cell) for cell in cells.to_pylist()], pa.string())
        for place in _places(pc.and_(pc.is_null(text), pc.is_valid(cells))):
            problems.setdefault(place, (column, "not UTF-8"))
    for place in _places(pc.is_null(text)):
        problems.setdefault(place, (column, "is missing"))
    return text


def _whole(cells: Any, column: str, problems: RowProblems) -> Any:
    try:
        return cells.cast(pa.int64())
    except pa.ArrowInvalid:
        pass
    numbers = []
    for place, cell in enumerate(cells.to_pylist()):
        try:
            numbers.append(pa.scalar(int(cell or ""), pa.int64()).as_py())
        except (ValueError, OverflowError):
            numbers.append(None)
            problems.setdefault(place, (column, f"{cell!r} is not a whole number of 64 bits"))
    return pa.array(numbers, pa.int64())


def _utf8(cell: bytes | None) -> str | None:
    try:
        return None if cell is None else cell.decode()
    except UnicodeDecodeError:
        return None


def _places(mask: Any) -> list[int]:
    places: list[int] = pc.indices_nonzero(mask).to_pylist()
    return places


def make_block(
    number: int, nth: int, rows: Any, cells: dict[str, Any], problems: RowProblems
) -> Any:
    """A batch of `SCHEMA`, for records with these numbers in their file."""
    size = len(rows)
    cells |= {
        "file": pa.repeat(pa.scalar(number, pa.int32()), size),
        "nth": pa.array(np.arange(nth, nth + size)),
        "row": pa.array(rows),
    }
    if "sender" not in cells:
        cells["sender"] = pa.repeat("", size)
    if "kind" not in cells:
        cells["kind"] = pa.repeat("U", size)
    if problems:
        found = [problems.get(place, (None, None)) for place in range(size)]
        cells["column"] = pa.array([column for column, _ in found], pa.string())
        cells["reason"] = pa.array([reason for _, reason in found], pa.string())
    return pa.record_batch(
        [cells.get(each.name, pa.nulls(size, each.type)) for each in SCHEMA], schema=SCHEMA
    )
