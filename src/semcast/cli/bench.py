"""`semcast bench`: how fast live groups on this machine are, other systems beside them."""

from collections.abc import Callable, Container, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import typer

from semcast.cli.commands import CommandGroup, Json, new_app
from semcast.cli.output import (
    UNLIMITED,
    Output,
    bar,
    count_of,
    format_value,
    table,
    terminal_columns,
    width,
    wrapped,
)
from semcast.cli.past_waits import WaitTime
from semcast.terms.palette import HOLDS, SEMANTIC, SLOW, WRONG

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from semcast.bench.benchmark import BenchRow, BenchSettings, Ticks
    from semcast.bench.systems import BenchCase

AROUND_S: Final = 2.3  # of each run, beside its seconds: to start, and until all is received
# Of a row, in the table: the headings and the bars tell them.
HIDDEN_COLUMNS: Final = (
    "system",
    "version",
    "receivers",
    "size",
    "datagram",
    "sealed",
    "runs",
    "spread",
)

Receivers: TypeAlias = Annotated[int, typer.Option(help="Number of fast receivers.")]
Size: TypeAlias = Annotated[
    int, typer.Option(metavar="BYTES", help="Payload size of each message, in bytes.")
]
Seconds: TypeAlias = Annotated[float, typer.Option(help="Sending time of each run, in seconds.")]
Against: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="LIST",
        help="Systems to compare with, such as udp,pyzmq,nats; all runs every installed one.",
    ),
]
Datagrams: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--datagram",
        metavar="LIST",
        help="Datagram sizes to compare, in bytes, such as 1400,61440.",
        show_default="60 KiB on loopback",
    ),
]
Keys: TypeAlias = Annotated[
    str,
    typer.Option(
        "--key",
        metavar="LIST",
        help="Encryption to compare: none, new (a key made for these runs) or a key ring file.",
    ),
]
Repeat: TypeAlias = Annotated[
    int, typer.Option(help="Runs per system, alternating; reports medians.")
]
Out: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Directory for the figures (PNG, SVG) and the table (CSV).",
        show_default="no files",
    ),
]
Rate: TypeAlias = Annotated[float, typer.Option(help="Messages sent per second.")]

app = new_app(CommandGroup, "Benchmark live groups, optionally against other systems.")


@app.callback(epilog="Example: semcast bench throughput --against udp")
def _bench() -> None:
    pass


@app.command(
    epilog="\b\nExample:\n  semcast bench throughput --key none,new \\\n    --datagram 1400,61440"
)
def throughput(
    receivers: Receivers = 4,
    size: Size = 100,
    seconds: Seconds = 5.0,
    datagrams: Datagrams = None,
    keys: Keys = "none",
    repeat: Repeat = 1,
    against: Against = None,
    out: Out = None,
    json: Json = False,
) -> int:
    """Measure throughput: one sender at full speed.

    Messages have no items, so nothing is purged.
    """
    from semcast.bench.benchmark import BenchSettings

    settings = BenchSettings(receivers=receivers, size=size, seconds=seconds)
    return run("throughput", settings, (against, datagrams, keys), repeat, out, Output(json))


@app.command(epilog="Example: semcast bench latency --rate 1000 --against udp")
def latency(
    rate: Rate = 10_000.0,
    receivers: Receivers = 4,
    size: Size = 100,
    seconds: Seconds = 5.0,
    datagrams: Datagrams = None,
    keys: Keys = "none",
    repeat: Repeat = 1,
    against: Against = None,
    out: Out = None,
    json: Json = False,
) -> int:
    """Measure latency at a fixed rate.

    Latency is the time from multicast to the receiving applications.
    """
    from semcast.bench.benchmark import BenchSettings

    settings = BenchSettings(receivers=receivers, size=size, seconds=seconds, rate=rate)
    return run("latency", settings, (against, datagrams, keys), repeat, out, Output(json))


@app.command(
    "slow-receiver",
    epilog="\b\nExample:\n  semcast bench slow-receiver \\\n    --against semcast-reliable,udp",
)
def slow_receiver(
    rate: Rate = 20_000.0,
    slow_rate: Annotated[
        float, typer.Option(help="Messages per second that the slow receiver reads.")
    ] = 5_000.0,
    buffer: Annotated[int, typer.Option(help="Buffer size of each member, in messages.")] = 1000,
    order: Annotated[str, typer.Option(help="Delivery order: item or fifo.")] = "item",
    receivers: Receivers = 4,
    size: Size = 100,
    seconds: Seconds = 5.0,
    datagrams: Datagrams = None,
    keys: Keys = "none",
    repeat: Repeat = 1,
    against: Against = None,
    out: Out = None,
    json: Json = False,
) -> int:
    """Measure what each receiver gets if one of them is slow.

    Sends stock quotes to fast receivers and one slow receiver.
    """
    from semcast.bench.benchmark import BenchSettings

    settings = BenchSettings(
        receivers=receivers,
        size=size,
        seconds=seconds,
        rate=rate,
        slow_rate=slow_rate,
        buffer=buffer,
        order=order,
    )
    return run("slow-receiver", settings, (against, datagrams, keys), repeat, out, Output(json))


def run(
    name: str,
    settings: "BenchSettings",
    compared: tuple[str | None, str | None, str],
    repeat: int,
    out: Path | None,
    output: Output,
) -> int:
    """Measure what is compared (systems, sizes of datagrams, keys), tell it, write it."""
    from tempfile import TemporaryDirectory

    import msgspec

    from semcast.bench.benchmark import BENCHMARKS, loss_warnings, measure
    from semcast.bench.systems import cases_of, machine_info, select_systems
    from semcast.bench.wording import answer, busy_warning
    from semcast.runtime.options.option_sources import ignore_environment

    ignore_environment()
    drawn = BENCHMARKS[name].plotted
    if out is not None:
        from semcast.bench import benchmark_files  # before the work: it needs an extra
        from semcast.experiments.vector import svg_of

        out.mkdir(parents=True, exist_ok=True)
    around = machine_info()
    against, datagrams, keys = compared
    names, left_out = select_systems(_names(against), name)
    output.print_text(*(f"skipping {other}: {why}" for other, why in left_out.items()))
    with TemporaryDirectory() as directory:
        cases = cases_of(names, _sizes(datagrams), _names(keys), Path(directory))
        with _waiting(output, name, settings, len(cases) * max(1, repeat)):
            rows = measure(name, settings, cases, repeat, _progress(output, settings, repeat))
    faults = loss_warnings(rows)
    verdict = [f"FAIL  {fault}" for fault in faults] or [f"ok  {answer(name, settings, rows)}"]
    _show(output, settings, rows, drawn, verdict, busy_warning(around))
    files = {}
    if out is not None:
        files = benchmark_files.write(name, settings, rows, drawn, out, svg_of)
        output.print_text("", *(f"{kind}: {path}" for kind, path in files.items()))
    more = f"semcast bench {name} --against all --repeat 3 --out out/bench"
    output.next(f"semcast report {out} --out {out}/report.html" if out else more)
    settings_row = {"benchmark": name, **msgspec.to_builtins(settings), "repeat": repeat, **around}
    output.print_json({"results": rows, "left_out": left_out, "settings": settings_row, **files})
    return 1 if faults else 0


def _waiting(
    output: Output, name: str, settings: "BenchSettings", runs: int
) -> "AbstractContextManager[None]":
    estimate = WaitTime(f"bench {name}", runs * (settings.seconds + AROUND_S))
    return output.waiting(f"starting {count_of(runs, 'run')}", estimate=estimate)


def _show(
    output: Output,
    settings: "BenchSettings",
    rows: "list[BenchRow]",
    drawn: Mapping[str, str],
    verdict: list[str],
    warning: str,
) -> None:
    """The answer, the table, the bars if there is something to compare."""
    for text in verdict:
        output.print_text(
            *wrapped(text, "    "), colour=WRONG if text.startswith("FAIL") else HOLDS
        )
    output.print_text(*wrapped(warning), colour=SLOW)
    output.print_text("", *wrapped(settings.title), "", *numbers(rows, drawn), "", *versions(rows))
    is_compared = len(rows) > 1 or any(row["runs"] > 1 for row in rows)
    for key, about in drawn.items() if is_compared else ():
        output.print_text("", *bars(rows, key, about, output))


def numbers(rows: "list[BenchRow]", drawn: "Container[str]") -> list[str]:
    """A line for each number; where that is too wide, for each row, with what no bar shows."""
    from semcast.bench.benchmark import label
    from semcast.bench.wording import WORDS, in_table

    keys = [key for key in rows[0] if key not in HIDDEN_COLUMNS]
    by_key = table(
        [{"": WORDS[key], **{label(r): in_table(key, r[key]) for r in rows}} for key in keys],
        UNLIMITED,
    )
    if max(map(len, by_key)) <= terminal_columns():
        return by_key
    rest = [key for key in keys if key not in drawn]
    by_row = [{"": label(r), **{WORDS[key]: in_table(key, r[key]) for key in rest}} for r in rows]
    return table(by_row, terminal_columns())


def versions(rows: "list[BenchRow]") -> list[str]:
    """What was measured, each once."""
    from textwrap import wrap

    return wrap("; ".join(dict.fromkeys(row["version"] for row in rows)), width())


def bars(rows: "list[BenchRow]", key: str, about: str, output: Output) -> list[str]:
    """One number of all rows, on one scale; with several runs, also from least to most."""
    from semcast.bench.benchmark import label

    labels = [label(row) for row in rows]
    values = [format_value(row[key]) for row in rows]
    ranges = [
        f"  {format_value(low)} to {format_value(high)}" if row["runs"] > 1 else ""
        for row in rows
        for low, high in [row["spread"].get(key, (None, None))]
    ]
    longest, widest, range_widest = (max(map(len, texts)) for texts in (labels, values, ranges))
    room = max(10, width() - longest - widest - range_widest - 6)
    scale = max(row[key] or 0.0 for row in rows) or 1.0
    lines = [about]
    for row, name, value, spread in zip(rows, labels, values, ranges, strict=True):
        blocks = bar((row[key] or 0.0) / scale, room)
        padding = " " * (room - len(blocks)) if spread else ""
        painted = output.paint(blocks, SEMANTIC) if row["system"] == "semcast" else blocks
        lines.append(f"  {name:<{longest}}  {value:>{widest}} {painted}{padding}{spread}")
    return lines


def _progress(
    output: Output, settings: "BenchSettings", repeat: int
) -> "Callable[[BenchCase, int, float, Ticks], None]":
    """Shows how a run is going."""

    def tell(case: "BenchCase", turn: int, elapsed_s: float, ticks: "Ticks") -> None:
        sent = max((tick.sent for tick in ticks.values()), default=0)
        runs = f", run {turn} of {repeat}" if repeat > 1 else ""
        is_sending = elapsed_s < settings.seconds
        state = f"{elapsed_s:.1f} s of {settings.seconds:g}" if is_sending else "receivers catch up"
        output.progress(f"{case}{runs}: {state}, {sent:,} sent")

    return tell


def _names(text: str | None) -> list[str]:
    """The words of a list such as a,b."""
    return [word.strip() for word in (text or "").split(",") if word.strip()]


def _sizes(text: str | None) -> list[int | None]:
    from semcast.runtime.options.units import parse_bytes

    return [parse_bytes(word, "datagram") for word in _names(text)] or [None]
