"""Outcomes on disk, wave by wave: what a crash at any moment leaves is whole.

A wave is one Parquet file, written under a hidden name, forced to the disk, then renamed.  Only
one process writes to a directory; its lock goes with it, however it ends.  An outcome counts once
its file is there, and of two with one key the later one counts: a failed run may be tried again.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from semcast.pipeline.runs import OUTCOMES, Outcome
from semcast.terms.errors import ConfigError
from semcast.traces.errors import BadFile

LOCK: Final = ".lock"
UNFINISHED: Final = ".unfinished-"


class Waves:
    """The waves of one directory; `open_waves` gives one to write to."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def files(self) -> list[Path]:
        """Every wave, oldest first."""
        return sorted(self.path.glob("wave-*.parquet"))

    def outcomes(self) -> dict[str, Outcome]:
        """By key, what is known of each run."""
        found: dict[str, Outcome] = {}
        for file in self.files():
            try:
                table = pq.read_table(file)
            except (OSError, pa.ArrowException) as error:
                raise BadFile(f"{file}: cannot be read: {str(error).splitlines()[0]}") from None
            if table.schema != OUTCOMES:
                raise BadFile(f"{file}: cannot be read: its columns are not those of a wave")
            for row in table.to_pylist():
                found[row["key"]] = Outcome(**row)
        return found

    def commit(self, table: pa.Table) -> None:
        """Keep a wave."""
        last = self.files()[-1:]
        number = 1 + int(last[0].stem.removeprefix("wave-")) if last else 0
        with replacing(self.path / f"wave-{number:08}.parquet") as unfinished:
            pq.write_table(table.cast(OUTCOMES), unfinished, compression="zstd")


@contextmanager
def open_waves(path: Path) -> Iterator[Waves]:
    """The waves of a directory, made if need be, for this process alone."""
    path.mkdir(parents=True, exist_ok=True)
    with open(path / LOCK, "w") as lock:
        try:
            flock(lock, LOCK_EX | LOCK_NB)
        except OSError:
            raise ConfigError(f"out: another process is writing to {path.parent}") from None
        for left in path.glob(f"{UNFINISHED}*"):
            left.unlink()
        yield Waves(path)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A hidden path beside `path` to write to, which takes its place whole or not at all."""
    unfinished = path.with_name(f"{UNFINISHED}{path.name}")
    try:
        yield unfinished
        with open(unfinished, "rb") as file:
            os.fsync(file.fileno())
        unfinished.replace(path)
    except BaseException:
        with suppress(FileNotFoundError):
            unfinished.unlink()
        raise
    _force(path.parent)


def _force(folder: Path) -> None:
    """A name is on the disk only when its directory is."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
