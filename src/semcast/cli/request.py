"""`semcast request`: ask a replicated service from the shell."""

import sys
from collections.abc import Iterable, Iterator
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from semcast.cli.commands import Json
from semcast.cli.output import STDERR, Output
from semcast.terms.errors import ConfigError, LocalProtocolError, RequestFailed

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
        typer.Argument(metavar="REQUEST", help="Requests as JSON; default: lines of the input."),
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
    asked, refused = run(_ask(client, _parsed(requests or _lines(sys.stdin)), limit_s, output))
    if output.human_stream.isatty():
        output.next(f"semcast members --group {quote(group)}")
    output.print_json({"requests": asked, "refused": refused})
    return 1 if refused else 0


def _lines(stream: Iterable[str]) -> Iterator[str]:
    """The lines of the input that have something."""
    try:
        yield from (line for line in stream if line.strip())
    except UnicodeDecodeError as error:
        raise ConfigError(f"request: the input is not UTF-8 text: {error}") from None


def _parsed(requests: Iterable[str]) -> Iterator[Any]:
    import msgspec

    for text in requests:
        try:
            yield msgspec.json.decode(text)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise ConfigError(f"request: {text.strip()[:60]!r} is not JSON: {error}") from None


def _printable(reply: Any) -> str:
    import msgspec

    try:
        return msgspec.json.encode(reply).decode()
    except (TypeError, ValueError, RecursionError) as error:
        raise LocalProtocolError(
            f"reply: the request was executed, but JSON has no {type(reply).__name__} like its "
            f"reply: {error}"
        ) from None


async def _ask(
    client: "Client", requests: Iterable[Any], limit_s: float, output: Output
) -> tuple[int, int]:
    """Ask one by one; returns how many there were, and how many of them the service refused."""
    asked = refused = 0
    async with client:
        for value in requests:
            asked += 1
            try:
                reason = f"waiting for the servers of {client.options.group}"
                with output.waiting(reason, limit_s):
                    reply = await client.request(value)
                print(_printable(reply), flush=True)
            except RequestFailed as error:
                refused += 1
                STDERR.line(f"refused: {error}")
    return asked, refused
