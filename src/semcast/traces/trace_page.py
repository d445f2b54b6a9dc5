"""docs/trace.md, from the table in `terms/events.py`: `python -m semcast.traces.trace_page`."""

import sys
from collections.abc import Iterator
from typing import Final

from semcast.terms.events import (
    ATTRIBUTES,
    COLUMNS,
    INT32,
    INT32_LIST,
    INT64,
    INT64_LIST,
    KIND_MEANINGS,
    KINDS,
    STRING_MAP,
)

_SQL: Final = {
    INT32: "int",
    INT64: "bigint",
    INT32_LIST: "array&lt;int&gt;",
    INT64_LIST: "array&lt;bigint&gt;",
    STRING_MAP: "map&lt;string,string&gt;",
}
_HEAD: Final = """\
# What a trace holds
A trace is a directory that any reader of Parquet understands.

```
TRACE/runs.parquet        run_id, name, protocol, order, relation, f, seed, complete, parameters
TRACE/processes.parquet   run_id, pid, name, correct
TRACE/items.parquet       run_id, item, name                  (optional)
TRACE/events/kind=KIND/*.parquet
```
`complete` is true if the run was left to fall quiet, so that liveness can be judged. `correct` is
true for a process that never crashed. Each `*.parquet` may be a directory of files.

`python -m semcast.traces.trace_page` makes this page from the table in
`src/semcast/terms/events.py`.
"""


def page() -> str:
    """The whole page."""
    return "\n".join((_HEAD, *_columns(), "", *_attributes(), "", *_kinds(), ""))


def _columns() -> Iterator[str]:
    yield "## Columns of an event"
    yield "| column | type | meaning | kinds |"
    yield "|---|---|---|---|"
    for name, column in COLUMNS.items():
        kinds = "all" if column.kinds == KINDS else ", ".join(sorted(column.kinds))
        yield f"| {name} | {_SQL[column.type]} | {column.meaning} | {kinds} |"


def _attributes() -> Iterator[str]:
    yield "## Attributes"
    yield "| in `attrs` | meaning |"
    yield "|---|---|"
    for attribute in ATTRIBUTES.values():
        yield f"| {', '.join(sorted(set(attribute.names.values())))} | {attribute.meaning} |"
    yield '| deps | message: the last numbers that its sender had delivered, "rank:seq rank:seq" |'
    yield "| never_purge | message: 1 if no later message makes it obsolete |"


def _kinds() -> Iterator[str]:
    yield "## Kinds of events"
    yield "| kind | meaning |"
    yield "|---|---|"
    yield from (f"| {kind} | {meaning} |" for kind, meaning in KIND_MEANINGS.items())


if __name__ == "__main__":
    sys.stdout.write(page())
