"""Keyed files of other programs as one table: CSV, JSON lines (both also gzipped), Parquet.

A file, or a directory of files of one format whose order is that of their names.  Rows that cannot
be understood are a table of their own, with the file, the row (a line of text, counted from 1, or
a row of Parquet), the column and the reason; such a row keeps its place in the stream.  A file
that cannot be read on at all is a `BadFile`.

Files are read where Spark runs, straight into Arrow: text by a task for each file, Parquet by a
task for each piece.  Rejected: Spark's readers.  That of CSV loses the numbers of lines, and both
take several times as long.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from semcast.pipeline.reading.file_splits import make_splits, run_per_task
from semcast.pipeline.reading.keyed_parquet import examine_columns, read_parquet
from semcast.pipeline.reading.keyed_text import (
    KeyedColumns,
    is_csv,
    open_text,
    read_blocks,
    read_header,
)
from semcast.terms.errors import ConfigError, one_of
from semcast.traces.errors import BadFile
from semcast.traces.keyed import SUFFIXES

_PARQUET: Final = ".parquet"
_BLOCK: Final = (
    "file int, nth bigint, row bigint, sender string, order bigint, key string, kind string, "
    "column string, reason string"
)


class KeyedTables(NamedTuple):
    """`rows`: sender, place, key, kind, order (null without such a column).
    `bad`: file, row, column, reason."""

    rows: DataFrame
    bad: DataFrame


def read_keyed(
    spark: SparkSession,
    path: str | Path,
    *,
    key: str,
    order: str | None = None,
    sender: str | None = None,
    kind: str | None = None,
) -> KeyedTables:
    """The streams of a file or directory, given the names of its columns.

    `place` counts a sender's rows from 1, in the order of the file or, with `order` (whole
    numbers), by that column.  Without `sender` there is one sender, ""; without `kind` every row
    is an update, U.
    """
    found = read_validated(spark, Path(path), KeyedColumns(key, order, sender, kind))
    return KeyedTables(
        found.where("reason IS NULL").select("sender", "place", "key", "kind", "order"),
        found.where("reason IS NOT NULL").select("file", "row", "column", "reason"),
    )


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


def read_validated(spark: SparkSession, path: Path, columns: KeyedColumns) -> DataFrame:
    """Every row, with its place, its file and number there, and what is wrong with it, or null."""
    source = open_source(path, columns)
    found = run_per_task(spark, source.work, source.read, _BLOCK)
    names = F.array(*(F.lit(str(file)) for file in source.files))
    return _placed(found, columns, source.is_counted).select(
        *("sender", "place", "key", "kind", "order"),
        F.element_at(names, F.col("file") + 1).alias("file"),
        *("row", "column", "reason"),
    )


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
    endings = {_ending(file) for file in files}
    if len(endings) > 1:
        raise ConfigError(f"{path}: the directory mixes file types ({', '.join(sorted(endings))})")
    for file in files:
        file.open("rb").close()  # An absent one is said at once.
    return files


def _ending(file: Path) -> str:
    for suffix in SUFFIXES:
        if file.name.lower().endswith(suffix):
            return suffix
    raise one_of("file name ending", file.name, SUFFIXES)


def _examine_headers(files: Sequence[Path], columns: KeyedColumns) -> None:
    for file in files:
        if is_csv(file):
            with open_text(file) as readable:
                read_header(file, readable, columns)


def _placed(found: DataFrame, columns: KeyedColumns, is_counted: bool) -> DataFrame:
    """With `place`.  Only another order or several senders need a sort."""
    if columns.order is not None or columns.sender is not None:
        by = ["order", "file", "nth"]  # Without such a column, `order` is null.
        place = F.row_number().over(Window.partitionBy("sender").orderBy(*by))
        return found.withColumn("place", place.cast("bigint"))
    if is_counted:
        return found.withColumn("place", F.col("nth"))
    together = Window.partitionBy(F.lit(0))  # They are as many as files.
    before = together.orderBy("file").rowsBetween(Window.unboundedPreceding, -1)
    sizes = found.groupBy("file").agg(F.max("nth").alias("size"))
    starts = sizes.select("file", F.coalesce(F.sum("size").over(before), F.lit(0)).alias("start"))
    return found.join(F.broadcast(starts), "file").withColumn(
        "place", F.col("start") + F.col("nth")
    )
