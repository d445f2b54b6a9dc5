"""A benchmark's rows as files: the numbers as CSV, what people compare of them as bars."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from semcast.experiments.benchmark import Row, label

COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
WIDTH_INCHES: Final = 8.0
BAR_INCHES: Final = 0.35
TITLE_INCHES: Final = 0.9


def write(
    name: str, title: str, rows: Sequence[Row], drawn: Mapping[str, str], out: Path
) -> dict[str, str]:
    """Both files, named after the benchmark; their paths."""
    paths = {kind: out / f"{name}.{kind}" for kind in ("csv", "png")}
    with paths["csv"].open("w", newline="") as file:
        lines = [_line(row) for row in rows]
        writer = csv.DictWriter(file, lines[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
    _figure(title, rows, drawn).savefig(paths["png"], dpi=120)
    return {kind: str(path) for kind, path in paths.items()}


def _line(row: Row) -> Row:
    """A row without anything inside anything."""
    line = {key: value for key, value in row.items() if key != "spread"}
    for key, (low, high) in row["spread"].items():
        line |= {f"{key}_min": low, f"{key}_max": high}
    return line


def _figure(title: str, rows: Sequence[Row], drawn: Mapping[str, str]) -> Figure:
    """A panel for each number that is drawn, a bar for each row, a line from least to most."""
    height = len(drawn) * (TITLE_INCHES + BAR_INCHES * len(rows))
    figure = Figure(figsize=(WIDTH_INCHES, height), layout="constrained")
    FigureCanvasAgg(figure)
    colours = [COLOURS[place % len(COLOURS)] for place in range(len(rows))]
    panels = figure.subplots(len(drawn), 1, squeeze=False)[:, 0]
    for axes, (key, about) in zip(panels, drawn.items(), strict=True):
        values = [row[key] or 0.0 for row in rows]
        spreads = [
            row["spread"].get(key, (value, value)) for row, value in zip(rows, values, strict=True)
        ]
        below = [value - low for value, (low, _) in zip(values, spreads, strict=True)]
        above = [high - value for value, (_, high) in zip(values, spreads, strict=True)]
        bars = axes.barh([label(row) for row in rows], values, color=colours, xerr=(below, above))
        axes.bar_label(bars, [_shown(value) for value in values], padding=4)
        axes.set_title(about, loc="left", fontsize=10)
        axes.invert_yaxis()
        axes.margins(x=0.12)
        axes.xaxis.set_major_formatter("{x:,g}")
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(title)
    return figure


def _shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"
