"""`semcast store`: clients of the replicated store that `semcast serve` runs."""

import os
from collections.abc import Awaitable, Callable
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from semcast.cli.commands import CommandGroup, Json, new_app
from semcast.cli.output import STDERR, Output
from semcast.terms.palette import HOLDS

if TYPE_CHECKING:
    from semcast.runtime.application.store import Store

STORE = "store"
PEERS_VARIABLE = "SEMCAST_PEERS"
PEERS_EXAMPLE = "--peers \\\n    a=127.0.0.1:7101,b=127.0.0.1:7102,c=127.0.0.1:7103"

Key: TypeAlias = Annotated[str, typer.Argument(metavar="KEY", help="The key.")]
Peers: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="LIST",
        envvar=PEERS_VARIABLE,
        help="All servers: NAME=HOST:PORT, separated by commas.",
    ),
]
GroupOption: TypeAlias = Annotated[
    str, typer.Option("--group", metavar="NAME", help="Name of the store.")
]
KeyRingFile: TypeAlias = Annotated[
    str | None, typer.Option("--key", metavar="FILE", help="Key ring file, or none.")
]
GiveUp: TypeAlias = Annotated[
    str, typer.Option("--give-up", metavar="TIME", help="How long to wait for an answer.")
]

app = new_app(CommandGroup, "Read and update a replicated store.")


@app.callback(epilog=f"\b\nExample:\n  semcast store set ACME 101.25 {PEERS_EXAMPLE}")
def _store() -> None:
    pass


def _ask(
    ask: "Callable[[Store], Awaitable[Any]]",
    peers: str,
    group: str,
    ring: str | None,
    give_up: str,
    output: Output,
) -> Any:
    """Open a client, ask one question, and return the answer."""
    from semcast.runtime.application.store import open_store
    from semcast.runtime.event_loop import run
    from semcast.runtime.options.units import parse_seconds

    options = {} if ring is None else {"key": ring}
    store = open_store(peers, group=group, give_up=give_up, **options)

    async def work() -> Any:
        async with store:
            with output.waiting(
                f"waiting for the servers of {group}", parse_seconds(give_up, "give_up")
            ):
                return await ask(store)

    return run(work())


def _next(output: Output, command: str, peers: str, group: str) -> None:
    """Print the command to try next, on a terminal only: elsewhere the answer is data."""
    if output.human_stream.isatty():
        servers = "" if os.environ.get(PEERS_VARIABLE) == peers else f" --peers {quote(peers)}"
        named = "" if group == STORE else f" --group {quote(group)}"
        output.next(f"semcast store {command}{servers}{named}")


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode(errors="replace")


@app.command(epilog=f"\b\nExample:\n  semcast store get ACME {PEERS_EXAMPLE}")
def get(
    key: Key,
    peers: Peers,
    group: GroupOption = STORE,
    ring: KeyRingFile = None,
    give_up: GiveUp = "30 s",
    json: Json = False,
) -> int:
    """Print the value of a key; the exit code is 1 if there is none."""
    output = Output(json)
    value = _text(_ask(lambda store: store.get(key), peers, group, ring, give_up, output))
    if value is None:
        STDERR.line(f"{key} is not in {group}")
    elif not json:
        print(value)
    _next(output, f"watch {quote(key)}", peers, group)
    output.print_json({"key": key, "value": value})
    return 0 if value is not None else 1


@app.command("set", epilog=f"\b\nExample:\n  semcast store set ACME 101.25 {PEERS_EXAMPLE}")
def set_value(
    key: Key,
    value: Annotated[str, typer.Argument(metavar="VALUE", help="The new value.")],
    peers: Peers,
    group: GroupOption = STORE,
    ring: KeyRingFile = None,
    give_up: GiveUp = "30 s",
    json: Json = False,
) -> None:
    """Give a key a value; the command ends when a quorum of the servers has it."""
    output = Output(json)
    _ask(lambda store: store.set(key, value), peers, group, ring, give_up, output)
    output.print_text(f"ok  a quorum of the servers has {key}", colour=HOLDS)
    _next(output, f"get {quote(key)}", peers, group)
    output.print_json({"key": key, "value": value})


@app.command(epilog=f"\b\nExample:\n  semcast store incr visits --by 2 {PEERS_EXAMPLE}")
def incr(
    key: Key,
    peers: Peers,
    by: Annotated[int, typer.Option(help="How much to add.")] = 1,
    group: GroupOption = STORE,
    ring: KeyRingFile = None,
    give_up: GiveUp = "30 s",
    json: Json = False,
) -> None:
    """Add to a counter, which begins at 0, and print its new value."""
    output = Output(json)
    value = _ask(lambda store: store.incr(key, by), peers, group, ring, give_up, output)
    if not json:
        print(value)
    _next(output, f"watch {quote(key)}", peers, group)
    output.print_json({"key": key, "value": value})


@app.command("del", epilog=f"\b\nExample:\n  semcast store del ACME {PEERS_EXAMPLE}")
def delete(
    key: Key,
    peers: Peers,
    group: GroupOption = STORE,
    ring: KeyRingFile = None,
    give_up: GiveUp = "30 s",
    json: Json = False,
) -> int:
    """Remove a key; the exit code is 1 if it was not there."""
    output = Output(json)
    was_there = _ask(lambda store: store.delete(key), peers, group, ring, give_up, output)
    if was_there:
        output.print_text(f"ok  a quorum of the servers has removed {key}", colour=HOLDS)
    else:
        STDERR.line(f"{key} is not in {group}")
    _next(output, f"get {quote(key)}", peers, group)
    output.print_json({"key": key, "deleted": was_there})
    return 0 if was_there else 1


@app.command(epilog=f"\b\nExample:\n  semcast store watch ACME {PEERS_EXAMPLE}")
def watch(
    key: Key,
    peers: Peers,
    count: Annotated[
        int | None,
        typer.Option(help="Stop after this many lines.", show_default="when interrupted"),
    ] = None,
    group: GroupOption = STORE,
    ring: KeyRingFile = None,
    give_up: GiveUp = "30 s",
    json: Json = False,
) -> None:
    """Print the value of a key and each new value; an empty line means that there is none.

    --json prints an object for each value, and a summary object last.
    """
    import msgspec

    from semcast.terms.limits import check_range

    output, seen, last = Output(json), 0, None
    if count is not None:
        check_range("count", count, 1)

    async def follow(store: "Store") -> None:
        nonlocal seen, last
        async for value in store.watch(key):
            seen, last = seen + 1, _text(value)
            output.clear()
            found = msgspec.json.encode({"key": key, "value": last}).decode()
            print(found if json else last or "", flush=True)
            if seen == count:
                return

    try:
        _ask(follow, peers, group, ring, give_up, output)
    except KeyboardInterrupt:
        if not seen:
            raise
        output.print_text("")  # The usual end, below what the terminal shows for Ctrl-C.
    _next(output, f"get {quote(key)}", peers, group)
    output.print_json({"key": key, "values": seen, "last": last})
