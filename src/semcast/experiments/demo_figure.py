"""The demonstration as a figure: the rate of the others, and the age of the slow one's quotes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from semcast.experiments.demo import HOT, VARIANTS, WARMUP_SHARE, DemoSeries, DemoSettings
from semcast.terms.palette import REFERENCE, SEMANTIC

COLOURS: Final = {"reliable": REFERENCE.light, "semantic": SEMANTIC.light}
MARKERS: Final = {"reliable": "s", "semantic": "o"}


def draw(runs: Mapping[str, DemoSeries], settings: DemoSettings, path: Path) -> None:
    """Draw two panels with a line for each run, labelled at its end."""
    from matplotlib.figure import Figure  # an extra, and slow to import

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
        axes.axvspan(0, WARMUP_SHARE * settings.seconds, color="0.93", zorder=0)
        axes.set_xlim(0, 1.12 * settings.seconds)
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(
        f"{settings.members} live processes, {settings.rate:,.0f} messages/s offered; {slow} takes "
        f"{settings.slow_ms:g} ms for each"
    )
    figure.savefig(path, dpi=120)
