"""Keyed files of other programs as one table: CSV, JSON lines (both also gzipped), Parquet.

A file, or a directory of files of one format whose order is that of their names.  Rows that cannot
be understood are a table of their own, with the file, the row (a line of text, counted from 1, or
a row of Parquet), the column and the reason; such a row keeps its place in the stream.  A file
that cannot be read on at all is a `BadFile`.

Text is parsed where Spark runs, a task for each file, straight into Arrow (`keyed_blocks`); Spark
reads Parquet itself.  Rejected: Spark's reader of CSV, which loses the numbers of lines and takes
several times as long.
"""

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from semcast.pipeline.keyed_blocks import Columns, is_csv, opened, read_blocks, read_header
from semcast.pipeline.trace import file_name
from semcast.terms.errors import ConfigError, one_of
from semcast.traces.arrow import pyarrow
from semcast.traces.errors import BadFile
from semcast.traces.keyed import KINDS, SUFFIXES

_PARQUET: Final = ".parquet"
_PLAIN: Final = {  # the types that keys, senders, kinds and orders come in: Arrow's → Spark's
    "string": "string",
    "large_string": "string",
    "bool": "boolean",
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "dictionary<values=string, indices=int32, ordered=0>": "string",
}
_BLOCK: Final = (
    "file int, nth bigint, row bigint, sender string, order bigint, key string, kind string, "
    "column string, reason string"
)


class Keyed(NamedTuple):
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
) -> Keyed:
    """The streams of a file or directory, given the names of its columns.

    `place` counts a sender's rows from 1, in the order of the file or, with `order` (whole
    numbers), by that column.  Without `sender` there is one sender, ""; without `kind` every row
    is an update, U.
    """
    found = read_judged(spark, Path(path), Columns(key, order, sender, kind))
    return Keyed(
        found.where("reason IS NULL").select("sender", "place", "key", "kind", "order"),
        found.where("reason IS NOT NULL").select("file", "row", "column", "reason"),
    )


def read_judged(spark: SparkSession, path: Path, columns: Columns) -> DataFrame:
    """Every row, with its place, its file and number there, and what is wrong with it, or null."""
    files = files_of(path)
    is_parquet = files[0].name.lower().endswith(_PARQUET)
    found = (_parquet if is_parquet else _text)(spark, files, columns)
    names = F.array(*(F.lit(str(file)) for file in files))
    return _placed(found, columns, len(files)).select(
        *("sender", "place", "key", "kind", "order"),
        F.element_at(names, F.col("file") + 1).alias("file"),
        *("row", "column", "reason"),
    )


def files_of(path: Path) -> list[Path]:
    """The file, or the files of a directory by name; hidden ones (`_`, `.`) are passed over."""
    if not path.is_dir():
        files = [path]
    else:
        files = sorted(
            each for each in path.rglob("*") if each.is_file() and each.name[0] not in "._"
        )
    if not files:
        raise BadFile(f"{path}: a directory without files")
    endings = {_ending(file) for file in files}
    if len(endings) > 1:
        raise ConfigError(f"{path}: files of several kinds ({', '.join(sorted(endings))})")
    for file in files:
        file.open("rb").close()  # An absent one is said at once.
    return files


def _ending(file: Path) -> str:
    for suffix in SUFFIXES:
        if file.name.lower().endswith(suffix):
            return suffix
    raise one_of("file name ending", file.name, SUFFIXES)


def _text(spark: SparkSession, files: Sequence[Path], columns: Columns) -> DataFrame:
    for file in files:
        if is_csv(file):
            with opened(file) as readable:
                read_header(file, readable, columns)

    places = [file.absolute() for file in files]  # A task may run in another folder.

    def read(numbers: Iterator[Any]) -> Iterator[Any]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from read_blocks(places[number], number, columns)

    numbers = spark.range(0, len(files), 1, len(files))
    return numbers.mapInArrow(read, _BLOCK)


def _parquet(spark: SparkSession, files: Sequence[Path], columns: Columns) -> DataFrame:
    wanted = list(dict.fromkeys(columns.named().values()))
    declared = {_declared(file, wanted) for file in files}
    if len(declared) > 1:
        raise BadFile(f"{files[0].parent}: files whose columns differ in type")
    places = [str(file.resolve()) for file in files]
    read = spark.read.schema(declared.pop()).parquet(*(f"file://{place}" for place in places))
    number: Column = F.lit(0)
    if len(files) > 1:
        pairs = ((F.lit(place), F.lit(n)) for n, place in enumerate(places))
        number = F.create_map(*chain.from_iterable(pairs))[file_name(F.col("_metadata.file_path"))]
    nth = F.col("_metadata.row_index") + 1
    table = read.select(
        number.cast("int").alias("file"),
        nth.alias("nth"),
        nth.alias("row"),
        _cell(columns.sender, "").cast("string").alias("sender"),
        _cell(columns.order, None).cast("bigint").alias("order"),
        _cell(columns.key, None).cast("string").alias("key"),
        _cell(columns.kind, "U").cast("string").alias("kind"),
    )
    return _judged(table, columns)


def _declared(file: Path, wanted: Sequence[str]) -> str:
    """The columns of a file as its footer declares them, in the words of Spark."""
    try:
        found = pyarrow("parquet").read_schema(file)
    except (OSError, pyarrow().ArrowException) as error:
        reason = (str(error).splitlines() or ["damaged"])[0]
        raise BadFile(f"{file}: not Parquet: {reason}") from None
    for name in wanted:
        if name not in found.names:
            raise BadFile(f"{file}: no column {name!r}, it has {', '.join(found.names)}")
        if str(found.field(name).type) not in _PLAIN:
            kind = found.field(name).type
            raise BadFile(f"{file}: column {name!r} is {kind}, must be text or whole numbers")
    return ", ".join(f"`{name}` {_PLAIN[str(found.field(name).type)]}" for name in wanted)


def _cell(name: str | None, otherwise: str | None) -> Column:
    return F.lit(otherwise) if name is None else F.col(f"`{name}`")


def _judged(table: DataFrame, columns: Columns) -> DataFrame:
    """With the column and the reason of what is wrong with a row, or nulls."""
    column, reason = F.lit(None).cast("string"), F.lit(None).cast("string")
    kinds = ", ".join(KINDS)
    strange = F.format_string(f"'%s' is not one of {kinds}", "kind")
    wrong = [(F.col("kind").isin(*KINDS), columns.kind, strange)]
    named = columns.named().items()
    wrong += [(F.col(field).isNotNull(), name, F.lit("is missing")) for field, name in named]
    for is_right, name, said in wrong:
        if name is not None:
            column = F.when(is_right, column).otherwise(F.lit(name))
            reason = F.when(is_right, reason).otherwise(said)
    return table.withColumns({"column": column, "reason": reason})


def _placed(found: DataFrame, columns: Columns, files: int) -> DataFrame:
    """With `place`.  Only another order or several senders need a sort."""
    if columns.order is not None or columns.sender is not None:
        by = ["order", "file", "nth"]  # Without such a column, `order` is null.
        place = F.row_number().over(Window.partitionBy("sender").orderBy(*by))
        return found.withColumn("place", place.cast("bigint"))
    if files == 1:
        return found.withColumn("place", F.col("nth"))
    together = Window.partitionBy(F.lit(0))  # They are as many as files.
    before = together.orderBy("file").rowsBetween(Window.unboundedPreceding, -1)
    sizes = found.groupBy("file").agg(F.max("nth").alias("size"))
    starts = sizes.select("file", F.coalesce(F.sum("size").over(before), F.lit(0)).alias("start"))
    return found.join(F.broadcast(starts), "file").withColumn(
        "place", F.col("start") + F.col("nth")
    )
