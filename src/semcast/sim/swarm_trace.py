"""A swarm that records what it judged: one trace, a run for each seed, whose number it is.

Whoever checks that trace later has the very executions that the monitors saw.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from semcast.families.case import AnyCase, CaseOutcome
from semcast.sim.swarm import chosen, draw, replay_line, run_seed
from semcast.terms.errors import ConfigError
from semcast.terms.events import CRASH, Event
from semcast.terms.promises import PARAMETERS
from semcast.traces.arrow import pyarrow
from semcast.traces.distance_tracker import DistanceTracker
from semcast.traces.event_rows import row_of
from semcast.traces.files import FOLDER_MODE, new_folder
from semcast.traces.schema import (
    EVENT_COLUMNS,
    EVENTS,
    PROCESS_COLUMNS,
    PROCESSES,
    RUN_COLUMNS,
    RUNS,
    arrow_schema,
)
from semcast.traces.tables import event_table, event_writer, kind_folder, write_table

_ROW_GROUP: Final = 65_536
_LIVENESS: Final = "liveness"  # what a run is said to break that does not fall quiet
_RAISED: Final = "exception"


class SwarmRecorder:
    """Runs seeds of a swarm and writes them down; `recorded_swarm` gives one."""

    def __init__(
        self, path: Path, protocol: str, order: str | None, mutant: str | None, files: ExitStack
    ) -> None:
        self._path, self._protocol, self._order, self._mutant = path, protocol, order, mutant
        self._schema, self._files = arrow_schema(EVENT_COLUMNS), files
        self._writers: dict[str, Any] = {}
        self._tables: dict[str, list[Any]] = {}
        self._runs: list[tuple[Any, ...]] = []
        self._processes: list[tuple[Any, ...]] = []

    def run(self, seed: int) -> CaseOutcome:
        """Run a seed and keep its events."""
        events: list[Event] = []
        outcome = run_seed(self._protocol, self._mutant, seed, events.append, order=self._order)
        case = draw(self._protocol, seed, self._order)
        self._keep(case, events)
        self._describe(case, events, outcome)
        return outcome

    def close(self) -> None:
        """Write what is left, and the small tables last."""
        for kind in self._tables:
            self._flush(kind)
        self._files.close()
        write_table(self._path / PROCESSES, PROCESS_COLUMNS, self._processes)
        write_table(self._path / RUNS, RUN_COLUMNS, self._runs)

    def _keep(self, case: AnyCase, events: list[Event]) -> None:
        distances = DistanceTracker(case.recipe.relation)
        rows: dict[str, list[Any]] = {}
        for event in events:
            rows.setdefault(event.kind, []).append(row_of(event, distances))
        for kind, of_kind in rows.items():
            waiting = self._tables.setdefault(kind, [])
            waiting.append(event_table(case.seed, of_kind, self._schema))
            if sum(table.num_rows for table in waiting) >= _ROW_GROUP:
                self._flush(kind)

    def _describe(self, case: AnyCase, events: list[Event], outcome: CaseOutcome) -> None:
        recipe = case.recipe
        broken = {violation.partition(":")[0] for violation in outcome.violations}
        replay = replay_line(self._protocol, self._mutant, case.seed, self._order)
        parameters = {"skew_ms": "0", "replay": replay}
        for name in PARAMETERS:
            if hasattr(recipe, name):
                parameters[name] = str(getattr(recipe, name))
        if self._mutant is not None:
            parameters["mutant"] = self._mutant
        is_complete = not broken & {_LIVENESS, _RAISED}
        about = (recipe.protocol, recipe.order, recipe.relation, getattr(recipe, "f", 0))
        row = (case.seed, "swarm", *about, case.seed, is_complete, sorted(parameters.items()))
        self._runs.append(row)
        crashed = {event.pid for event in events if event.kind == CRASH}
        for pid in range(case.processes):
            self._processes.append((case.seed, pid, f"p{pid}", pid not in crashed))

    def _flush(self, kind: str) -> None:
        if kind not in self._writers:
            folder = kind_folder(self._path / EVENTS, kind)
            folder.mkdir(mode=FOLDER_MODE)
            writer = event_writer(folder / "part-0.parquet")
            self._writers[kind] = self._files.enter_context(writer)
        self._writers[kind].write_table(pyarrow().concat_tables(self._tables[kind]))
        self._tables[kind].clear()


@contextmanager
def recorded_swarm(
    directory: str | Path, protocol: str, mutant: str | None = None, order: str | None = None
) -> Iterator[SwarmRecorder]:
    """What runs seeds and records them in a new directory, finished when the block is."""
    path = Path(directory)
    chosen(protocol, order)  # A wrong name is told before anything is written.
    if path.exists() and any(path.iterdir()):
        raise ConfigError(f"trace: {path} is not empty; choose a new or empty directory")
    new_folder(path)
    (path / EVENTS).mkdir(mode=FOLDER_MODE)
    with ExitStack() as files:
        recorder = SwarmRecorder(path, protocol, order, mutant, files)
        yield recorder
        recorder.close()
