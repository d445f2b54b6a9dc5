"""The loops that every message passes, compiled where the package was built with a C compiler.

`reader.py`, `run.py`, `packing.py` and `plain.py` are the source of both builds; compiling changes
nothing but the speed.  Which one runs is chosen here, once: the compiled one if there is one that
fits, unless SEMCAST_KERNEL names the other.
"""

from importlib import import_module
from os import environ
from pkgutil import get_data
from types import FunctionType, ModuleType
from typing import Final

from semcast.kernel import plain
from semcast.kernel.packing import *  # noqa: F403
from semcast.kernel.plain import *  # noqa: F403
from semcast.kernel.reader import *  # noqa: F403
from semcast.kernel.run import *  # noqa: F403
from semcast.terms.errors import ConfigError, unknown_value
from semcast.terms.messages import DataMessage, Submission, Update

SOURCES: Final = ("reader.py", "run.py", "packing.py", "plain.py", "compiled.pxd")
FUNCTIONS: Final = frozenset(
    name
    for name, value in vars(plain).items()
    if isinstance(value, FunctionType)
    and value.__module__.startswith(__name__)
    and not name.startswith("_")
)
# No two fields are equal, so that none can be taken for another.
MESSAGE: Final = DataMessage(1, 2, 3, b"covers", True, ((4, 5),), b"payload", "name")
SUBMISSION: Final = Submission(b"payload", 1, (2, 3), True, "name")
UPDATE: Final = Update(b"payload", "item", True, (1, 2))
EXAMPLES: Final = (MESSAGE, SUBMISSION, UPDATE)


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
_chosen, PLAIN_REASON = select_build(REQUESTED_BUILD)
BUILD: Final = "plain" if _chosen is plain else "compiled"
globals().update({name: getattr(_chosen, name) for name in ("Run", "UpdateBatch", *FUNCTIONS)})
