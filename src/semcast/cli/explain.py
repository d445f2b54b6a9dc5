"""`semcast explain`: a recorded run as a page, with the rule behind each event."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from semcast.cli.commands import Json
from semcast.cli.output import Output, count_of
from semcast.cli.past_waits import WaitTime
from semcast.terms.palette import HOLDS, SLOW, WRONG

if TYPE_CHECKING:
    from semcast.pages.explain import Explained

EXAMPLE = (
    "\b\nExamples:\n"
    "  semcast explain out/trace\n"
    "  semcast explain out/broken --run 4 --around 0:241 \\\n"
    "    --out out/broken.html"
)
LONG_NUMBER = 1 << 32
START_S, EVENTS_PER_S = 0.5, 60_000.0  # of an event, to read, judge and draw it


def explain(
    trace: Annotated[
        Path, typer.Argument(metavar="TRACE|LAKE", help="Trace directory or lake to show.")
    ],
    run: Annotated[
        int | None,
        typer.Option(
            metavar="R",
            help="Number of the run to show.",
            show_default="the first that fails, or the first",
        ),
    ] = None,
    around: Annotated[
        str | None,
        typer.Option(
            metavar="PROCESS:N",
            help="Open the page at event N of this process.",
            show_default="a violation, or the whole run",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.html", help="HTML file to write.", show_default="explain.html in TRACE"
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Write one run as a space-time diagram, one self-contained HTML page.

    The page zooms from the whole run to single messages; a click on an event shows the rule of the
    paper behind it.  If the run broke a guarantee, the page opens there.
    """
    from semcast.pages.explain import explain as write
    from semcast.traces.trace_files import count_events, root_of

    output = Output(json)
    count = count_events(root_of(trace))
    estimate = WaitTime("explain", START_S + count / EVENTS_PER_S)
    with output.waiting(f"drawing a trace of {count:,} events", estimate=estimate):
        facts = write(trace, out or trace / "explain.html", run_id=run, around=event_of(around))
    _answer(output, facts)
    output.print_text(facts["html"])
    output.next(f"open {facts['html']}", f"semcast check {trace}")
    output.print_json(dict(facts))


def _answer(output: Output, facts: "Explained") -> None:
    """Whether the run that is shown broke a guarantee."""
    events = count_of(facts["events"], "event")
    # A live run has a random number, which says nothing to people.
    of_run = events if abs(facts["run"]) >= LONG_NUMBER else f"run {facts['run']}, {events}"
    if facts["violations"]:
        violations = count_of(facts["violations"], "violation")
        output.print_text(f"FAIL  {violations} in {of_run}", colour=WRONG)
    elif facts["verdict"] is not None:
        output.print_text(f"ok  no violation in {of_run}", colour=HOLDS)
    else:
        output.print_text(f"not checked: {of_run}", colour=SLOW)


def event_of(text: str | None) -> tuple[str, int] | None:
    """The process and the local index of an event, such as 0:241."""
    from semcast.terms.errors import ConfigError

    if text is None:
        return None
    process, _, index = text.rpartition(":")
    if not process or not index.isdecimal():
        raise ConfigError(f"around: {text!r} is not PROCESS:N, such as 0:241")
    return process, int(index)
