"""`semcast profile`: how far apart related messages of a stream lie, and what to do about it."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from semcast.cli.commands import Json
from semcast.cli.output import Output
from semcast.cli.past_waits import WaitTime
from semcast.cli.profile_view import show
from semcast.cli.spark_options import (
    LOCAL,
    STARTING,
    Conf,
    KeyColumn,
    KindColumn,
    OptionalMaster,
    OrderColumn,
    Remote,
    SenderColumn,
    some_target,
    target_of,
)
from semcast.terms.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from semcast.models.advice import Rates
    from semcast.pipeline.profile.profile import BadRows, Profile
    from semcast.pipeline.reading.keyed_text import KeyedColumns
    from semcast.pipeline.spark_session import SparkTarget

EXAMPLE = (
    "\b\nExamples:\n"
    "  semcast profile edits.csv.gz --key page \\\n"
    "    --sender-rate 1000 --receiver-rate 250\n"
    "  semcast profile out/trace --out out/profile"
)
HERE = "in this process"
ON_SPARK = "on Spark"
# How long a profile usually takes: to start, and for each byte of the files.
USUAL_S = {HERE: (0.4, 1 / 8e6), ON_SPARK: (12.0, 1 / 4e6)}

Source: TypeAlias = Annotated[
    Path,
    typer.Argument(
        metavar="FILE|TRACE|LAKE", help="Keyed file, trace directory or lake to profile."
    ),
]
Out: TypeAlias = Annotated[
    Path | None, typer.Option(help="Directory for the JSON, PNG, SVG and CSV files.")
]
SenderRate: TypeAlias = Annotated[
    float | None,
    typer.Option(help="Rate that the sender wants to reach, in messages per second."),
]
ReceiverRate: TypeAlias = Annotated[
    float | None,
    typer.Option(help="Rate that the slowest receiver can read, in messages per second."),
]


def profile(
    source: Source,
    key: KeyColumn = None,
    order: OrderColumn = None,
    sender: SenderColumn = None,
    kind: KindColumn = None,
    sender_rate: SenderRate = None,
    receiver_rate: ReceiverRate = None,
    out: Out = None,
    master: OptionalMaster = None,
    remote: Remote = None,
    conf: Conf = None,
    json: Json = False,
) -> None:
    """Report how soon messages are superseded; recommend a buffer.

    With --sender-rate and --receiver-rate, recommends a buffer size for these rates. Traces of up
    to 20 million messages and files of up to 256 MiB are read in this process, larger ones on
    Spark. Give --master, --remote or --conf to use Spark in any case.
    """
    from semcast.models.advice import Rates
    from semcast.pipeline.profile.profile_files import facts_of, write_profile
    from semcast.pipeline.reading.keyed_text import KeyedColumns
    from semcast.traces.arrow import spare_pandas
    from semcast.traces.kept_results import PROFILE, keep

    spare_pandas()
    rates = Rates.given(sender_rate, receiver_rate)
    columns = None if key is None else KeyedColumns(key, order, sender, kind)
    _check_options(source, columns, {"order": order, "sender": sender, "kind": kind})
    output, began = Output(json), monotonic()
    target = some_target(master, remote, conf)
    if columns is None:
        (found, way), bad = _profile_trace(output, source, rates, target), None
    else:
        found, bad, way = _profile_file(output, source, columns, rates, target)
    facts: dict[str, Any] = facts_of(found, rates) | {"bad_rows": bad.rows if bad else 0}
    if out is not None:
        facts["files"] = write_profile(out, found, rates, facts)
    options = {"key": key, "order": order, "sender": sender, "kind": kind}
    show(output, source, facts, found, rates, f"{monotonic() - began:.1f} s {way}", options, bad)
    keep(source, PROFILE, facts)
    output.print_json(facts)


def _check_options(
    source: Path, columns: "KeyedColumns | None", others: Mapping[str, str | None]
) -> None:
    is_recorded = any((source / name).exists() for name in ("events", "current", "journals"))
    if is_recorded and columns is not None:
        raise ConfigError(f"key: {source} is a trace, which already has items; remove --key")
    if columns is None:
        for name, column in others.items():
            if column is not None:
                raise ConfigError(
                    f"{name}: only for keyed files; add --key COLUMN, or remove --{name}"
                )
        if source.is_file():
            raise ConfigError(
                f"key: required for the file {source}; add --key COLUMN{_choices(source)}"
            )


def _choices(source: Path) -> str:
    """The columns of a file, if it names them."""
    from semcast.pipeline.reading.keyed_source import column_names

    names = column_names(source)
    return f", one of {', '.join(names)}" if names else ""


def _estimate(source: Path, way: str = HERE) -> WaitTime:
    files = [source] if source.is_file() else [each for each in source.rglob("*") if each.is_file()]
    start_s, byte_s = USUAL_S[way]
    return WaitTime(f"profile {way}", start_s + byte_s * sum(each.stat().st_size for each in files))


def _profile_trace(
    output: Output, source: Path, rates: "Rates | None", target: "SparkTarget | None"
) -> "tuple[Profile, str]":
    """The profile, and where it was made."""
    from semcast.pipeline.profile.local_profile import fits_trace, profile_trace
    from semcast.pipeline.profile.trace_counts import open_trace
    from semcast.traces.trace_files import root_of

    if target is None and fits_trace(splits := open_trace(source)):
        with output.waiting(f"reading {source} in this process", estimate=_estimate(source)):
            return profile_trace(splits, rates), HERE
    from semcast.pipeline.profile import spark_profile

    root_of(source)  # A directory that is not a trace is refused here, before anything starts.
    splits = []
    with _spark(output, source, target, lambda: splits.extend(open_trace(source))) as spark:
        return spark_profile.profile_trace(spark, source, rates, splits), ON_SPARK


def _profile_file(
    output: Output,
    source: Path,
    columns: "KeyedColumns",
    rates: "Rates | None",
    target: "SparkTarget | None",
) -> "tuple[Profile, BadRows, str]":
    """The profile, the rows that could not be understood, and where it was made."""
    from semcast.pipeline.profile.local_profile import fits_files, profile_file
    from semcast.pipeline.reading.keyed_source import open_source

    opened = open_source(source, columns)  # A missing file or column is refused here.
    if target is None and fits_files(opened):
        with output.waiting(f"reading {source} in this process", estimate=_estimate(source)):
            return (*profile_file(opened, columns, rates), HERE)
    from semcast.pipeline.profile import spark_profile

    with _spark(output, source, target) as spark:
        return (*spark_profile.profile_file(spark, source, columns, rates), ON_SPARK)


@contextmanager
def _spark(
    output: Output,
    source: Path,
    target: "SparkTarget | None",
    meanwhile: Callable[[], None] = lambda: None,
) -> "Iterator[SparkSession]":
    """A session; `meanwhile` is called while Spark starts."""
    from semcast.pipeline.profile.spark_profile import SPARK_CONF
    from semcast.pipeline.spark_session import session

    given = target or target_of(LOCAL)
    target = replace(given, conf={**SPARK_CONF, **given.conf})
    with (
        output.waiting(f"{STARTING}, then reading {source}", estimate=_estimate(source, ON_SPARK)),
        session(target, meanwhile) as spark,
    ):
        yield spark
