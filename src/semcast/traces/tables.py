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

    `incarnations` are the processes' by pid; without them each process has one life, the first.
    """
    pa = pyarrow()
    cells: dict[str, Sequence[Any]] = dict(zip(Row._fields, zip(*rows, strict=True), strict=True))
    size = len(rows)
    inc = dict(enumerate(incarnations or ()))
    cells["run_id"] = [run_id] * size
    cells["inc"] = [inc.get(row.pid, 1) for row in rows]
    cells["grp"] = cells["view"] = [0] * size
    cells["sender_inc"] = [None if row.sender is None else inc.get(row.sender, 1) for row in rows]
    cells["by_sender"] = [None if row.by_seq is None else row.sender for row in rows]
    cells["by_inc"] = [
        None if row.by_seq is None else inc_of
        for row, inc_of in zip(rows, cells["sender_inc"], strict=True)
    ]
    return pa.table(
        [
            pa.array(cells[column.name], column.type)
            if column.name in cells
            else pa.nulls(size, column.type)
            for column in schema
        ],
        schema=schema,
    )
