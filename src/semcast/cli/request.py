"""`semcast request`: ask a replicated service from the shell."""

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from semcast.cli.commands import Json
from semcast.cli.output import STDERR, Output
from semcast.terms.errors import ConfigError

if TYPE_CHECKING:
    from semcast.runtime.application.client import Client

EXAMPLE = (
    "\b\nExample:\n"
    """  semcast request bank '["ada", 100]'\n"""
    """  semcast request bank < requests.jsonl"""
)


def request(
    group: Annotated[str, typer.Argument(metavar="GROUP", help="Name of the servers' group.")],
    requests: Annotated[
        list[str] | None,
        typer.Argument(metavar="[REQUEST]…", help="Requests as JSON; default: lines of the input."),
    ] = None,
    peers: Annotated[
        str | None,
        typer.Option(
            metavar="LIST", help="Servers as [NAME=]HOST:PORT, for networks without multicast."
        ),
    ] = None,
    interface: Annotated[
        str | None, typer.Option(metavar="NAME", help="Network interface, by name or address.")
    ] = None,
    key: Annotated[str | None, typer.Option(metavar="FILE", help="Key ring file, or none.")] = None,
    give_up: Annotated[
        str, typer.Option(metavar="TIME", help="How long to wait for an answer.")
    ] = "30 s",
    json: Json = False,
) -> int:
    """Ask a replicated service, and print its replies.

    Each request is one JSON value, and so is each reply, on a line of its own.  The servers are
    processes that call semcast.replicate.  The exit code is 1 if the service refused a request.
    """
    from semcast.runtime.application.client import Client
    from semcast.runtime.event_loop import run
    from semcast.runtime.options.units import parse_seconds

    output = Output(json)
    options = {"peers": peers, "interface": interface, "key": key}
    given = {name: value for name, value in options.items() if value is not None}
    limit_s = parse_seconds(give_up, "give_up")
    client = Client(group, give_up=give_up, **given)
    if not requests and sys.stdin.isatty():
        STDERR.line("type requests as JSON, one a line; Ctrl-D ends")
    asked, refused = run(_ask(client, _parsed(requests or sys.stdin), limit_s, output))
    if output.human_stream.isatty():
        output.next(f"semcast members --group {group}")
    output.print_json({"requests": asked, "refused": refused})
    return 1 if refused else 0


def _parsed(lines: Iterable[str]) -> Iterator[Any]:
    import msgspec

    for line in lines:
        if line.strip():
            try:
                yield msgspec.json.decode(line)
            except msgspec.MsgspecError as error:
                raise ConfigError(f"request: {line.strip()[:60]!r} is not JSON: {error}") from None


async def _ask(
    client: "Client", requests: Iterable[Any], limit_s: float, output: Output
) -> tuple[int, int]:
    """Ask one by one; returns how many there were, and how many of them the service refused."""
    import msgspec

    from semcast.terms.errors import RequestFailed

    asked = refused = 0
    async with client:
        for value in requests:
            asked += 1
            try:
                reason = f"waiting for the servers of {client.options.group}"
                with output.waiting(reason, limit_s):
                    reply = await client.request(value)
                print(msgspec.json.encode(reply).decode(), flush=True)
            except RequestFailed as error:
                refused += 1
                STDERR.line(f"refused: {error}")
    return asked, refused
