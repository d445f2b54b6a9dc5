"""The tables of a trace directory: names, types and the runs and processes they speak of.

TRACE/runs.parquet, TRACE/processes.parquet, TRACE/items.parquet (optional) and
TRACE/events/kind=KIND/*.parquet, where `kind` is a partition column and so not inside the files.
Live processes make directories of the first three, with a file for each run or process, and keep
what they are still writing in TRACE/journals.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from semcast.traces.arrow import pyarrow

RUNS: Final = "runs.parquet"
PROCESSES: Final = "processes.parquet"
ITEMS: Final = "items.parquet"
EVENTS: Final = "events"
JOURNALS: Final = "journals"

KINDS: Final = frozenset(
    (
        *("multicast", "receive", "deliver"),
        *("purge", "skip", "reclaim", "discard"),
        *("stable", "safe", "confirm"),
        *("join", "install", "leave", "suspect", "crash", "recover"),
        *("append", "acknowledge"),
        *("request", "execute", "reply"),
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
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
class Process:
    """One row of `processes`.  `correct`: it never crashed."""

    pid: int
    name: str
    correct: bool


_INT: Final = "int32"
_BIGINT: Final = "int64"
_TEXT: Final = "string"
_INTS: Final = "list"
_MAP: Final = "map"

RUN_COLUMNS: Final = {
    "run_id": _BIGINT,
    "name": _TEXT,
    "protocol": _TEXT,
    "order": _TEXT,
    "relation": _TEXT,
    "f": _INT,
    "seed": _BIGINT,
    "complete": "bool",
    "parameters": _MAP,
}
PROCESS_COLUMNS: Final = {"run_id": _BIGINT, "pid": _INT, "name": _TEXT, "correct": "bool"}
ITEM_COLUMNS: Final = {"run_id": _BIGINT, "item": _BIGINT, "name": _TEXT}
EVENT_COLUMNS: Final = {
    "run_id": _BIGINT,
    "pid": _INT,
    "inc": _INT,
    "n": _BIGINT,
    "ts_ns": _BIGINT,
    "grp": _INT,
    "view": _BIGINT,
    "sender": _INT,
    "sender_inc": _INT,
    "seq": _BIGINT,
    "item": _BIGINT,
    "dist": _INT,
    "covers": _INTS,
    "by_sender": _INT,
    "by_inc": _INT,
    "by_seq": _BIGINT,
    "position": _BIGINT,
    "peer": _INT,
    "client": _BIGINT,
    "request": _BIGINT,
    "version": _BIGINT,
    "size": _INT,
    "digest": _BIGINT,
    "buffered": _INT,
    "members": _INTS,
    "attrs": _MAP,
}


def arrow_schema(columns: Mapping[str, str]) -> Any:
    """The pyarrow schema of a table above."""
    pa = pyarrow()
    types = {
        _INT: pa.int32(),
        _BIGINT: pa.int64(),
        _TEXT: pa.string(),
        "bool": pa.bool_(),
        _INTS: pa.list_(pa.int32()),
        _MAP: pa.map_(pa.string(), pa.string()),
    }
    return pa.schema([(name, types[kind]) for name, kind in columns.items()])
