"""The files of a trace or a lake: where they are, and what is wrong with them.

A problem of a directory is found from names and Parquet footers, before any event is read: a
`BadFile` of one line with the file and the column.  The columns of a lake were checked when its
files came in; each read checks again that no link leads out of it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from semcast.terms.errors import ConfigError
from semcast.terms.promises import refuse_impossible
from semcast.traces.arrow import pyarrow
from semcast.traces.errors import BadFile
from semcast.traces.files import refuse_links
from semcast.traces.journal_conversion import convert_journals
from semcast.traces.schema import (
    CURRENT,
    EVENT_COLUMNS,
    EVENTS,
    ITEM_COLUMNS,
    ITEMS,
    PROCESS_COLUMNS,
    PROCESSES,
    RUN_COLUMNS,
    RUNS,
    arrow_schema,
)
from semcast.traces.tables import check_kinds

# A row without these columns means nothing; others are null where a file lacks them.
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


def kind_files(path: Path, kind: str) -> list[Path]:
    """The files of the events of one kind in a trace or a lake."""
    return files_of(root_of(path) / EVENTS / f"kind={kind}")


def root_of(path: Path) -> Path:
    """Where the tables of a trace or of a lake are, which is examined first."""
    if (path / CURRENT).is_symlink():
        refuse_links(path)
        root = (path / CURRENT).resolve()
        check_kinds(root / EVENTS)
        return root
    check_trace_files(path)
    return path.resolve()


def check_trace_files(path: Path) -> None:
    """Raise `BadFile` unless the directory is a whole trace of this version."""
    if not path.exists():
        raise BadFile(f"{path}: no such directory")
    living = convert_journals(path)
    for part in (RUNS, PROCESSES, EVENTS):
        if not (path / part).exists():
            writing = f" (still being written: {living[0].name})" if living else ""
            raise BadFile(f"{path}: not a trace, or one that was not finished: no {part}{writing}")
    for part, columns in _COLUMNS.items():
        for file in files_of(path / part):
            _check_file(file, columns, _NEEDED[part])
    for file in files_of(path / RUNS):
        _check_runs(file)
    check_kinds(path / EVENTS)
    if not files_of(path / EVENTS):
        raise BadFile(f"{path / EVENTS}: empty, this trace has no events")


def files_of(path: Path) -> list[Path]:
    """The Parquet files of a table, in the order of their names."""
    return [path] if path.is_file() else sorted(path.rglob("*.parquet"))


def count_events(root: Path) -> int:
    """The number of events, from the footers of the files."""
    return sum(_footer(file).num_rows for file in files_of(root / EVENTS))


def _footer(file: Path) -> Any:
    try:
        return pyarrow("parquet").read_metadata(file)
    except (OSError, UnicodeDecodeError, pyarrow().ArrowException) as error:
        reason = (str(error).splitlines() or ["damaged"])[0]
        raise BadFile(f"{file}: cannot be read as Parquet of a trace: {reason}") from None


def _check_file(file: Path, columns: Mapping[str, str], needed: tuple[str, ...]) -> None:
    found = _footer(file).schema.to_arrow_schema()
    wanted = arrow_schema(columns)
    for name in columns:
        if name not in found.names:
            if name in needed:
                raise BadFile(f"{file}: not part of a trace of this version: no column {name}")
        elif not _fits(found.field(name).type, wanted.field(name).type):
            have, want = found.field(name).type, wanted.field(name).type
            raise BadFile(f"{file}: column {name} is {have}, must be {want}")


def _check_runs(file: Path) -> None:
    """Refuse runs that promise what no group can have promised."""
    names = ["run_id", "protocol", "order"]
    columns = pyarrow("parquet").read_table(file, columns=names).to_pydict()
    for run_id, protocol, order in zip(*(columns[name] for name in names), strict=True):
        try:
            refuse_impossible(protocol, order)
        except ConfigError as error:
            raise BadFile(f"{file}: run {run_id}: {error}") from None


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
