"""The files of a trace, read by tasks straight into Arrow: only columns that say something.

What the footer of a file tells of a column, that it has one value or none, need not be read: most
columns of a live member's file are like that.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs
import pyarrow.parquet
from pyspark.sql import DataFrame

from semcast.pipeline.check.event_fields import Columns
from semcast.pipeline.reading.spark_schema import EVENTS
from semcast.traces.schema import EVENT_COLUMNS, arrow_schema

_KIND: Final = re.compile("(.*)/kind(?:=|%3D)([a-z]+)/")
_SCHEMA: Final = arrow_schema(EVENT_COLUMNS)
_BATCH: Final = 1 << 16
_TASK: Final = 8 << 20  # bytes; they take about 0.1 s, a task itself 0.05 s
_READ: Final = "n"  # in any case: it says how many rows there are
_SOME: Final = "some"  # stands for values that are not known


def source_files(events: DataFrame) -> list[str]:
    """The files that hold these events and no others; none if they are not what a trace's files
    hold, but were made, or chosen from it."""
    files = sorted(events.inputFiles())
    if not files:
        return []
    found = _KIND.match(files[0])
    if not found:
        return []
    whole = events.sparkSession.read.schema(EVENTS).parquet(unquote(found[1]))
    return files if whole.select(*EVENTS.names).sameSemantics(events) else []


def kind_of(file: str) -> str:
    """The kind of the events in a file."""
    found = _KIND.match(file)
    return found[2] if found else ""


class RowGroupShare(NamedTuple):
    """One of so many parts of a file: every so many-th row group."""

    file: str
    part: int
    of: int


def assign_tasks(files: Sequence[str], tasks_max: int) -> list[list[RowGroupShare]]:
    """The files, dealt to at most so many tasks: few where there is little to read."""
    if not files:
        return []
    sizes = _sizes(files)
    count = tasks_max if sizes is None else min(tasks_max, _tasks(sum(sizes)))
    parts = [-(-tasks_max // len(files))] * len(files)
    if sizes is not None:
        parts = [min(tasks_max, _tasks(size)) for size in sizes]
    shares = [
        RowGroupShare(file, part, of)
        for file, of in zip(files, parts, strict=True)
        for part in range(of)
    ]
    return [shares[task::count] for task in range(count)]


def _tasks(size: int) -> int:
    return max(1, -(-size // _TASK))


def _sizes(files: Sequence[str]) -> list[int] | None:
    """How large each is, if that can be seen from here."""
    try:
        places = [pyarrow.fs.FileSystem.from_uri(file) for file in files]
        sizes = [system.get_file_info(path).size for system, path in places]
    except (OSError, pa.ArrowException):
        return None
    return None if None in sizes else sizes


def read_share(share: RowGroupShare, names: Sequence[str]) -> Iterator[Columns]:
    """These columns of a share, of events that have a sender."""
    system, path = pyarrow.fs.FileSystem.from_uri(share.file)
    with pyarrow.parquet.ParquetFile(system.open_input_file(path)) as source:
        groups = [*range(share.part, source.num_row_groups, share.of)]
        known = _known(source.metadata, groups)
        stored = set(source.schema_arrow.names)
        wanted = [name for name in names if name in stored and (name not in known or name == _READ)]
        for batch in source.iter_batches(_BATCH, groups, wanted, use_threads=False):
            read = _of_senders(batch)
            size = len(read[_READ])
            if size and known.get("sender", _SOME) is not None:
                yield {
                    name: read[name] if name in read else _repeated(name, known.get(name), size)
                    for name in names
                }


def _of_senders(batch: Any) -> Columns:
    if "sender" in batch.schema.names and batch.column("sender").null_count:
        batch = batch.filter(pc.is_valid(batch.column("sender")))
    return dict(zip(batch.schema.names, batch.columns, strict=True))


def _repeated(name: str, value: Any, size: int) -> Any:
    if value is None:
        return pa.nulls(size)
    return pa.repeat(pa.scalar(value, _SCHEMA.field(name).type), size)


def _known(footer: Any, groups: Sequence[int]) -> Columns:
    """By name, the one value that a column has in all these row groups, None if it has none."""
    values: dict[str, set[Any]] = {}
    for group in map(footer.row_group, groups):
        for column in map(group.column, range(group.num_columns)):
            name, _, inner = column.path_in_schema.partition(".")
            values.setdefault(name, set()).add(_value(column, is_nested=bool(inner)))
    return {name: of.pop() for name, of in values.items() if len(of) == 1 and _SOME not in of}


def _value(column: Any, *, is_nested: bool) -> Any:
    statistics = column.statistics
    if statistics is None or not statistics.has_null_count:
        return _SOME
    if statistics.null_count == column.num_values:
        return None
    is_one = (
        statistics.has_min_max and statistics.null_count == 0 and statistics.min == statistics.max
    )
    return statistics.min if is_one and not is_nested else _SOME
