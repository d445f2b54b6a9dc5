"""Pieces of Parquet files that tasks read themselves, straight into Arrow.

Spark's own reader makes rows of the columns, and Arrow of the rows again: for what Python counts
in blocks that takes several times as long as all the counting.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from semcast.traces.arrow import pyarrow
from semcast.traces.errors import BadFile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS_BITS: Final = 20
ROWS_MAX: Final = 1 << ROWS_BITS  # what a task holds at once


class FileSplit(NamedTuple):
    """Row groups of the file with this number; so many rows of it, and of all, come before."""

    path: str
    number: int
    groups: tuple[int, ...]
    row: int
    place: int


def make_splits(files: Sequence[Path], rows_max: int = ROWS_MAX) -> list[FileSplit]:
    """The files in pieces of at most so many rows or a row group, as their footers tell."""
    pieces, place = [], 0
    for number, file in enumerate(files):
        footer, row = _footer(file), 0
        groups: list[int] = []
        held = 0
        for group in range(footer.num_row_groups):
            rows = footer.row_group(group).num_rows
            if groups and held + rows > rows_max:
                pieces.append(
                    FileSplit(str(file.resolve()), number, tuple(groups), row, place + row)
                )
                row, held, groups = row + held, 0, []
            groups.append(group)
            held += rows
        if groups:
            pieces.append(FileSplit(str(file.resolve()), number, tuple(groups), row, place + row))
        place += row + held
    return pieces


def read_split(piece: FileSplit, names: Sequence[str]) -> Iterator[Any]:
    """Batches of those of the columns that the file has."""
    parquet = pyarrow("parquet")
    try:
        with parquet.ParquetFile(piece.path) as file:
            stored = [name for name in names if name in file.schema_arrow.names]
            yield from file.iter_batches(ROWS_MAX, piece.groups, stored, use_threads=False)
    except (OSError, pyarrow().ArrowException) as error:
        reason = (str(error).splitlines() or ["damaged"])[0]
        raise BadFile(f"{piece.path}: cannot be read: {reason}") from None


def run_per_task(
    spark: "SparkSession", work: Sequence[Any], run: Callable[[Any], Iterator[Any]], columns: str
) -> "DataFrame":
    """What `run` yields for each piece of work, a task for each."""

    def task(numbers: Iterator[Any]) -> Iterator[Any]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from run(work[number])

    return spark.range(0, len(work), 1, max(1, len(work))).mapInArrow(task, columns)


def _footer(file: Path) -> Any:
    try:
        return pyarrow("parquet").read_metadata(file)
    except (OSError, pyarrow().ArrowException) as error:
        reason = (str(error).splitlines() or ["damaged"])[0]
        raise BadFile(f"{file}: not Parquet: {reason}") from None
