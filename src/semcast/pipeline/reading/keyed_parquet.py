"""Keyed Parquet files as blocks, judged like the blocks of text."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from semcast.pipeline.reading.file_splits import FileSplit, read_split
from semcast.pipeline.reading.keyed_text import (
    KeyedColumns,
    RowProblems,
    make_block,
    validate_cells,
)
from semcast.traces.arrow import pyarrow
from semcast.traces.errors import BadFile

_PLAIN: Final = (  # the types that keys, senders, kinds and orders come in
    *("string", "large_string", "bool", "int8", "int16", "int32", "int64"),
    "dictionary<values=string, indices=int32, ordered=0>",
)


def read_parquet(piece: FileSplit, columns: KeyedColumns) -> Iterator[Any]:
    """Batches of `keyed_blocks.SCHEMA`; `nth` goes on from file to file."""
    row = piece.row
    wanted = columns.named()
    for batch in read_split(piece, list(dict.fromkeys(wanted.values()))):
        problems = RowProblems()
        cells = {field: _text(batch.column(name)) for field, name in wanted.items()}
        rows = np.arange(row + 1, row + 1 + batch.num_rows)
        nth = piece.place - piece.row + row + 1
        yield make_block(
            piece.number, nth, rows, validate_cells(cells, columns, problems), problems
        )
        row += batch.num_rows


def examine_columns(files: Sequence[Path], columns: KeyedColumns) -> None:
    """Raise `BadFile` unless every file has the columns, of types that can be read."""
    for file in files:
        found = _schema(file)
        for name in columns.named().values():
            if name not in found.names:
                raise BadFile(f"{file}: no column {name!r}, it has {', '.join(found.names)}")
            kind = found.field(name).type
            if str(kind) not in _PLAIN:
                raise BadFile(f"{file}: column {name!r} is {kind}, must be text or whole numbers")


def names_in(file: Path) -> list[str]:
    """The columns of a file."""
    return list(_schema(file).names)


def _schema(file: Path) -> Any:
    try:
        return pyarrow("parquet").read_schema(file)
    except (OSError, pyarrow().ArrowException) as error:
        reason = (str(error).splitlines() or ["damaged"])[0]
        raise BadFile(f"{file}: not Parquet: {reason}") from None


def _text(column: Any) -> Any:
    is_coded = pa.types.is_dictionary(column.type)
    return (column.dictionary_decode() if is_coded else column).cast(pa.string())
