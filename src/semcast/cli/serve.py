"""`semcast serve`: one server of the replicated store, in the foreground."""

from collections.abc import Sequence
from contextlib import suppress
from shlex import quote
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer
from msgspec import to_builtins

from semcast.cli.commands import Json
from semcast.cli.output import STDERR, Output
from semcast.terms.errors import ConfigError
from semcast.terms.palette import HOLDS, WRONG

if TYPE_CHECKING:
    from semcast.runtime.application.replicate import PendingServer
    from semcast.runtime.application.server import Server, ServerChange

EXAMPLE = (
    "\b\nExample, one of three servers on this machine:\n"
    "  semcast serve --name a --data data/a --peers \\\n"
    "    a=127.0.0.1:7101,b=127.0.0.1:7102,c=127.0.0.1:7103"
)

STORE = "store"
PRIMARY = "primary"
REFUSING = ("minority", "excluded")
_MEANING = {
    "primary": "updates and queries are answered",
    "minority": "queries are answered, updates are refused: too few servers can be reached",
    "recovering": "gets what it lacks from the others; a new store waits for all of them",
    "excluded": "the others went on without this server; it joins them again",
}


Name: TypeAlias = Annotated[
    str, typer.Option(metavar="NAME", help="Name of this server, one of --peers.")
]
Peers: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="LIST", help="All servers, including this one: NAME=HOST:PORT, separated by commas."
    ),
]
Data: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="DIR", help="Directory for the data of this server; no other server may use it."
    ),
]
Memory: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--memory",
        help="Keep nothing on disk: updates are lost if a majority ends at the same time.",
    ),
]
GroupOption: TypeAlias = Annotated[str, typer.Option(metavar="NAME", help="Name of the store.")]
Bind: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT", help="Address to listen at.", show_default="as in --peers"),
]
Reads: TypeAlias = Annotated[
    str,
    typer.Option(
        help="Which server answers a query: the client's own (local), or each in turn (rotate)."
    ),
]
Confirm: TypeAlias = Annotated[
    str,
    typer.Option(
        help="An update waits for a majority or one of --quorums (quorum), or for every server in "
        "reach (all)."
    ),
]
Quorums: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="LIST",
        help="Sets of servers that are enough for an update, such as a+b,a+c; each two have a "
        "server in common.  Give all servers the same, at every start.",
        show_default="every majority",
    ),
]
Timeout: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="How long a server may be silent before the others go on without it.",
        show_default="500 ms",
    ),
]
KeyRingFile: TypeAlias = Annotated[
    str | None, typer.Option("--key", metavar="FILE", help="Key ring file, or none.")
]
Trace: TypeAlias = Annotated[
    str | None, typer.Option(metavar="DIR", help="Record every event for semcast check.")
]
Metrics: TypeAlias = Annotated[
    str | None, typer.Option(metavar="HOST:PORT", help="Serve Prometheus metrics at this address.")
]


def serve(
    name: Name,
    peers: Peers,
    data: Data = None,
    memory: Memory = False,
    group: GroupOption = STORE,
    bind: Bind = None,
    reads: Reads = "local",
    confirm: Confirm = "quorum",
    quorums: Quorums = None,
    timeout: Timeout = None,
    key: KeyRingFile = None,
    trace: Trace = None,
    metrics: Metrics = None,
    json: Json = False,
) -> None:
    """Run one server of a replicated store of strings and counters.

    A new store begins when all servers of --peers have run at the same time.  From then on a
    majority is enough.  An update is answered when a majority has it on disk, or with --memory in
    memory.
    """
    from semcast.runtime.application.serve import serve as make_server
    from semcast.runtime.event_loop import run
    from semcast.runtime.transport.addresses import parse_peers

    if (data is None) != memory:
        raise ConfigError(
            "data: give a directory for this server, or --memory to keep nothing on disk"
        )
    asked = {"bind": bind, "timeout": timeout, "key": key, "trace": trace, "metrics": metrics}
    given = {option: value for option, value in asked.items() if value is not None}
    if quorums is not None:
        given["quorums"] = quorums
    pending = make_server(
        name, peers=peers, data=data, group=group, reads=reads, confirm=confirm, **given
    )
    output = Output(json)
    store = f"--peers {quote(peers)}" + ("" if group == STORE else f" --group {quote(group)}")
    names = [peer.name for peer in parse_peers(peers, "peers")]
    facts = run(_serve(pending, output, f"semcast store set ACME 101.25 {store}", names))
    if output.human_stream.isatty():
        output.next("semcast members" if data is None else f"semcast doctor --data {quote(data)}")
    output.print_json(facts)


async def _serve(
    pending: "PendingServer", output: Output, example: str, names: Sequence[str]
) -> dict[str, object]:
    """Serve until a signal comes; then leave, so that the others need not wait for a timeout.

    Returns what the server was.
    """
    import asyncio

    from semcast.cli.line_io import ends_on_signals

    async with pending as server:
        showing = asyncio.create_task(_show_changes(server, output, example, names))
        with ends_on_signals(showing), suppress(asyncio.CancelledError):
            await showing
        last = server.snapshot()
    STDERR.line(f"{last.name} of {last.group} has ended")
    facts: dict[str, object] = {"name": last.name, "group": last.group, "seconds": last.up_s}
    return facts | ({} if last.server is None else to_builtins(last.server))


async def _show_changes(
    server: "Server", output: Output, example: str, names: Sequence[str]
) -> None:
    was_primary = False
    async for change in server.changes():
        is_primary = change.role == PRIMARY
        output.print_text(
            _describe(f"{server.name} of {server.group}", change, names),
            colour=HOLDS if is_primary else WRONG if change.role in REFUSING else None,
        )
        if is_primary and not was_primary:
            output.next(example)
        was_primary = was_primary or is_primary
        output.human_stream.flush()


def _describe(subject: str, change: "ServerChange", names: Sequence[str]) -> str:
    members = change.view.members
    slow = [name for name in change.left_out if name not in members]
    missing = [name for name in names if name not in members and name not in slow]
    reach = f"servers in reach: {', '.join(members)}"
    reach += f"; not in reach: {', '.join(missing)}" if missing else ""
    if slow:
        reach += f"; too slow, left out for a while: {', '.join(slow)}"
        reach += " (give it more processor time)"
    return f"{subject} is {change.role}: {_MEANING.get(change.role, '')}; {reach}"
