"""`semcast report`: a directory of results as one page."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from semcast.cli.commands import Json
from semcast.cli.output import Output, count_of
from semcast.cli.past_waits import WaitTime
from semcast.terms.palette import HOLDS, WRONG

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

    The page has a card for each trace with the last check and profile of it, and sweeps, figures,
    tables.  To include the output of another command, save it in the directory:
    semcast bench throughput --json > DIR/bench.json
    """
    from semcast.pipeline.report.report import report as write

    output = Output(json)
    files = sum(1 for _ in directory.rglob("*"))
    with output.waiting(f"reading {directory}", estimate=WaitTime("report", 0.5 + files / 200)):
        facts = write(directory, out)
    verdicts = count_of(facts["verdicts"], "verdict")
    output.print_text(
        f"{facts['html']}: {verdicts}, {facts['failed']} failed",
        colour=WRONG if facts["failed"] else HOLDS,
    )
    output.print_text(*(f"not shown: {each}" for each in by_directory(facts["not_shown"])))
    output.next(f"open {facts['html']}")
    output.print_json(facts)


def by_directory(sources: Iterable[str]) -> list[str]:
    """The files, but those of one directory as one line: a store has many."""
    files: dict[Path, list[str]] = {}
    for source in sources:
        files.setdefault(Path(source).parent, []).append(source)
    return [
        names[0] if len(names) == 1 else f"{count_of(len(names), 'file')} in {folder}"
        for folder, names in files.items()
    ]
