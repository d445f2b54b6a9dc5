"""`semcast demo`: what one slow member does to a group of real processes."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, Final

import typer

from semcast.cli.commands import Json
from semcast.cli.output import Output, table, width

if TYPE_CHECKING:
    from semcast.experiments.demo import Outcome, Series, Settings

    Runs = Mapping[str, tuple[Outcome, Series]]

EXAMPLE = "Example: semcast demo --seconds 10 --slow-ms 4 --out out/demo"
NAME: Final = "slow-receiver"
LEGEND: Final = (
    "purged: share of messages that the slow member skipped; p50, p99: age of its values of the "
    "hottest stocks; equal: whether all members ended with the sender's last value of every stock"
)
RELIABLE: Final = "reliable"
SEMANTIC: Final = "semantic"


def demo(
    seconds: Annotated[
        float, typer.Option(help="Sending time of each of the three runs, in seconds.")
    ] = 10.0,
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

    Runs a group of real processes on this machine: first with the reliable protocol, then twice
    with the semantic one.
    """
    from semcast.cli.demo_view import viewing
    from semcast.experiments.demo import VARIANTS, Demonstration, Settings, buffer_for

    settings = Settings(
        seconds=seconds, members=members, slow_ms=slow_ms, buffer=buffer_for(slow_ms)
    )
    out.mkdir(parents=True, exist_ok=True)  # Before the work, since it may be refused.
    output = Output(json)
    demonstration = Demonstration(settings, out / "traces")
    output.say(*introduction(settings, demonstration.fault))
    runs: dict[str, tuple[Outcome, Series]] = {}
    with viewing(settings, output) as view:
        for name in VARIANTS:
            runs[name] = demonstration.run(name, partial(view.on_notice, name))
            view.on_outcome(name, runs[name][0])
    outcomes = {name: outcome for name, (outcome, _) in runs.items()}
    output.say("", *table([row(VARIANTS[name].title, o) for name, o in outcomes.items()]))
    output.say(*wrap(LEGEND, width()), "", *verdict(outcomes), *wrap(sentence(outcomes), width()))
    files = write(runs, settings, out)
    output.say("", *(f"{what}: {path or 'needs matplotlib'}" for what, path in files.items()))
    output.answer({**outcomes, "settings": settings, **files})
    return 0 if is_as_promised(outcomes) else 1


def is_as_promised(outcomes: Mapping[str, "Outcome"]) -> bool:
    """Whether no run broke a property, and the semantic ones ended with the newest values."""
    return all(
        outcome.is_sound and (outcome.converged or name == RELIABLE)
        for name, outcome in outcomes.items()
    )


def introduction(settings: "Settings", fault: str | None) -> list[str]:
    """What is about to be seen."""
    told = (
        f"{settings.members} processes on this machine; {settings.names[0]} sends "
        f"{settings.rate:,.0f} quotes/s to all. {settings.names[settings.slow]} spends "
        f"{settings.slow_ms:g} ms on each quote, so it reads at most "
        f"{1000 / settings.slow_ms:,.0f}/s. Each buffer holds {settings.buffer} messages."
    )
    if fault is not None:
        told += f" Multicast does not work ({fault}), so the sender sends each member its own copy."
    return wrap(told, width())


def row(title: str, outcome: "Outcome") -> dict[str, object]:
    """One run in the table; rates are messages per second."""
    return {
        "messages/s": title,
        "offered": round(outcome.offered_rate),
        "sender": round(outcome.sender_rate),
        "fast": round(outcome.fast_rate),
        "slow": round(outcome.slow_rate),
        "purged %": round(100 * outcome.purged_ratio),
        "p50 ms": round(outcome.staleness_p50_ms),
        "p99 ms": round(outcome.staleness_p99_ms),
        "equal": "yes" if outcome.converged else "NO",
    }


def verdict(outcomes: Mapping[str, "Outcome"]) -> list[str]:
    """What the recorded executions were found to be."""
    events = sum(outcome.events for outcome in outcomes.values())
    broken = sorted({name for outcome in outcomes.values() for name in outcome.broken})
    found = f"violated: {', '.join(broken)}" if broken else "every guaranteed property holds"
    return [f"Checked {events:,} recorded events: {found}."]


def sentence(outcomes: Mapping[str, "Outcome"]) -> str:
    """What happened, in plain words."""
    reliable, semantic = outcomes[RELIABLE], outcomes[SEMANTIC]
    offered = reliable.offered_rate
    if reliable.fast_rate < 0.9 * offered:
        slowed = f"slowed everyone to {reliable.fast_rate:,.0f} messages/s"
    elif reliable.slow_rate < 0.9 * offered:
        slowed = "was still filling its buffers when the run ended"
    else:
        slowed = "kept up, because that member was fast enough"
    last = (
        "still ended with the newest quote of every stock"
        if semantic.converged
        else "did NOT end with the newest quote of every stock"
    )
    share = min(1.0, semantic.fast_rate / offered)
    return (
        f"With one slow member, the reliable protocol {slowed}. With the semantic protocol the "
        f"other members received {share:.0%} of the offered messages; the slow member skipped "
        f"{semantic.purged_ratio:.0%}, all of them superseded, and {last}."
    )


def write(runs: "Runs", settings: "Settings", out: Path) -> dict[str, str | None]:
    """The numbers and, where matplotlib is installed, the figure; their paths."""
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
