"""The tables of a trace directory: names, types and the runs and processes they speak of.

TRACE/runs.parquet, TRACE/processes.parquet, TRACE/items.parquet (optional) and
TRACE/events/kind=KIND/*.parquet, where `kind` is a partition column and so not inside the files.
Live processes make directories of the first three, with a file for each run or process, and keep
what they are still writing in TRACE/journals.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from semcast.terms.events import COLUMNS, INT32, INT32_LIST, INT64, INT64_LIST, STRING, STRING_MAP
from semcast.traces.arrow import pyarrow

RUNS: Final = "runs.parquet"
PROCESSES: Final = "processes.parquet"
ITEMS: Final = "items.parquet"
EVENTS: Final = "events"
JOURNALS: Final = "journals"

# What a lake of many traces has besides.
CURRENT: Final = "current"  # the link to the snapshot to read
SNAPSHOTS: Final = "snapshots"
QUARANTINE: Final = "quarantine"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """One row of `runs`.  `complete`: left to fall quiet, so that liveness can be judged."""

    name: str
    protocol: str
    order: str
    relation: str
    f: int
    seed: int
    run_id: int = 1
    complete: bool = False
    parameters: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ProcessInfo:
    """One row of `processes`.  `correct`: it never crashed."""

    pid: int
    name: str
    correct: bool


RUN_COLUMNS: Final = {
    "run_id": INT64,
    "name": STRING,
    "protocol": STRING,
    "order": STRING,
    "relation": STRING,
    "f": INT32,
    "seed": INT64,
    "complete": "bool",
    "parameters": STRING_MAP,
}
PROCESS_COLUMNS: Final = {"run_id": INT64, "pid": INT32, "name": STRING, "correct": "bool"}
ITEM_COLUMNS: Final = {"run_id": INT64, "item": INT64, "name": STRING}
EVENT_COLUMNS: Final = {name: column.type for name, column in COLUMNS.items()}


def arrow_schema(columns: Mapping[str, str]) -> Any:
    """The pyarrow schema of a table above."""
    pa = pyarrow()
    types = {
        INT32: pa.int32(),
        INT64: pa.int64(),
        STRING: pa.string(),
        "bool": pa.bool_(),
        INT32_LIST: pa.list_(pa.int32()),
        INT64_LIST: pa.list_(pa.int64()),
        STRING_MAP: pa.map_(pa.string(), pa.string()),
    }
    return pa.schema([(name, types[kind]) for name, kind in columns.items()])
