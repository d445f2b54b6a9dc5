"""Violations as rows: of which run, which property, what happened, and the events that prove it.

Every property gives the same columns, so that all of them can be counted and shown alike.
"""

from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from semcast.pipeline.reading.spark_schema import EVENTS
from semcast.specs.verdict import NOTES_SHOWN, SHOWN

EVENT: Final = StructType([*(EVENTS[name] for name in SHOWN), StructField("note", StringType())])
VIOLATIONS: Final = StructType(
    [
        StructField("run_id", LongType()),
        StructField("property", StringType()),
        StructField("what", StringType()),
        StructField("events", ArrayType(EVENT)),
    ]
)


def event(alias: str | None = None) -> Column:
    """The event that the columns of a frame (joined under that alias) hold, as one value."""
    column = (lambda name: F.col(f"{alias}.{name}")) if alias else F.col
    attrs = column("attrs")
    note = F.coalesce(*(attrs[key] for key in NOTES_SHOWN))
    return F.struct(*(column(name).alias(name) for name in SHOWN), note.alias("note"))


def violations(rows: DataFrame, name: str, what: Column, *events: Column) -> DataFrame:
    """One violation for each row; `events` in order of occurrence, null where the trace has none.

    The rows must have `run_id`.
    """
    proof = F.filter(F.array(*events), lambda one: one.isNotNull())
    return rows.select(
        "run_id", F.lit(name).alias("property"), what.alias("what"), proof.alias("events")
    ).to(VIOLATIONS)


def arrow_rows() -> Any:
    """The pyarrow schema of `VIOLATIONS`."""
    types: dict[DataType, Any] = {
        IntegerType(): pa.int32(),
        LongType(): pa.int64(),
        StringType(): pa.string(),
    }
    proof = pa.struct([(one.name, types[one.dataType]) for one in EVENT])
    return pa.schema(
        [
            ("run_id", pa.int64()),
            ("property", pa.string()),
            ("what", pa.string()),
            ("events", pa.list_(proof)),
        ]
    )
