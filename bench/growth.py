"""How cost grows: rate and processor time per delivery against what a user may have more of.

Live groups with one sender as fast as it can, the rate that of the slowest receiver, processor time
that of all processes; the last curve is the simulator's.  Loss is made by a relay, whose own time
does not count but which bounds the rate.  Each curve becomes a CSV and a PNG, each number the
median of the repetitions.

    python bench/growth.py --out out/growth
    python bench/growth.py --quick --only size,loss
"""

import argparse
import csv
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import process_time

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator
from msgspec.structs import replace

from semcast.bench.benchmark import (
    SENDER,
    BenchmarkRun,
    BenchSettings,
    common_row,
    plans_of,
    run_plans,
)
from semcast.bench.systems import NEW_KEY, NO_KEY, BenchCase, cases_of
from semcast.core.member import Member
from semcast.core.recipe import Recipe
from semcast.faults import Constant, Link
from semcast.fleet.live_network import relay_links
from semcast.fleet.plan import WorkerPlan
from semcast.sim.application import Producer
from semcast.sim.clock import rng_stream
from semcast.sim.network import Network
from semcast.sim.simulation import Simulation, once
from semcast.terms.events import Event
from semcast.workloads import arrivals
from semcast.workloads.stock import quotes

Row = dict[str, float]
COLOURS = ("#0072b2", "#d55e00")
STEEP = 30  # From so many times the least on, an axis is logarithmic.
SMALL_DATAGRAM = 1400
SIMULATED_RATE = 100.0
SIMULATED_DELIVERIES = 100_000


@dataclass(frozen=True)
class Curve:
    """What is measured at each place of an axis, for each of its lines.

    `drawn` says which numbers, and `quick` which places a try takes.
    """

    name: str
    axis: str
    places: Sequence[float]
    lines: Sequence[str]
    measure: Callable[[float, str, float], Row]  # at a place, for a line, for so many seconds
    drawn: Mapping[str, str]
    quick: int = 3

    def chosen(self, is_quick: bool) -> Sequence[float]:
        """The places to measure."""
        step = max(1, (len(self.places) - 1) // (self.quick - 1)) if is_quick else 1
        return self.places[::step]


LIVE = {
    "rate": "messages per second at every receiver",
    "cpu_us_per_delivery": "processor time per delivery (µs)",
}


def live(settings: BenchSettings, case: BenchCase | None = None, **load: object) -> Row:
    """One run; `load` changes what the sender sends."""
    plans = plans_of("throughput", settings, case or BenchCase("semcast"))
    if load:
        plans = [_loaded(plan, load) for plan in plans]
    return row(run_plans(plans, settings))


def row(run: BenchmarkRun) -> Row:
    """What a run tells, and how many messages it sent."""
    return {**common_row(run), "messages": run.results[SENDER].sent}


def _loaded(plan: WorkerPlan, load: Mapping[str, object]) -> WorkerPlan:
    changed = None if plan.load is None else replace(plan.load, **load)
    return replace(plan, load=changed)


def size(place: float, line: str, seconds: float) -> Row:
    """Bytes of a payload, sealed or not."""
    with TemporaryDirectory() as directory:
        key = NEW_KEY if line == "sealed" else NO_KEY
        [case] = cases_of(["semcast"], [None], [key], Path(directory))
        return live(BenchSettings(size=int(place), seconds=seconds), case)


def receivers(place: float, line: str, seconds: float) -> Row:
    """How many, beside one sender."""
    return live(BenchSettings(receivers=int(place), seconds=seconds))


def items(place: float, line: str, seconds: float) -> Row:
    """Every message is on one of so many items; no more are touched than `messages` says."""
    return live(BenchSettings(seconds=seconds), stream="overwrites", r=1.0, d=int(place))


def buffer(place: float, line: str, seconds: float) -> Row:
    """Messages that a member holds at most."""
    return live(BenchSettings(buffer=int(place), seconds=seconds))


def sent(place: float, line: str, seconds: float) -> Row:
    """So many seconds of sending: does it matter how many messages there have been?"""
    return live(BenchSettings(seconds=place))


def loss(place: float, line: str, seconds: float) -> Row:
    """Percent of datagrams, of 1,400 bytes, lost between any two members."""
    settings = BenchSettings(seconds=seconds)
    link = Link(latency=Constant(0.0), loss=place / 100)
    with relay_links(settings.names, lambda source, destination: link) as peers:
        plans = [
            replace(plan, options={**plan.options, "peers": peers(plan.name)})
            for plan in plans_of("throughput", settings, BenchCase("semcast", SMALL_DATAGRAM))
        ]
        return row(run_plans(plans, settings))


def simulated(place: float, line: str, seconds: float) -> Row:
    """Events of a simulated group on the stock mix, per second of processor time."""
    members = int(place)
    recipe = Recipe(members=members, buffer=200)
    count = 0

    def observe(event: Event) -> None:
        nonlocal count
        count += 1

    simulation = Simulation(
        once([Member(recipe, rank, rng_stream(1, "member", rank)) for rank in range(members)]),
        Network(members, Link(latency=Constant(0.0005))),
        seed=1,
        producers={
            0: Producer(arrivals.constant(SIMULATED_RATE), quotes(rng_stream(1, "workload")))
        },
        observers=[observe],
    )
    started = process_time()
    simulation.run(max(1.0, SIMULATED_DELIVERIES / SIMULATED_RATE / members * seconds / 5))
    spent_s = process_time() - started
    return {"events_per_second": count / spent_s, "events": count}


CURVES = {
    curve.name: curve
    for curve in (
        Curve(
            "size",
            "bytes of a message",
            (16, 64, 256, 1024, 4096, 16_384, 60_000),
            ("unsealed", "sealed"),
            size,
            LIVE,
        ),
        Curve("receivers", "receivers", (1, 2, 4, 8, 16, 32), ("semcast",), receivers, LIVE),
        Curve("items", "items", tuple(10**n for n in range(1, 7)), ("semcast",), items, LIVE),
        Curve(
            "buffer",
            "messages that a member holds at most",
            (64, 256, 1024, 4096, 16_384, 65_536),
            ("semcast",),
            buffer,
            LIVE,
        ),
        Curve("sent", "seconds of sending", (1, 2, 5, 10, 20), ("semcast",), sent, LIVE),
        Curve("loss", "datagrams lost (%)", (0, 0.1, 0.5, 1, 2, 5, 10), ("semcast",), loss, LIVE),
        Curve(
            "simulator",
            "simulated members",
            (4, 16, 64, 256, 1024),
            ("semcast",),
            simulated,
            {"events_per_second": "simulated events per second and core"},
        ),
    )
}


def arguments() -> argparse.Namespace:
    """From the command line."""
    parser = argparse.ArgumentParser(description="how cost grows")
    parser.add_argument("--only", default="", help=f"of {','.join(CURVES)}, by commas")
    parser.add_argument("--seconds", type=float, default=5.0, help="of sending in each run")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each point")
    parser.add_argument("--quick", action="store_true", help="a try: few and short runs")
    parser.add_argument("--out", type=Path, default=Path("out/growth"))
    told = parser.parse_args()
    told.curves = [name for name in told.only.split(",") if name] or list(CURVES)
    unknown = [name for name in told.curves if name not in CURVES]
    if unknown:
        parser.error(f"only: {', '.join(unknown)} is not one of {', '.join(CURVES)}")
    if told.quick:
        told.seconds, told.repeat = 1.0, 1
    return told


def points(curve: Curve, told: argparse.Namespace) -> Iterator[dict[str, object]]:
    """A line of the CSV for each place and line, told as it is found; lines alternate."""
    for place in curve.chosen(told.quick):
        rows: dict[str, list[Row]] = {line: [] for line in curve.lines}
        for _ in range(told.repeat):
            for line, found in rows.items():
                found.append(curve.measure(place, line, told.seconds))
        for line, found in rows.items():
            point: dict[str, object] = {curve.name: place, "line": line}
            for key in found[0]:
                values = [row[key] for row in found]
                point |= {key: median(values), f"{key}_min": min(values), f"{key}_max": max(values)}
            numbers = ", ".join(f"{key} {point[key]:,.4g}" for key in curve.drawn)
            print(f"{curve.name} {place:,g}, {line}: {numbers}", file=sys.stderr, flush=True)
            yield point


def draw(curve: Curve, rows: Sequence[Mapping[str, object]]) -> Figure:
    """A panel for each number, a line for each line, from least to most."""
    figure = Figure(figsize=(6.0 * len(curve.drawn), 4.0), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(curve.drawn), squeeze=False)[0]
    places = sorted({float(row[curve.name]) for row in rows})
    for axes, (key, about) in zip(panels, curve.drawn.items(), strict=True):
        for line, colour in zip(curve.lines, COLOURS, strict=False):
            own = [row for row in rows if row["line"] == line]
            xs = [row[curve.name] for row in own]
            spread = [row[f"{key}_min"] for row in own], [row[f"{key}_max"] for row in own]
            axes.plot(xs, [row[key] for row in own], "o-", color=colour, label=line)
            axes.fill_between(xs, *spread, color=colour, alpha=0.2)
        axes.set_xscale("symlog", linthresh=min(place for place in places if place) or 1)
        axes.xaxis.set_major_locator(FixedLocator(places))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter("{x:,g}")
        ys = [float(row[key]) for row in rows]
        if max(ys) > STEEP * min(ys) > 0:
            axes.set_yscale("log")
        else:
            axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter("{x:,g}")
        axes.set_xlabel(curve.axis)
        axes.set_title(about, loc="left", fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
        if len(curve.lines) > 1:
            axes.legend(frameon=False)
    return figure


def main() -> None:
    """One curve after the other."""
    told = arguments()
    told.out.mkdir(parents=True, exist_ok=True)
    for name in told.curves:
        rows = list(points(CURVES[name], told))
        with (told.out / f"{name}.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0], lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        draw(CURVES[name], rows).savefig(told.out / f"{name}.png", dpi=120)
        print(f"{told.out / name}.csv, {told.out / name}.png", file=sys.stderr)


if __name__ == "__main__":
    main()
