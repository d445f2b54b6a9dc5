"""A sweep as a picture: each result against the first numeric axis of the grid.

Other axes are curves, with their names at their ends.  Bars are 95 % intervals.  What a model says
is a dashed line beside the result that it is about.  What is the same everywhere is not drawn.
"""

import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D

from semcast.experiments.experiment import Value
from semcast.experiments.plot import (
    COLOURS,
    DOTS_PER_INCH,
    INK,
    MARKS,
    OTHER,
    RC_PARAMS,
    STYLES,
    name_curves,
    new_canvas,
)
from semcast.experiments.vector import svg_of
from semcast.experiments.wording import MODELS, axis_label, result_label, setting

if TYPE_CHECKING:
    from semcast.pipeline.sweep.results import Estimate

CURVES_MAX: Final = 12  # that can be told apart
COLUMNS: Final = 3


def draw(
    name: str, axes: Sequence[str], estimates: Sequence["Estimate"]
) -> tuple[bytes, bytes] | None:
    """The picture as PNG, and as SVG with its panels in one column; None if no axis is a number
    or nothing varies."""
    x = next((axis for axis in axes if _is_numeric(axis, estimates)), None)
    results = _varying(estimates)
    shown = [result for result in results if _drawn_with(result, results) == result]
    if x is None or not shown:
        return None
    with rc_context(RC_PARAMS):
        png = io.BytesIO()
        wide = _canvas(x, shown, results, estimates, min(COLUMNS, len(shown)))
        wide.savefig(png, format="png", dpi=DOTS_PER_INCH, metadata={"Title": name})
        return png.getvalue(), svg_of(_canvas(x, shown, results, estimates, 1))


def _canvas(
    x: str,
    shown: Sequence[str],
    results: Sequence[str],
    estimates: Sequence["Estimate"],
    columns: int,
) -> Canvas:
    rows = -(-len(shown) // columns)
    canvas = new_canvas(columns, rows)
    for place, result in enumerate(shown, start=1):
        panel = canvas.add_subplot(rows, columns, place)
        models = [m for m in results if m != result and _drawn_with(m, results) == result]
        _draw_panel(panel, x, [result, *models], estimates)
    entries = _legend(len(_curves(x, shown[0], estimates)), len(shown) < len(results))
    if entries:
        canvas.legend(handles=entries, loc="outside lower center", ncols=2 * columns)
    return canvas


def _is_numeric(axis: str, estimates: Sequence["Estimate"]) -> bool:
    values = {estimate.place[axis] for estimate in estimates}
    return len(values) > 1 and all(type(value) in (int, float) for value in values)


def _varying(estimates: Sequence["Estimate"]) -> list[str]:
    means: dict[str, set[float]] = {}
    for estimate in estimates:
        means.setdefault(estimate.result, set()).add(estimate.mean)
    return [result for result, values in means.items() if len(values) > 1]


def _drawn_with(result: str, results: Sequence[str]) -> str:
    """Itself, or the result that a model speaks of."""
    about = MODELS.get(result, result)
    return about if about in results else result


def _draw_panel(
    panel: Axes, x: str, results: Sequence[str], estimates: Sequence["Estimate"]
) -> None:
    for result in results:
        style = STYLES["simulation" if result == results[0] else "model"]
        for number, (_, curve) in enumerate(_curves(x, result, estimates)[:CURVES_MAX]):
            _draw_curve(panel, x, curve, number, style)
    panel.set_title(result_label(results[0]))
    panel.set_xlabel(axis_label(x))
    if panel.dataLim.y0 >= 0:
        panel.set_ylim(0, 1.05 * panel.get_ylim()[1])
    curves = _curves(x, results[0], estimates)[:CURVES_MAX]
    ends = {
        name: (_ordered(x, curve)[-1].mean, _colour(n)) for n, (name, curve) in enumerate(curves)
    }
    name_curves(panel, {name: end for name, end in ends.items() if name})


def _legend(curves: int, has_models: bool) -> list[Line2D]:
    """One for all panels, whose curves are the same and have their names at their ends."""
    entries = []
    if has_models:
        entries.append(Line2D([], [], color=INK, label="simulation", **STYLES["simulation"]))
        entries.append(Line2D([], [], color=INK, label="model", **STYLES["model"]))
    if curves > CURVES_MAX:
        left = f"{curves - CURVES_MAX} more are not drawn"
        entries.append(Line2D([], [], linestyle="none", label=left))
    return entries


def _curves(
    x: str, result: str, estimates: Sequence["Estimate"]
) -> list[tuple[str, list["Estimate"]]]:
    """By what else the grid varies, in the order of the grid."""
    curves: dict[str, list[Estimate]] = {}
    for estimate in estimates:
        if estimate.result == result:
            curves.setdefault(_label(x, estimate.place), []).append(estimate)
    return list(curves.items())


def _label(x: str, place: Mapping[str, Value]) -> str:
    return ", ".join(setting(name, value) for name, value in place.items() if name != x)


def _draw_curve(
    panel: Axes, x: str, curve: Sequence["Estimate"], number: int, style: dict[str, Any]
) -> None:
    ordered = _ordered(x, curve)
    xs = [float(estimate.place[x] or 0) for estimate in ordered]
    means = [estimate.mean for estimate in ordered]
    # An interval that is not known has no bar.
    halves = [0.0 if each.high is None else each.high - each.mean for each in ordered]
    look = style if style is STYLES["model"] else _look(number)
    panel.plot(xs, means, color=_colour(number), **look)
    if any(halves):
        panel.errorbar(xs, means, halves, fmt="none", ecolor=_colour(number), capsize=3)


def _ordered(x: str, curve: Sequence["Estimate"]) -> list["Estimate"]:
    return sorted(curve, key=lambda estimate: float(estimate.place[x] or 0))


def _colour(number: int) -> str:
    return COLOURS[number % len(COLOURS)]


def _look(number: int) -> dict[str, Any]:
    """When the colours have all been used, they come again dotted."""
    style = STYLES["simulation"] if number < len(COLOURS) else OTHER
    return {**style, "marker": MARKS[number % len(MARKS)]}
