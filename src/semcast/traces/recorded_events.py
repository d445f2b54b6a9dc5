"""The events of recorded runs, each run in the order of its clocks.

The columns of the files stay in memory as Arrow arrays, about 60 bytes per event.  Events are made
a few thousand at a time as a reader asks for them, so a reader that forgets them holds few.

The order is by clock, and at one process always by incarnation and `n`: a clock that went back does
not change the order of the events of its process.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from semcast.terms.events import DEFAULTS, INSTALL, KINDS, MULTICAST, Event
from semcast.traces.arrow import pyarrow
from semcast.traces.errors import BadFile
from semcast.traces.event_rows import events_of, fault_in
from semcast.traces.schema import EVENT_COLUMNS, RunInfo
from semcast.traces.tables import kind_in, read_tables

_NEEDED: Final = ("run_id", "pid", "n", "ts_ns")  # A row without them means nothing.
CODES: Final = sorted(KINDS)
_KIND: Final = "kind"
_AT_A_TIME: Final = 1 << 14


def read_events(path: Path) -> "RecordedEvents":
    """Read all events below a directory."""
    pa, tables = pyarrow(), []
    for file, table in read_tables(path, EVENT_COLUMNS, _NEEDED):
        code = pa.scalar(CODES.index(kind_in(path, file)), pa.int8())
        tables.append(table.append_column(_KIND, pa.repeat(code, table.num_rows)))
    # In one piece: taking rows of a table in pieces copies all of it each time.
    whole = pa.concat_tables(tables).combine_chunks() if tables else None
    return RecordedEvents(whole, str(path))


class RecordedEvents:
    """The events of some runs; `origin` names them in errors."""

    def __init__(self, table: Any, origin: str) -> None:
        self._table, self._origin = table, origin
        self._rows: dict[int, Any] = {} if table is None else _rows_by_run(table)
        self._columns: dict[str, Any] = {}

    def __len__(self) -> int:
        return 0 if self._table is None else int(self._table.num_rows)

    def of(self, run: RunInfo) -> Iterator[Event]:
        """The events of one run in order; a row that no writer wrote is a `BadFile`."""
        rows = self._rows.get(run.run_id)
        return iter(()) if rows is None else self._events(run, rows)

    def count(self, run_id: int) -> int:
        """The number of events of the run."""
        return len(self._rows.get(run_id, ()))

    def by_process(self, run: RunInfo, n: int) -> list[Iterator[Event]]:
        """The events of each of the processes 0 to n - 1 of a run, in local order."""
        rows = self._rows.get(run.run_id)
        if rows is None:
            return [iter(()) for _ in range(n)]
        if len(rows) <= _AT_A_TIME:  # Making few events costs about the same for one as for all.
            events: list[list[Event]] = [[] for _ in range(n)]
            for event in self._events(run, rows):
                if 0 <= event.pid < n:
                    events[event.pid].append(event)
            return [iter(each) for each in events]
        pids = self._column("pid")[rows]
        return [self._events(run, rows[pids == pid]) for pid in range(n)]

    def table_of(self, run: RunInfo) -> Any:
        """The events of one run in order, as an Arrow table; `kind` is an index of `CODES`."""
        rows = self._rows.get(run.run_id)
        if rows is None:
            raise BadFile(f"{self._origin}: run {run.run_id} has no events")
        return self._table.take(rows)

    def processes(self, run_id: int) -> set[int]:
        """The processes that have events in the run."""
        rows = self._rows.get(run_id)
        return set() if rows is None else set(self._column("pid")[rows].tolist())

    def senders(self, run_id: int) -> set[int]:
        """The processes whose messages the events of the run are about."""
        rows = self._rows.get(run_id)
        return set() if rows is None else set(self._column("sender")[rows].tolist()) - {-1}

    def multicasts(self, run_id: int) -> int:
        """The number of multicasts in the run."""
        rows = self._rows.get(run_id)
        if rows is None:
            return 0
        return int((self._column(_KIND)[rows] == CODES.index(MULTICAST)).sum())

    def _column(self, name: str) -> Any:
        if name not in self._columns:
            column = self._table[name]
            self._columns[name] = column.fill_null(DEFAULTS.get(name, 0)).to_numpy()
        return self._columns[name]

    def _events(self, run: RunInfo, rows: Any) -> Iterator[Event]:
        lineages = self._lineages(rows)
        for start in range(0, len(rows), _AT_A_TIME):
            table = self._table.take(rows[start : start + _AT_A_TIME])
            fault = fault_in(table, run.relation)
            if fault is not None:
                row, what = fault
                n, pid = (table[name][row].as_py() for name in ("n", "pid"))
                raise BadFile(f"{self._origin}: event {n} of process {pid}: {what}")
            kinds = [CODES[code] for code in table[_KIND].to_numpy().tolist()]
            events = events_of(table, kinds, run.relation)
            if lineages:
                _set_lineage(events, lineages)
            yield from events

    def _lineages(self, rows: Any) -> dict[tuple[int, int], int]:
        """The lineage of each incarnation: that of its first `install`."""
        installs = self._column(_KIND)[rows] == CODES.index(INSTALL)
        if not installs.any():
            return {}
        chosen = self._table.take(rows[installs])  # in local order
        found: dict[tuple[int, int], int] = {}
        if not fault_in(chosen, ""):  # Otherwise `of` reports it.
            for event in events_of(chosen, [INSTALL] * chosen.num_rows, "none"):
                found.setdefault((event.pid, event.inc), event.lineage)
        return found if any(found.values()) else {}


def _rows_by_run(table: Any) -> dict[int, Any]:
    """By run, the numbers of its rows in order."""
    import numpy as np  # with pyarrow, an extra, and slow to import

    run, pid, inc, n, time = (
        table[name].fill_null(DEFAULTS.get(name) or 0).to_numpy()
        for name in ("run_id", "pid", "inc", "n", "ts_ns")
    )
    order = np.lexsort((n, inc, pid, run))
    time = time[order]
    is_new = np.append(True, (np.diff(run[order]) != 0) | (np.diff(pid[order]) != 0))
    starts = np.flatnonzero(is_new)
    for start, end in zip(starts, np.append(starts[1:], len(time)), strict=True):
        np.maximum.accumulate(time[start:end], out=time[start:end])
    order = order[np.lexsort((pid[order], time, run[order]))]
    runs = run[order]
    ends = np.flatnonzero(np.append(runs[1:] != runs[:-1], True)) + 1
    parts = np.split(order, ends[:-1])
    return {int(runs[end - 1]): part for end, part in zip(ends, parts, strict=True)}


def _set_lineage(events: Sequence[Event], lineages: dict[tuple[int, int], int]) -> None:
    """Events in a view get the lineage of their incarnation; files have it at `install` alone."""
    for event in events:
        if event.view and event.kind != INSTALL:
            event.lineage = lineages.get((event.pid, event.inc), 0)
