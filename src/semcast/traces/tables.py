"""Tables of a trace, written: small ones from rows of cells, those of events from `Row`s."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from semcast.traces.arrow import pyarrow
from semcast.traces.rows import Row
from semcast.traces.schema import RUN_COLUMNS, Run, arrow_schema


def write_table(path: Path, columns: Mapping[str, str], rows: Sequence[tuple[Any, ...]]) -> None:
    """One file with these rows, whose cells come in the order of the columns."""
    schema = arrow_schema(columns)
    cells = {name: [row[place] for row in rows] for place, name in enumerate(columns)}
    table = pyarrow().table(cells, schema=schema)
    pyarrow("parquet").write_table(table, path, compression="zstd")


def write_runs(path: Path, run: Run, *, complete: bool) -> None:
    """The table of runs with one row."""
    run = replace(run, complete=complete)
    cells = {name: getattr(run, name) for name in RUN_COLUMNS}
    cells["parameters"] = sorted(run.parameters.items())
    write_table(path, RUN_COLUMNS, [tuple(cells.values())])


def event_table(
    run_id: int, rows: Sequence[Row], schema: Any, incarnations: Sequence[int] | None = None
) -> Any:
    """The rows of one kind as a table with every column of the schema.

    `incarnations` are the processes' by pid, where a process knows them and its events do not.
    """
    pa = pyarrow()
    cells: dict[str, Sequence[Any]] = dict(zip(Row._fields, zip(*rows, strict=True), strict=True))
    size = len(rows)
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
