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
from heapq import merge
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from semcast.terms.errors import ConfigError, LocalProtocolError
from semcast.terms.events import CRASH, Event
from semcast.traces.arrow import pyarrow
from semcast.traces.distances import Distances
from semcast.traces.errors import BadFile
from semcast.traces.rows import Row, event_of, row_of
from semcast.traces.schema import (
    EVENT_COLUMNS,
    EVENTS,
    ITEM_COLUMNS,
    ITEMS,
    JOURNALS,
    KINDS,
    PROCESS_COLUMNS,
    PROCESSES,
    RUN_COLUMNS,
    RUNS,
    Process,
    Run,
    arrow_schema,
)
from semcast.traces.settling import settle
from semcast.traces.tables import event_table, write_runs, write_table

_ROW_GROUP: Final = 65_536
_REQUIRED: Final = ("run_id", "pid", "n", "ts_ns")


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
        run: Run,
        names: Sequence[str],
        *,
        items: Mapping[int, str] | None = None,
        row_group: int = _ROW_GROUP,
    ) -> None:
        """`names` are the processes' by pid, `items` the items' by tag."""
        self._path = Path(directory)
        if any((self._path / part).exists() for part in (RUNS, EVENTS, JOURNALS)):
            raise ConfigError(f"trace: {self._path} already holds a trace, must be new or empty")
        if row_group < 1:
            raise ConfigError(f"row_group: {row_group} is not allowed, must be 1 or more")
        self._schema = arrow_schema(EVENT_COLUMNS)
        self._run, self._names, self._items = run, tuple(names), items
        self._row_group = row_group
        self._distances = Distances(run.relation)
        self._crashed: set[int] = set()
        self._rows: dict[str, list[Row]] = {}
        self._files: dict[str, Any] = {}
        self._open = ExitStack()
        (self._path / EVENTS).mkdir(parents=True)

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

    def _start(self, kind: str) -> list[Row]:
        if kind not in KINDS:
            raise LocalProtocolError(
                f"event kind {kind!r} is not one of {', '.join(sorted(KINDS))}"
            )
        folder = self._path / EVENTS / f"kind={kind}"
        folder.mkdir()
        writer = pyarrow("parquet").ParquetWriter(
            folder / "part-0.parquet", self._schema, compression="zstd"
        )
        self._files[kind] = self._open.enter_context(writer)
        return []

    def _flush(self, kind: str) -> None:
        rows = self._rows[kind]
        if rows:
            self._files[kind].write_table(event_table(self._run.run_id, rows, self._schema))
            rows.clear()


@dataclass(frozen=True, slots=True)
class Trace:
    """A run as read back: its row of `runs`, its processes, item names by tag, its events."""

    run: Run
    processes: tuple[Process, ...]
    items: dict[int, str]
    events: list[Event]


def read_trace(directory: str | Path, run_id: int | None = None) -> Trace:
    """Read one run; `run_id` is needed only where the directory holds several.

    Journals that processes left behind become Parquet first; what living ones are still writing
    is not read.
    """
    path = Path(directory)
    living = settle(path)
    for part in (RUNS, PROCESSES, EVENTS):
        if not (path / part).exists():
            writing = f" (still being written: {living[0].name})" if living else ""
            raise BadFile(f"{path}: not a trace, or one that was not finished: no {part}{writing}")
    run = _chosen(read_runs(path), path / RUNS, run_id)
    run_id = run.run_id
    processes = sorted(_rows(path / PROCESSES, PROCESS_COLUMNS, run_id), key=lambda row: row["pid"])
    items = _rows(path / ITEMS, ITEM_COLUMNS, run_id) if (path / ITEMS).exists() else []
    return Trace(
        run=run,
        processes=tuple(Process(row["pid"], row["name"], row["correct"]) for row in processes),
        items={row["item"]: row["name"] for row in items},
        events=_events(path / EVENTS, run),
    )


def read_runs(directory: str | Path) -> list[Run]:
    """The runs of a directory by number, as far as processes have ended or were killed."""
    path = Path(directory)
    settle(path)
    rows = _rows(path / RUNS, RUN_COLUMNS) if (path / RUNS).exists() else []
    runs = [Run(**{**row, "parameters": dict(row["parameters"] or ())}) for row in rows]
    return sorted(runs, key=lambda run: run.run_id)


def _chosen(runs: Sequence[Run], path: Path, run_id: int | None) -> Run:
    chosen = [run for run in runs if run_id in (None, run.run_id)]
    if len(chosen) != 1:
        ids = ", ".join(str(run.run_id) for run in runs) or "none"
        raise BadFile(f"{path}: name one run to read, it has {ids}")
    return chosen[0]


def _events(path: Path, run: Run) -> list[Event]:
    if not any(path.rglob("*.parquet")):
        return []
    local: dict[int, list[tuple[int, Event]]] = {}
    for row in _rows(path, {**EVENT_COLUMNS, "kind": "string"}, run.run_id):
        event = event_of(row["kind"], row, run.relation)
        local.setdefault(row["pid"], []).append((row["inc"] or 0, event))
    streams = []
    for pid in sorted(local):
        local[pid].sort(key=lambda life: (life[0], life[1].n))
        streams.append([event for _, event in local[pid]])
    # Merging keeps each process's own order, even where its clock went back.
    return list(merge(*streams, key=lambda event: event.ts_ns))


def _rows(
    path: Path, columns: Mapping[str, str], run_id: int | None = None
) -> list[dict[str, Any]]:
    """The rows of a file or a directory of files; a column that is missing there is null."""
    schema, dataset = arrow_schema(columns), pyarrow("dataset")
    try:
        present = set(dataset.dataset(path, format="parquet", partitioning="hive").schema.names)
        missing = [name for name in columns if name in _REQUIRED and name not in present]
        if missing:
            raise BadFile(f"{path}: not part of a trace: no column {missing[0]}")
        source = dataset.dataset(path, schema=schema, format="parquet", partitioning="hive")
        keep = None if run_id is None else dataset.field("run_id") == run_id
        table = source.to_table(filter=keep)
    except (OSError, pyarrow().ArrowException) as error:
        reason = str(error).splitlines()[0]
        raise BadFile(f"{path}: cannot be read as Parquet of a trace: {reason}") from None
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows
