"""`semcast relay`: a bad network between live members, for as long as it runs."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer

from semcast.cli.commands import Json, Seed
from semcast.cli.output import Output, count_of, table, wrapped

if TYPE_CHECKING:
    from semcast.faults import Cut, Link, OneWayCut, Partition
    from semcast.fleet.relay import Relay
    from semcast.runtime.transport.addresses import Address

EXAMPLE = (
    "\b\nExample:\n"
    "  semcast relay --member a=127.0.0.1:7101 \\\n"
    "    --member b=127.0.0.1:7102 --loss 0.01 \\\n"
    '    --latency "2 ms" --partition "5-8:a|b"'
)

# The numbers of a relay, and why it dropped datagrams and closed connections, in words.
WORDS: Final = {
    "received": "datagrams received",
    "duplicated": "duplicated",
    "sent": "passed on, copies included",
    "overrun": "lost before the relay could read them: its sockets were full",
    "connections": "TCP connections accepted",
    "frames": "frames passed on over TCP",
}
REASONS: Final = {
    "dropped": {
        "cut": "dropped by a partition or cut",
        "queue": "dropped because the queue of a link was full",
        "loss": "dropped at random (--loss)",
        "stranger": "dropped because no member had sent them",
        "waiting": "dropped because too much was on its way",
        "unsent": "dropped because the system did not send them",
    },
    "closed": {
        "cut": "connections closed by a partition or cut",
        "refused": "connections that the member refused",
        "stranger": "connections of no member",
        "crowd": "connections beyond the limit",
        "length": "connections with a frame of impossible length",
    },
}

MemberOption: TypeAlias = Annotated[
    list[str],
    typer.Option(metavar="NAME=HOST:PORT", help="Address of a member; repeat for each member."),
]
FrontOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=HOST:PORT",
        help="Address that peers should use for this member; repeat for more.",
        show_default="a free port on loopback",
    ),
]
Bandwidth: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="RATE",
        help="Bandwidth of each link, such as 10 MiB/s.",
        show_default="unlimited",
    ),
]
Partitions: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="START-END:A|B,C",
        help="Partition the members from START to END, in seconds after the relay is ready.",
    ),
]
Cuts: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="START-END:A>B",
        help="Drop traffic from A to B; omit END to keep dropping.",
    ),
]
Duplicate: TypeAlias = Annotated[
    float, typer.Option(help="Share of datagrams to duplicate, 0 to 1.")
]
Reorder: TypeAlias = Annotated[
    float, typer.Option(help="Share of datagrams to reorder, by a delay of up to 10 ms.")
]


def relay(
    member: MemberOption,
    front: FrontOption = None,
    loss: Annotated[float, typer.Option(help="Share of datagrams to drop, 0 to 1.")] = 0.0,
    duplicate: Duplicate = 0.0,
    reorder: Reorder = 0.0,
    latency: Annotated[
        str, typer.Option(metavar="TIME", help="One-way latency between members.")
    ] = "1 ms",
    jitter: Annotated[
        str, typer.Option(metavar="TIME", help="Random additional latency, up to this much.")
    ] = "0 ms",
    bandwidth: Bandwidth = None,
    partition: Partitions = None,
    cut: Cuts = None,
    seed: Seed = 1,
    seconds: Annotated[
        float | None,
        typer.Option(help="Stop after this many seconds.", show_default="when interrupted"),
    ] = None,
    json: Json = False,
) -> None:
    """Relay traffic between live members, with network faults.

    The relay can drop, duplicate, delay, reorder or block datagrams.
    """
    import asyncio

    from semcast.fleet.relay import Relay
    from semcast.runtime.transport.addresses import parse_peers
    from semcast.terms.limits import check_positive

    if seconds is not None:
        check_positive("seconds", seconds)
    members = {peer.name: peer.address for peer in parse_peers(member, "member")}
    fronts = {peer.name: peer.address for peer in parse_peers(front, "front")} if front else None
    link = _link(loss, duplicate, reorder, latency, jitter, bandwidth)
    names = sorted(members)
    cuts: list[Cut] = [_partition(text, names) for text in partition or ()]
    cuts += [_one_way(text, names) for text in cut or ()]
    between = Relay(members, link, cuts, seed, fronts=fronts)
    asyncio.run(_run(between, members, seconds, Output(json)))


async def _run(
    between: "Relay", members: "dict[str, Address]", seconds: float | None, output: Output
) -> None:
    import asyncio
    import signal

    import msgspec

    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    fronts = await between.start()
    try:
        between.start_faults()
        peers = {name: _peers({**fronts, name: address}) for name, address in members.items()}
        peers_text = "; ".join(f"start {name} with --peers {text}" for name, text in peers.items())
        output.print_text(f"ready: {peers_text}")
        output.human_stream.flush()
        with suppress(TimeoutError):
            await asyncio.wait_for(stopped.wait(), seconds)
    finally:
        await between.close()
    counts = msgspec.to_builtins(between.counts)
    output.print_text("", *wrapped(_answer(counts)))
    if rows := _rows(counts):
        output.print_text("", *table(rows))
    output.next("semcast members --watch", "semcast relay --help")
    output.print_json({"peers": peers, **counts})


def _answer(counts: Mapping[str, Any]) -> str:
    """What became of the datagrams, in one sentence."""
    received, dropped = counts["received"], sum(counts["dropped"].values())
    return f"relayed {counts['sent']:,} of {count_of(received, 'datagram')}, dropped {dropped:,}"


def _rows(counts: Mapping[str, Any]) -> list[dict[str, object]]:
    """Every count that is not 0, in words."""
    named = {WORDS[name]: value for name, value in counts.items() if isinstance(value, int)}
    for name, reasons in REASONS.items():
        named |= {reasons[reason]: count for reason, count in counts[name].items()}
    return [{"": words, "number": count} for words, count in named.items() if count]


def _peers(addresses: "dict[str, Address]") -> str:
    from semcast.runtime.transport.addresses import format_address

    return ",".join(
        f"{name}={format_address(address)}" for name, address in sorted(addresses.items())
    )


def _link(
    loss: float, duplicate: float, reorder: float, latency: str, jitter: str, bandwidth: str | None
) -> "Link":
    from semcast.faults import Constant, Link, Uniform
    from semcast.runtime.options.units import parse_rate, parse_seconds

    low_s, more_s = parse_seconds(latency, "latency"), parse_seconds(jitter, "jitter")
    return Link(
        latency=Uniform(low_s, low_s + more_s) if more_s else Constant(low_s),
        loss=loss,
        duplicate=duplicate,
        reorder=reorder,
        bandwidth_bps=None if bandwidth is None else 8 * parse_rate(bandwidth, "bandwidth"),
    )


def _partition(text: str, names: Sequence[str]) -> "Partition":
    from semcast.faults import Partition

    start, end, who = _period("partition", text, "START-END:A|B,C")
    groups = (group.split(",") for group in who.split("|"))
    ranks = tuple(tuple(_rank("partition", name, names) for name in group) for group in groups)
    return Partition(start, end, ranks)


def _one_way(text: str, names: Sequence[str]) -> "OneWayCut":
    from semcast.faults import OneWayCut

    start, end, who = _period("cut", text, "START-END:A>B")
    source, _, destination = who.partition(">")
    return OneWayCut(start, end, _rank("cut", source, names), _rank("cut", destination, names))


def _period(field: str, text: str, form: str) -> tuple[float, float, str]:
    """When, and the part of the text that says who."""
    from math import inf

    from semcast.runtime.options.units import parse_seconds
    from semcast.terms.errors import ConfigError

    when, colon, who = text.partition(":")
    start, dash, end = when.partition("-")
    if not (colon and dash):
        raise ConfigError(f"{field}: {text!r} is not of the form {form}")
    return parse_seconds(start, field), parse_seconds(end, field) if end else inf, who


def _rank(field: str, name: str, names: Sequence[str]) -> int:
    from semcast.terms.errors import unknown_value

    if name not in names:
        raise unknown_value(field, name, names)
    return names.index(name)
