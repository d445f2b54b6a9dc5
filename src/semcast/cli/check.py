"""`semcast check`: recorded executions, verified; exit code 1 if a promise was broken.

A trace of up to two million events is judged in this process, unless Spark is asked for.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from semcast.cli.commands import Json
from semcast.cli.output import Output, cell, table, width
from semcast.cli.spark import LOCAL, Conf, Remote, SomeMaster, some_target, target_of
from semcast.terms.palette import HOLDS, WRONG

if TYPE_CHECKING:
    from semcast.pipeline.spark_session import SparkTarget
    from semcast.specs.verdict import CheckVerdict, ViolationExample

EXAMPLE = (
    "\b\nExamples:\n"
    "  semcast check out/trace\n"
    "  semcast check lake --property agreement --property purge_safety"
)
_DETAILS = (
    *(("item", "item"), ("by_seq", "by"), ("view", "view"), ("position", "position")),
    *(("peer", "peer"), ("client", "client"), ("request", "request"), ("version", "version")),
    ("note", "note"),
)
Source: TypeAlias = Annotated[
    Path, typer.Argument(metavar="TRACE|LAKE", help="Trace directory or lake to check.")
]
Names: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--property",
        metavar="NAME",
        help="Check only this property; repeat for more.",
        show_default="all",
    ),
]
SkewMs: TypeAlias = Annotated[
    float | None,
    typer.Option(
        help="Maximum clock difference between two processes, in milliseconds.",
        show_default="as recorded",
    ),
]


def check(
    trace: Source,
    properties: Names = None,
    skew_ms: SkewMs = None,
    master: SomeMaster = None,
    remote: Remote = None,
    conf: Conf = None,
    json: Json = False,
) -> int:
    """Check recorded runs against their protocol's guarantees.

    Shows the events that prove a violated property. Up to two million events are checked in this
    process, larger traces on Spark. Give --master, --remote or --conf to use Spark in any case.
    """
    from semcast.experiments.judging import EVENTS_MAX, judge
    from semcast.faults.limits import within
    from semcast.specs.verdict import FAIL, check_names
    from semcast.traces.arrow import spare_pandas
    from semcast.traces.trace_files import count_events, root_of

    check_names(properties or ())
    within("skew_ms", 0.0 if skew_ms is None else skew_ms, 0.0)
    output = Output(json)
    spare_pandas()
    count = count_events(root_of(trace))  # A directory that is not a trace is refused here.
    target = some_target(master, remote, conf)
    if target is None and count <= EVENTS_MAX:
        output.progress(f"checking {trace} in this process")
        skew_s = None if skew_ms is None else skew_ms / 1e3
        found = judge(trace, properties or None, skew_s=skew_s)
    else:
        found = _on_spark(output, target or target_of(LOCAL), trace, properties or None, skew_ms)
    _tell(output, found)
    output.answer(facts_of(found))
    return 1 if found.status == FAIL else 0


def _on_spark(
    output: Output,
    target: "SparkTarget",
    trace: Path,
    properties: list[str] | None,
    skew_ms: float | None,
) -> "CheckVerdict":
    from semcast.pipeline.check import verdict
    from semcast.pipeline.check.run_facts import with_skew
    from semcast.pipeline.reading.trace import read_trace
    from semcast.pipeline.spark_session import session

    output.progress("starting Spark")
    with session(target) as spark:
        output.progress(f"checking {trace} on Spark")
        recorded = read_trace(spark, trace)
        if skew_ms is not None:
            recorded = with_skew(recorded, skew_ms)
        return verdict.check(recorded, properties)


def facts_of(found: "CheckVerdict") -> dict[str, object]:
    """The verdict for programs."""
    return {
        "verdict": found.status,
        "events": found.events,
        "properties": {
            name: {
                "status": judged.status,
                "reason": judged.reason,
                "violations": judged.violations,
                "examples": [
                    {"run_id": one.run_id, "what": one.what, "events": list(one.events)}
                    for one in judged.examples
                ],
            }
            for name, judged in found.properties.items()
        },
    }


def _tell(output: Output, found: "CheckVerdict") -> None:
    from semcast.specs.verdict import FAIL, NOT_APPLICABLE, NOT_EXERCISED, PASS

    rows: list[dict[str, object]] = []
    unjudged: dict[str, list[str]] = {}
    for name, judged in found.properties.items():
        if judged.status in (NOT_APPLICABLE, NOT_EXERCISED):
            unjudged.setdefault(f"{judged.status}: {judged.reason}", []).append(name)
        else:
            told = "" if judged.examples else judged.reason
            count = judged.violations
            rows.append({"property": name, "status": judged.status, "violations": count, "": told})
    output.say(*table(rows))
    for reason, names in unjudged.items():
        output.say("", reason, *_lines(names))
    for name, judged in found.properties.items():
        if judged.examples:
            more = judged.violations - len(judged.examples)
            shown = f"{name}, the first of {cell(judged.violations)} violations" if more else name
            output.say("", output.paint(shown, WRONG))
            for example in judged.examples:
                output.say(*_transcript(example))
    said = {
        PASS: "every property that could be checked holds",
        FAIL: "a property was violated",
        NOT_APPLICABLE: "no property could be checked",
    }[found.status]
    colour = HOLDS if found.status == PASS else WRONG
    output.say("", output.paint(f"{found.events:,} events: {said}", colour))


def _lines(names: list[str]) -> list[str]:
    return wrap(", ".join(names), width(), initial_indent="  ", subsequent_indent="  ")


def _transcript(example: "ViolationExample") -> Iterator[str]:
    """What happened, then the events that prove it, by the time since the first of them."""
    yield f"  run {example.run_id}: {example.what}"
    start = min((event["ts_ns"] for event in example.events), default=0)
    for event in example.events:
        since = (event["ts_ns"] - start) / 1e6
        yield f"    {since:>12,.6f} ms  process {event['pid']}  {_said(event)}"


def _said(event: Mapping[str, Any]) -> str:
    words = [event["kind"]]
    if "sender" in event:
        words.append(f"{event['sender']}:{event.get('seq', '')}")
    words.extend(f"{word}={event[name]}" for name, word in _DETAILS if name in event)
    return " ".join(words)
