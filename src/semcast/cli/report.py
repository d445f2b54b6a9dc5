"""`semcast report`: a directory of results as one page."""

from pathlib import Path
from typing import Annotated

import typer

from semcast.cli.commands import Json
from semcast.cli.output import Output

EXAMPLE = "Example: semcast report out --out out/report.html"


def report(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="Traces, sweeps, figures, answers as JSON.")
    ],
    out: Annotated[Path, typer.Option(help="The page to write.")],
    json: Json = False,
) -> None:
    """Write one self-contained HTML page about a directory of results.

    It shows what ran, verdicts with their counterexamples, profiles, advice, sweeps and figures.
    Keep what a command answers there: semcast check TRACE --json > DIR/check.json
    """
    from semcast.pipeline.report import report as write

    output = Output(json)
    facts = write(directory, out)
    output.say(f"{facts['html']}: {facts['verdicts']} verdicts, {facts['failed']} of them failed")
    for source in facts["not_shown"]:
        output.say(f"not shown: {source}")
    output.answer(facts)
