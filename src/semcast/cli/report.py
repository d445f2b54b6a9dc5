"""`semcast report`: a directory of results as one page."""

from pathlib import Path
from typing import Annotated

import typer

from semcast.cli.commands import Json
from semcast.cli.output import Output

EXAMPLE = "Example: semcast report out --out out/report.html"


def report(
    directory: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", help="Directory of traces, sweeps, figures and saved JSON output."
        ),
    ],
    out: Annotated[Path, typer.Option(help="HTML file to write.")],
    json: Json = False,
) -> None:
    """Write one self-contained HTML page about a directory of results.

    The page shows runs, verdicts with their counterexamples, profiles, advice, sweeps and
    figures.  To include the output of a command, save it in the directory:
    semcast check TRACE --json > DIR/check.json
    """
    from semcast.pipeline.report.report import report as write

    output = Output(json)
    facts = write(directory, out)
    output.say(f"{facts['html']}: {facts['verdicts']} verdicts, {facts['failed']} failed")
    for source in facts["not_shown"]:
        output.say(f"not shown: {source}")
    output.answer(facts)
