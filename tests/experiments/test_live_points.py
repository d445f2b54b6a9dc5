"""Points of EXP-1, EXP-3 and EXP-6 with real processes, beside the same points simulated."""

import csv
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import pytest

from semcast.experiments import figures, plot
from semcast.experiments.experiment import Row, Value
from semcast.experiments.figures import FIGURES, Point, render
from semcast.experiments.registry import experiment
from semcast.experiments.simulated_group import for_relation, recipe_of
from semcast.fleet.plan import Load
from semcast.sim.clock import rng_stream, rng_stream_seed
from semcast.terms.errors import ConfigError
from semcast.workloads.synthetic import overwrites

SPAN: dict[str, Value] = {"seconds": 5.0, "warmup_s": 2.0}
NARROW: dict[str, Value] = {"perturbation": "bandwidth", "kbps": 500.0, "size": 1000}
POINTS: list[tuple[str, dict[str, Value]]] = [
    ("slow-receiver", {"r": 0.75}),  # by item
    ("perturbed", {"delay_ms": 20.0}),  # by bitmap
    ("perturbed", {**NARROW, "unicast": True}),  # through a relay
    ("game", {"delay_ms": 25.0}),
]


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing of the machine's own settings takes part; paths of sockets are short."""
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        for name in ("XDG_STATE_HOME", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME"):
            monkeypatch.setenv(name, place)
        monkeypatch.setenv("SEMCAST_KEYS", f"{place}/keys")
        yield


def live(name: str, given: dict[str, Value], trace: str | None = None) -> Row:
    chosen = experiment(name)
    assert chosen.live is not None
    return chosen.live(chosen.parameters({**SPAN, **given}), 1, trace)


def test_live_points_agree_with_the_simulated_ones() -> None:
    """In what they say and in what cannot differ: what the slow one does not get was purged.

    Rates are the machine's affair: a busy one makes the slow receiver slower, or the sender.
    """
    with ThreadPoolExecutor(len(POINTS)) as pool:
        rows = list(pool.map(lambda point: live(*point), POINTS))
    for (name, given), row in zip(POINTS, rows, strict=True):
        chosen = experiment(name)
        simulated = chosen.run(chosen.parameters({**SPAN, **given}), 1, None)
        told = f"{name} {given}: live {row}, simulated {simulated}"
        assert row.keys() == simulated.keys(), told
        assert row["violations"] == row["fast_purged_ratio"] == 0, told
        for found in (row, simulated):
            kept = float(found["slow_rate"] or 0) / float(found["accepted_rate"] or 1)
            assert found["purged_ratio"] == pytest.approx(1 - kept, abs=0.15), told


@pytest.mark.parametrize(
    ("name", "given", "says"),
    [
        ("slow-receiver", {"loss": 0.1}, "loss: 0.1 cannot be set for live runs"),
        ("slow-receiver", {"batch": 2}, "batch: 2 cannot be set for live runs"),
        ("slow-receiver", {"buffers": "queue"}, "nothing to run live"),
        ("slow-receiver", {"members": 1, "f": 0}, "members: 1 is not at least 2"),
        ("perturbed", NARROW, "unicast: must be true"),
        ("perturbed", {"latency_ms": 5.0}, "latency_ms: 5.0 cannot be set for live runs"),
        ("game", {"latency_ms": 5.0}, "latency_ms: 5.0 cannot be set for live runs"),
        ("game", {"members": 2}, "members: 2 is not a whole number of at least 3"),
    ],
)
def test_what_cannot_run_live_is_named(name: str, given: dict[str, Value], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        live(name, given)


def test_a_trace_is_not_mixed_with_another(tmp_path: Path) -> None:
    game = experiment("game")
    game.run(game.parameters({"seconds": 1.0, "warmup_s": 0.0}), 1, str(tmp_path))
    with pytest.raises(ConfigError, match="already holds a trace"):
        live("game", {}, str(tmp_path))


def test_a_live_sender_has_the_traffic_of_the_simulated_one() -> None:
    perturbed = experiment("perturbed")
    recipe = recipe_of(perturbed.parameters({}))
    simulated = for_relation(overwrites(0.5, 5, rng_stream(1, "workload"), size=4), recipe)
    load = Load(
        stream="overwrites", size=4, seed=rng_stream_seed(1, "workload"), r=0.5, d=5, reach=recipe.k
    )
    sent = [update for _, update in islice(load.schedule(), 200)]
    wanted = list(islice(simulated, 200))
    assert [(u.payload, u.obsoletes) for u in sent] == [(s.payload, s.obsoletes) for s in wanted]
    assert any(u.obsoletes for u in sent)
    assert len({u.item for u in sent}) == len({s.item for s in wanted}) == 6


def fake_run(point: Point) -> Row:
    """Every key that any curve shows, without running anything."""
    curves = [c for f in FIGURES.values() for p in f.panels for c in p.curves]
    return {"violations": 0} | {c.y: 1.0 for c in curves if c.experiment == point.experiment}


def test_live_points_come_last_and_only_when_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[Point] = []

    def run(point: Point) -> Row:
        ran.append(point)
        return fake_run(point)

    monkeypatch.setattr(figures, "run_point", run)
    monkeypatch.setattr(
        plot,
        "draw",
        lambda figure, results: plot.Pictures(
            b"picture", b"<svg/>", (b"<svg/>",) * len(figure.panels)
        ),
    )
    render(["slow-receiver", "game"], tmp_path, jobs=1, quick=True)
    assert not any(point.is_live for point in ran)
    before, ran[:] = len(ran), []
    render(["slow-receiver", "game"], tmp_path, jobs=1, quick=True, live=True)
    assert [point.is_live for point in ran] == [False] * before + [True] * (len(ran) - before)
    assert {point.experiment for point in ran[before:]} == {"slow-receiver", "game"}
    with open(tmp_path / "slow-receiver.csv", newline="") as file:
        sources = [line["source"] for line in csv.DictReader(file)]
    assert {"simulation", "live"} == set(sources)
    assert "<td>r = 0.25, live</td>" in (tmp_path / "index.html").read_text()


@pytest.mark.parametrize(
    "name", [name for name, f in FIGURES.items() if any(p.live for p in f.panels)]
)
def test_every_live_curve_stands_beside_a_simulated_one(name: str) -> None:
    for panel in FIGURES[name].panels:
        beside = {(curve.label, curve.y): curve for curve in panel.curves if curve.style != "model"}
        for curve in panel.live:
            assert experiment(curve.experiment).live is not None
            assert set(curve.xs) <= set(beside[curve.label, curve.y].xs)


def test_figures_without_live_points_say_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="live: only perturbed, slow-receiver, game, primary"):
        render(["stock"], tmp_path, live=True)


def test_live_points_are_drawn_as_stars() -> None:
    whole = FIGURES["slow-receiver"]
    figure = whole._replace(panels=whole.panels[:1])
    [shown] = figures._with_live([figure])
    results = figures.FigureResults({p: fake_run(p) for p in figures.points(shown, 1)}, 1, False)
    assert plot.draw(shown, results) != plot.draw(figure, results)
