"""The demonstration as a figure: what the others get, what the slow member gets, how old it is."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from semcast.experiments.demo import HOT, VARIANTS, WARMUP_SHARE, Series, Settings

# Runs often coincide: a thinner line on a thicker one lets both be seen.
LINES: Final = {
    "reliable": ("#d55e00", 5.0),
    "semantic": ("#56b4e9", 3.5),
    "semantic_item": ("#000000", 1.2),
}


def draw(runs: Mapping[str, Series], settings: Settings, path: Path) -> None:
    """One panel each, a line for each run, by second."""
    from matplotlib.figure import Figure  # an extra, and slow to import

    figure = Figure(figsize=(8, 9), layout="constrained")
    rates, slow_rates, ages = figure.subplots(3, 1, sharex=True)
    for name, series in runs.items():
        at = [second + 0.5 for second in range(len(series.fast))]
        colour, thickness = LINES[name]
        ages_s = [age / 1000 for age in series.staleness_ms]
        for axes, values in ((rates, series.fast), (slow_rates, series.slow), (ages, ages_s)):
            axes.plot(at, values, color=colour, lw=thickness, label=VARIANTS[name].title)
    rates.set(title="what a fast member gets", ylabel="delivered messages/s")
    slow_rates.set(title="what the slow member gets", ylabel="delivered messages/s")
    slow_rates.set_ylim(0, rates.get_ylim()[1])
    ages.set(
        title=f"how old the slow member's {len(HOT)} hottest stocks are (median)",
        xlabel="time (s); the shaded quarter is not measured",
        ylabel="staleness (s)",
    )
    for axes in (rates, slow_rates, ages):
        axes.axvspan(0, WARMUP_SHARE * settings.seconds, color="0.93", zorder=0)
        axes.set_xlim(0, settings.seconds)
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
    rates.legend(loc="center right")
    figure.suptitle(
        f"{settings.members} live processes, {settings.rate:,.0f} messages/s offered, "
        f"one takes {settings.slow_ms:g} ms for each"
    )
    figure.savefig(path, dpi=120)
