"""Figures: what they are made of, and one rendered quickly."""

import csv
import re
import subprocess
import sys
from pathlib import Path

import pytest

from semcast.experiments import figures, figures_page, plot
from semcast.experiments.experiment import Parameters, Row
from semcast.experiments.figure import Curve, Figure, Panel, PaperValue
from semcast.experiments.figures import FIGURES, FigureResults, point_of, points, render
from semcast.experiments.point import PointError
from semcast.experiments.registry import EXPERIMENTS, experiment
from semcast.experiments.wording import symbols
from semcast.terms.errors import ConfigError

OWN = ("perturbed", "stock", "slow-receiver", "pubsub")


def fake_run(point: figures.Point) -> Row:
    """Every key that any curve shows, without running anything."""
    curves = [c for f in FIGURES.values() for p in f.panels for c in p.curves]
    keys = {c.key(x) for c in curves if c.experiment == point.experiment for x in c.xs}
    return {"violations": 0} | dict.fromkeys(keys, 1.0)


@pytest.mark.parametrize("name", FIGURES)
def test_every_point_is_a_valid_set_of_parameters(name: str) -> None:
    figure = FIGURES[name]
    assert figure.name == name
    assert points(figure, seed=1)
    for panel in figure.panels:
        for curve in panel.curves:
            assert not curve.x or curve.x in experiment(curve.experiment).defaults


def test_model_and_simulation_share_their_runs() -> None:
    panel = FIGURES["slow-receiver"].panels[0]
    figure = Figure("one", "", "", (panel,))
    shown = sum(len(curve.xs) for curve in panel.curves)
    reliable = sum(len(curve.xs) for curve in panel.curves if curve.style == "reliable")
    assert len(points(figure, seed=1)) == (shown - reliable) // 2 + reliable


@pytest.mark.parametrize("name", OWN)
def test_every_reading_names_a_curve_that_runs_there(name: str) -> None:
    figure = FIGURES[name]
    results = FigureResults({p: fake_run(p) for p in points(figure, seed=1)}, seed=1, quick=False)
    outcomes = list(results.outcomes(figure))
    assert len(outcomes) >= sum(len(panel.readings) for panel in figure.panels)
    assert all(found.value == 1.0 for found in outcomes)


def test_quick_rendering_writes_picture_table_and_page(tmp_path: Path) -> None:
    done: list[tuple[int, int]] = []
    rendered = render(
        ["perturbed"], tmp_path / "new" / "out", jobs=2, seed=3, quick=True,
        on_progress=lambda n, total, point: done.append((n, total)),
    )  # fmt: skip
    [files] = rendered
    assert (files["name"], files["source"]) == ("perturbed", "SRM figs. 1 and 8")
    assert Path(files["png"]).read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    with open(files["csv"], newline="") as file:
        lines = list(csv.DictReader(file))
    assert done == [(n, len(lines)) for n in range(1, len(lines) + 1)]
    assert len(lines) == 21
    assert {line["seed"] for line in lines} == {"3"}
    assert all(line["violations"] == "0" and float(line["fast_rate"]) > 0 for line in lines)
    html = (tmp_path / "new" / "out" / "index.html").read_text()
    assert "quick rendering" in html
    assert 'href="perturbed.csv"' in html
    assert not re.search(r"https?://|<script|<link|@import|url\(", html)


def test_page_shows_all_figures_with_readings_beside_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures, "run_point", fake_run)

    def drawn(figure: Figure, results: FigureResults) -> plot.Pictures:
        return plot.Pictures(b"png", b"svg", (b"panel",) * len(figure.panels))

    monkeypatch.setattr(plot, "draw", drawn)
    rendered = render(["all"], tmp_path, jobs=1)
    assert [files["name"] for files in rendered] == list(FIGURES)
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}
    html = (tmp_path / "index.html").read_text()
    assert html.count("<img ") == sum(len(figure.panels) for figure in FIGURES.values())
    assert "r = 0.25: 75 in the text" in html
    assert "not run" not in html.partition('id="buffers"')[0]


def test_pictures_are_the_same_bytes_for_the_same_results() -> None:
    whole = FIGURES["slow-receiver"]
    figure = whole._replace(panels=(whole.panels[0], whole.panels[-1]))
    results = FigureResults({p: fake_run(p) for p in points(figure, seed=1)}, seed=1, quick=False)
    assert plot.draw(figure, results) == plot.draw(figure, results)


@pytest.mark.parametrize("jobs", [1, 2])
def test_results_do_not_depend_on_the_number_of_workers(jobs: int, tmp_path: Path) -> None:
    rows = figures._run_all(_three_points(), jobs, None)
    assert rows == {point: figures.run_point(point) for point in _three_points()}


def _three_points() -> list[figures.Point]:
    fixed = {"buffers": "queue", "seconds": 5.0, "warmup_s": 1.0}
    curve = Curve("", "slow-receiver", "delay_ms", (10.0, 20.0, 30.0), "accepted_rate", fixed)
    return [point_of(curve, x, seed=2) for x in curve.xs]


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_failing_point_is_named_in_one_line(
    jobs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    curve = Curve("", "slow-receiver", "r", (0.5, 7.0), "accepted_rate", {"buffers": "queue"})
    panel = Panel("", "", "", (curve,), (PaperValue("r", 0.5, 1),))
    monkeypatch.setitem(FIGURES, "broken", Figure("broken", "", "", (panel,)))
    with pytest.raises(PointError) as caught:
        render(["broken"], tmp_path, jobs=jobs)
    assert str(caught.value) == (
        "slow-receiver buffers=queue r=7.0 (seed 1): r: 7.0 is not a number from 0 to 1"
    )
    assert list(tmp_path.iterdir()) == []


def test_a_bug_in_a_point_is_named_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(p: Parameters, seed: int, trace: str | None) -> Row:
        raise ZeroDivisionError

    [point, *_] = _three_points()
    broken = experiment("slow-receiver")._replace(run=fail)
    monkeypatch.setitem(EXPERIMENTS, "slow-receiver", broken)
    with pytest.raises(PointError, match=r"\(seed 2\): ZeroDivisionError"):
        figures.run_point(point)


def test_bad_input_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match="figure: unknown value 'nine'; allowed: perturbed, stock"
    ):
        render(["stock", "nine"], tmp_path)
    with pytest.raises(ConfigError, match="jobs: 0 is not at least 1"):
        render(["stock"], tmp_path, jobs=0)
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"out: .*file"):
        render(["stock"], tmp_path / "file", jobs=1)


def test_knowing_the_figures_imports_no_plotting() -> None:
    code = "import sys, semcast.experiments.figures; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("quick", [False, True])
def test_the_papers_letters_are_explained_on_the_picture_and_on_the_page(quick: bool) -> None:
    figure = FIGURES["buffers"]
    given = points(figure, seed=1, quick=quick)
    results = FigureResults({point: fake_run(point) for point in given}, seed=1, quick=quick)
    pictures = plot.draw(figure, results)
    meaning = "r: share of messages that overwrite an item"
    assert meaning in pictures.svg.decode()
    assert meaning not in pictures.panels[0].decode(), "the page says it once"
    shown = figures_page.page([figure], results, {figure.name: pictures.panels})
    assert shown.count(f">{meaning}; d: items that are overwritten; N: buffer (messages)<") == 1
    assert "k: reach" not in shown


def test_letters_of_panels_are_not_those_of_the_papers() -> None:
    assert symbols(["(d-f) Messages purged", "(k) a member's rate", "normal"]) == ""
    assert symbols(["(g, h) One queue of N"]) == "N: buffer (messages)"
