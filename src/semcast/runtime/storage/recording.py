"""The journal of a live member, if its options ask for a trace."""

import asyncio
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Any

from semcast.runtime.membership.gathering import RosterEntry
from semcast.runtime.options.options import Options
from semcast.runtime.options.recipe_settings import relation_of, tolerated_crashes
from semcast.terms.errors import ConfigError
from semcast.terms.events import Event
from semcast.terms.ids import NO_LINEAGE, Incarnation, Lineage
from semcast.terms.promises import PARAMETERS
from semcast.traces.files import new_folder, refuse_links
from semcast.traces.journal import Journal
from semcast.traces.journal_conversion import run_id_of
from semcast.traces.journal_file import JournalHeader
from semcast.traces.schema import RUNS

log = logging.getLogger("semcast")


def check_trace(options: Options) -> None:
    """Refuse a directory that cannot be written."""
    trace = options.trace
    if trace is None:
        return
    try:
        refuse_links(trace)
        new_folder(trace)
    except OSError as error:
        raise ConfigError(f"trace: cannot write {trace}: {error.strerror}") from error
    if not os.access(trace, os.W_OK):
        raise ConfigError(f"trace: cannot write {trace}: permission denied")
    if (trace / RUNS).is_file():
        raise ConfigError(
            f"trace: {trace} already holds a complete trace; choose a new or empty directory"
        )


def open_journal(
    options: Options, roster: Sequence[RosterEntry], rank: int, recipe: Any
) -> Journal | None:
    """Where the member of this rank records its events."""
    if options.trace is None:
        return None
    names = tuple(seat.name for seat in roster)
    incarnations = [seat.incarnation for seat in roster]
    header = JournalHeader(
        run_id=run_id_of(options.group, names, incarnations),
        pid=rank,
        names=names,
        incarnations=(1,) * len(roster),  # Nobody comes back into a fixed membership.
        group=options.group,
        protocol=options.protocol,
        order=options.order,
        relation=relation_of(recipe),
        f=tolerated_crashes(recipe),
    )
    return _open(options.trace, header)


class ViewJournal:
    """The journals of one member of a group with views, one for each lineage that it was in.

    Groups that were founded separately are separate runs, so a life in another lineage starts
    another journal.  Lives in the same lineage share a journal, because each event names its life.
    Events that happen while the process is in no view belong to no run and are not recorded.
    """

    def __init__(self, options: Options, recipe: Any) -> None:
        self._options = options
        self._recipe = recipe
        self._lineage = NO_LINEAGE
        self._inc = 0  # the last life that was in a view of the lineage
        self._current: Journal | None = None
        self._turn = Lock()  # A thread may still open the journal when a join is given up.
        self._is_closed = False

    @property
    def path(self) -> Path | None:
        """The file of the journal, once there is one; else the trace."""
        return self._current.path if self._current else self._options.trace

    def record(self, events: list[Event], ts_ns: int) -> None:
        """Append events of this process, all of the time `ts_ns`."""
        lineage = next((event.lineage for event in events if event.lineage), NO_LINEAGE)
        if lineage not in (NO_LINEAGE, self._lineage):
            self.begin(lineage, Incarnation(events[0].pid, events[0].inc))
        if lineage:
            self._inc = events[0].inc
        is_outside = self._recipe.is_primary and events[0].inc != self._inc
        if self._current is not None and not is_outside:
            self._current.record(events, ts_ns)

    def begin(self, lineage: Lineage, life: Incarnation) -> None:
        """Open the journal of a lineage.  This may take as long as the disk does, so a process that
        knows which group it will be in calls it from a thread before it is a member."""
        options, recipe = self._options, self._recipe
        assert options.trace is not None
        header = JournalHeader(
            run_id=run_id_of(options.group, (str(lineage),), (0,)),
            pid=life.pid,
            inc=life.inc,
            names=(options.name,),
            incarnations=(),
            group=options.group,
            protocol=options.protocol,
            order=options.order,
            relation=relation_of(recipe),
            f=0,
            parameters={
                name: str(getattr(recipe, name)) for name in PARAMETERS if hasattr(recipe, name)
            },
        )
        with self._turn:
            made, before = _open(options.trace, header), self._current
            self._lineage, self._current = lineage, made
            if before is not None:
                before.close()
            if self._is_closed:
                made.close()

    def close(self) -> None:
        """As `Journal.close`."""
        with self._turn:
            self._is_closed = True
            if self._current is not None:
                self._current.close()


def _open(trace: Path, header: JournalHeader) -> Journal:
    try:
        return Journal(trace, header)
    except OSError as error:
        raise ConfigError(f"trace: cannot write {trace}: {error.strerror}") from error


async def close_journal(journal: Journal | ViewJournal) -> None:
    """Make Parquet of it, in a thread: that takes its time."""
    try:
        await asyncio.to_thread(journal.close)
    except OSError as error:
        log.warning("trace: could not convert %s to Parquet: %s", journal.path, error.strerror)
