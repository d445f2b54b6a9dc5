"""Tables of a trace, written and read: small ones row by row, those of events from `EventRow`s."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from semcast.terms.errors import LocalProtocolError
from semcast.terms.events import kind_fault
from semcast.traces.arrow import pyarrow
from semcast.traces.errors import BadFile
from semcast.traces.event_rows import EventRow, columns_of
from semcast.traces.files import new_file
from semcast.traces.schema import EVENT_COLUMNS, RUN_COLUMNS, RunInfo, arrow_schema

_KIND: Final = "kind="


def write_table(path: Path, columns: Mapping[str, str], rows: Sequence[tuple[Any, ...]]) -> None:
    """One file with these rows, whose cells come in the order of the columns."""
    schema = arrow_schema(columns)
    cells = {name: [row[place] for row in rows] for place, name in enumerate(columns)}
    table = pyarrow().table(cells, schema=schema)
    pyarrow("parquet").write_table(table, new_file(path), compression="zstd")


def write_runs(path: Path, run: RunInfo, *, complete: bool) -> None:
    """The table of runs with one row."""
    run = replace(run, complete=complete)
    cells = {name: getattr(run, name) for name in RUN_COLUMNS}
    cells["parameters"] = sorted(run.parameters.items())
    write_table(path, RUN_COLUMNS, [tuple(cells.values())])


def event_table(
    run_id: int, rows: Sequence[EventRow], schema: Any, incarnations: Sequence[int] | None = None
) -> Any:
    """The rows of one kind as a table with every column of the schema.

    `incarnations` are the processes' by pid, where a process knows them and its events do not.
    """
    pa = pyarrow()
    cells, size = columns_of(rows), len(rows)
    cells["run_id"] = [run_id] * size
    cells["grp"] = [0] * size
    if incarnations is not None:
        inc: dict[int | None, int | None] = {None: None, **dict(enumerate(incarnations))}
        for life, process in (("inc", "pid"), ("sender_inc", "sender"), ("by_inc", "by_sender")):
            cells[life] = [inc.get(pid, 1) for pid in cells[process]]
    return pa.table(
        [
            pa.array(cells[column.name], column.type)
            if column.name in cells
            else pa.nulls(size, column.type)
            for column in schema
        ],
        schema=schema,
    )


def kind_folder(events: Path, kind: str) -> Path:
    """The folder of the events of one kind, which must be a known one."""
    fault = kind_fault(kind)
    if fault is not None:
        raise LocalProtocolError(fault)
    return events / f"{_KIND}{kind}"


def event_writer(path: Path) -> Any:
    """A writer of Parquet for events; the file is new."""
    schema = arrow_schema(EVENT_COLUMNS)
    return pyarrow("parquet").ParquetWriter(new_file(path), schema, compression="zstd")


def check_kinds(events: Path) -> None:
    """Raise `BadFile` unless all files of events are in folders of known kinds."""
    if not events.is_dir():
        raise BadFile(f"{events}: not a directory")
    for first in sorted({path.relative_to(events).parts[0] for path in events.rglob("*.parquet")}):
        if not first.startswith(_KIND):
            raise BadFile(f"{events / first}: not in a folder {_KIND}KIND")
        fault = kind_fault(first.removeprefix(_KIND))
        if fault is not None:
            raise BadFile(f"{events / first}: {fault}")


def read_rows(
    path: Path, columns: Mapping[str, str], needed: Sequence[str] = (), run_id: int | None = None
) -> list[dict[str, Any]]:
    """The rows of a file or a directory of files; a column that is missing there is null.

    Columns that are `needed` must be there, and have a value in every row.
    """
    rows: list[dict[str, Any]] = []
    for _, table in read_tables(path, columns, needed):
        if run_id is not None:
            table = table.filter(pyarrow("compute").equal(table["run_id"], run_id))
        rows += table.to_pylist()
    return rows


def read_tables(
    path: Path, columns: Mapping[str, str], needed: Sequence[str] = ()
) -> Iterator[tuple[Path, Any]]:
    """Each file with its table, as for `read_rows`.

    Rejected: pyarrow's datasets, which hang or end the process at some damaged files.
    """
    for file in [path] if path.is_file() else sorted(path.rglob("*.parquet")):
        try:
            table = _table(file, columns, needed)
        except (OSError, UnicodeDecodeError, pyarrow().ArrowException) as error:
            reason = (str(error).splitlines() or ["damaged"])[0]
            raise BadFile(f"{file}: cannot be read as Parquet of a trace: {reason}") from None
        for name in needed:
            if table[name].null_count:
                raise BadFile(f"{file}: column {name} is empty in some rows")
        yield file, table


def kind_in(events: Path, file: Path) -> str:
    """The kind of the events in a file of the directory."""
    return file.relative_to(events).parts[0].removeprefix(_KIND)


def _table(file: Path, columns: Mapping[str, str], needed: Sequence[str]) -> Any:
    """A file of a table with exactly these columns."""
    pa, schema = pyarrow(), arrow_schema(columns)
    with pyarrow("parquet").ParquetFile(file) as source:
        present = [name for name in columns if name in source.schema_arrow.names]
        found = source.read(columns=present)
    found.validate(full=True)  # A text of a damaged file need not be one.
    cells = {name: found[name].cast(schema.field(name).type) for name in present}
    for name in columns:
        if name not in cells:
            if name in needed:
                raise BadFile(f"{file}: not part of a trace: no column {name}")
            cells[name] = pa.nulls(found.num_rows, schema.field(name).type)
    return pa.table({name: cells[name] for name in columns})
