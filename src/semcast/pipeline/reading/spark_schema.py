"""The tables of a trace as Spark sees them, by the same definitions as the files."""

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

from semcast.terms.events import INT32, INT32_LIST, INT64, INT64_LIST, STRING, STRING_MAP
from semcast.traces.schema import EVENT_COLUMNS, ITEM_COLUMNS, PROCESS_COLUMNS, RUN_COLUMNS

_TYPES: Final[dict[str, DataType]] = {
    INT32: IntegerType(),
    INT64: LongType(),
    STRING: StringType(),
    "bool": BooleanType(),
    INT32_LIST: ArrayType(IntegerType()),
    INT64_LIST: ArrayType(LongType()),
    STRING_MAP: MapType(StringType(), StringType()),
}


def _struct(columns: Mapping[str, str]) -> StructType:
    return StructType([StructField(name, _TYPES[kind]) for name, kind in columns.items()])


RUNS: Final = _struct(RUN_COLUMNS)
PROCESSES: Final = _struct(PROCESS_COLUMNS)
ITEMS: Final = _struct(ITEM_COLUMNS)
EVENTS: Final = _struct({**EVENT_COLUMNS, "kind": STRING})
