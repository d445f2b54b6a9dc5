"""`semcast join`, `pub` and `sub`: a group from the shell.

Lines of standard input are multicast, messages of the group are printed as lines.  Standard output
of `join` and `sub` is data, so what they tell people goes to standard error; with `--json` the
data are JSON lines too and the last line is one object of another kind: the facts.
"""

from functools import partial
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from semcast.cli.commands import Json
from semcast.cli.output import STDERR, Output, count_of, format_value

if TYPE_CHECKING:
    from semcast.cli.line_io import GroupStay, MessagePrinter, ParseLine, Work
    from semcast.runtime.operations.snapshot import Snapshot

JOIN_EXAMPLE = "Example: semcast join chat --members 2 --name ada"
PUB_EXAMPLE = (
    "\b\nExample:\n"
    "  echo 101.25 | semcast pub quotes --members 3 --item ACME\n"
    """  echo '{"item": "ACME", "payload": "1"}' \\\n"""
    "    | semcast pub quotes --members 3 --json-lines"
)
SUB_EXAMPLE = (
    "\b\nExample:\n  semcast sub quotes --members 3 --json-lines \\\n    --item ACME --count 10"
)

GroupName: TypeAlias = Annotated[str, typer.Argument(metavar="GROUP", help="Name of the group.")]
JsonLines: TypeAlias = Annotated[
    bool, typer.Option("--json-lines", help="Read and print JSON objects instead of plain lines.")
]
Raw: TypeAlias = Annotated[
    bool, typer.Option("--raw", help="Print only the payloads, for other programs.")
]
SentItem: TypeAlias = Annotated[
    str | None, typer.Option(metavar="NAME", help="Item for input lines that do not name one.")
]
ItemFilter: TypeAlias = Annotated[
    str | None, typer.Option(metavar="NAME", help="Print only this item.")
]
SentCount: TypeAlias = Annotated[
    int | None, typer.Option(help="Stop after this many lines.", show_default="at the end of input")
]
PrintedCount: TypeAlias = Annotated[
    int | None, typer.Option(help="Stop after this many lines.", show_default="when interrupted")
]
SentRate: TypeAlias = Annotated[
    float | None,
    typer.Option(help="Send at most this many messages per second.", show_default="any"),
]
ReadRate: TypeAlias = Annotated[
    float | None,
    typer.Option(help="Read at most this many messages per second.", show_default="any"),
]


def join(
    ctx: typer.Context,
    group: GroupName,
    item: SentItem = None,
    json_lines: JsonLines = False,
    count: PrintedCount = None,
    rate: ReadRate = None,
    raw: Raw = False,
    json: Json = False,
) -> None:
    """Join a group: multicast standard input, print messages.

    Each line of standard input is one message; each message of the group is printed as a line
    with its time, sender, item, payload and the messages skipped before it.  Changes of the
    membership go to standard error.
    Printing continues after the input ends, until you interrupt it.  JSON lines have the format
    of `semcast pub` and `semcast sub`; --json uses them too and prints a summary object last.
    """
    from semcast.cli.line_io import RateLimiter, publish, report_changes

    output = Output(json)
    printing = _printing(json_lines or json, None, count, rate, raw=raw)
    send = partial(
        publish, parse=_parse(json_lines or json, item), count=None, pace=RateLimiter(None)
    )
    watch = partial(report_changes, report=_print_changes)
    stay = _run_in_group(group, ctx, output, printing.run, send, watch)
    _print_summary(stay, printing.lines, output, {"sent": stay.snapshot.sent})


def pub(
    ctx: typer.Context,
    group: GroupName,
    item: SentItem = None,
    json_lines: JsonLines = False,
    count: SentCount = None,
    rate: SentRate = None,
    json: Json = False,
) -> None:
    """Join a group and multicast each line of standard input.

    The member leaves when all members have received the messages.

    A JSON line is {"payload": ..., "item": ..., "never_purge": ..., "obsoletes": [...]}.  Only
    "payload" is required; use "payload_base64" instead for bytes that are not text.
    """
    from semcast.cli.line_io import RateLimiter, drain, publish

    _check(count, rate)
    output = Output(json)
    send = partial(publish, parse=_parse(json_lines, item), count=count, pace=RateLimiter(rate))
    stay = _run_in_group(group, ctx, output, send, drain)
    sent, late = stay.snapshot.sent, stay.late
    output.print_text(
        f"sent {count_of(sent, 'message')} in {stay.seconds:.1f} s"
        + (f"; not confirmed by {', '.join(late)}" if late else "")
    )
    _print_next(output)
    output.print_json({**_summary(stay), "sent": sent, "rate": sent / stay.seconds, "late": late})


def sub(
    ctx: typer.Context,
    group: GroupName,
    item: ItemFilter = None,
    json_lines: JsonLines = False,
    count: PrintedCount = None,
    rate: ReadRate = None,
    raw: Raw = False,
    json: Json = False,
) -> None:
    """Join a group and print each message as a line.

    A line has the time, the sender, the item, the payload and the number of messages that were
    skipped before it; --raw prints only the payload.  Printing continues until you interrupt it.

    A JSON line is {"sender": ..., "item": ..., "seq": ..., "skipped": ..., "payload": ...}, with
    "payload_base64" instead for bytes that are not text, and "never_purge" if the sender set it.
    --json prints such lines too, and a summary object last.
    """
    from semcast.cli.line_io import report_changes

    output = Output(json)
    printing = _printing(json_lines or json, item, count, rate, raw=raw)
    watch = partial(report_changes, report=_print_changes)
    stay = _run_in_group(group, ctx, output, printing.run, watch)
    _print_summary(stay, printing.lines, output, {})


def _check(count: int | None, rate: float | None) -> None:
    from semcast.terms.limits import check_positive, check_range

    if count is not None:
        check_range("count", count, 1)
    if rate is not None:
        check_positive("rate", rate)


def _parse(json_lines: bool, item: str | None) -> "ParseLine":
    from semcast.cli.line_io import parse_json, parse_text

    return partial(parse_json if json_lines else parse_text, item=item)


def _printing(
    json_lines: bool, item: str | None, count: int | None, rate: float | None, *, raw: bool
) -> "MessagePrinter":
    from semcast.cli.line_io import MessagePrinter, RateLimiter, show_json, show_payload, show_text

    _check(count, rate)
    show = show_json if json_lines else show_payload if raw else show_text
    return MessagePrinter(show, item, count, RateLimiter(rate))


def _run_in_group(
    group: str, ctx: typer.Context, output: Output, work: "Work", *beside: "Work"
) -> "GroupStay":
    from semcast.cli.line_io import run_in_group
    from semcast.runtime.event_loop import run
    from semcast.runtime.options.options import Options

    options = Options.resolve(group, ctx.obj)
    catching_up = "waiting until all have everything"
    leaving = output.waiting(catching_up, options.linger)
    with output.waiting(f"waiting for the other members of {group}", options.join_timeout):
        return run(run_in_group(group, ctx.obj, _print_joined, work, *beside, leaving=leaving))


def _print_joined(snapshot: "Snapshot") -> None:
    others = ", ".join(peer.name for peer in snapshot.peers) or "no other members"
    STDERR.line(f"joined {snapshot.group} as {snapshot.name} with {others}")


def _print_changes(before: "Snapshot", now: "Snapshot") -> None:
    """Print how the membership changed between two looks."""
    from semcast.cli.group_changes import member_changes
    from semcast.cli.members import clock_time

    for change in member_changes(before, now):
        STDERR.line(f"{clock_time()}  {change}")


def _print_summary(stay: "GroupStay", lines: int, output: Output, more: dict[str, object]) -> None:
    skipped = stay.snapshot.skipped
    text = (
        f"received {count_of(lines, 'message')} in {stay.seconds:.1f} s, skipped "
        f"{format_value(skipped)}"
    )
    STDERR.line(text)
    _print_next(output)
    facts = {"received": lines, "skipped": skipped, "rate": lines / stay.seconds}
    output.print_json({**_summary(stay), **more, **facts})


def _print_next(output: Output) -> None:
    """Print the commands to try next, on a terminal only: elsewhere the output is data."""
    if output.human_stream.isatty():
        output.next("semcast members --watch", "semcast top")


def _summary(stay: "GroupStay") -> dict[str, object]:
    names = [stay.snapshot.name, *(peer.name for peer in stay.snapshot.peers)]
    return {
        "group": stay.snapshot.group,
        "member": stay.snapshot.name,
        "members": sorted(names),
        "seconds": stay.seconds,
    }
