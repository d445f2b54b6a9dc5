"""The papers' figures with their simulated points spread over Spark tasks.

The files are those that a pool of processes writes.  Until they are there, OUT/part keeps what
was run, and the same command goes on from it.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from shutil import rmtree
from typing import Any, Final

import pyarrow as pa

from semcast import __version__
from semcast.experiments.experiment import Row
from semcast.experiments.figures import OnProgress, RenderedFigure, render
from semcast.experiments.point import Point, PointError
from semcast.pipeline.spark_session import SparkTarget, session
from semcast.pipeline.sweep.outcome_store import OutcomeStore, open_store
from semcast.pipeline.sweep.runs import SweepRun, key_of
from semcast.pipeline.sweep.scheduler import run_and_store

PART: Final = "part"


def render_on_spark(
    names: Sequence[str], out_dir: str | Path, *, target: SparkTarget, **options: Any
) -> list[RenderedFigure]:
    """`render`, whose options these are, on Spark; live points run on this machine, last."""
    part = Path(out_dir) / PART
    rendered = render(names, out_dir, simulate=partial(run_points, part, target), **options)
    rmtree(part, ignore_errors=True)
    return rendered


def run_points(
    part: Path, target: SparkTarget, points: Sequence[Point], tell: OnProgress
) -> dict[Point, Row]:
    """Run what `part` does not have; the first point that fails is raised as `PointError`."""
    runs = {key_of(version=__version__, **_point_facts(point)): point for point in points}
    missing = [SweepRun(key, runs[key]) for key in runs.keys() - _succeeded(part).keys()]
    missing.sort(key=lambda run: points.index(run.point))
    done = len(runs) - len(missing)

    def on_wave(table: pa.Table) -> None:
        nonlocal done
        for outcome in table.select(["key", "error"]).to_pylist():
            point = runs[outcome["key"]]
            if outcome["error"] is not None:
                raise PointError(f"{point}: {outcome['error']}")
            done += 1
            tell(done, len(runs), str(point))

    if missing:
        with session(target) as spark, open_store(part) as waves:
            run_and_store(waves, spark, missing, on_wave)
    found = _succeeded(part)
    return {point: found[key] for key, point in runs.items()}


def _succeeded(part: Path) -> dict[str, Row]:
    outcomes = OutcomeStore(part).outcomes()
    return {key: each.read_row() for key, each in outcomes.items() if each.error is None}


def _point_facts(point: Point) -> dict[str, Any]:
    return {**point._asdict(), "parameters": dict(point.parameters)}
