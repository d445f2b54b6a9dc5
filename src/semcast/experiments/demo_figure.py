"""The demonstration as a figure: the rate of the others, and the age of the slow one's quotes."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from semcast.experiments.demo import HOT, VARIANTS, WARMUP_SHARE, DemoSeries, DemoSettings
from semcast.terms.palette import REFERENCE, SEMANTIC, TINT

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS: Final = {"reliable": REFERENCE.light, "semantic": SEMANTIC.light}
DOTS_PER_INCH: Final = 120
MARKERS: Final = {"reliable": "s", "semantic": "o"}


def draw(runs: Mapping[str, DemoSeries], settings: DemoSettings, path: Path) -> None:
    """Write the figure as PNG, and beside it as SVG."""
    from matplotlib import rc_context  # an extra, and slow to import

    from semcast.experiments.plot import RC_PARAMS
    from semcast.experiments.vector import svg_of

    with rc_context(RC_PARAMS):
        figure = _figure(runs, settings)
        figure.savefig(path, dpi=DOTS_PER_INCH)
        path.with_suffix(".svg").write_bytes(svg_of(figure))


def _figure(runs: Mapping[str, DemoSeries], settings: DemoSettings) -> "Figure":
    """Two panels with a line for each run, labelled at its end."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 6), layout="constrained")
    rates, ages = figure.subplots(2, 1, sharex=True)
    slow = settings.names[settings.slow]
    for name, series in runs.items():
        at_s = [second + 0.5 for second in range(len(series.fast))]
        ages_s = [age_ms / 1000 for age_ms in series.staleness_ms]
        for axes, values in ((rates, series.fast), (ages, ages_s)):
            axes.plot(at_s, values, color=COLOURS[name], marker=MARKERS[name], lw=2.2)
            axes.annotate(
                VARIANTS[name].title,
                (at_s[-1], values[-1]),
                xytext=(8, 0),
                textcoords="offset points",
                color=COLOURS[name],
                fontweight="bold",
                va="center",
            )
    rates.set(title="Rate of a fast member", ylabel="messages per second")
    ages.set(
        title=f"Age of the quotes that {slow} holds (median of its {len(HOT)} hottest stocks)",
        xlabel="time (s); the shaded quarter is not measured",
        ylabel="age (s)",
    )
    for axes in (rates, ages):
        axes.axvspan(0, WARMUP_SHARE * settings.seconds, color=TINT.light, zorder=0)
        axes.set_xlim(0, 1.12 * settings.seconds)
        axes.set_ylim(bottom=0)
    figure.suptitle(
        f"{settings.members} live processes, {settings.rate:,.0f} messages/s offered; {slow} takes "
        f"{settings.slow_ms:g} ms for each"
    )
    return figure
