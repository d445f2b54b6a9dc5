"""A benchmark's rows as files: the numbers as CSV, bars, and the slow receiver as a scatter."""

import csv
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator
from matplotlib.transforms import Bbox

from semcast.bench.benchmark import BenchRow, BenchSettings, label, title
from semcast.terms.palette import INK, LINE, REFERENCE, SEMANTIC, WRONG

COLOUR: Final = SEMANTIC.light
GREY: Final = REFERENCE.light
AGE: Final = "staleness_p99_ms"
AGE_MIN_MS: Final = 1.0
AGE_TICKS_MS: Final = (1, 3, 10, 30, 100, 300, 1000, 3000, 10_000, 30_000)
LETTER_POINTS: Final = 5.6  # width of a letter of a name, generously
LINE_POINTS: Final = 13.0
MARK_POINTS: Final = 10.0  # a mark's room, and a name's distance from it
# All text in the palette's ink, so that the SVG can follow light and dark.
_INK_KEYS: Final = (
    *("text.color", "axes.labelcolor", "axes.edgecolor", "axes.titlecolor"),
    *("xtick.color", "ytick.color"),
)
INKED: Final[Any] = dict.fromkeys(_INK_KEYS, INK.light)
WIDTH_INCHES: Final = 8.0
BAR_INCHES: Final = 0.35
ROWS_ALONE: Final = 6  # With more, panels stand in two columns.
TITLE_INCHES: Final = 0.9


def write(
    name: str,
    settings: BenchSettings,
    rows: Sequence[BenchRow],
    drawn: Mapping[str, str],
    out: Path,
    svg_of: Callable[[Figure], bytes],
) -> dict[str, str]:
    """The files, named after the benchmark; their paths by kind."""
    paths = {kind: out / f"{name}.{kind}" for kind in ("csv", "png", "svg")}
    with paths["csv"].open("w", newline="") as file:
        lines = [_line(row) for row in rows]
        writer = csv.DictWriter(file, lines[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
    with rc_context(INKED):
        bars = _figure(settings.title, rows, drawn)
        bars.savefig(paths["png"], dpi=120)
        paths["svg"].write_bytes(svg_of(bars))
        if all(row.get(AGE) is not None for row in rows):
            paths["scatter"] = out / f"{name}-scatter.png"
            points = scatter(settings, rows)
            points.savefig(paths["scatter"], dpi=120)
            paths["scatter"].with_suffix(".svg").write_bytes(svg_of(points))
    return {kind: str(path) for kind, path in paths.items()}


def scatter(settings: BenchSettings, rows: Sequence[BenchRow]) -> Figure:
    """Each system as one point: the rate of the fast receivers against the age of the slow one's
    values.  A cross is a system that left wrong values there."""
    figure = Figure(figsize=(WIDTH_INCHES, 5.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    axes.set_title("Top right is good: everyone fast, the slow one fresh", weight="bold")
    offered = "" if settings.rate is None else f" ({settings.rate:,.0f} offered)"
    axes.set_xlabel(f"messages/s that every fast receiver gets{offered}")
    axes.set_ylabel("age of hot values at the slow receiver, p99 (fresher is up)")
    ages = [max(row[AGE], AGE_MIN_MS) for row in rows]
    axes.set_yscale("log")
    axes.set_xlim(0, 1.15 * max(row["rate"] for row in rows))
    axes.set_ylim(2 * max(ages), min(ages) / 2)
    ticks = [tick for tick in AGE_TICKS_MS if min(ages) / 2 <= tick <= 2 * max(ages)]
    axes.set_yticks(ticks, [_duration(tick) for tick in ticks])
    axes.yaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.grid(color=LINE.light, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    figure.draw_without_rendering()  # so that places are known
    occupied = [_room(axes, _place(row)) for row in rows]
    for row in rows:
        _point(axes, row, occupied)
    return figure


def _place(row: BenchRow) -> tuple[float, float]:
    return row["rate"], max(row[AGE], AGE_MIN_MS)


def _point(axes: Axes, row: BenchRow, occupied: list[Bbox]) -> None:
    """A system's mark, and its name where it covers nothing."""
    wrong, is_semantic = row["wrong_items"], row["system"] == "semcast"
    colour = WRONG.light if wrong else COLOUR if is_semantic else GREY
    mark, size = ("X", 11.0) if wrong else ("o", 13.0 if is_semantic else 9.0)
    place = _place(row)
    axes.plot(*place, marker=mark, markersize=size, color=colour, zorder=3 if wrong else 2)
    text = f"{title(row)} ({wrong:,.0f} wrong)" if wrong else title(row)
    x, y = axes.transData.transform(place)
    is_left = x > axes.bbox.x0 + axes.bbox.width / 2
    points = axes.figure.dpi / 72
    wide = len(text) * LETTER_POINTS * points
    for lines in (0.0, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0):
        shift = lines * LINE_POINTS
        near = x - MARK_POINTS * points - wide if is_left else x + MARK_POINTS * points
        middle = y + shift * points
        box = Bbox.from_extents(
            near, middle - LINE_POINTS / 2 * points, near + wide, middle + LINE_POINTS / 2 * points
        )
        if not any(box.overlaps(other) for other in occupied):
            break
    occupied.append(box)
    how: Any = {"textcoords": "offset points", "va": "center", "color": colour, "fontsize": 9}
    aside = (-MARK_POINTS if is_left else MARK_POINTS, shift)
    weight, side = "bold" if is_semantic else "normal", "right" if is_left else "left"
    axes.annotate(text, place, xytext=aside, weight=weight, ha=side, **how)


def _room(axes: Axes, place: tuple[float, float]) -> Bbox:
    """The room of a mark."""
    x, y = axes.transData.transform(place)
    half = MARK_POINTS / 2
    return Bbox.from_extents(x - half, y - half, x + half, y + half)


def _duration(milliseconds: float) -> str:
    return f"{milliseconds:g} ms" if milliseconds < 1000 else f"{milliseconds / 1000:g} s"


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
