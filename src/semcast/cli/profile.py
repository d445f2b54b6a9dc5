"""`semcast profile`: how far apart related messages of a stream lie, and what to do about it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from semcast.cli.commands import Json
from semcast.cli.output import Output, pairs, table
from semcast.cli.spark import LOCAL, Conf, Master, Remote, target_of
from semcast.terms.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from semcast.models.advice import Rates
    from semcast.pipeline.profile.profile import BadRows, Profile
    from semcast.pipeline.reading.keyed_text import KeyedColumns

EXAMPLE = (
    "\b\nExamples:\n"
    "  semcast profile edits.csv.gz --key page \\\n"
    "    --sender-rate 1000 --receiver-rate 250\n"
    "  semcast profile out/trace --out out/profile"
)
_SHOWN = ("messages", "items", "never_obsolete", "distance_p50", "distance_p90")


Key: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="Column with the key of a message; required for files."),
]
Order: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="Integer column that orders the messages.",
        show_default="as in the file",
    ),
]
Sender: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="Column with the sender.", show_default="one sender"),
]
Kind: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="Column with the kind of a row: U update, C create, D delete, R one-off.",
        show_default="all U",
    ),
]
Source: TypeAlias = Annotated[
    Path,
    typer.Argument(
        metavar="FILE|TRACE|LAKE", help="Keyed file, trace directory or lake to profile."
    ),
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
    key: Key = None,
    order: Order = None,
    sender: Sender = None,
    kind: Kind = None,
    sender_rate: SenderRate = None,
    receiver_rate: ReceiverRate = None,
    out: Annotated[
        Path | None, typer.Option(help="Directory for the JSON, PNG and CSV files.")
    ] = None,
    master: Master = LOCAL,
    remote: Remote = None,
    conf: Conf = None,
    json: Json = False,
) -> None:
    """Report how soon messages are superseded; recommend a buffer.

    With --sender-rate and --receiver-rate, recommends a buffer size for these rates.
    """
    from semcast.models.advice import Rates
    from semcast.pipeline.profile.profile import SPARK_CONF
    from semcast.pipeline.profile.profile_files import facts_of, write_profile
    from semcast.pipeline.reading.keyed_text import KeyedColumns
    from semcast.pipeline.spark_session import session

    rates = Rates.given(sender_rate, receiver_rate)
    columns = None if key is None else KeyedColumns(key, order, sender, kind)
    _refuse_mixtures(source, columns, {"order": order, "sender": sender, "kind": kind})
    output = Output(json)
    output.progress("starting Spark")
    with session(target_of(master, remote, conf, SPARK_CONF)) as spark:
        output.progress(f"reading {source}")
        found, bad = _profile(spark, source, columns, rates)
    facts: dict[str, Any] = facts_of(found, rates) | {"bad_rows": bad.rows}
    if out is not None:
        facts["files"] = write_profile(out, found, rates, facts)
    if bad.rows:
        output.say(f"skipped {bad.rows:,} invalid rows; the first: {bad.first}", "")
    _tell(output, facts)
    output.answer(facts)


def _refuse_mixtures(
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
            raise ConfigError(f"key: required for the file {source}; add --key COLUMN")


def _profile(
    spark: "SparkSession", source: Path, columns: "KeyedColumns | None", rates: "Rates | None"
) -> "tuple[Profile, BadRows]":
    """The profile, and the rows that could not be understood."""
    from semcast.pipeline.profile.profile import BadRows, profile_file, profile_trace

    if columns is None:
        return profile_trace(spark, source, rates), BadRows()
    return profile_file(spark, source, columns, rates)


def _tell(output: Output, facts: Mapping[str, Any]) -> None:
    shown = {name: facts[name] for name in _SHOWN}
    shown |= {f"R({n})": ratio for n, ratio in facts["purgeable"].items()}
    shown["R*"] = facts["purgeable_limit"]
    output.say(*pairs(shown))
    if facts["rates"]:
        output.say("", *table(facts["rates"]))
    if facts["streams"]:
        output.say("", *table([_line(stream) for stream in facts["streams"]]))
        if facts["stream_count"] > len(facts["streams"]):
            output.say(f"and {facts['stream_count'] - len(facts['streams']):,} shorter streams")
    output.say("", _advice(facts["advice"], facts["streams"]))
    for path in facts.get("files", {}).values():
        output.say(path)


def _line(stream: Mapping[str, Any]) -> dict[str, object]:
    names = [name for name in stream if name in ("run_id", "sender", "sender_inc")]
    advised = stream["advice"]["buffer"]
    return {name: stream[name] for name in (*names, *_SHOWN)} | {"buffer": advised}


def _advice(advice: Mapping[str, Any], streams: Sequence[object]) -> str:
    if advice["buffer"] is None:
        return f"Advice: {advice['reason']}."
    of = " for each sender" if streams else ""
    k = f", k = {advice['k']:,} with bitmaps" if advice["k"] else ""
    return f"Advice: a buffer of {advice['buffer']:,}{of}{k}: {advice['reason']}."
