"""The tables of a trace as Spark sees them, from the one definition in `traces.schema`."""

from collections.abc import Mapping
from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from semcast.traces.schema import EVENT_COLUMNS, ITEM_COLUMNS, PROCESS_COLUMNS, RUN_COLUMNS

_TYPES: Final[dict[str, DataType]] = {
    "int32": IntegerType(),
    "int64": LongType(),
    "string": StringType(),
    "bool": BooleanType(),
    "list": ArrayType(IntegerType()),
    "map": MapType(StringType(), StringType()),
}


def _struct(columns: Mapping[str, str]) -> StructType:
    return StructType([StructField(name, _TYPES[kind]) for name, kind in columns.items()])


RUNS: Final = _struct(RUN_COLUMNS)
PROCESSES: Final = _struct(PROCESS_COLUMNS)
ITEMS: Final = _struct(ITEM_COLUMNS)
EVENTS: Final = _struct({**EVENT_COLUMNS, "kind": "string"})
