"""Sweeps: the same outcomes however the runs are spread, and none lost or run twice."""

import csv
import json
import shlex
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from shutil import copytree
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from semcast.cli.main import main
from semcast.cli.sweep import means
from semcast.experiments.experiment import Experiment
from semcast.experiments.registry import EXPERIMENTS
from semcast.pipeline.sweep import sweep as sweeps
from semcast.pipeline.sweep.outcome_store import OutcomeStore, open_store
from semcast.pipeline.sweep.results import interval
from semcast.pipeline.sweep.runs import as_batch, key_of, run_one
from semcast.pipeline.sweep.scheduler import TaskPlanner
from semcast.pipeline.sweep.sweep import Sweep, SweepProgress, SweepSummary, plan, run_sweep
from semcast.terms.errors import ConfigError
from semcast.traces.errors import BadFile

# One queue and no protocol: a few milliseconds a run.
QUICK = {"buffers": "queue", "seconds": "4", "warmup_s": "1"}
GRID = {"r": ["0.25", "0.5", "7"], "delay_ms": ["20", "40"]}  # There is no share of 7.


class Interrupted(Exception):
    """Stands for Ctrl-C."""


def small(**changed: Any) -> Sweep:
    return plan("slow-receiver", **{"grid": GRID, "settings": QUICK, "repeat": 2, **changed})


@pytest.fixture(scope="module")
def swept(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> SweepSummary:
    """A sweep from beginning to end."""
    return run_sweep(small(), tmp_path_factory.mktemp("sweep") / "new" / "out")


def lines(swept: SweepSummary) -> list[dict[str, str]]:
    with open(swept.files["csv"], newline="") as file:
        return list(csv.DictReader(file))


def test_every_run_has_its_line_and_failures_say_why(swept: SweepSummary) -> None:
    assert (swept.runs, swept.skipped, swept.failed, swept.violations) == (12, 0, 4, 0)
    assert swept.explanation == "r: 7.0 is not a number from 0 to 1"
    told = lines(swept)
    assert len({line["key"] for line in told}) == len({line["seed"] for line in told}) == 12
    for line in told:
        assert bool(line["error"]) == (line["r"] == "7.0") == (line["accepted_rate"] == "")


def test_the_results_are_what_the_runs_give_here(swept: SweepSummary) -> None:
    for planned, line in zip(small().runs(), lines(swept), strict=True):
        outcome = run_one(planned.run)
        assert outcome.error == (line["error"] or None)
        assert all(str(value) == line[name] for name, value in outcome.read_row().items())


@pytest.mark.parametrize("failed", [False, True])
def test_a_replay_line_replays_exactly(
    failed: bool, swept: SweepSummary, capsys: pytest.CaptureFixture[str]
) -> None:
    line = next(line for line in lines(swept) if bool(line["error"]) == failed)
    code = main([*shlex.split(line["replay"])[1:], "--json"])
    said = capsys.readouterr()
    if failed:
        assert (code, said.err) == (2, f"semcast: {line['error']}\n")
    else:
        results = json.loads(said.out)["results"]
        assert code == 0
        assert all(str(value) == line[name] for name, value in results.items())


def test_spark_and_duckdb_count_the_same(swept: SweepSummary, spark: SparkSession) -> None:
    read = spark.read.parquet(swept.files["results"])
    types = dict(read.dtypes)
    assert (types["r"], types["buffer"], types["protocol"]) == ("double", "bigint", "string")
    [counted] = read.where("error IS NULL").selectExpr("count(*)", "sum(accepted_rate)").collect()
    [other] = duckdb.sql(
        f"SELECT count(*), sum(accepted_rate) FROM '{swept.files['results']}/*.parquet' "
        "WHERE error IS NULL"
    ).fetchall()
    assert counted[0] == other[0] == 8
    assert counted[1] == pytest.approx(other[1])


def test_the_summary_has_means_and_intervals(swept: SweepSummary) -> None:
    with open(swept.files["summary"], newline="") as file:
        summary = list(csv.DictReader(file))
    found = [line for line in lines(swept) if (line["r"], line["delay_ms"]) == ("0.5", "40.0")]
    [told] = [
        line
        for line in summary
        if (line["r"], line["delay_ms"], line["result"]) == ("0.5", "40.0", "accepted_rate")
    ]
    mean, low, high = interval([float(line["accepted_rate"]) for line in found])
    assert (told["runs"], told["mean"]) == ("2", str(mean))
    assert (told["low"], told["high"]) == (str(low), str(high))
    assert not any(line["r"] == "7.0" for line in summary)
    assert Path(swept.files["png"]).read_bytes().startswith(b"\x89PNG")


def test_an_interrupted_sweep_goes_on_where_it_was(swept: SweepSummary, tmp_path: Path) -> None:
    """Nor do other tasks change anything: first one run in each, then as many as fit."""

    def interrupt(so_far: SweepProgress) -> None:
        raise Interrupted

    with pytest.raises(Interrupted):
        run_sweep(small(), tmp_path, on_progress=interrupt, task_s=0.0)
    assert not (tmp_path / "results.csv").exists()
    succeeded = [
        each for each in OutcomeStore(tmp_path / "waves").outcomes().values() if not each.error
    ]
    assert 0 < len(succeeded) < 8

    seen: list[SweepProgress] = []
    resumed = run_sweep(small(), tmp_path, on_progress=seen.append)
    assert (resumed.skipped, resumed.digest) == (len(succeeded), swept.digest)
    assert seen[-1].done == seen[-1].runs == 12


def test_what_is_there_needs_no_spark_and_what_failed_is_tried_again(
    swept: SweepSummary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeps, "session", lambda target: pytest.fail("a session"))
    good = small(grid={**GRID, "r": ["0.25", "0.5"]})
    copytree(Path(swept.out) / "waves", tmp_path / "waves")
    (tmp_path / "sweep.json").write_text(json.dumps(asdict(good)))
    assert run_sweep(good, tmp_path).skipped == 8
    with pytest.raises(pytest.fail.Exception, match="a session"):
        run_sweep(small(), swept.out)


def test_live_runs_run_here_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seeds: list[int] = []

    def live(p: Any, seed: int, trace: Any) -> dict[str, Any]:
        seeds.append(seed)
        return {"rate": 1.0 * seed, "violations": p["size"]}

    toy = Experiment("toy", "", "", {"size": 3}, lambda p, seed, trace: {}, live)
    monkeypatch.setitem(EXPERIMENTS, "toy", toy)
    monkeypatch.setattr(sweeps, "session", lambda target: pytest.fail("a session"))
    planned = plan("toy", {"size": ["0", "2"]}, repeat=2, live=True)
    first = run_sweep(planned, tmp_path / "a")
    assert (first.runs, first.violations, len(seeds)) == (4, 4, 4)
    assert seeds == [each.run.point.seed for each in planned.runs()]
    # What was measured is not in the digest.
    toy = toy._replace(live=lambda p, seed, trace: {"rate": 0.5})
    monkeypatch.setitem(EXPERIMENTS, "toy", toy)
    assert run_sweep(planned, tmp_path / "b").digest == first.digest


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "nothing to vary": ({"grid": {}}, "grid: there is nothing to vary"),
    "parameter": (
        {"grid": {"x": ["1"]}},
        "parameter of slow-receiver: unknown value 'x'; allowed:",
    ),
    "value": ({"grid": {"members": ["3", "many"]}}, "members: 'many' is not a whole number"),
    "setting": ({"settings": {"rate": "fast"}}, "rate: 'fast' is not a number"),
    "every run": ({"settings": {"seconds": "5"}}, r"warmup_s: 10\.0 is not in 0\.\.seconds"),
    "both": ({"settings": {"r": "0.5"}}, "grid: r is set to one value too"),
    "twice": ({"grid": {"r": ["0.5", ".50"]}}, r"grid: r has 0\.5 twice"),
    "repeat": ({"repeat": 0}, "repeat: 0 is not at least 1"),
    "size": ({"repeat": 50_001}, "grid: 300,006 runs are more than 100,000"),
}


@pytest.mark.parametrize(("changed", "reason"), REFUSED.values(), ids=REFUSED)
def test_bad_plans_are_refused(changed: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        small(**changed)


def test_an_experiment_that_is_not_there_or_not_live_is_refused() -> None:
    with pytest.raises(ConfigError, match="experiment: unknown value 'bogus'; allowed: perturbed"):
        plan("bogus", GRID)
    with pytest.raises(ConfigError, match="live: stock has no live points"):
        plan("stock", {"buffer": ["1"]}, live=True)


def another(out: Path) -> None:
    (out / "sweep.json").write_text(json.dumps({"experiment": "stock", "repeat": 2}))


def a_file(out: Path) -> None:
    (out / "notes.txt").write_text("mine")


def half_a_plan(out: Path) -> None:
    (out / "sweep.json").write_text('{"experiment": ')


@pytest.mark.parametrize(
    ("prepare", "reason"),
    [
        (another, "holds another sweep, its experiment and grid"),
        (a_file, "is not empty and holds no sweep"),
        (half_a_plan, "sweep.json cannot be read"),
    ],
)
def test_directories_of_others_are_left_alone(
    prepare: Callable[[Path], None], reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeps, "session", lambda target: pytest.fail("a session"))
    prepare(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*")}
    with pytest.raises(ConfigError, match=reason):
        run_sweep(small(), tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*")} == before


def test_nothing_is_written_without_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(target: object) -> None:
        raise ConfigError("java: not found")

    monkeypatch.setattr(sweeps, "session", absent)
    with pytest.raises(ConfigError, match="java"):
        run_sweep(small(), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_key_is_of_all_that_decides_and_of_nothing_else() -> None:
    first = small().runs()
    assert first == small(settings=dict(reversed(QUICK.items()))).runs()
    keys = {each.run.key for each in first}
    for changed in ({"seed": 2}, {"live": True}, {"settings": {**QUICK, "seconds": "5"}}):
        assert keys.isdisjoint(each.run.key for each in small(**changed).runs())
    more = {each.run.key for each in small(repeat=3).runs()}
    assert keys < more
    assert key_of(a=1, b=0.5) == "99ee2f84d80c36a974da1e480eee58fc"


def table(*keys: str, wall_s: float = 0.1, error: str | None = None) -> pa.Table:
    outcome = run_one(small().runs()[0].run)
    return pa.Table.from_batches(
        [as_batch(*(outcome._replace(key=key, wall_s=wall_s, error=error) for key in keys))]
    )


def test_of_a_key_the_later_outcome_counts(tmp_path: Path) -> None:
    with open_store(tmp_path / "waves") as waves:
        waves.commit(table("a", "b", error="no disk"))
        waves.commit(table("b"))
    found = OutcomeStore(tmp_path / "waves").outcomes()
    assert {key: each.error for key, each in found.items()} == {"a": "no disk", "b": None}


def test_what_a_crash_left_is_cleared_and_never_read(tmp_path: Path) -> None:
    with open_store(tmp_path / "waves") as waves:
        waves.commit(table("a"))
    (tmp_path / "waves" / ".unfinished-wave-00000001.parquet").write_bytes(b"PAR1 half")
    assert OutcomeStore(tmp_path / "waves").outcomes().keys() == {"a"}
    with open_store(tmp_path / "waves") as waves:
        assert [path.name for path in waves.path.glob(".unfin*")] == []


def test_two_do_not_write_to_one_directory(tmp_path: Path) -> None:
    with (
        open_store(tmp_path / "waves"),
        pytest.raises(ConfigError, match="another process is writing"),
        open_store(tmp_path / "waves"),
    ):
        pytest.fail("opened twice")


def test_a_damaged_wave_is_named(tmp_path: Path) -> None:
    with open_store(tmp_path / "waves") as waves:
        waves.commit(table("a"))
        [file] = waves.files()
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(BadFile, match=r"wave-00000000\.parquet: cannot be read"):
        waves.outcomes()
    pq.write_table(pa.table({"key": [1]}), file)
    with pytest.raises(BadFile, match=r"wave-00000000\.parquet: .* unexpected columns"):
        waves.outcomes()


@pytest.mark.parametrize("slots", [1, 2, 3, 40])
def test_packs_grow_to_a_task_and_shrink_at_the_end(slots: int) -> None:
    runs = [each.run for each in small(repeat=400).runs()]
    packing = TaskPlanner(runs, slots, task_s=3.0)
    first = packing.next_job()
    assert [len(pack) for pack in first] == [1] * packing.tasks
    assert packing.tasks * (packing.jobs - 1) >= slots
    packing.on_job_done(table("a", "b", wall_s=0.5))
    sizes = []
    taken = [run for pack in first for run in pack]
    while packing.waiting:
        wave = packing.next_job()
        sizes += [len(pack) for pack in wave]
        taken += [run for pack in wave for run in pack]
    assert taken == runs
    assert (sizes[0], sizes[-1]) == (6, 2 if slots == 1 else 1)  # One slot takes what is left.
    assert sizes == sorted(sizes, reverse=True)


def test_intervals_are_students() -> None:
    assert interval([5.0]) == (5.0, None, None)
    assert interval([2.0, 2.0]) == (2.0, 2.0, 2.0)
    mean, low, high = interval([1.0, 2.0, 3.0, 4.0, 5.0])
    assert mean == 3.0
    assert (low, high) == (pytest.approx(1.0368, abs=1e-4), pytest.approx(4.9632, abs=1e-4))


def test_means_are_shown_by_point_as_far_as_there_is_room(tmp_path):
    lines = ["r,result,runs,mean,low,high"]
    for r, rate in (("0.25", 100.0), ("0.5", 50.5)):
        lines += [f"{r},constant,3,7.0,7.0,7.0", f"{r},rate,3,{rate},{rate - 2},{rate + 2}"]
    (tmp_path / "summary.csv").write_text("\n".join([*lines, "0.5,once,1,1.0,,"]))
    title, head, first, second, about = means(tmp_path / "summary.csv", 80)
    assert "95 %" in title
    assert head.split() == ["r", "rate", "constant", "once"]
    assert first.split()[:4] == ["0.25", "100", "±", "2"]
    assert second.split()[:4] == ["0.5", "50.5", "±", "2"]
    assert second.split()[-1] == "1"
    assert about == "r: messages that overwrite an item (share)"
    _, head, *_, more = means(tmp_path / "summary.csv", 20)
    assert head.split() == ["r", "rate"]
    assert more == f"and 2 more in {tmp_path / 'summary.csv'}"
