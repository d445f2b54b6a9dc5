"""How long a view change takes: against live messages, purged messages, and members.

Simulated, from the first `Prepare` until the last survivor is in the new view: what is live must be
fetched by who lacks it, what was purged need not, and a slow application holds up nobody.
Simulated and live against members; a live change is what applications see, so a crash takes its
detection too.  Writes out/view_change.csv and .png, prints a table.

    python bench/view_change.py [--rounds 5] [--out DIR]
"""

import argparse
import csv
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import NamedTuple

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import StrMethodFormatter
from view_change_live import CRASH, LEAVE, measure
from view_change_simulated import (
    LIVE,
    PURGED,
    SLOW_APPLICATION,
    Change,
    against_members,
    against_messages,
)

MESSAGES = (0, 10, 100, 1_000, 10_000)
SIMULATED = (3, 4, 8, 16, 32, 64)
PROCESSES = (3, 4, 5, 6, 7, 8)
BY_MESSAGES, BY_MEMBERS = "messages", "members"
COLOURS = ("#d55e00", "#0072b2", "#009e73")
KEYS = ("against", "series", "x", "ms", "ms_min", "ms_max", "cpu_ms")


class Row(NamedTuple):
    """The median and the spread of all rounds at one point; no processor time of live ones."""

    against: str
    series: str
    x: int
    ms: float
    ms_min: float
    ms_max: float
    cpu_ms: float | None

    def line(self) -> str:
        """For the table."""
        cpu = "" if self.cpu_ms is None else f"{self.cpu_ms:12.1f}"
        spread = f"{self.ms_min:10.2f}{self.ms_max:10.2f}"
        return f"{self.series:32}{self.x:9,} {self.against:10}{self.ms:10.2f}{spread}{cpu}"


def rows(rounds: int) -> Iterator[Row]:
    """Measure everything, point by point."""
    for series in (LIVE, PURGED, SLOW_APPLICATION):
        for count in MESSAGES:
            changes = [against_messages(series, count, seed) for seed in range(rounds)]
            yield of_changes(BY_MESSAGES, series, count, changes)
    for members in SIMULATED:
        changes = [against_members(members, seed) for seed in range(rounds)]
        yield of_changes(BY_MEMBERS, "simulated, after a crash", members, changes)
    for how in (LEAVE, CRASH):
        for members in PROCESSES:
            took = [measure(members, how) * 1e3 for _ in range(rounds)]
            told = median(took), min(took), max(took)
            yield Row(BY_MEMBERS, f"live, from the {how} on", members, *told, None)


def of_changes(against: str, series: str, x: int, changes: list[Change]) -> Row:
    """In milliseconds."""
    took = [change.seconds * 1e3 for change in changes]
    cpu_ms = median(change.cpu_s for change in changes) * 1e3
    return Row(against, series, x, median(took), min(took), max(took), cpu_ms)


def draw(told: list[Row], path: Path) -> None:
    """Two panels: against messages, against members."""
    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    titles = {BY_MESSAGES: "4 members, one leaves", BY_MEMBERS: "one member crashes or leaves"}
    scales: dict[str, Callable[[], None]] = {
        BY_MESSAGES: lambda: left.set_xscale("symlog", linthresh=10),
        BY_MEMBERS: lambda: right.set_xscale("log", base=2),
    }
    for axes, (against, title) in zip((left, right), titles.items(), strict=True):
        chosen = [row for row in told if row.against == against]
        for colour, series in zip(COLOURS, dict.fromkeys(r.series for r in chosen), strict=True):
            points = [row for row in chosen if row.series == series]
            below = [row.ms - row.ms_min for row in points]
            above = [row.ms_max - row.ms for row in points]
            axes.errorbar(
                [row.x for row in points],
                [row.ms for row in points],
                yerr=(below, above),
                label=series,
                color=colour,
                marker="o",
                capsize=3,
            )
        scales[against]()
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        axes.set_yscale("log")
        axes.set_title(title)
        axes.set_xlabel(against)
        axes.set_ylabel("time of the view change (ms)")
        axes.legend()
        axes.grid(alpha=0.3)
    FigureCanvasAgg(figure).print_png(path)


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description="how long a view change takes")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("out"))
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    print(f"{'':32}{'':20}{'ms':>10}{'least':>10}{'most':>10}{'cpu ms':>12}")
    told = []
    for row in rows(asked.rounds):
        print(row.line(), flush=True)
        told.append(row)
    with (asked.out / "view_change.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(KEYS)
        writer.writerows(told)
    draw(told, asked.out / "view_change.png")


if __name__ == "__main__":
    main()
