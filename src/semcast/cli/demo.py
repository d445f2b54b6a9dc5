"""`semcast demo`: what one slow member does to a group, drawn in the terminal."""

from collections.abc import Mapping
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, Final

import typer

from semcast.cli.commands import Json
from semcast.cli.output import CYAN, GREEN, RED, Output, bar, width

if TYPE_CHECKING:
    from semcast.experiments.demo import Outcome, Series, Settings

    Runs = Mapping[str, tuple[Outcome, Series]]

EXAMPLE = "Example: semcast demo --seconds 10 --slow-ms 2 --out out/demo"
NAME: Final = "slow-receiver"
RATES: Final = {"sender": "sender_rate", "a fast member": "fast_rate", "the slow one": "slow_rate"}
COLOURS: Final = {"reliable": RED, "semantic": CYAN, "semantic_item": GREEN}


def demo(
    seconds: Annotated[float, typer.Option(help="Simulated time of each run.")] = 20.0,
    members: Annotated[int, typer.Option(help="Size of the group, the sender included.")] = 5,
    slow_ms: Annotated[float, typer.Option(help="What the slow one takes for a message.")] = 4.0,
    out: Annotated[Path, typer.Option(help="Directory for figure and numbers.")] = Path("out/demo"),
    json: Json = False,
) -> int:
    """One slow member in a group: reliable multicast beside semantic multicast, simulated."""
    from semcast.experiments import demo as demonstration

    settings = demonstration.Settings(seconds=seconds, members=members, slow_ms=slow_ms)
    out.mkdir(parents=True, exist_ok=True)  # Before the work, since it may be refused.
    output = Output(json)
    runs = demonstration.run(
        settings,
        lambda name, share: output.progress(
            f"{demonstration.VARIANTS[name].title:<22}{bar(share, 30):<30} {min(share, 1):4.0%}"
        ),
    )
    titles = {name: variant.title for name, variant in demonstration.VARIANTS.items()}
    output.say(*chart(runs, titles, settings, output), "", *sentences(runs, settings))
    files = write(runs, settings, out)
    output.say("", *(f"{what}: {path or 'needs matplotlib'}" for what, path in files.items()))
    outcomes = {name: outcome for name, (outcome, _) in runs.items()}
    output.answer({**outcomes, "settings": settings, **files})
    return 0 if all(outcome.converged for outcome in outcomes.values()) else 1


def write(runs: "Runs", settings: "Settings", out: Path) -> dict[str, str | None]:
    """The numbers and, where matplotlib is installed, the figure; their paths."""
    import msgspec

    from semcast.experiments.demo import draw

    numbers = {
        name: {**msgspec.to_builtins(outcome), "by_second": series}
        for name, (outcome, series) in runs.items()
    }
    text = msgspec.json.encode({"settings": settings, **numbers})
    (out / f"{NAME}.json").write_bytes(msgspec.json.format(text, indent=1) + b"\n")
    figure: str | None = str(out / f"{NAME}.png")
    try:
        draw(runs, settings, out / f"{NAME}.png")
    except ModuleNotFoundError:
        figure = None  # The terminal has shown it.
    return {"figure": figure, "numbers": str(out / f"{NAME}.json")}


def chart(
    runs: "Runs", titles: Mapping[str, str], settings: "Settings", output: Output
) -> list[str]:
    """Bars of rates on one scale, and below each run what the slow member has."""
    scale = max(settings.rate, *(outcome.fast_rate for outcome, _ in runs.values()))
    columns = max(10, width() - 2 - 14 - 8 - 1)
    lines = wrap(
        f"{settings.members} members, {settings.rate:,.0f} messages/s offered, one member takes "
        f"{settings.slow_ms:g} ms for each; buffers of {settings.buffer}, "
        f"{settings.seconds:g} simulated seconds",
        width(),
    )
    for name, (outcome, _) in runs.items():
        lines += ["", titles[name]]
        for label, key in RATES.items():
            rate = getattr(outcome, key)
            blocks = output.paint(bar(rate / scale, columns), COLOURS[name])
            lines.append(f"  {label:<14}{rate:>7,.0f}/s {blocks}")
        lines += wrap(
            f"the slow one skips {outcome.purged_ratio:.0%}; its hot stocks are "
            f"{outcome.staleness_p50_ms:,.0f} ms old (median), "
            f"{outcome.staleness_p99_ms:,.0f} ms (p99); "
            f"{'converged' if outcome.converged else 'NOT converged'}",
            width(),
            initial_indent="  ",
            subsequent_indent="  ",
        )
    return lines


def sentences(runs: "Runs", settings: "Settings") -> list[str]:
    """What happened, in plain words, folded to the terminal."""
    reliable, semantic = runs["reliable"][0], runs["semantic"][0]
    offered = settings.rate
    if reliable.fast_rate < 0.99 * offered:
        slowed = f"slowed everyone to {reliable.fast_rate:,.0f} messages/s"
    elif reliable.slow_rate < 0.99 * offered:
        slowed = "was still filling its buffers when the run ended"
    else:
        slowed = "kept up, since that member is not too slow"
    last = (
        "still ended with the newest quote of every stock"
        if semantic.converged
        else "did NOT end with the newest quote of every stock"
    )
    told = (
        f"One slow member: the reliable protocol {slowed}; the semantic one gave the others "
        f"{semantic.fast_rate / offered:.0%} of what was offered, while the slow one skipped "
        f"{semantic.purged_ratio:.0%}, all of it superseded, and {last}."
    )
    return wrap(told, width())
