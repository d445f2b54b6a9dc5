"""An experiment over a grid of parameters: every run a part of a Spark task, none run twice.

    OUT/sweep.json      what is swept, and by which version
    OUT/waves/          outcomes as they come; what a resumed sweep goes on from
    OUT/results/        one row for each run as Parquet, a column for each parameter and result
    OUT/results.csv, OUT/summary.csv, OUT/sweep.png

The last line appears when every run has its outcome.  Live runs need a machine for themselves, so
they run here, one after the other, and without Spark.
"""

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from pathlib import Path
from time import monotonic
from typing import Any, Final, TypeAlias

import pyarrow as pa

from semcast import __version__
from semcast.experiments.experiment import Parameters, Value
from semcast.experiments.point import Point
from semcast.experiments.registry import experiment
from semcast.pipeline.spark_session import SparkTarget, session
from semcast.pipeline.sweep.outcome_store import OutcomeStore, open_store
from semcast.pipeline.sweep.results import MANIFEST, FinishedRun, write_results
from semcast.pipeline.sweep.runs import RunOutcome, SweepRun, as_batch, key_of, run_one, seed_of
from semcast.pipeline.sweep.scheduler import TASK_S, run_and_store
from semcast.terms.errors import ConfigError
from semcast.traces.files import atomic_write, new_folder, refuse_links

OUTCOMES_DIR: Final = "waves"
OnJobDone: TypeAlias = Callable[[pa.Table], None]
RUNS_MAX: Final = 100_000  # their rows are held here when they are summed up


@dataclass(frozen=True, slots=True)
class Sweep:
    """What is swept: `parameters` are all but those of the grid; `repeat` runs of each point."""

    experiment: str
    grid: Mapping[str, tuple[Value, ...]]
    parameters: Mapping[str, Value]
    repeat: int = 1
    seed: int = 1
    is_live: bool = False
    version: str = __version__

    def runs(self) -> list["Repetition"]:
        """Every run, in the order of the grid."""
        return [
            self._run(dict(zip(self.grid, values, strict=True)), number)
            for values in itertools.product(*self.grid.values())
            for number in range(1, self.repeat + 1)
        ]

    def _run(self, place: dict[str, Value], number: int) -> "Repetition":
        parameters = {**self.parameters, **place}
        key = key_of(
            experiment=self.experiment,
            parameters=parameters,
            repetition=number,
            seed=self.seed,
            is_live=self.is_live,
        )
        point = Point(
            self.experiment, tuple(sorted(parameters.items())), seed_of(key), self.is_live
        )
        return Repetition(SweepRun(key, point), place, number)


@dataclass(frozen=True, slots=True)
class Repetition:
    """A run of a sweep: its place in the grid and its number there, from 1."""

    run: SweepRun
    place: Mapping[str, Value]
    number: int


@dataclass(frozen=True, slots=True)
class SweepSummary:
    """What a sweep has to show.  `skipped` runs had been there before; `first_failure` is the
    command line that replays one that failed, `explanation` what it said."""

    runs: int
    skipped: int
    failed: int
    violations: int
    seconds: float
    out: str
    digest: str
    first_failure: str | None = None
    explanation: str | None = None
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SweepProgress:
    """How far a sweep is."""

    done: int
    runs: int
    failed: int
    seconds: float
    skipped: int

    @property
    def remaining_s(self) -> float | None:
        """How much longer at this pace."""
        ran = self.done - self.skipped
        return self.seconds / ran * (self.runs - self.done) if ran else None


def plan(
    name: str,
    grid: Mapping[str, Sequence[Value]],
    settings: Mapping[str, Value] | None = None,
    *,
    repeat: int = 1,
    seed: int = 1,
    live: bool = False,
) -> Sweep:
    """A sweep whose names, types and size are right; values may be texts of a command line."""
    chosen = experiment(name)
    settings = settings or {}
    if live and chosen.live is None:
        raise ConfigError(f"live: {name} has no live points; leave it out")
    if not grid:
        raise ConfigError("grid: there is nothing to vary; give NAME=VALUE,VALUE")
    typed = {}
    for parameter, values in grid.items():
        if parameter in settings:
            raise ConfigError(f"grid: {parameter} is set to one value too; leave out one of them")
        typed[parameter] = tuple(chosen.parameters({parameter: v})[parameter] for v in values)
        for value in typed[parameter]:
            if typed[parameter].count(value) > 1:
                raise ConfigError(f"grid: {parameter} has {value!r} twice")
    if repeat < 1:
        raise ConfigError(f"repeat: {repeat} is not at least 1")
    given = chosen.parameters(settings)
    fixed = {n: v for n, v in given.items() if n not in typed}
    if {"seconds", "warmup_s"} <= fixed.keys():
        given.span_s()  # Else every run would fail.
    size = repeat
    for values in typed.values():
        size *= len(values)
    if size > RUNS_MAX:
        raise ConfigError(f"grid: {size:,} runs are more than {RUNS_MAX:,}; sweep it in parts")
    return Sweep(chosen.name, typed, fixed, repeat, seed, live)


def run_sweep(
    sweep: Sweep,
    out: str | Path,
    target: SparkTarget | None = None,
    *,
    on_progress: Callable[[SweepProgress], None] | None = None,
    task_s: float = TASK_S,
) -> SweepSummary:
    """Run what has no outcome yet, failed runs included, then write the results.

    swept = run_sweep(plan("slow-receiver", {"r": [0.25, 0.5]}, repeat=5), "out/sweep")
    """
    out = Path(out)
    refuse_links(out)
    started, wanted = monotonic(), sweep.runs()
    _refuse_another(out, sweep)
    known = OutcomeStore(out / OUTCOMES_DIR).outcomes()
    missing = [each.run for each in wanted if _is_missing(known.get(each.run.key))]
    if missing:
        on_done = _telling(on_progress or (lambda so_far: None), len(wanted), len(missing))
        _run_missing(sweep, out, target or SparkTarget(), missing, on_done, task_s)
    finished = _finished(wanted, OutcomeStore(out / OUTCOMES_DIR).outcomes())
    files = write_results(out, sweep.experiment, list(sweep.grid), finished)
    failures = [each for each in finished if each.outcome.error is not None]
    return SweepSummary(
        runs=len(wanted),
        skipped=len(wanted) - len(missing),
        failed=len(failures),
        violations=sum(int(each.row.get("violations") or 0) for each in finished),
        seconds=monotonic() - started,
        out=str(out),
        digest=digest(finished),
        first_failure=failures[0].point.replay() if failures else None,
        explanation=failures[0].outcome.error if failures else None,
        files={name: str(path) for name, path in files.items()},
    )


def _run_missing(
    sweep: Sweep,
    out: Path,
    target: SparkTarget,
    runs: Sequence[SweepRun],
    on_wave: OnJobDone,
    task_s: float,
) -> None:
    if sweep.is_live:
        with _open_sweep(out, sweep) as waves:
            for run in runs:
                table = pa.Table.from_batches([as_batch(run_one(run))])
                waves.commit(table)
                on_wave(table)
        return
    # Nothing is written before Spark is there.
    with session(target) as spark, _open_sweep(out, sweep) as waves:
        run_and_store(waves, spark, runs, on_wave, task_s=task_s)


def _telling(tell: Callable[[SweepProgress], None], runs: int, missing: int) -> OnJobDone:
    """Counts what comes back."""
    started, skipped = monotonic(), runs - missing
    done, failed = skipped, 0

    def on_wave(table: pa.Table) -> None:
        nonlocal done, failed
        done += table.num_rows
        failed += table.num_rows - table.column("error").null_count
        tell(SweepProgress(done, runs, failed, monotonic() - started, skipped))

    return on_wave


def digest(finished: Sequence[FinishedRun]) -> str:
    """A hash of all outcomes, whoever ran them and in which order; what is measured is not in."""
    return _hash("".join(sorted(_hash(_run_text(each)) for each in finished)))


def _run_text(each: FinishedRun) -> str:
    chosen = experiment(each.point.experiment)
    parameters = Parameters(dict(each.point.parameters))
    is_measured = each.point.is_live or chosen.is_measured(parameters)
    row = None if is_measured else each.outcome.row
    return json.dumps([each.outcome.key, each.point.seed, row, each.outcome.error])


def _hash(text: str) -> str:
    return blake2b(text.encode(), digest_size=16).hexdigest()


def _is_missing(outcome: RunOutcome | None) -> bool:
    return outcome is None or outcome.error is not None


def _finished(
    wanted: Sequence[Repetition], outcomes: Mapping[str, RunOutcome]
) -> list[FinishedRun]:
    return [
        FinishedRun(each.run.point, each.place, each.number, outcomes[each.run.key])
        for each in wanted
    ]


def _manifest(sweep: Sweep) -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads(json.dumps(asdict(sweep)))
    return manifest


def _refuse_another(out: Path, sweep: Sweep) -> None:
    """Only a directory of this very sweep is gone on with."""
    if not out.exists():
        return
    try:
        existing = json.loads((out / MANIFEST).read_text())
    except FileNotFoundError:
        if any(out.iterdir()):
            raise ConfigError(f"out: {out} is not empty and holds no sweep") from None
        return
    except ValueError as error:
        raise ConfigError(f"out: {out / MANIFEST} cannot be read: {error}") from None
    if not isinstance(existing, dict):
        raise ConfigError(f"out: {out / MANIFEST} is not what a sweep says of itself")
    asked = _manifest(sweep)
    differs = [name for name in asked if existing.get(name) != asked[name]]
    if differs:
        raise ConfigError(
            f"out: {out} holds another sweep, its {' and '.join(differs)} differ; "
            "choose another directory"
        )


def _open_sweep(out: Path, sweep: Sweep) -> Any:
    """The waves of a directory that says whose they are."""
    new_folder(out)
    if not (out / MANIFEST).exists():
        with atomic_write(out / MANIFEST) as path:
            path.write_text(json.dumps(_manifest(sweep), indent=1) + "\n")
    return open_store(out / OUTCOMES_DIR)
