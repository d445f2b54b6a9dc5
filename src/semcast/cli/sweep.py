"""`semcast sweep`: an experiment over a grid, spread over Spark tasks, resumable."""

import csv
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from semcast.cli.commands import Json, Seed
from semcast.cli.output import (
    Output,
    fit,
    format_value,
    key_values,
    narrowed_table,
    table,
    width,
)
from semcast.cli.spark_options import START, STARTING, Conf, OptionalMaster, Remote, some_target
from semcast.terms.errors import ConfigError
from semcast.terms.palette import HOLDS, WRONG

if TYPE_CHECKING:
    from semcast.pipeline.sweep.sweep import SweepProgress, SweepSummary

EXAMPLE = (
    "\b\nExample:\n"
    "  semcast sweep slow-receiver --grid r=0.25,0.5 \\\n"
    "    --grid delay_ms=10,20,40 --repeat 5 --out out/sweep"
)
_OF_ESTIMATE = ("result", "runs", "mean", "low", "high")
Name: TypeAlias = Annotated[
    str,
    typer.Argument(metavar="NAME", help="Experiment to run; `semcast sim list` prints the names."),
]
Grid: TypeAlias = Annotated[
    list[str],
    typer.Option(metavar="K=V,V", help="Values of one parameter; repeat for more parameters."),
]
Settings: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="K=V", help="One value of a parameter, for all runs; repeat for more."
    ),
]


def sweep(
    name: Name,
    grid: Grid,
    out: Annotated[
        Path,
        typer.Option(help="Directory for the results; run the same command again to resume."),
    ],
    settings: Settings = None,
    repeat: Annotated[int, typer.Option(help="Runs per grid point, each with its own seed.")] = 1,
    seed: Seed = 1,
    live: Annotated[
        bool,
        typer.Option("--live", help="Run live processes, one run at a time, without Spark."),
    ] = False,
    master: OptionalMaster = None,
    remote: Remote = None,
    conf: Conf = None,
    json: Json = False,
) -> int:
    """Run an experiment at every point of a grid of parameters.

    The same command resumes an interrupted sweep.
    """
    from semcast.pipeline.sweep.sweep import plan, run_sweep

    values = {parameter: text.split(",") for parameter, text in _settings("grid", grid).items()}
    planned = plan(
        name, values, _settings("set", settings or []), repeat=repeat, seed=seed, live=live
    )
    target = some_target(master, remote, conf)
    if live and target is not None:
        raise ConfigError(
            "live: cannot run on Spark; remove --live, or --master, --remote and --conf"
        )
    output = Output(json)
    with output.waiting("starting the first run" if live else STARTING, estimate=START):
        swept = run_sweep(planned, out, target, on_progress=partial(_show_progress, output))
    _tell(output, swept)
    return 1 if swept.failed or swept.violations else 0


def _tell(output: Output, swept: "SweepSummary") -> None:
    import msgspec

    is_wrong = bool(swept.failed or swept.violations)
    verdict = (
        f"FAIL  {swept.violations:,} violations, {swept.failed:,} runs failed"
        if is_wrong
        else "ok  no violation"
    )
    before = f", {swept.skipped:,} of them before" if swept.skipped else ""
    output.print_text(
        f"{verdict} in {swept.runs:,} runs{before}; {format_value(swept.seconds)} s",
        colour=WRONG if is_wrong else HOLDS,
    )
    if "summary" in swept.files:
        output.print_text("", *means(Path(swept.files["summary"]), width()))
    if swept.first_failure is not None:
        output.print_text("", f"{swept.explanation}", f"replay: {swept.first_failure}")
    output.print_text("", *key_values({**swept.files, "digest": swept.digest}))
    output.next(f"semcast report {swept.out} --out {swept.out}/report.html")
    output.print_json(msgspec.to_builtins(swept))


def means(summary: Path, columns: int) -> list[str]:
    """The mean of each result at each point of the grid, with half of its confidence interval.

    As many results as fit into `columns`; first those that differ between points.
    """
    from semcast.experiments.wording import is_detail, result_label

    points: dict[tuple[str, ...], dict[str, object]] = {}
    values: dict[str, set[str]] = {}
    with summary.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            name, mean, low = row["result"], row["mean"], row["low"]
            point = {axis: row[axis] for axis in row if axis not in _OF_ESTIMATE}
            half = f" ± {format_value(float(mean) - float(low))}" if low else ""
            estimates = points.setdefault(tuple(point.values()), {**point})
            estimates[name] = f"{format_value(float(mean))}{half}"
            values.setdefault(name, set()).add(mean)
    results = sorted(values, key=lambda name: (is_detail(name), len(values[name]) == 1))
    axes = dict.fromkeys(axis for point in points.values() for axis in point if axis not in values)
    for count in range(len(results), 0, -1):
        rows = [
            {axis: point.get(axis) for axis in axes}
            | {result_label(name): point.get(name) for name in results[:count]}
            for point in points.values()
        ]
        lines = narrowed_table(rows, columns)
        if lines is not None or count == 1:
            more = [f"and {len(results) - count} more in {summary}"] * (count < len(results))
            shown = table(rows, columns) if lines is None else lines
            about = fit("; ".join(f"{axis}: {_meaning(axis)}" for axis in axes), columns)
            return ["means ± half of the 95 % confidence interval", *shown, *about, *more]
    return []


def _meaning(axis: str) -> str:
    """A parameter in words; some of them begin with its name."""
    from semcast.experiments.wording import axis_label

    return axis_label(axis).removeprefix(f"{axis}: ")


def _settings(option: str, given: list[str]) -> dict[str, str]:
    """NAME=VALUE, each name once."""
    settings: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise ConfigError(f"{option}: {text!r} is not of the form NAME=VALUE")
        if name in settings:
            raise ConfigError(f"{option}: {name} is given twice")
        settings[name] = value
    return settings


def _show_progress(output: Output, so_far: "SweepProgress") -> None:
    failed = f"{so_far.failed:,} failed" if so_far.failed else ""
    output.bar(so_far.done, so_far.runs, "runs", failed, so_far.remaining_s)
