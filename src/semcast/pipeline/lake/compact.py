"""Fewer, larger files, and not a row changed.

Small files of one table, and of one kind of events, become files of a good size in the next
snapshot of the lake; the quarantine stays as it is.  Readers of the last snapshot keep theirs.
"""

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from pyspark.sql import SparkSession

from semcast.pipeline.lake.batch_files import count_rows, target_paths, write_events, write_table
from semcast.pipeline.lake.lake import Lake
from semcast.pipeline.reading import spark_schema
from semcast.traces.errors import BadFile
from semcast.traces.schema import EVENTS, ITEMS, PROCESSES, QUARANTINE, RUNS

SMALL_BYTES: Final = 32 << 20
_SMALL_TABLES: Final = {
    RUNS: spark_schema.RUNS,
    PROCESSES: spark_schema.PROCESSES,
    ITEMS: spark_schema.ITEMS,
}


class Compacted(NamedTuple):
    """How many files became how many others."""

    before: int
    after: int


def compact(
    spark: SparkSession,
    lake: Lake,
    small_bytes: int = SMALL_BYTES,
    on_progress: Callable[[str], None] = lambda line: None,
) -> Compacted:
    """Merge files of less than `small_bytes`, wherever there are two or more."""
    with lake.exclusive_write() as staging:
        snapshot, root = lake.snapshot(), lake.root
        small = _small(lake, small_bytes)
        if not small:
            return Compacted(0, 0)
        on_progress(f"merging {len(small)} of {len(lake.files())} files")
        events = [f"file://{root / place}" for place in small if place.parts[0] == EVENTS]
        if events:
            base = spark.read.schema(spark_schema.EVENTS).option(
                "basePath", f"file://{root / EVENTS}"
            )
            write_events(base.parquet(*events), staging)
        for table, columns in _SMALL_TABLES.items():
            files = [f"file://{root / place}" for place in small if place.parts[0] == table]
            if files:
                rows = spark.read.schema(columns).parquet(*files)
                write_table(rows.coalesce(1), table, staging)
        lake.step("staged")
        added = target_paths(staging, f"compacted-{snapshot.number + 1:08}")
        before = sum(count_rows(root / place) for place in small)
        if before != sum(map(count_rows, added.values())):
            raise BadFile(f"{lake.path}: compacting would have changed the number of rows")
        lake.commit(snapshot.batches, added, without=small)
        return Compacted(len(small), len(added))


def _small(lake: Lake, small_bytes: int) -> list[Path]:
    """The files to merge, relative to the snapshot."""
    together: dict[tuple[str, ...], list[Path]] = defaultdict(list)
    for place in lake.files():
        if place.parts[0] != QUARANTINE and (lake.root / place).stat().st_size < small_bytes:
            together[place.parts[: 2 if place.parts[0] == EVENTS else 1]].append(place)
    return [place for places in together.values() if len(places) > 1 for place in places]
