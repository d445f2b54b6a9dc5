"""`semcast check`: recorded executions, verified on Spark; exit code 1 if a promise was broken."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, Any

import typer

from semcast.cli.commands import Json
from semcast.cli.output import GREEN, RED, Output, cell, table, width
from semcast.cli.spark import LOCAL, Conf, Master, Remote, target_of

if TYPE_CHECKING:
    from semcast.pipeline.check.verdict import Example, Verdict

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


def check(
    trace: Annotated[Path, typer.Argument(metavar="TRACE|LAKE", help="What to verify.")],
    properties: Annotated[
        list[str] | None,
        typer.Option(
            "--property", metavar="NAME", help="Only this; may be repeated.", show_default="all"
        ),
    ] = None,
    skew_ms: Annotated[
        float | None,
        typer.Option(
            help="By how much clocks of two processes may differ.", show_default="as recorded"
        ),
    ] = None,
    master: Master = LOCAL,
    remote: Remote = None,
    conf: Conf = None,
    json: Json = False,
) -> int:
    """Verify every property that the recorded runs promise, and show what breaks one."""
    from semcast.faults.limits import within
    from semcast.pipeline.check import verdict
    from semcast.pipeline.check.runs import with_skew
    from semcast.pipeline.session import session
    from semcast.pipeline.trace import CURRENT, examine, read_trace

    verdict.check_names(properties or ())
    within("skew_ms", 0.0 if skew_ms is None else skew_ms, 0.0)
    if not (trace / CURRENT).is_symlink():
        examine(trace)  # What is no trace is told before Spark has started.
    output = Output(json)
    output.progress("starting Spark")
    with session(target_of(master, remote, conf)) as spark:
        output.progress(f"checking {trace}")
        recorded = read_trace(spark, trace)
        if skew_ms is not None:
            recorded = with_skew(recorded, skew_ms)
        found = verdict.check(recorded, properties or None)
    _tell(output, found)
    output.answer(facts_of(found))
    return 1 if found.status == verdict.FAIL else 0


def facts_of(found: "Verdict") -> dict[str, object]:
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


def _tell(output: Output, found: "Verdict") -> None:
    from semcast.pipeline.check import verdict

    rows: list[dict[str, object]] = []
    unjudged: dict[str, list[str]] = {}
    for name, judged in found.properties.items():
        if judged.status == verdict.NOT_APPLICABLE:
            unjudged.setdefault(judged.reason, []).append(name)
        else:
            told = "" if judged.examples else judged.reason
            count = judged.violations
            rows.append({"property": name, "status": judged.status, "violations": count, "": told})
    output.say(*table(rows))
    for reason, names in unjudged.items():
        output.say("", f"not applicable: {reason}", *_lines(names))
    for name, judged in found.properties.items():
        if judged.examples:
            more = judged.violations - len(judged.examples)
            shown = f"{name}, the first of {cell(judged.violations)}" if more else name
            output.say("", output.paint(shown, RED))
            for example in judged.examples:
                output.say(*_transcript(example))
    said = {
        verdict.PASS: "every promise that could be judged was kept",
        verdict.FAIL: "a promise was broken",
        verdict.NOT_APPLICABLE: "nothing could be judged",
    }[found.status]
    colour = GREEN if found.status == verdict.PASS else RED
    output.say("", output.paint(f"{found.events:,} events: {said}", colour))


def _lines(names: list[str]) -> list[str]:
    return wrap(", ".join(names), width(), initial_indent="  ", subsequent_indent="  ")


def _transcript(example: "Example") -> Iterator[str]:
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
