"""The results of a sweep: a table of runs, means with their 95 % intervals, a picture.

The interval is Student's over the repetitions of a point; of one repetition there is none.
"""

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, sqrt
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from semcast.experiments.experiment import Row, Value
from semcast.experiments.figure import LIVE
from semcast.experiments.point import Point
from semcast.experiments.registry import experiment
from semcast.pipeline.sweep.runs import RunOutcome
from semcast.traces.files import atomic_write

CONFIDENCE: Final = 0.95
MANIFEST: Final = "sweep.json"
RESULTS: Final = "results"
RESULTS_CSV: Final = "results.csv"
SUMMARY: Final = "summary.csv"
PICTURE: Final = "sweep.png"
VECTOR: Final = "sweep.svg"


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """A run with its place in the grid, its number there, and what came of it."""

    point: Point
    place: Mapping[str, Value]
    repetition: int
    outcome: RunOutcome

    @property
    def row(self) -> Row:
        """What it found; empty if it failed."""
        return self.outcome.read_row()


@dataclass(frozen=True, slots=True)
class Estimate:
    """One result at one place of the grid: the mean of `runs` repetitions, and its interval."""

    place: Mapping[str, Value]
    result: str
    runs: int
    mean: float
    low: float | None
    high: float | None


def write_results(
    out: Path, name: str, axes: Sequence[str], finished: Sequence[FinishedRun]
) -> dict[str, Path]:
    """Write all files, each whole or not at all, and name them."""
    from semcast.pipeline.sweep.sweep_figure import (
        draw,
    )  # matplotlib is an extra, and slow to import

    lines = list(_lines(finished))
    estimates = list(summarise(finished))
    (out / RESULTS).mkdir(exist_ok=True)
    with atomic_write(out / RESULTS / "runs.parquet") as path:
        pq.write_table(_table(experiment(name).defaults, lines), path, compression="zstd")
    with atomic_write(out / RESULTS_CSV) as path:
        _write_csv(path, lines)
    with atomic_write(out / SUMMARY) as path:
        _write_csv(path, [_estimate_facts(estimate) for estimate in estimates])
    files = {"results": out / RESULTS, "csv": out / RESULTS_CSV, "summary": out / SUMMARY}
    picture = draw(name, axes, estimates)
    if picture is not None:
        for kind, file, image in zip(("png", "svg"), (PICTURE, VECTOR), picture, strict=True):
            with atomic_write(out / file) as path:
                path.write_bytes(image)
            files[kind] = out / file
    return files


def summarise(finished: Sequence[FinishedRun]) -> Iterator[Estimate]:
    """Every result that is a number, place by place."""
    places: dict[tuple[Value, ...], list[FinishedRun]] = {}
    for each in finished:
        places.setdefault(tuple(each.place.values()), []).append(each)
    for repetitions in places.values():
        rows = [each.row for each in repetitions if each.outcome.error is None]
        for result in dict.fromkeys(name for row in rows for name in row):
            values = [v for row in rows if (v := _number(row.get(result))) is not None]
            if values:
                yield Estimate(repetitions[0].place, result, len(values), *interval(values))


def interval(values: Sequence[float]) -> tuple[float, float | None, float | None]:
    """The mean, and the bounds that hold it in 95 of 100 cases."""
    mean = fmean(values)
    if len(values) < 2:
        return mean, None, None
    from scipy.special import stdtrit  # an extra

    quantile = float(stdtrit(len(values) - 1, (1 + CONFIDENCE) / 2))
    half = quantile * stdev(values) / sqrt(len(values))
    return mean, mean - half, mean + half


def _number(value: Value) -> float | None:
    is_number = isinstance(value, int | float) and isfinite(value)
    return float(value) if is_number and value is not None else None


def _estimate_facts(estimate: Estimate) -> dict[str, Value]:
    return {
        **estimate.place,
        "result": estimate.result,
        "runs": estimate.runs,
        "mean": estimate.mean,
        "low": estimate.low,
        "high": estimate.high,
    }


def _lines(finished: Iterable[FinishedRun]) -> Iterator[dict[str, Value]]:
    """One line for each run; a result that is called like a parameter is told apart."""
    for each in finished:
        parameters = dict(each.point.parameters)
        yield {
            "key": each.outcome.key,
            "experiment": each.point.experiment,
            "source": LIVE if each.point.is_live else "simulation",
            "repetition": each.repetition,
            "seed": each.point.seed,
            **parameters,
            **{f"{n}_result" if n in parameters else n: v for n, v in each.row.items()},
            "error": each.outcome.error,
            "replay": each.point.replay(),
            "wall_s": each.outcome.wall_s,
            "cpu_s": each.outcome.cpu_s,
        }


_KNOWN: Final[dict[str, Any]] = {
    **dict.fromkeys(("key", "experiment", "source", "error", "replay"), pa.string()),
    **dict.fromkeys(("repetition", "seed"), pa.int64()),
    **dict.fromkeys(("wall_s", "cpu_s"), pa.float64()),
}


def _table(defaults: Mapping[str, Value], lines: Sequence[Mapping[str, Value]]) -> pa.Table:
    """The lines as Arrow: a parameter has its default's type, a result the one that holds all."""
    arrays = {}
    for name in _columns(lines):
        values = [line.get(name) for line in lines]
        kind = _KNOWN.get(name) or _type_of([defaults[name]] if name in defaults else values)
        arrays[name] = pa.array([_cast(value, kind) for value in values], kind)
    return pa.table(arrays)


def _type_of(values: Sequence[Value]) -> Any:
    kinds = {type(value) for value in values if value is not None}
    if kinds == {bool}:
        return pa.bool_()
    if kinds == {int}:
        return pa.int64()
    return pa.float64() if kinds <= {int, float} else pa.string()


def _cast(value: Value, kind: Any) -> Value:
    return str(value) if value is not None and pa.types.is_string(kind) else value


def _columns(lines: Sequence[Mapping[str, Value]]) -> list[str]:
    last = ("error", "replay", "wall_s", "cpu_s")
    names = dict.fromkeys(name for line in lines for name in line)
    return [name for name in names if name not in last] + [name for name in last if name in names]


def _write_csv(path: Path, lines: Sequence[Mapping[str, Value]]) -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, _columns(lines), lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
