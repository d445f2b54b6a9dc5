"""Recorded executions as DataFrames: one trace directory, or a lake of many."""

from pathlib import Path
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from semcast.pipeline.reading import spark_schema
from semcast.traces.schema import EVENTS, ITEMS, PROCESSES, RUNS
from semcast.traces.trace_files import files_of, root_of


class TraceTables(NamedTuple):
    """The tables of a trace; `events` has the partition column `kind`."""

    runs: DataFrame
    processes: DataFrame
    items: DataFrame
    events: DataFrame


def read_trace(spark: SparkSession, path: str | Path) -> TraceTables:
    """The tables of a trace directory or of a lake.

    Journals that processes left behind become Parquet first; what living ones are still writing
    is not read.  Of a lake, the snapshot that is current now.
    """
    root = root_of(Path(path))
    return TraceTables(
        _table(spark, root / RUNS, spark_schema.RUNS),
        _table(spark, root / PROCESSES, spark_schema.PROCESSES),
        _table(spark, root / ITEMS, spark_schema.ITEMS),
        _table(spark, root / EVENTS, spark_schema.EVENTS),
    )


def file_name(uri: Column) -> Column:
    """The path in a `_metadata.file_path`."""
    plain = F.url_decode(F.replace(uri, F.lit("+"), F.lit("%2B")))
    return F.regexp_replace(plain, "^file:/+", "/")


def _table(spark: SparkSession, path: Path, columns: StructType) -> DataFrame:
    if not files_of(path):
        return spark.createDataFrame([], columns)
    # Only the columns asked for: a lake has its batches as a partition column besides.
    return spark.read.schema(columns).parquet(f"file://{path}").select(*columns.names)
