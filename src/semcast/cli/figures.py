"""`semcast figures`: the papers' figures, from simulations and live groups run now."""

from pathlib import Path
from typing import Annotated

import typer

from semcast.cli.commands import Jobs, Json, Seed
from semcast.cli.output import Output, table

EXAMPLE = "Example: semcast figures all --out out/figures --quick"


def figures(
    names: Annotated[
        list[str], typer.Argument(metavar="list | all | NAME...", help="Which figures to draw.")
    ],
    out: Annotated[Path, typer.Option(help="Directory for PNG, CSV and HTML.")] = Path(
        "out/figures"
    ),
    seed: Seed = 1,
    jobs: Jobs = None,
    quick: Annotated[bool, typer.Option("--quick", help="Shorter runs, rougher curves.")] = False,
    live: Annotated[
        bool, typer.Option("--live", help="Add points of real processes to figures that have them.")
    ] = False,
    json: Json = False,
) -> None:
    """Draw figures of the papers as PNG and CSV; `list` names them."""
    from semcast.experiments.figures import FIGURES, render
    from semcast.faults.limits import within
    from semcast.terms.errors import one_of

    output = Output(json)
    if names == ["list"]:
        rows = [{"name": f.name, "source": f.source, "title": f.title} for f in FIGURES.values()]
        output.say(*table(rows))
        output.answer({"figures": rows})
        return
    for name in names:
        if name not in FIGURES and name != "all":
            raise one_of("figure", name, ("all", *FIGURES))
    within("jobs", 1 if jobs is None else jobs, 1)
    drawn = render(
        list(FIGURES) if "all" in names else list(dict.fromkeys(names)),
        out,
        jobs=jobs,
        seed=seed,
        quick=quick,
        live=live,
        on_progress=lambda done, of, point: output.progress(f"{done:,} of {of:,} runs: {point}"),
    )
    output.say(*table(drawn))
    output.answer({"figures": drawn})
