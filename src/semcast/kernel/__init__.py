"""The loops that every message passes, compiled where the package was built with a C compiler.

`reader.py`, `run.py`, `packing.py` and `plain.py` are the source of both builds; compiling changes
nothing but the speed.  Which one runs is chosen here, once: the compiled one if there is one that
fits, unless SEMCAST_KERNEL names the other.
"""

from importlib import import_module
from os import environ
from pkgutil import get_data
from types import ModuleType
from typing import TYPE_CHECKING, Final

from semcast.kernel import plain
from semcast.kernel.packing import ItemLabel, label_of
from semcast.kernel.reader import NAME_MAX
from semcast.kernel.run import HEADER_BYTES
from semcast.terms.errors import ConfigError, unknown_value
from semcast.terms.messages import DataMessage, Update

SOURCES: Final = ("reader.py", "run.py", "packing.py", "plain.py", "compiled.pxd")
# No two fields are equal, so that none can be taken for another.
MESSAGE: Final = DataMessage(1, 2, 3, b"covers", True, ((4, 5),), b"payload", "name")
UPDATE: Final = Update(b"payload", "item", True, (1, 2))
EXAMPLES: Final = (MESSAGE, UPDATE)


def load_compiled() -> ModuleType:
    """The compiled kernel; an ImportError says why there is none, or why it does not fit."""
    try:
        module = import_module("semcast.kernel.compiled")
    except ModuleNotFoundError:
        raise ImportError("not built") from None
    except (ValueError, AttributeError) as error:  # Compiled for messages of another size or name.
        raise ImportError(str(error)) from None
    source = b"".join(get_data(__name__, name) or b"" for name in SOURCES)
    if source != module.SOURCE:
        raise ImportError("compiled from different source files")
    if module.fields(*EXAMPLES) != plain.fields(*EXAMPLES):
        raise ImportError("compiled for a different message layout")
    return module


def select_build(asked: str) -> tuple[ModuleType, str]:
    """The kernel that is to run, and why it is not the compiled one."""
    if asked not in ("", "plain", "compiled"):
        raise unknown_value("SEMCAST_KERNEL", asked, ("plain", "compiled"))
    if asked == "plain":
        return plain, "requested by SEMCAST_KERNEL"
    try:
        return load_compiled(), ""
    except ImportError as error:
        if asked == "compiled":
            advice = "reinstall semcast with a C compiler, or unset SEMCAST_KERNEL"
            raise ConfigError(f"SEMCAST_KERNEL: no compiled kernel: {error}; {advice}") from None
        return plain, str(error)


REQUESTED_BUILD: Final = environ.get("SEMCAST_KERNEL", "")
_build, PLAIN_REASON = select_build(REQUESTED_BUILD)
BUILD: Final = "plain" if _build is plain else "compiled"

if TYPE_CHECKING:  # The plain build describes both.
    from semcast.kernel.packing import ItemLabels
    from semcast.kernel.packing import pack_run as make_run
    from semcast.kernel.plain import (
        drop_upto,
        index_tagged,
        later_than,
        payload_bytes,
        payload_total,
        pop_range,
        purge_tagged,
        take_fitting,
        unindex_tagged,
        with_item,
    )
    from semcast.kernel.run import (
        Run,
        concat_runs,
        parse_run,
        run_of,
        runs_of,
        size_of,
        sizes_of,
    )
else:
    ItemLabels, Run = _build.ItemLabels, _build.Run
    make_run = _build.build_run if _build is plain else _build.pack_run
    concat_runs, parse_run = _build.concat_runs, _build.parse_run
    run_of, runs_of = _build.run_of, _build.runs_of
    size_of, sizes_of = _build.size_of, _build.sizes_of
    payload_bytes, payload_total = _build.payload_bytes, _build.payload_total
    take_fitting, pop_range, drop_upto = _build.take_fitting, _build.pop_range, _build.drop_upto
    index_tagged, unindex_tagged = _build.index_tagged, _build.unindex_tagged
    purge_tagged, with_item = _build.purge_tagged, _build.with_item
    later_than = _build.later_than

__all__ = [
    "BUILD",
    "HEADER_BYTES",
    "NAME_MAX",
    "PLAIN_REASON",
    "REQUESTED_BUILD",
    "ItemLabel",
    "ItemLabels",
    "Run",
    "concat_runs",
    "drop_upto",
    "index_tagged",
    "label_of",
    "later_than",
    "make_run",
    "parse_run",
    "payload_bytes",
    "payload_total",
    "pop_range",
    "purge_tagged",
    "run_of",
    "runs_of",
    "size_of",
    "sizes_of",
    "take_fitting",
    "unindex_tagged",
    "with_item",
]
