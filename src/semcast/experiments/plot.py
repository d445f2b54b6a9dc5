"""Figures as PNG.  The only module that imports matplotlib.

Curves of one label share a colour; the style says what they are: the model dashed, simulation
solid with marks, the reliable protocol grey, live points stars, any other style dotted and named
in the legend.  What a paper's text states is a hollow diamond.
"""

import io
from collections.abc import Iterator
from math import nan
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Canvas
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullLocator, ScalarFormatter

from semcast.experiments.figure import LIVE, Curve, Figure, Panel, Reading
from semcast.experiments.figures import Results
from semcast.terms.palette import REFERENCE

# Okabe and Ito's palette: told apart by colour-blind readers too.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
GREY = REFERENCE.light
INK = "#333333"
STYLES: dict[str, dict[str, Any]] = {
    "model": {"linestyle": (0, (5, 2.5)), "linewidth": 1.3, "alpha": 0.85},
    "simulation": {"linestyle": "-", "linewidth": 1.8, "marker": "o", "markersize": 4.5},
    "reliable": {"linestyle": "-", "linewidth": 1.8, "marker": "s", "markersize": 4},
    LIVE: {
        "linestyle": "none",
        "marker": "*",
        "markersize": 13,
        "markeredgecolor": "black",
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
    "markerfacecolor": "white",
}
LOOK: Any = {  # matplotlib's stubs want each key as a literal
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.edgecolor": "#999999",
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.8,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "xtick.color": INK,
    "ytick.color": INK,
}
PANEL_INCHES = (5.2, 4.1)
DOTS_PER_INCH = 130
LEGEND_CHARACTERS = 66  # that a panel's width holds


def draw(figure: Figure, results: Results) -> bytes:
    """The figure as PNG; equal results give equal bytes."""
    count = len(figure.panels)
    columns = 3 if count % 3 == 0 or count == 5 else min(count, 2)
    rows = -(-count // columns)
    width, height = PANEL_INCHES
    layout = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.12)
    with rc_context(LOOK):
        canvas = Canvas(figsize=(width * columns, height * rows), layout=layout)
        FigureCanvasAgg(canvas)
        for place, panel in enumerate(figure.panels, start=1):
            _draw_panel(canvas.add_subplot(rows, columns, place), panel, results)
        png = io.BytesIO()
        canvas.savefig(png, format="png", dpi=DOTS_PER_INCH, metadata={"Software": None})
    return png.getvalue()


def _draw_panel(axes: Axes, panel: Panel, results: Results) -> None:
    colours = _colours(panel)
    # The model goes on top: where it is exact it would otherwise be hidden.
    for curve in sorted(panel.curves, key=lambda c: c.style == "model"):
        xs, ys = _series(curve, results)
        axes.plot(xs, ys, color=colours[_subject(curve)], **STYLES.get(curve.style, OTHER))
    for reading in panel.readings:
        _draw_reading(axes, reading, colours)
    axes.set_title(panel.title)
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)
    if panel.log_y:
        axes.set_yscale("log")
    else:
        axes.set_ylim(0, 1.05 * axes.get_ylim()[1])
    if panel.log_x:
        _mark_values(axes, panel)
    entries = list(_legend(panel, colours))
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


def _series(curve: Curve, results: Results) -> tuple[list[Any], list[float]]:
    values = [results.row(curve, x)[curve.key(x)] for x in curve.xs]
    return list(curve.xs), [nan if v is None else float(v) for v in values]


def _subject(curve: Curve) -> str:
    """What a curve is about: "N = 20" and "N = 20, model" are about the same."""
    return curve.label.removesuffix(", model")


def _colours(panel: Panel) -> dict[str, str]:
    subjects = dict.fromkeys(_subject(curve) for curve in panel.curves)
    grey = {_subject(curve) for curve in panel.curves if curve.style == "reliable"}
    plain = [subject for subject in subjects if subject not in grey]
    chosen = {subject: COLOURS[n % len(COLOURS)] for n, subject in enumerate(plain)}
    return chosen | dict.fromkeys(grey, GREY)


def _draw_reading(axes: Axes, reading: Reading, colours: dict[str, str]) -> None:
    about, _, said = reading.label.partition(":")
    colour = colours.get(about, INK)
    axes.plot([reading.x], [reading.y], color=colour, zorder=5, **READING)
    axes.annotate(
        said.strip() or about,
        (reading.x, reading.y),
        xytext=(8, 5),
        textcoords="offset points",
        fontsize=8.5,
        color=INK,
        bbox={"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none"},
    )


def _legend(panel: Panel, colours: dict[str, str]) -> Iterator[Line2D]:
    """One entry for each subject, then one in grey for each style that shares its colours."""
    shown: dict[str, str] = {}
    for curve in sorted(panel.curves, key=lambda c: c.style not in ("simulation", "reliable")):
        subject = _subject(curve)
        if subject not in shown:
            shown[subject] = curve.style
            style = STYLES.get(curve.style, OTHER)
            yield Line2D([], [], color=colours[subject], label=subject, **style)
    styles = dict.fromkeys(c.style for c in panel.curves if shown[_subject(c)] != c.style)
    for name in styles:
        yield Line2D([], [], color=INK, label=name, **STYLES.get(name, OTHER))
    if panel.readings:
        yield Line2D([], [], color=INK, label="paper's text", **READING)
