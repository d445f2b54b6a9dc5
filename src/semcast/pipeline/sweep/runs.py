"""Runs that travel to Spark tasks, and the outcomes that come back.

The key of a run is a hash of all that decides its row, so an outcome is found again whoever ran
it, in whichever task, before or after a crash.  Whatever goes wrong in a run is its outcome: one
run never takes others with it.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from time import perf_counter, process_time
from typing import Any, Final, NamedTuple

import pyarrow as pa

from semcast.experiments.experiment import Row, Value
from semcast.experiments.point import Point, error_line, run_or_error

_KEY: Final = re.compile("[0-9a-f]{1,64}")
SEED_DIGITS: Final = 13  # of the key: 52 bits, which every reader of JSON keeps

OUTCOMES: Final = pa.schema(
    [
        ("key", pa.string()),
        ("row", pa.string()),
        ("error", pa.string()),
        ("wall_s", pa.float64()),
        ("cpu_s", pa.float64()),
    ]
)


class SweepRun(NamedTuple):
    """A point under its key."""

    key: str
    point: Point


class RunOutcome(NamedTuple):
    """What came of a run: its row as JSON, or an error.  The times are measured."""

    key: str
    row: str | None
    error: str | None
    wall_s: float
    cpu_s: float

    def read_row(self) -> Row:
        """The row with its own types: whole numbers stay whole."""
        row: Row = json.loads(self.row or "{}")
        return row

    def fault(self) -> str | None:
        """What no run would have left; None if it can be used."""
        if self.key is None or not _KEY.fullmatch(self.key):
            return f"{self.key!r} is not the key of a run"
        if self.row is None and self.error is None:
            return f"run {self.key} has neither a row nor an error"
        if self.wall_s is None or self.cpu_s is None:
            return f"run {self.key} has no times"
        try:
            row = json.loads(self.row or "{}")
        except (ValueError, RecursionError) as error:
            return f"the row of run {self.key} is not JSON: {error}"
        if not isinstance(row, dict) or not all(isinstance(v, Value) for v in row.values()):
            return f"the row of run {self.key} must be names with one value each"
        if not isinstance(row.get("violations") or 0, int):
            return f"the row of run {self.key} has {row['violations']!r} violations"
        return None


def key_of(**configuration: Value | Mapping[str, Value]) -> str:
    """The hash of a configuration, the same on every machine."""
    canonical = json.dumps(configuration, sort_keys=True)
    return blake2b(canonical.encode(), digest_size=16).hexdigest()


def seed_of(key: str) -> int:
    """The seed of the run with this key."""
    return int(key[:SEED_DIGITS], 16)


def run_one(run: SweepRun) -> RunOutcome:
    """Run it and tell what came of it."""
    started, used = perf_counter(), process_time()
    row = error = None
    try:
        row = json.dumps(run_or_error(run.point))
    except Exception as raised:
        error = error_line(raised)
    return RunOutcome(run.key, row, error, perf_counter() - started, process_time() - used)


def run_task(
    task_runs: Sequence[Sequence[SweepRun]], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """What a task does: `batches` names in `id` the packs that are its own."""
    for batch in batches:
        for place in batch.column("id").to_pylist():
            yield from map(as_batch, map(run_one, task_runs[place]))


def task_function(task_runs: Sequence[Sequence[SweepRun]]) -> Any:
    """The function of one wave for `mapInArrow`, which workers import by name."""
    return partial(run_task, task_runs)


def as_batch(*outcomes: RunOutcome) -> pa.RecordBatch:
    """Outcomes as Arrow."""
    columns = zip(*outcomes, strict=True)
    arrays = [pa.array(c, field.type) for c, field in zip(columns, OUTCOMES, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=OUTCOMES)
