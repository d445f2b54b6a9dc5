"""Keyed files of other programs as DataFrames.

Files are read where Spark runs, straight into Arrow: text by a task for each file, Parquet by a
task for each split.  Rejected: Spark's readers.  That of CSV loses the numbers of lines, and both
take several times as long.
"""

from pathlib import Path
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from semcast.pipeline.reading.file_splits import run_per_task
from semcast.pipeline.reading.keyed_source import open_source
from semcast.pipeline.reading.keyed_text import KeyedColumns

_BLOCK: Final = (
    "file int, nth bigint, row bigint, sender string, order bigint, key string, kind string, "
    "column string, reason string"
)


class KeyedTables(NamedTuple):
    """`rows`: sender, place, key, kind, order (null without such a column).
    `bad`: file, row, column, reason."""

    rows: DataFrame
    bad: DataFrame


def read_keyed(
    spark: SparkSession,
    path: str | Path,
    *,
    key: str,
    order: str | None = None,
    sender: str | None = None,
    kind: str | None = None,
) -> KeyedTables:
    """The streams of a file or directory, given the names of its columns.

    `place` counts a sender's rows from 1, in the order of the file or, with `order` (whole
    numbers), by that column.  Without `sender` there is one sender, ""; without `kind` every row
    is an update, U.
    """
    found = read_validated(spark, Path(path), KeyedColumns(key, order, sender, kind))
    return KeyedTables(
        found.where("reason IS NULL").select("sender", "place", "key", "kind", "order"),
        found.where("reason IS NOT NULL").select("file", "row", "column", "reason"),
    )


def read_validated(spark: SparkSession, path: Path, columns: KeyedColumns) -> DataFrame:
    """Every row, with its place, its file and number there, and what is wrong with it, or null."""
    source = open_source(path, columns)
    found = run_per_task(spark, source.work, source.read, _BLOCK)
    names = F.array(*(F.lit(str(file)) for file in source.files))
    return _placed(found, columns, source.is_counted).select(
        *("sender", "place", "key", "kind", "order"),
        F.element_at(names, F.col("file") + 1).alias("file"),
        *("row", "column", "reason"),
    )


def _placed(found: DataFrame, columns: KeyedColumns, is_counted: bool) -> DataFrame:
    """With `place`.  Only another order or several senders need a sort."""
    if columns.order is not None or columns.sender is not None:
        by = ["order", "file", "nth"]  # Without such a column, `order` is null.
        place = F.row_number().over(Window.partitionBy("sender").orderBy(*by))
        return found.withColumn("place", place.cast("bigint"))
    if is_counted:
        return found.withColumn("place", F.col("nth"))
    together = Window.partitionBy(F.lit(0))  # They are as many as files.
    before = together.orderBy("file").rowsBetween(Window.unboundedPreceding, -1)
    sizes = found.groupBy("file").agg(F.max("nth").alias("size"))
    starts = sizes.select("file", F.coalesce(F.sum("size").over(before), F.lit(0)).alias("start"))
    return found.join(F.broadcast(starts), "file").withColumn(
        "place", F.col("start") + F.col("nth")
    )
