"""Figures whose points run on Spark: the same files, and a part of them is gone on from."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from semcast.experiments.figure import Curve, Figure, Panel
from semcast.experiments.figures import FIGURES, render
from semcast.experiments.point import PointError
from semcast.pipeline.spark_session import SparkTarget
from semcast.pipeline.sweep.figures_on_spark import PART, render_on_spark

ONE_QUEUE = FIGURES["slow-receiver"].panels[2]  # no protocol: quick to run


class Interrupted(Exception):
    """Stands for Ctrl-C."""


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def interrupt(done: int, of: int, point: str) -> None:
    raise Interrupted


def test_the_files_are_those_of_the_pool(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(FIGURES, "one-queue", Figure("one-queue", "", "", (ONE_QUEUE,)))
    render(["one-queue"], tmp_path / "pool", quick=True, jobs=1)
    out = tmp_path / "spark"
    with pytest.raises(Interrupted):
        render_on_spark(["one-queue"], out, target=SparkTarget(), quick=True, on_progress=interrupt)
    assert [path.name for path in out.iterdir()] == [PART]
    told: list[tuple[int, int]] = []
    [files] = render_on_spark(
        ["one-queue"],
        out,
        target=SparkTarget(),
        quick=True,
        on_progress=lambda done, of, point: told.append((done, of)),
    )
    assert contents(out) == contents(tmp_path / "pool")
    total = len(Path(files["csv"]).read_text().splitlines()) - 1
    assert told[0][0] > 1
    assert told[-1] == (total, total)


def test_a_point_that_fails_is_named(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    curve = Curve("", "slow-receiver", "r", (7.0,), "accepted_rate", {"buffers": "queue"})
    monkeypatch.setitem(FIGURES, "bad", Figure("bad", "", "", (Panel("", "", "", (curve,)),)))
    with pytest.raises(PointError) as caught:
        render_on_spark(["bad"], tmp_path, target=SparkTarget())
    assert str(caught.value) == (
        "slow-receiver buffers=queue r=7.0 (seed 1): r: 7.0 is not a number from 0 to 1"
    )
    assert [path.name for path in tmp_path.iterdir()] == [PART]
