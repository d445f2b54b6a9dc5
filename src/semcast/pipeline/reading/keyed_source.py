"""Keyed files of other programs, opened: CSV, JSON lines (both also gzipped), Parquet.

A file, or a directory of files of one format whose order is that of their names.  A row that cannot
be understood comes with its file, row (a line of text, counted from 1, or a row of Parquet), column
and reason; such a row keeps its place in the stream.  A file that cannot be read on at all is a
`BadFile`.  Names of files and columns are examined here, before anything is read or started.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from semcast.pipeline.reading.file_splits import make_splits
from semcast.pipeline.reading.keyed_parquet import examine_columns, names_in, read_parquet
from semcast.pipeline.reading.keyed_text import (
    KeyedColumns,
    is_csv,
    open_text,
    read_blocks,
    read_header,
    read_names,
)
from semcast.terms.errors import ConfigError, unknown_value
from semcast.traces.errors import BadFile
from semcast.traces.keyed import SUFFIXES

_PARQUET: Final = ".parquet"


class KeyedSource(NamedTuple):
    """Files with their work for tasks: `read` gives the blocks of a piece of `work`.

    `is_counted`: `nth` counts the rows of all files, not only those of its own.
    """

    files: Sequence[Path]
    work: Sequence[Any]
    read: Callable[[Any], Iterator[Any]]
    is_counted: bool


def open_source(path: Path, columns: KeyedColumns) -> KeyedSource:
    """The files at a path, whose columns are those asked for."""
    files = files_of(path)
    if files[0].name.lower().endswith(_PARQUET):
        examine_columns(files, columns)
        return KeyedSource(files, make_splits(files), partial(read_parquet, columns=columns), True)
    _examine_headers(files, columns)
    places = [file.absolute() for file in files]  # A task may run in another folder.

    def read(numbered: tuple[int, Path]) -> Iterator[Any]:
        return read_blocks(numbered[1], numbered[0], columns)

    return KeyedSource(files, list(enumerate(places)), read, len(files) == 1)


def column_names(file: Path) -> list[str]:
    """The columns that a file names in one place; lines of JSON do not."""
    if _ending(file) == _PARQUET:
        return names_in(file)
    if not is_csv(file):
        return []
    with open_text(file) as readable:
        return read_names(file, readable)


def files_of(path: Path) -> list[Path]:
    """The file, or the files of a directory by name; hidden ones (`_`, `.`) are passed over."""
    if not path.is_dir():
        files = [path]
    else:
        files = sorted(
            each for each in path.rglob("*") if each.is_file() and each.name[0] not in "._"
        )
    if not files:
        raise BadFile(f"{path}: the directory has no files")
    for file in files:
        file.open("rb").close()  # An absent one is said at once.
    endings = {_ending(file) for file in files}
    if len(endings) > 1:
        raise ConfigError(f"{path}: the directory mixes file types ({', '.join(sorted(endings))})")
    return files


def _ending(file: Path) -> str:
    for suffix in SUFFIXES:
        if file.name.lower().endswith(suffix):
            return suffix
    raise unknown_value("file name ending", file.name, SUFFIXES)


def _examine_headers(files: Sequence[Path], columns: KeyedColumns) -> None:
    for file in files:
        if is_csv(file):
            with open_text(file) as readable:
                read_header(file, readable, columns)
