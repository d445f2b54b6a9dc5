"""From a keyed file of another program to the staged files of a batch: one run of multicasts.

A sender becomes a process, its places sequence numbers, a key an item; `dist` is what the rules
for foreign files say.  Such a run has the protocol `foreign`, which promises nothing.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, Observation, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType

from semcast.pipeline.lake.batch_files import (
    StagedCounts,
    count_rows,
    event_columns,
    origin,
    run_id_of,
    write_events,
    write_quarantine,
    write_table,
)
from semcast.pipeline.reading.keyed_distances import with_distances
from semcast.pipeline.reading.keyed_files import read_validated
from semcast.pipeline.reading.keyed_text import KeyedColumns
from semcast.terms.events import MULTICAST
from semcast.terms.items import item_tag
from semcast.traces.arrow import pyarrow
from semcast.traces.errors import BadFile
from semcast.traces.schema import EVENTS, ITEMS, PROCESSES, QUARANTINE, RUNS, RunInfo
from semcast.traces.tables import write_runs

PROTOCOL: Final = "foreign"
_READ: Final = "read"  # the file as it was parsed, once


def stage(
    spark: SparkSession, path: Path, columns: KeyedColumns, batch: str, staging: Path
) -> StagedCounts:
    """Write everything of a keyed file or directory."""
    parsed = read_validated(spark, path, columns)
    seen = Observation()
    write_table(parsed.observe(seen, F.count("reason").alias("bad")), _READ, staging)
    if not count_rows(staging / _READ):
        raise BadFile(f"{path}: empty, it has no rows")
    found = spark.read.schema(parsed.schema).parquet(f"file://{staging / _READ}")
    if seen.get["bad"]:
        write_quarantine(found.where("reason IS NOT NULL"), staging)
    good = found.where("reason IS NULL").select("sender", "place", "key", "kind", "order")
    run_id = run_id_of(batch, 0)
    _write_run(path, batch, run_id, staging)
    senders = _senders(good)
    of_run = F.lit(run_id).alias("run_id")
    processes = senders.select(
        of_run, "pid", F.col("sender").alias("name"), F.lit(True).alias("correct")
    )
    write_table(processes, PROCESSES, staging)
    named = _tagged(good.select("key").distinct())
    write_table(named.select(of_run, "item", F.col("key").alias("name")), ITEMS, staging)
    write_events(_events(good, senders, run_id), staging)
    return StagedCounts(1, count_rows(staging / EVENTS), count_rows(staging / QUARANTINE))


def _write_run(path: Path, batch: str, run_id: int, staging: Path) -> None:
    run = RunInfo(
        name=path.name,
        protocol=PROTOCOL,
        order="none",
        relation="item",
        f=0,
        seed=0,
        run_id=run_id,
        parameters=origin(batch, path),
    )
    (staging / RUNS).mkdir()
    write_runs(staging / RUNS / "part.parquet", run, complete=False)


def _senders(rows: DataFrame) -> DataFrame:
    """Each sender's name with its number, counted by name."""
    by_name = F.row_number().over(Window.partitionBy(F.lit(0)).orderBy("sender"))
    return rows.select("sender").distinct().withColumn("pid", by_name - 1)


def _events(rows: DataFrame, senders: DataFrame, run_id: int) -> DataFrame:
    """One multicast for each row."""
    tagged = _tagged(with_distances(rows)).join(F.broadcast(senders), "sender")
    kind = F.col("kind")
    attrs = F.create_map(F.lit("kind"), kind)
    # Only updates are superseded; the trace's word for the others.
    never_purged = F.create_map(F.lit("kind"), kind, F.lit("never_purge"), F.lit("1"))
    return tagged.select(
        *event_columns(
            {
                "run_id": F.lit(run_id),
                "pid": F.col("pid"),
                "inc": F.lit(1),
                "n": F.col("place"),
                "ts_ns": F.coalesce("order", "place"),
                "grp": F.lit(0),
                "view": F.lit(0),
                "sender": F.col("pid"),
                "sender_inc": F.lit(1),
                "seq": F.col("place"),
                "item": F.col("item"),
                "dist": F.col("dist"),
                "attrs": F.when(kind == "U", attrs).otherwise(never_purged),
                "kind": F.lit(MULTICAST),
            }
        )
    )


def _tagged(rows: DataFrame) -> DataFrame:
    """With the tag of the key as `item`; a key is hashed once in a batch."""

    def tag(batches: Iterator[Any]) -> Iterator[Any]:
        pa = pyarrow()
        for batch in batches:
            keys = batch.column("key").dictionary_encode()
            tags = pa.array([item_tag(key) for key in keys.dictionary.to_pylist()], pa.int64())
            yield pa.RecordBatch.from_arrays(
                [*batch.columns, tags.take(keys.indices)], [*batch.schema.names, "item"]
            )

    return rows.mapInArrow(tag, StructType([*rows.schema, StructField("item", LongType())]))
