"""Recorded executions as directories of Parquet, which any reader of that format understands.

The writer streams: it holds at most `row_group` rows of each kind.  Same events, same bytes.
`runs` is written last, so a directory without it is a trace that was not finished.  A process is
`correct` unless a `crash` of it was appended.  A row's grp is 0: one group.

The reader holds a whole run in memory, for monitors; larger ones are for Spark.  Events come back
by clock, and at one process always in the order of `n`.  It reads what this writer wrote and what
live processes recorded.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from semcast.terms.errors import ConfigError
from semcast.terms.events import CRASH, Event
from semcast.traces.distance_tracker import DistanceTracker
from semcast.traces.errors import BadFile
from semcast.traces.event_rows import EventRow, row_of
from semcast.traces.files import FOLDER_MODE, new_folder, refuse_links
from semcast.traces.journal_conversion import convert_journals
from semcast.traces.recorded_events import read_events
from semcast.traces.schema import (
    EVENT_COLUMNS,
    EVENTS,
    ITEM_COLUMNS,
    ITEMS,
    JOURNALS,
    PROCESS_COLUMNS,
    PROCESSES,
    RUN_COLUMNS,
    RUNS,
    ProcessInfo,
    RunInfo,
    arrow_schema,
)
from semcast.traces.tables import (
    check_kinds,
    event_table,
    event_writer,
    kind_folder,
    read_rows,
    write_runs,
    write_table,
)

_ROW_GROUP: Final = 65_536

# Columns without which a row says nothing.
_OF_RUNS: Final = ("run_id", "protocol", "order", "relation", "complete")
_OF_PROCESSES: Final = ("run_id", "pid", "correct")
_OF_ITEMS: Final = ("run_id", "item", "name")


class TraceWriter:
    """Writes one run.  Lives from the first event to `close`; leaving its `with` block early
    closes the files without `runs`, which marks the trace as unfinished.

        with TraceWriter(path, run, names=["a", "b"]) as trace:
            trace.append(events)
            trace.close(complete=True)
    """

    def __init__(
        self,
        directory: str | Path,
        run: RunInfo,
        names: Sequence[str],
        *,
        items: Mapping[int, str] | None = None,
        row_group: int = _ROW_GROUP,
    ) -> None:
        """`names` are the processes' by pid, `items` the items' by tag."""
        self._path = Path(directory)
        refuse_links(self._path)
        if any((self._path / part).exists() for part in (RUNS, EVENTS, JOURNALS)):
            raise ConfigError(f"trace: {self._path} already holds a trace, must be new or empty")
        if row_group < 1:
            raise ConfigError(f"row_group: {row_group} is not allowed, must be 1 or more")
        self._schema = arrow_schema(EVENT_COLUMNS)
        self._run, self._names, self._items = run, tuple(names), items
        self._row_group = row_group
        self._distances = DistanceTracker(run.relation)
        self._crashed: set[int] = set()
        self._rows: dict[str, list[EventRow]] = {}
        self._files: dict[str, Any] = {}
        self._open = ExitStack()
        new_folder(self._path)
        (self._path / EVENTS).mkdir(mode=FOLDER_MODE)

    def append(self, events: Iterable[Event]) -> None:
        """Record events; those of a sender's multicasts must come in order."""
        for event in events:
            rows = self._rows.get(event.kind)
            if rows is None:
                rows = self._rows[event.kind] = self._start(event.kind)
            if event.kind == CRASH:
                self._crashed.add(event.pid)
            rows.append(row_of(event, self._distances))
            if len(rows) == self._row_group:
                self._flush(event.kind)

    def close(self, *, complete: bool) -> None:
        """Write what is left and the small tables; `complete`: the run fell quiet."""
        for kind in self._rows:
            self._flush(kind)
        self._open.close()
        run_id = self._run.run_id
        processes = [
            (run_id, pid, name, pid not in self._crashed) for pid, name in enumerate(self._names)
        ]
        write_table(self._path / PROCESSES, PROCESS_COLUMNS, processes)
        if self._items is not None:
            items = [(run_id, item, name) for item, name in sorted(self._items.items())]
            write_table(self._path / ITEMS, ITEM_COLUMNS, items)
        write_runs(self._path / RUNS, self._run, complete=complete)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._open.close()

    def _start(self, kind: str) -> list[EventRow]:
        folder = kind_folder(self._path / EVENTS, kind)
        folder.mkdir(mode=FOLDER_MODE)
        self._files[kind] = self._open.enter_context(event_writer(folder / "part-0.parquet"))
        return []

    def _flush(self, kind: str) -> None:
        rows = self._rows[kind]
        if rows:
            self._files[kind].write_table(event_table(self._run.run_id, rows, self._schema))
            rows.clear()


@dataclass(frozen=True, slots=True)
class RunTrace:
    """A run as read back: its row of `runs`, its processes, item names by tag, its events."""

    run: RunInfo
    processes: tuple[ProcessInfo, ...]
    items: dict[int, str]
    events: list[Event]


def read_trace(directory: str | Path, run_id: int | None = None) -> RunTrace:
    """Read one run; `run_id` is needed only where the directory holds several.

    Journals that processes left behind become Parquet first; what living ones are still writing
    is not read.
    """
    path = Path(directory)
    living = convert_journals(path)
    for part in (RUNS, PROCESSES, EVENTS):
        if not (path / part).exists():
            writing = f" (still being written: {living[0].name})" if living else ""
            raise BadFile(f"{path}: not a trace, or one that was not finished: no {part}{writing}")
    check_kinds(path / EVENTS)
    run = _chosen(read_runs(path), path / RUNS, run_id)
    run_id = run.run_id
    processes = read_processes(path).get(run_id, ())
    return RunTrace(
        run=run,
        processes=processes,
        items=read_item_names(path, run_id),
        events=list(read_events(path / EVENTS).of(run)),
    )


def read_runs(directory: str | Path) -> list[RunInfo]:
    """The runs of a directory by number, as far as processes have ended or were killed."""
    path = Path(directory)
    convert_journals(path)
    return read_runs_in(path)


def read_runs_in(root: Path) -> list[RunInfo]:
    """The runs of a trace or a lake by number, without a look for journals."""
    rows = read_rows(root / RUNS, RUN_COLUMNS, _OF_RUNS) if (root / RUNS).exists() else []
    runs = [RunInfo(**{**row, "parameters": dict(row["parameters"] or ())}) for row in rows]
    return sorted(runs, key=lambda run: run.run_id)


def read_processes(root: Path) -> dict[int, tuple[ProcessInfo, ...]]:
    """The processes of each run by number."""
    found: dict[int, dict[int, ProcessInfo]] = {}
    for row in read_rows(root / PROCESSES, PROCESS_COLUMNS, _OF_PROCESSES):
        process = ProcessInfo(row["pid"], row["name"], row["correct"])
        found.setdefault(row["run_id"], {})[process.pid] = process
    return {
        run_id: tuple(processes[pid] for pid in sorted(processes))
        for run_id, processes in found.items()
    }


def read_item_names(root: Path, run_id: int) -> dict[int, str]:
    """The names of a run's items; empty if the trace has none."""
    if not (root / ITEMS).exists():
        return {}
    rows = read_rows(root / ITEMS, ITEM_COLUMNS, _OF_ITEMS, run_id)
    return {row["item"]: row["name"] for row in rows}


def _chosen(runs: Sequence[RunInfo], path: Path, run_id: int | None) -> RunInfo:
    chosen = [run for run in runs if run_id in (None, run.run_id)]
    if len(chosen) != 1:
        ids = ", ".join(str(run.run_id) for run in runs) or "none"
        raise BadFile(f"{path}: name one run to read, it has {ids}")
    return chosen[0]
