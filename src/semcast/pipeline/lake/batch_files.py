"""What the files of a batch have in common, whatever they were made of."""

from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from semcast.pipeline.reading import spark_schema
from semcast.traces.arrow import pyarrow
from semcast.traces.files import LAKE_TABLES
from semcast.traces.schema import EVENTS, QUARANTINE
from semcast.traces.trace_files import files_of


class StagedCounts(NamedTuple):
    """How much lies ready: rows of events, and rows in the quarantine."""

    runs: int
    rows: int
    quarantined: int


def run_id_of(batch: str, run_id: int) -> int:
    """The number of a run in the lake."""
    digest = blake2b(f"{batch} {run_id}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def origin(batch: str, source: Path, run_id: int | None = None) -> dict[str, str]:
    """What a run's parameters say of where it came from."""
    metadata = {"lake.batch": batch, "lake.source": str(source)}
    return metadata if run_id is None else {**metadata, "lake.run_id": str(run_id)}


def write_events(events: DataFrame, staging: Path) -> None:
    """Write rows of `spark_schema.EVENTS`, in files of a good size for each kind."""
    sized = events.select(*spark_schema.EVENTS.names).hint("rebalance", "kind")
    sized.write.partitionBy("kind").parquet(f"file://{staging / EVENTS}")


def write_quarantine(bad: DataFrame, staging: Path) -> None:
    """Write file, row, column and reason of rows that were refused."""
    rows = bad.select("file", "row", "column", "reason")
    write_table(rows.coalesce(1), QUARANTINE, staging)


def write_table(rows: DataFrame, table: str, staging: Path) -> None:
    """Write rows of a table without partitions."""
    rows.write.parquet(f"file://{staging / table}")


def event_columns(known: Mapping[str, Column]) -> list[Column]:
    """The columns of an event: those known, and nulls."""
    return [
        known.get(field.name, F.lit(None)).cast(field.dataType).alias(field.name)
        for field in spark_schema.EVENTS
    ]


def target_paths(staging: Path, batch: str) -> dict[Path, Path]:
    """Where the staged files of a batch belong in a snapshot."""
    found: dict[Path, Path] = {}
    for table in LAKE_TABLES:
        for number, file in enumerate(sorted((staging / table).rglob("*.parquet"))):
            folder = file.parent.relative_to(staging)
            if table in (EVENTS, QUARANTINE):
                place = folder / f"batch={batch}" / f"{number:05}.parquet"
            else:
                place = folder / f"{batch}-{number:05}.parquet"
            found[place] = file
    return found


def count_rows(path: Path) -> int:
    """Rows of a Parquet file, or of all below a folder, by their footers."""
    parquet: Any = pyarrow("parquet")
    return sum(parquet.read_metadata(file).num_rows for file in files_of(path))
