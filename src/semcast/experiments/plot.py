"""Figures as PNG and SVG, drawn by matplotlib.

A thing has one colour and one mark in all panels of a figure, and its name at the end of its curve.
The style says what a curve is: the model dashed, simulation solid, the reliable protocol grey, live
points stars, any other style dotted; a legend names the styles.  What a paper's text states is a
hollow diamond.  A quick rendering says so on the picture.
"""

import io
from collections.abc import Iterable, Iterator
from math import isnan, nan
from textwrap import wrap
from typing import Any, Final, NamedTuple

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Canvas
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator, ScalarFormatter

from semcast.experiments.figure import LIVE, Curve, Figure, Panel, PaperValue
from semcast.experiments.figures import FigureResults
from semcast.experiments.vector import svg_of
from semcast.experiments.wording import symbols
from semcast.terms.palette import INK as INK_COLOUR
from semcast.terms.palette import LINE, PAPER, REFERENCE, SERIES, SLOW

COLOURS: Final = tuple(colour.light for colour in SERIES)
MARKS: Final = ("o", "^", "v", "P", "X", "h", "<")  # not as many as colours: pairs repeat late
GREY: Final = REFERENCE.light
INK: Final = INK_COLOUR.light
STYLES: dict[str, dict[str, Any]] = {
    "model": {"linestyle": (0, (5, 2.5)), "linewidth": 1.3, "alpha": 0.85},
    "simulation": {"linestyle": "-", "linewidth": 1.8, "marker": "o", "markersize": 4.5},
    "reliable": {"linestyle": "-", "linewidth": 1.8, "marker": "s", "markersize": 4},
    LIVE: {
        "linestyle": "none",
        "marker": "*",
        "markersize": 13,
        "markeredgecolor": INK,
        "markeredgewidth": 0.8,
        "zorder": 4,
    },
}
READING: dict[str, Any] = {
    "linestyle": "none",
    "marker": "D",
    "markersize": 8,
    "markerfacecolor": "none",
    "markeredgewidth": 1.6,
}
OTHER: dict[str, Any] = {
    "linestyle": (0, (1, 1.3)),
    "linewidth": 1.7,
    "marker": "o",
    "markersize": 4.5,
    "markerfacecolor": PAPER.light,
}
RC_PARAMS: Any = {  # matplotlib's stubs want each key as a literal
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "text.color": INK,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": LINE.light,
    "grid.linewidth": 0.8,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "xtick.color": INK,
    "ytick.color": INK,
}
PANEL_INCHES: Final = (5.2, 4.1)
DOTS_PER_INCH: Final = 130
LEGEND_CHARACTERS: Final = 66  # that a panel's width holds
LABEL_GAP: Final = 0.055  # of a panel's height, between names of curves
QUICK: Final = "quick: few and short runs"


class Pictures(NamedTuple):
    """One figure: as PNG, as SVG with its panels in one column, and each panel as SVG."""

    png: bytes
    svg: bytes
    panels: tuple[bytes, ...]


def draw(figure: Figure, results: FigureResults) -> Pictures:
    """The figure in all its forms; equal results give equal bytes."""
    count = len(figure.panels)
    columns = 3 if count % 3 == 0 or count == 5 else min(count, 2)
    looks = _looks(figure)

    def whole(columns: int) -> Canvas:
        canvas = _canvas(figure.panels, columns, results, looks)
        return _with_letters(canvas, figure, columns, is_stamped=results.quick)

    with rc_context(RC_PARAMS):
        png = io.BytesIO()
        wide = whole(columns)
        wide.savefig(png, format="png", dpi=DOTS_PER_INCH, metadata={"Software": None})
        narrow = svg_of(whole(1))
        panels = tuple(svg_of(_canvas((panel,), 1, results, looks)) for panel in figure.panels)
    return Pictures(png.getvalue(), narrow, panels)


def new_canvas(columns: int, rows: int) -> Canvas:
    """An empty figure of that many panels."""
    width, height = PANEL_INCHES
    layout = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.12)
    canvas = Canvas(figsize=(width * columns, height * rows), layout=layout)
    FigureCanvasAgg(canvas)
    return canvas


def _canvas(
    panels: tuple[Panel, ...], columns: int, results: FigureResults, looks: dict[str, "CurveLook"]
) -> Canvas:
    rows = -(-len(panels) // columns)
    canvas = new_canvas(columns, rows)
    for place, panel in enumerate(panels, start=1):
        _draw_panel(canvas.add_subplot(rows, columns, place), panel, results, looks)
    if results.quick:
        stamp(canvas)
    return canvas


def _with_letters(canvas: Canvas, figure: Figure, columns: int, *, is_stamped: bool) -> Canvas:
    """Write below the panels what the papers' letters on them mean, above a stamp."""
    if text := symbols(figure.texts()):
        lines = wrap(text, LEGEND_CHARACTERS * columns)
        look: Any = {"x": 0.01, "ha": "left", "fontsize": 8.5}
        canvas.supxlabel("\n".join([*lines, *([" "] if is_stamped else [])]), **look)
    return canvas


def stamp(canvas: Canvas) -> None:
    """Say on the picture that it is not for conclusions."""
    look: Any = {"color": SLOW.light, "weight": "bold", "size": 9}
    canvas.text(0.995, 0.004, QUICK, ha="right", va="bottom", **look)


class CurveLook(NamedTuple):
    """The colour and the mark of one thing."""

    colour: str
    mark: str


def _looks(figure: Figure) -> dict[str, CurveLook]:
    """One look for each thing, whichever panels show it."""
    curves = [curve for panel in figure.panels for curve in panel.curves]
    subjects = dict.fromkeys(_subject(curve) for curve in curves)
    grey = {_subject(curve) for curve in curves if curve.style == "reliable"}
    plain = sorted(
        (subject for subject in subjects if subject not in grey),
        key=lambda subject: not subject.startswith("semantic"),
    )
    looks = {
        subject: CurveLook(COLOURS[n % len(COLOURS)], MARKS[n % len(MARKS)])
        for n, subject in enumerate(plain)
    }
    return looks | dict.fromkeys(grey, CurveLook(GREY, "s"))


def _draw_panel(
    axes: Axes, panel: Panel, results: FigureResults, looks: dict[str, CurveLook]
) -> None:
    ends: dict[str, tuple[float, float]] = {}
    # The model goes on top: where it is exact it would otherwise be hidden.
    for curve in sorted(panel.curves, key=lambda c: c.style == "model"):
        xs, ys = _series(curve, results)
        look, subject = looks[_subject(curve)], _subject(curve)
        axes.plot(xs, ys, color=look.colour, **_style(curve.style, look))
        if xs and curve.style != LIVE and subject not in ends:
            ends[subject] = next((at for at in reversed([*zip(xs, ys, strict=True)])
                                  if not isnan(at[1])), (nan, nan))  # fmt: skip
    for reading in panel.readings:
        _draw_reading(axes, reading, looks)
    axes.set_title(panel.title)
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)
    if panel.log_y:
        axes.set_yscale("log")
    else:
        axes.set_ylim(0, 1.05 * axes.get_ylim()[1])
    if panel.log_x:
        _mark_values(axes, panel)
    elif all(isinstance(x, int) for curve in panel.curves for x in curve.xs):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if panel.y_label == "rounds":
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    name_curves(axes, {n: (y, looks[n].colour) for n, (_, y) in ends.items() if not isnan(y)})
    _add_legend(axes, list(_legend(panel)))


def _style(style: str, look: CurveLook) -> dict[str, Any]:
    chosen = STYLES.get(style, OTHER)
    return {**chosen, "marker": look.mark} if style in ("simulation", "reliable") else chosen


def name_curves(axes: Axes, ends: dict[str, tuple[float, str]]) -> None:
    """Write the name of each curve at its end, none over another."""
    low, high = axes.get_ylim()
    is_log = axes.get_yscale() == "log"

    def height(value: float) -> float:
        point = axes.transData.transform((1.0, value)) if is_log else None
        if point is not None:
            return float(axes.transAxes.inverted().transform(point)[1])
        return (value - low) / (high - low or 1.0)

    wanted = sorted((height(y), name, colour) for name, (y, colour) in ends.items())
    places: list[float] = []
    for place, _, _ in wanted:
        places.append(max(place, places[-1] + LABEL_GAP) if places else place)
    excess = max(0.0, places[-1] - 1.0) if places else 0.0
    for (_, name, colour), place in zip(wanted, places, strict=True):
        at: Any = {"xycoords": "axes fraction", "annotation_clip": False, "va": "center"}
        axes.annotate(name, (1.015, place - excess), color=colour, fontsize=8.5, **at)


def _add_legend(axes: Axes, entries: list[Line2D]) -> None:
    if not entries:
        return
    labels = [str(entry.get_label()) for entry in entries]
    fitting = LEGEND_CHARACTERS // (max(map(len, labels)) + 8)  # A wider one squeezes the axes.
    axes.legend(
        entries,
        labels,
        loc="upper left",
        bbox_to_anchor=(0, -0.15),
        ncols=min(3, max(1, fitting)),
        handlelength=2.6,
        columnspacing=1.4,
    )


def _mark_values(axes: Axes, panel: Panel) -> None:
    """A logarithmic axis that names the values which were run."""
    axes.set_xscale("log", base=2)
    values = sorted({x for c in panel.curves for x in c.xs if isinstance(x, int | float)})
    axes.xaxis.set_major_locator(FixedLocator(values))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(ScalarFormatter())


def _series(curve: Curve, results: FigureResults) -> tuple[list[Any], list[float]]:
    values = [results.row(curve, x)[curve.key(x)] for x in curve.xs]
    return list(curve.xs), [nan if v is None else float(v) for v in values]


def _subject(curve: Curve) -> str:
    """What a curve is about: "N = 20" and "N = 20, model" are about the same."""
    return curve.label.removesuffix(", model")


def _draw_reading(axes: Axes, reading: PaperValue, looks: dict[str, CurveLook]) -> None:
    about, _, value = reading.label.partition(":")
    colour = looks[about].colour if about in looks else INK
    axes.plot([reading.x], [reading.y], color=colour, zorder=5, **READING)
    axes.annotate(
        value.strip() or about,
        (reading.x, reading.y),
        xytext=(8, 5),
        textcoords="offset points",
        fontsize=8.5,
        color=INK,
        bbox={"boxstyle": "round,pad=0.15", "facecolor": PAPER.light, "edgecolor": "none"},
    )


def _legend(panel: Panel) -> Iterator[Line2D]:
    """One entry for each style, if there are several; curves have their names at their ends."""
    styles: Iterable[str] = dict.fromkeys(curve.style for curve in panel.curves)
    plain = [style for style in styles if style not in ("simulation", "reliable")]
    if plain and any(style in ("simulation", "reliable") for style in styles):
        plain = ["simulation", *plain]
    for style in plain:
        yield Line2D([], [], color=INK, label=style, **STYLES.get(style, OTHER))
    if panel.readings:
        yield Line2D([], [], color=INK, label="paper's text", **READING)
