"""Recorded executions as DataFrames: one trace directory, or a lake of many.

What is wrong with a directory is said before any job runs, from names and Parquet footers: a
`BadFile` of one line with the file and the column.  The files of a lake were examined when they
came in.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from semcast.pipeline import schema
from semcast.terms.errors import one_of
from semcast.traces.arrow import pyarrow
from semcast.traces.errors import BadFile
from semcast.traces.schema import (
    EVENT_COLUMNS,
    EVENTS,
    ITEM_COLUMNS,
    ITEMS,
    KINDS,
    PROCESS_COLUMNS,
    PROCESSES,
    RUN_COLUMNS,
    RUNS,
    arrow_schema,
)
from semcast.traces.settling import settle

CURRENT: Final = "current"  # where a lake has the snapshot to read

# Columns without which a row says nothing; others are null where a file lacks them.
_NEEDED: Final = {
    RUNS: ("run_id", "protocol", "order", "relation", "complete"),
    PROCESSES: ("run_id", "pid", "correct"),
    ITEMS: ("run_id", "item", "name"),
    EVENTS: ("run_id", "pid", "inc", "n", "ts_ns", "sender", "sender_inc", "seq"),
}
_COLUMNS: Final = {
    RUNS: RUN_COLUMNS,
    PROCESSES: PROCESS_COLUMNS,
    ITEMS: ITEM_COLUMNS,
    EVENTS: EVENT_COLUMNS,
}


class Trace(NamedTuple):
    """The tables of a trace; `events` has the partition column `kind`."""

    runs: DataFrame
    processes: DataFrame
    items: DataFrame
    events: DataFrame


def read_trace(spark: SparkSession, path: str | Path) -> Trace:
    """The tables of a trace directory or of a lake.

    Journals that processes left behind become Parquet first; what living ones are still writing
    is not read.  Of a lake, the snapshot that is current now.
    """
    root = _root(Path(path))
    return Trace(
        _table(spark, root / RUNS, schema.RUNS),
        _table(spark, root / PROCESSES, schema.PROCESSES),
        _table(spark, root / ITEMS, schema.ITEMS),
        _table(spark, root / EVENTS, schema.EVENTS),
    )


def kind_files(path: Path, kind: str) -> list[Path]:
    """The files of the events of one kind, of what `read_trace` reads."""
    return files_of(_root(path) / EVENTS / f"kind={kind}")


def _root(path: Path) -> Path:
    if (path / CURRENT).is_symlink():
        return (path / CURRENT).resolve()
    examine(path)
    return path.resolve()


def examine(path: Path) -> None:
    """Raise `BadFile` unless the directory is a whole trace of this version."""
    living = settle(path)
    for part in (RUNS, PROCESSES, EVENTS):
        if not (path / part).exists():
            writing = f" (still being written: {living[0].name})" if living else ""
            raise BadFile(f"{path}: not a trace, or one that was not finished: no {part}{writing}")
    for part, columns in _COLUMNS.items():
        for file in files_of(path / part):
            _examine_file(file, columns, _NEEDED[part])
    events = files_of(path / EVENTS)
    if not events:
        raise BadFile(f"{path / EVENTS}: empty, this trace has no events")
    for file in events:
        _examine_kind(path / EVENTS, file)


def files_of(path: Path) -> list[Path]:
    """The Parquet files of a table, in the order of their names."""
    return [path] if path.is_file() else sorted(path.rglob("*.parquet"))


def file_name(uri: Column) -> Column:
    """The path in a `_metadata.file_path`."""
    plain = F.url_decode(F.replace(uri, F.lit("+"), F.lit("%2B")))
    return F.regexp_replace(plain, "^file:/+", "/")


def _examine_kind(events: Path, file: Path) -> None:
    name, _, kind = file.relative_to(events).parts[0].partition("=")
    if name != "kind":
        raise BadFile(f"{file}: not in a folder kind=KIND")
    if kind not in KINDS:
        raise BadFile(f"{file.parent}: {one_of('kind', kind, sorted(KINDS))}")


def _examine_file(file: Path, columns: Mapping[str, str], needed: tuple[str, ...]) -> None:
    try:
        found = pyarrow("parquet").read_schema(file)
    except (OSError, pyarrow().ArrowException) as error:
        reason = (str(error).splitlines() or ["damaged"])[0]
        raise BadFile(f"{file}: cannot be read as Parquet of a trace: {reason}") from None
    wanted = arrow_schema(columns)
    for name in columns:
        if name not in found.names:
            if name in needed:
                raise BadFile(f"{file}: not part of a trace of this version: no column {name}")
        elif not _fits(found.field(name).type, wanted.field(name).type):
            have, want = found.field(name).type, wanted.field(name).type
            raise BadFile(f"{file}: column {name} is {have}, must be {want}")


def _fits(have: Any, want: Any) -> bool:
    """Whether Spark reads the one type as the other: inner names differ, integers widen."""
    types = pyarrow("types")
    if types.is_map(want):
        return bool(
            types.is_map(have)
            and _fits(have.key_type, want.key_type)
            and _fits(have.item_type, want.item_type)
        )
    if types.is_list(want):
        return bool(types.is_list(have) and _fits(have.value_type, want.value_type))
    if types.is_string(want):
        return bool(types.is_string(have) or types.is_large_string(have))
    return bool(have == want or (types.is_int64(want) and types.is_int32(have)))


def _table(spark: SparkSession, path: Path, columns: StructType) -> DataFrame:
    if not files_of(path):
        return spark.createDataFrame([], columns)
    # Only the columns asked for: a lake has its batches as a partition column besides.
    return spark.read.schema(columns).parquet(f"file://{path}").select(*columns.names)
