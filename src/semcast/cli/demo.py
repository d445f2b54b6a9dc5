"""`semcast demo`: the effect of one slow member on a group of real processes."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from semcast.cli.commands import Json
from semcast.cli.output import Output, wrapped
from semcast.cli.past_waits import WaitTime
from semcast.terms.palette import HOLDS, WRONG

if TYPE_CHECKING:
    from semcast.experiments.demo import DemoOutcome, DemoSeries, DemoSettings

    Runs = Mapping[str, tuple[DemoOutcome, DemoSeries]]

EXAMPLE = "\b\nExample:\n  semcast demo --seconds 10 --slow-ms 4 --out out/demo"
NAME: Final = "slow-receiver"
RELIABLE: Final = "reliable"
SEMANTIC: Final = "semantic"
FIGURE_S: Final = 1.5  # usually; most of it is to import matplotlib


def demo(
    seconds: Annotated[float, typer.Option(help="Sending time of both runs, in seconds.")] = 10.0,
    members: Annotated[int, typer.Option(help="Number of processes, including the sender.")] = 5,
    slow_ms: Annotated[
        float,
        typer.Option(help="Time that the slow member spends on a message, in milliseconds."),
    ] = 4.0,
    out: Annotated[
        Path, typer.Option(help="Directory for the figure, the numbers and the traces.")
    ] = Path("out/demo"),
    json: Json = False,
) -> int:
    """Compare reliable and semantic multicast with one slow member.

    Runs two groups of real processes on this machine at the same time, one with the reliable and
    one with the semantic protocol, and checks the recorded traces.
    """
    from semcast.cli.demo_view import demo_view
    from semcast.experiments.demo import DemoRunner, DemoSettings, buffer_for

    settings = DemoSettings(
        seconds=seconds, members=members, slow_ms=slow_ms, buffer=buffer_for(slow_ms)
    )
    out.mkdir(parents=True, exist_ok=True)  # Before the work, since it may be refused.
    output = Output(json)
    runner = DemoRunner(settings, out / "traces")
    if runner.fault is not None:
        output.print_text(no_multicast(runner.fault))
    with demo_view(settings, output) as view:
        runs = runner.run_all(view.on_progress, lambda name, run: view.on_outcome(name, run[0]))
    outcomes = {name: outcome for name, (outcome, _) in runs.items()}
    is_good = is_as_promised(outcomes)
    headline = wrapped(sentence(outcomes, settings), "")
    output.print_text("", *headline, colour=HOLDS if is_good else WRONG)
    output.print_text(*verdict(outcomes, settings))
    with output.waiting("drawing the figure", estimate=WaitTime("demo figure", FIGURE_S)):
        files = write(runs, settings, out)
    output.print_text("files: " + ", ".join(path for path in files.values() if path))
    output.next(
        f"semcast explain {outcomes[SEMANTIC].trace}",
        f"semcast check {outcomes[SEMANTIC].trace}",
        "python examples/ticker.py",
    )
    output.print_json({**outcomes, "settings": settings, **files})
    return 0 if is_good else 1


def is_as_promised(outcomes: Mapping[str, "DemoOutcome"]) -> bool:
    """Whether no run broke a property, and the semantic ones ended with the newest values."""
    return all(
        outcome.holds_all and (outcome.converged or name == RELIABLE)
        for name, outcome in outcomes.items()
    )


def no_multicast(fault: str) -> str:
    """The reason why datagrams go to each member separately."""
    return f"Multicast does not work ({fault}), so the sender sends each member its own copy."


def verdict(outcomes: Mapping[str, "DemoOutcome"], settings: "DemoSettings") -> list[str]:
    """The result of the checks, a line each."""
    events = sum(outcome.events for outcome in outcomes.values())
    broken = sorted({name for outcome in outcomes.values() for name in outcome.broken})
    held = {
        name
        for outcome in outcomes.values()
        for name, status in outcome.properties.items()
        if status == "pass"
    }
    found = f"violated: {', '.join(broken)}" if broken else f"{len(held)} guarantees hold"
    unequal = [name for name, outcome in outcomes.items() if not outcome.converged]
    ended = (
        f"NOT all members ended with the newest quotes: {', '.join(unequal)}"
        if unequal
        else f"all {settings.members} members ended with the same newest quotes, in both groups"
    )
    return [
        f"{'[FAIL]' if broken or not held else '[ok]'} {events:,} recorded events checked: {found}",
        f"{'[FAIL]' if unequal else '[ok]'} {ended}",
    ]


def sentence(outcomes: Mapping[str, "DemoOutcome"], settings: "DemoSettings") -> str:
    """The answer, in plain words."""
    reliable, semantic = outcomes[RELIABLE], outcomes[SEMANTIC]
    offered, slow = reliable.offered_rate, settings.names[settings.slow]
    if reliable.fast_rate < 0.9 * offered:
        slowed = f"slows everyone to {reliable.fast_rate:,.0f}/s"
    elif reliable.slow_rate < 0.9 * offered:
        slowed = "was still filling its buffers when the run ended"
    else:
        slowed = f"keeps up, because {slow} is fast enough"
    last = "it ends" if semantic.converged else "it does NOT end"
    return (
        f"With one slow member, reliable multicast {slowed}. With semantic multicast the others "
        f"get {semantic.fast_rate:,.0f}/s; {slow} skips {semantic.purged_ratio:.0%}, all replaced, "
        f"its quotes are {semantic.staleness_p50_ms / 1000:.1f} s old instead of "
        f"{reliable.staleness_p50_ms / 1000:.1f} s, and {last} with the newest of every stock."
    )


def write(runs: "Runs", settings: "DemoSettings", out: Path) -> dict[str, str | None]:
    """Write the numbers and, if matplotlib is installed, the figure; returns their paths."""
    import msgspec

    from semcast.experiments.demo_figure import draw

    numbers = {
        name: {**msgspec.to_builtins(outcome), "by_second": series}
        for name, (outcome, series) in runs.items()
    }
    text = msgspec.json.encode({"settings": settings, **numbers})
    (out / f"{NAME}.json").write_bytes(msgspec.json.format(text, indent=1) + b"\n")
    figure: str | None = str(out / f"{NAME}.png")
    try:
        draw({name: series for name, (_, series) in runs.items()}, settings, Path(str(figure)))
    except ModuleNotFoundError:
        figure = None  # The terminal has shown it.
    return {"figure": figure, "numbers": str(out / f"{NAME}.json")}
