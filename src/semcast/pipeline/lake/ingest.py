"""Into the lake: traces and keyed files, each a batch that is there whole or not at all.

A batch's id is a fingerprint of what the files contain and of how they are to be read, so the same
source comes in once, from wherever and however often.  A trace that has grown is another source.
Run ids of different traces collide; in the lake a run's id is made of its batch and its old id, and
`parameters` keeps where it came from.  A row that cannot be what it says goes to the quarantine,
with its file, row, column and reason.
"""

from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Final, NamedTuple

from pyspark.sql import SparkSession

from semcast.pipeline.lake import ingest_keyed, ingest_trace
from semcast.pipeline.lake.batch_files import target_paths
from semcast.pipeline.lake.lake import Lake, LakeBatch
from semcast.pipeline.reading import keyed_source
from semcast.pipeline.reading.keyed_text import KeyedColumns
from semcast.terms.errors import ConfigError
from semcast.traces.errors import BadFile
from semcast.traces.journal_conversion import convert_journals
from semcast.traces.schema import EVENTS, ITEMS, PROCESSES, RUNS
from semcast.traces.trace_files import check_trace_files, files_of

_CHUNK: Final = 4 << 20
_READING: Final = 1  # Another way to read the same files is another fingerprint.


class Ingested(NamedTuple):
    """What became of a source; `is_new` is False if the lake had it already."""

    batch: LakeBatch
    is_new: bool


def ingest(
    spark: SparkSession,
    lake: Lake,
    source: str | Path,
    columns: KeyedColumns | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> Ingested:
    """Take in one trace directory or, given the names of its columns, a keyed file or directory.

    `tell` hears what is being done.  What is not a source at all is a `BadFile`, and the lake
    stays as it was.
    """
    path = Path(source).absolute()
    files = _trace_files(path) if columns is None else keyed_source.files_of(path)
    options = {} if columns is None else columns.named()
    before = _stamps(files)
    batch_id = _fingerprint(path, files, options, tell)
    with lake.exclusive_write(create=True) as staging:
        batches = lake.snapshot().batches
        for batch in batches:
            if batch.id == batch_id:
                return Ingested(batch, is_new=False)
        tell(f"{path.name}: reading {len(files)} files")
        if columns is None:
            staged = ingest_trace.stage(spark, path, batch_id, staging)
        else:
            staged = ingest_keyed.stage(spark, path, columns, batch_id, staging)
        lake.step("staged")
        if _stamps(files) != before:
            raise BadFile(f"{path}: changed while it was read; try again")
        tell(f"{path.name}: {staged.rows:,} rows, committing")
        batch = LakeBatch(batch_id, str(path), options, len(files), *staged)
        lake.commit([*batches, batch], target_paths(staging, batch_id))
    return Ingested(batch, is_new=True)


def examine(source: str | Path, columns: KeyedColumns | None = None) -> None:
    """Refuse what is not a source, by names, headers and footers alone."""
    path = Path(source).absolute()
    if columns is None:
        _trace_files(path)
    else:
        keyed_source.open_source(path, columns)


def _trace_files(path: Path) -> list[Path]:
    """The files of a trace whose processes have all ended."""
    if path.is_file():
        raise ConfigError(f"key: needed for {path.name}, which is not a trace; give --key COLUMN")
    living = convert_journals(path)
    if living:
        raise BadFile(f"{living[0]}: still being written; ingest the trace when its process ended")
    check_trace_files(path)
    return [file for table in (RUNS, PROCESSES, ITEMS, EVENTS) for file in files_of(path / table)]


def _stamps(files: Sequence[Path]) -> list[tuple[int, int]]:
    stats = [file.stat() for file in files]
    return [(stat.st_size, stat.st_mtime_ns) for stat in stats]


def _fingerprint(
    path: Path, files: Sequence[Path], options: Mapping[str, str], tell: Callable[[str], None]
) -> str:
    """Of the content of files, their names below the source, and how they are to be read."""
    total = sum(file.stat().st_size for file in files) or 1
    done = 0
    whole = blake2b(repr((_READING, sorted(options.items()))).encode(), digest_size=12)
    for file in files:
        content = blake2b(digest_size=32)
        with file.open("rb") as opened:
            while chunk := opened.read(_CHUNK):
                content.update(chunk)
                done += len(chunk)
                tell(f"{path.name}: fingerprint {done / total:.0%}")
        whole.update(f"{file.relative_to(path)}\0{content.hexdigest()}\0".encode())
    return whole.hexdigest()
