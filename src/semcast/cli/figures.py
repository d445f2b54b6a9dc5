"""`semcast figures`: the papers' figures, from simulations and live groups run now."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from semcast.cli.commands import Jobs, Json, Seed
from semcast.cli.output import Output, count_of, table
from semcast.cli.past_waits import WaitTime
from semcast.cli.spark_options import START, STARTING, Conf, OptionalMaster, Remote, some_target

if TYPE_CHECKING:
    from semcast.experiments.figures import RenderedFigure
    from semcast.pipeline.spark_session import SparkTarget

EXAMPLE = "Example: semcast figures all --out out/figures --quick"
FIRST = WaitTime("first points of figures", 3.0)


def figures(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="list | all | NAME", help="Figures to draw; `list` prints their names."
        ),
    ],
    out: Annotated[
        Path, typer.Option(help="Directory for the PNG, SVG, CSV and HTML files.")
    ] = Path("out/figures"),
    seed: Seed = 1,
    jobs: Jobs = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Use shorter runs and fewer points.")
    ] = False,
    live: Annotated[
        bool,
        typer.Option("--live", help="Also run live processes, for the figures that support it."),
    ] = False,
    master: OptionalMaster = None,
    remote: Remote = None,
    conf: Conf = None,
    json: Json = False,
) -> None:
    """Draw the papers' figures as PNG, SVG and CSV.

    With --master, --remote or --conf the simulations run on Spark, and the same command resumes
    an interrupted one.  Live points always run on this machine.
    """
    output = Output(json)
    if names == ["list"]:
        _list(output)
        return
    target = some_target(master, remote, conf)
    options = {"jobs": jobs, "seed": seed, "quick": quick, "live": live}
    first = (STARTING, START) if target else ("running the first simulations", FIRST)
    with output.waiting(first[0], estimate=first[1]):
        drawn = _renderer(target)(names, out, on_progress=_progress(output), **options)
    output.print_text(f"drew {count_of(len(drawn), 'figure')} into {out}", "", *table(drawn))
    output.next(f"open {out / 'index.html'}")
    output.print_json({"figures": drawn})


def _list(output: Output) -> None:
    from semcast.experiments.figures import FIGURES

    rows = [{"name": f.name, "source": f.source, "title": f.title} for f in FIGURES.values()]
    output.print_text(*table(rows))
    output.next("semcast figures stock --quick", "semcast figures all --quick")
    output.print_json({"figures": rows})


def _progress(output: Output) -> Callable[[int, int, object], None]:
    return lambda done, of, point: output.bar(done, of, "runs", str(point))


def _renderer(target: "SparkTarget | None") -> Callable[..., list["RenderedFigure"]]:
    """Who runs the points: processes of this machine, or Spark."""
    if target is None:
        from semcast.experiments.figures import render

        return render
    from semcast.pipeline.sweep.figures_on_spark import render_on_spark

    return partial(render_on_spark, target=target)
