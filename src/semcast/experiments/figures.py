"""All figures by name, and their rendering: PNG, SVG and CSV for each, one page for all.

Every distinct point runs once, whichever figures and curves show it, and results are kept in the
order of the figures, so that the number of workers changes nothing but the time.  Live points run
after all others, which would take the processor from them.  Files are written only after every
point has succeeded.
"""

import csv
import io
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import NamedTuple, TypeAlias, TypedDict

from semcast.experiments import (
    buffers,
    convergence,
    game,
    perturbed,
    primary_backup,
    pubsub_figures,
    scale,
    slow_receiver,
    stock,
)
from semcast.experiments.experiment import Row, Value
from semcast.experiments.figure import LIVE, Curve, Figure, Panel, PaperValue
from semcast.experiments.point import Point, run_point
from semcast.experiments.registry import experiment
from semcast.sim.swarm import worker_pool
from semcast.terms.errors import ConfigError, unknown_value
from semcast.traces.files import new_file

FIGURES: dict[str, Figure] = {
    figure.name: figure
    for module in (
        perturbed,
        stock,
        slow_receiver,
        buffers,
        scale,
        game,
        primary_backup,
        convergence,
        pubsub_figures,
    )
    for figure in module.FIGURES
}

QUICK_SECONDS = {"seconds": 6.0, "warmup_s": 2.0}

OnProgress: TypeAlias = Callable[[int, int, str], None]  # done, of how many, the point
RunAll: TypeAlias = Callable[[Sequence[Point], OnProgress], dict[Point, Row]]


class RenderedFigure(TypedDict):
    """What was written for one figure."""

    name: str
    png: str
    svg: str
    csv: str
    source: str


class PaperComparison(NamedTuple):
    """What a reading of the paper is compared with: the value of one curve, None if not run."""

    panel: Panel
    reading: PaperValue
    curve: Curve
    value: Value


class FigureResults:
    """The rows of all points, found again by curve and place on its axis."""

    def __init__(self, rows: dict[Point, Row], seed: int, quick: bool) -> None:
        self.rows = rows
        self.seed = seed
        self.quick = quick

    def row(self, curve: Curve, x: Value) -> Row:
        """The row of one point of a curve."""
        return self.rows[point_of(curve, x, self.seed, self.quick)]

    def outcomes(self, figure: Figure) -> Iterator[PaperComparison]:
        """Each reading beside the curves that it speaks of, or beside all but the model."""
        for panel in figure.panels:
            for reading in panel.readings:
                run = [
                    curve
                    for curve in panel.curves
                    if curve.style != "model" and (curve.style != LIVE or reading.x in curve.xs)
                ]
                # "r = 0.5: 100" speaks of the curve "r = 0.5".
                about = reading.label.partition(":")[0]
                named = [curve for curve in run if curve.label == about]
                for curve in named or run:
                    x = next((x for x in curve.xs if x == reading.x), None)
                    value = None if x is None else self.row(curve, x)[curve.key(x)]
                    yield PaperComparison(panel, reading, curve, value)


def render(
    names: Iterable[str],
    out_dir: str | Path,
    *,
    jobs: int | None = None,
    seed: int = 1,
    quick: bool = False,
    live: bool = False,
    on_progress: OnProgress | None = None,
    simulate: RunAll | None = None,
) -> list[RenderedFigure]:
    """Run, draw and write the named figures ("all": every one), and `index.html` over them.

    `on_progress(done, total, point)` is called after each point.  With `quick`, a few short
    points instead of the full curves: enough to see that everything works, not to conclude.
    With `live`, some points are also run with real processes, by `jobs` processes of this machine
    like all others; `simulate` is who runs the others instead.
    """
    from semcast.experiments.figures_page import page
    from semcast.experiments.plot import draw  # matplotlib is an extra, and slow to import

    figures = [reduce_points(figure) if quick else figure for figure in _selected(names)]
    if live:
        figures = _with_live(figures)
    jobs = os.cpu_count() or 1 if jobs is None else jobs
    if jobs < 1:
        raise ConfigError(f"jobs: {jobs} is not at least 1")
    wanted = {point: None for figure in figures for point in points(figure, seed, quick)}
    with _writing(out_dir) as out:
        out.mkdir(parents=True, exist_ok=True)
    results = FigureResults(_run_all(list(wanted), jobs, on_progress, simulate), seed, quick)
    pictures = {figure.name: draw(figure, results) for figure in figures}
    with _writing(out_dir) as out:
        for figure in figures:
            new_file(out / f"{figure.name}.png").write_bytes(pictures[figure.name].png)
            new_file(out / f"{figure.name}.svg").write_bytes(pictures[figure.name].svg)
            new_file(out / f"{figure.name}.csv").write_text(_csv(figure, results))
        text = page(figures, results, {name: each.panels for name, each in pictures.items()})
        new_file(out / "index.html").write_text(text, encoding="utf-8")
        return [_rendered(figure, out) for figure in figures]


def _selected(names: Iterable[str]) -> list[Figure]:
    """The figures of these names, each once, in the order of the papers."""
    chosen = set(names)
    for name in sorted(chosen - {"all"}):
        if name not in FIGURES:
            raise unknown_value("figure", name, (*FIGURES, "all"))
    return [f for f in FIGURES.values() if f.name in chosen or "all" in chosen]


def _with_live(figures: Iterable[Figure]) -> list[Figure]:
    """The same figures, live curves beside the others."""
    added = [
        figure._replace(
            panels=tuple(p._replace(curves=p.curves + p.live, live=()) for p in figure.panels)
        )
        for figure in figures
    ]
    if not any(curve.style == LIVE for f in added for p in f.panels for curve in p.curves):
        known = [name for name, f in FIGURES.items() if any(panel.live for panel in f.panels)]
        raise ConfigError(f"live: only {', '.join(known)} can run live; remove --live")
    return added


def reduce_points(figure: Figure) -> Figure:
    """The same figure with three values on each axis, on a logarithmic one the first three."""
    panels = [
        panel._replace(curves=tuple(_thin(curve, panel.log_x) for curve in panel.curves))
        for panel in figure.panels
    ]
    return figure._replace(panels=tuple(panels))


def _thin(curve: Curve, is_logarithmic: bool) -> Curve:
    xs = curve.xs
    if not curve.x or len(xs) <= 3:  # A profile is one run.
        return curve
    return curve._replace(xs=xs[:3] if is_logarithmic else (xs[0], xs[len(xs) // 2], xs[-1]))


def point_of(curve: Curve, x: Value, seed: int, quick: bool = False) -> Point:
    """The run behind one point of a curve."""
    wanted = experiment(curve.experiment)
    parameters = wanted.parameters(curve.given(x))
    if quick:
        parameters.update({n: v for n, v in QUICK_SECONDS.items() if n in parameters})
    return Point(wanted.name, tuple(sorted(parameters.items())), seed, curve.style == LIVE)


def points(figure: Figure, seed: int, quick: bool = False) -> list[Point]:
    """The distinct runs of a figure in the order of its curves."""
    curves = [curve for panel in figure.panels for curve in panel.curves]
    return list(dict.fromkeys(point_of(c, x, seed, quick) for c in curves for x in c.xs))


def _run_all(
    wanted: Sequence[Point],
    jobs: int,
    on_progress: OnProgress | None,
    simulate: RunAll | None = None,
) -> dict[Point, Row]:
    tell = on_progress or (lambda done, total, point: None)
    rows: dict[Point, Row] = {}
    if simulate is not None:
        simulated = [point for point in wanted if not point.is_live]
        rows |= simulate(simulated, lambda done, _, point: tell(done, len(wanted), point))
    with worker_pool(jobs) if jobs > 1 else nullcontext() as pool:
        for is_live in (False, True):
            part = [point for point in wanted if point.is_live == is_live and point not in rows]
            found = pool.map(run_point, part) if pool else map(run_point, part)
            for point, row in zip(part, found, strict=True):
                rows[point] = row
                tell(len(rows), len(wanted), str(point))
    return rows


def _csv(figure: Figure, results: FigureResults) -> str:
    """One line for each point: seed, where it was run, all parameters, all that was measured."""
    lines: list[dict[str, Value]] = [
        {
            "experiment": point.experiment,
            "seed": point.seed,
            "source": LIVE if point.is_live else "simulation",
            **dict(point.parameters),
            **results.rows[point],
        }
        for point in points(figure, results.seed, results.quick)
    ]
    columns = dict.fromkeys(name for line in lines for name in line)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(columns), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def _rendered(figure: Figure, out: Path) -> RenderedFigure:
    return {
        "name": figure.name,
        "png": str(out / f"{figure.name}.png"),
        "svg": str(out / f"{figure.name}.svg"),
        "csv": str(out / f"{figure.name}.csv"),
        "source": figure.source,
    }


@contextmanager
def _writing(out_dir: str | Path) -> Iterator[Path]:
    """A directory to write to, whose troubles are bad input and not a traceback."""
    try:
        yield Path(out_dir)
    except OSError as error:
        raise ConfigError(f"out: {out_dir}: {error.strerror or error}") from error
