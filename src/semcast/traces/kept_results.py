"""The last results of commands about a trace, kept beside its tables for `semcast report`.

TRACE/check.json and TRACE/profile.json hold the JSON that the command prints.  A trace that cannot
be written to keeps none; a result that is older than the trace is ignored.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from semcast.traces.files import new_file
from semcast.traces.schema import CURRENT, EVENTS, RUNS

CHECK: Final = "check.json"
PROFILE: Final = "profile.json"
BYTES_MAX: Final = 16 << 20


def keep(trace: Path, name: str, facts: Mapping[str, object]) -> None:
    """Keep a result beside the trace, in place of the last one; other sources keep none."""
    with suppress(OSError):
        if (trace / EVENTS).is_dir() or (trace / CURRENT).exists():
            new_file(trace / name).write_bytes(msgspec.json.encode(facts, enc_hook=float))


def read_result(trace: Path, name: str) -> dict[str, Any] | None:
    """The last result of that name; None if there is none, or none of this trace."""
    path = trace / name
    try:
        if path.is_symlink() or path.stat().st_size > BYTES_MAX:
            return None
        runs = trace / RUNS
        if runs.exists() and path.stat().st_mtime < runs.stat().st_mtime:
            return None
        facts = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return facts if isinstance(facts, dict) else None
