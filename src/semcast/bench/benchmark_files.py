"""A benchmark's rows as files: the numbers as CSV, bars, and the slow receiver as a scatter."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from semcast.bench.benchmark import BenchRow, label
from semcast.terms.palette import REFERENCE, SEMANTIC, WRONG

COLOUR: Final = SEMANTIC.light
GREY: Final = REFERENCE.light
AGE: Final = "staleness_p99_ms"
WIDTH_INCHES: Final = 8.0
BAR_INCHES: Final = 0.35
ROWS_ALONE: Final = 6  # With more, panels stand in two columns.
TITLE_INCHES: Final = 0.9


def write(
    name: str, title: str, rows: Sequence[BenchRow], drawn: Mapping[str, str], out: Path
) -> dict[str, str]:
    """The files, named after the benchmark; their paths by kind."""
    paths = {kind: out / f"{name}.{kind}" for kind in ("csv", "png")}
    with paths["csv"].open("w", newline="") as file:
        lines = [_line(row) for row in rows]
        writer = csv.DictWriter(file, lines[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
    _figure(title, rows, drawn).savefig(paths["png"], dpi=120)
    if all(row.get(AGE) is not None for row in rows):
        paths["scatter"] = out / f"{name}-scatter.png"
        scatter(title, rows).savefig(paths["scatter"], dpi=120)
    return {kind: str(path) for kind, path in paths.items()}


def scatter(title: str, rows: Sequence[BenchRow]) -> Figure:
    """Each system as one point: the rate of the fast receivers against the age of the slow one's
    values.  A cross is a system that left wrong values there."""
    figure = Figure(figsize=(WIDTH_INCHES, 5.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for row in rows:
        _point(axes, row)
    axes.set_title(f"Top right is good: everyone fast, the slow one fresh\n{title}", fontsize=10)
    axes.set_xlabel("messages/s that every fast receiver gets")
    axes.set_ylabel("age of hot values at the slow receiver, p99 (ms)")
    axes.set_yscale("log")
    axes.set_xlim(0, 1.3 * max(row["rate"] for row in rows))
    axes.invert_yaxis()
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def _point(axes: Axes, row: BenchRow) -> None:
    wrong, is_semantic = row["wrong_items"], row["system"] == "semcast"
    colour = WRONG.light if wrong else COLOUR if is_semantic else GREY
    mark, size = ("X", 9.0) if wrong else ("o", 13.0 if is_semantic else 9.0)
    place = (row["rate"], max(row[AGE], 1.0))
    axes.plot(*place, marker=mark, markersize=size, color=colour, linestyle="none")
    text = f"{label(row)} ({wrong:,.0f} wrong)" if wrong else label(row)
    how: Any = {"textcoords": "offset points", "va": "center", "color": colour, "fontsize": 9}
    axes.annotate(text, place, xytext=(9, 0), weight="bold" if is_semantic else "normal", **how)


def _line(row: BenchRow) -> BenchRow:
    """A row without anything inside anything."""
    line = {key: value for key, value in row.items() if key != "spread"}
    for key, (low, high) in row["spread"].items():
        line |= {f"{key}_min": low, f"{key}_max": high}
    return line


def _figure(title: str, rows: Sequence[BenchRow], drawn: Mapping[str, str]) -> Figure:
    """A panel for each number that is drawn, a bar for each row, a line from least to most."""
    columns = 2 if len(rows) > ROWS_ALONE else 1
    lines = -(-len(drawn) // columns)
    height = lines * (TITLE_INCHES + BAR_INCHES * len(rows))
    figure = Figure(figsize=(columns * WIDTH_INCHES, height), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(lines, columns, squeeze=False).flat
    for axes, (key, about) in zip(panels, drawn.items(), strict=False):
        _draw(axes, rows, key)
        axes.set_title(about, loc="left", fontsize=10)
    for axes in panels[len(drawn) :]:
        axes.remove()
    figure.suptitle(title)
    return figure


def _draw(axes: Axes, rows: Sequence[BenchRow], key: str) -> None:
    """One number; Semcast's own stand out."""
    values = [row[key] or 0.0 for row in rows]
    spreads = [
        row["spread"].get(key, (value, value)) for row, value in zip(rows, values, strict=True)
    ]
    below = [value - low for value, (low, _) in zip(values, spreads, strict=True)]
    above = [high - value for value, (_, high) in zip(values, spreads, strict=True)]
    colours = [COLOUR if row["system"].startswith("semcast") else GREY for row in rows]
    bars = axes.barh([label(row) for row in rows], values, color=colours, xerr=(below, above))
    shown = ["–" if row[key] is None else _shown(row[key]) for row in rows]
    axes.bar_label(bars, shown, padding=4)
    axes.invert_yaxis()
    axes.margins(x=0.16)
    axes.xaxis.set_major_formatter("{x:,g}")
    axes.spines[["top", "right"]].set_visible(False)


def _shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"
