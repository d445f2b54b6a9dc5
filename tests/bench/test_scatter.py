"""The slow receiver through each system as one picture."""

from semcast.bench.benchmark import BenchSettings
from semcast.bench.benchmark_files import scatter, write
from semcast.experiments.vector import svg_of
from semcast.terms.palette import REFERENCE, SEMANTIC, WRONG


def row(system: str, rate: float, wrong: int, age_ms: float | None) -> dict:
    about = {"system": system, "datagram": None, "sealed": False, "spread": {}}
    return {**about, "rate": rate, "wrong_items": wrong, "staleness_p99_ms": age_ms}


def test_wrong_values_are_marked_by_colour_shape_and_word(tmp_path):
    rows = [row("semcast", 20e3, 0, 42.0), row("semcast-reliable", 5e3, 0, 435.0)]
    axes = scatter(BenchSettings(), [*rows, row("udp", 20e3, 806, 3700.0)]).axes[0]
    marks = [(line.get_color(), line.get_marker()) for line in axes.lines]
    assert marks == [(SEMANTIC.light, "o"), (REFERENCE.light, "o"), (WRONG.light, "X")]
    assert axes.texts[-1].get_text() == "UDP multicast (806 wrong)"
    assert "age of hot values" in axes.get_ylabel()
    assert all(tick.get_text().split()[-1] in ("ms", "s") for tick in axes.get_yticklabels())


def test_only_a_benchmark_with_ages_has_it(tmp_path):
    load = BenchSettings()
    rows = [row("semcast", 20e3, 0, 42.0)]
    aged = write("a", load, rows, {"rate": "rate"}, tmp_path, svg_of)
    assert (tmp_path / "a-scatter.png").read_bytes().startswith(b"\x89PNG")
    assert "scatter" in aged
    assert b"<svg" in (tmp_path / "a-scatter.svg").read_bytes()
    ageless = [row("udp", 1.0, 0, None)]
    assert "scatter" not in write("b", load, ageless, {"rate": "r"}, tmp_path, svg_of)
