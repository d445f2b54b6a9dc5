"""Outcomes on disk, wave by wave: what a crash at any moment leaves is whole.

A wave is one Parquet file, written under a hidden name, forced to the disk, then renamed.  Only
one process writes to a directory; its lock goes with it, however it ends.  An outcome counts once
its file is there, and of two with one key the later one counts: a failed run may be tried again.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from semcast.pipeline.sweep.runs import OUTCOMES, RunOutcome
from semcast.terms.errors import ConfigError
from semcast.traces.errors import BadFile
from semcast.traces.files import (
    FILE_MODE,
    UNFINISHED,
    atomic_write,
    new_folder,
    refuse_links,
)

LOCK: Final = ".lock"
_WAVE: Final = re.compile(r"wave-[0-9]{8,18}\.parquet")


class OutcomeStore:
    """The waves of one directory; `open_store` gives one to write to."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def files(self) -> list[Path]:
        """Every wave, oldest first."""
        files = sorted(self.path.glob("wave-*.parquet"))
        for file in files:
            if not _WAVE.fullmatch(file.name):
                raise BadFile(f"{file}: a wave is called wave-NUMBER.parquet; move it away")
        return files

    def outcomes(self) -> dict[str, RunOutcome]:
        """By key, what is known of each run."""
        found: dict[str, RunOutcome] = {}
        _refuse_links(self.path)
        for file in self.files():
            try:
                table = pq.ParquetFile(file).read()
                table.validate(full=True)
            except (OSError, UnicodeDecodeError, pa.ArrowException) as error:
                raise BadFile(f"{file}: cannot be read: {str(error).splitlines()[0]}") from None
            if table.schema != OUTCOMES:
                raise BadFile(f"{file}: not a file of sweep outcomes: unexpected columns")
            for row in table.to_pylist():
                outcome = RunOutcome(**row)
                fault = outcome.fault()
                if fault is not None:
                    raise BadFile(f"{file}: not an outcome: {fault}")
                found[outcome.key] = outcome
        return found

    def commit(self, table: pa.Table) -> None:
        """Keep a wave."""
        last = self.files()[-1:]
        number = 1 + int(last[0].stem.removeprefix("wave-")) if last else 0
        with atomic_write(self.path / f"wave-{number:08}.parquet") as unfinished:
            pq.write_table(table.cast(OUTCOMES), unfinished, compression="zstd")


@contextmanager
def open_store(path: Path) -> Iterator[OutcomeStore]:
    """The waves of a directory, made if need be, for this process alone."""
    _refuse_links(path)
    new_folder(path)
    opened = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE)
    with os.fdopen(opened, "wb") as lock:
        try:
            flock(lock, LOCK_EX | LOCK_NB)
        except OSError:
            raise ConfigError(
                f"out: another process is writing to {path.parent}; wait until it ends"
            ) from None
        for left in path.glob(f"{UNFINISHED}*"):
            left.unlink()
        yield OutcomeStore(path)


def _refuse_links(path: Path) -> None:
    """The folder of the waves is itself inside what the user named."""
    if path.is_symlink():
        raise BadFile(f"{path}: a symbolic link, which is not followed; choose another directory")
    refuse_links(path)
