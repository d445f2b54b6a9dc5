"""How long a wait will take: the usual time, corrected by what the last wait of its kind took here.

A command knows the usual time of its work on two free cores, by the amount of the work.  This
machine may be faster or slower, or busy.  So the user's cache keeps one number for each kind of
wait: how many times the usual time the last one took.
"""

import json
import os
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final, NamedTuple

REMEMBERED_S: Final = 1.0  # A shorter wait says little about the machine.
FACTOR_MAX: Final = 100.0


class WaitTime(NamedTuple):
    """A kind of wait, and its usual time in seconds for the amount of work."""

    kind: str
    usual_s: float

    @property
    def expected_s(self) -> float:
        """The time to expect on this machine."""
        return self.usual_s * _read().get(self.kind, 1.0)

    def remember(self, took_s: float) -> None:
        """Keep for the next wait how long this one took."""
        if took_s < REMEMBERED_S or self.usual_s <= 0:
            return
        factor = min(FACTOR_MAX, max(1 / FACTOR_MAX, took_s / self.usual_s))
        with suppress(OSError):  # An estimate is not worth an error.
            _write({**_read(), self.kind: round(factor, 3)})


def _file() -> Path:
    from semcast.pipeline.java import cache_folder

    return cache_folder() / "past-waits.json"


def _read() -> dict[str, float]:
    """The factors that were kept; a file that is missing or damaged has none."""
    try:
        found = json.loads(_file().read_bytes())
    except (OSError, ValueError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {
        kind: float(factor)
        for kind, factor in found.items()
        if isinstance(factor, int | float) and 1 / FACTOR_MAX <= factor <= FACTOR_MAX
    }


def _write(factors: dict[str, float]) -> None:
    """Replace the file as a whole: two commands may write at once."""
    file = _file()
    file.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile("w", dir=file.parent, prefix=file.name, delete=False) as new:
        json.dump(factors, new)
    os.replace(new.name, file)
