"""How long a message takes in an idle group under total order: delivery and confirmation.

    .venv/bin/python bench/order_latency.py --protocol vs

Live processes on loopback send in turn, one message at a time: the next one leaves when all have
delivered the one before, under `vs` when all have it confirmed.  Times begin when the sender's
application calls and end when an application has the message: the sender's (own), the last one of
all (everywhere), and the sender's confirmation.  Messages of
the sequencer are told apart, because under `vs` it delivers them without asking anybody.
It uses the public interface alone, so that another tree of Semcast can run it.
Throughput under load is what `ordered.py` measures.
"""

import argparse
import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Iterable
from secrets import token_hex
from statistics import quantiles
from time import monotonic_ns

import semcast
from semcast.runtime.event_loop import run

WARMUP = 50  # messages that do not count
PATIENCE_S = 30.0
KINDS = {"vs": ("own", "everywhere", "confirmed"), "s-vsm": ("own", "everywhere")}


def say(*words: object) -> None:
    """To whoever launched this."""
    print(*words, flush=True)


async def member(protocol: str, name: str, index: str, members: str) -> None:
    """Send a message for each line of standard input; say when one is delivered or confirmed."""
    lines = asyncio.StreamReader()
    async with semcast.join(
        name,
        name=f"m{index}",
        members=int(members),
        protocol=protocol,
        order="total",
        interface="127.0.0.1",
        key=False,
        control=False,
    ) as group:
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(lines), sys.stdin
        )
        events = asyncio.create_task(report(group, f"m{index}", int(members)))
        while await lines.readline():
            say("sent", monotonic_ns())
            await group.multicast(b"x" * 100)
        events.cancel()


async def report(group: semcast.Group, own: str, members: int) -> None:
    """What comes, and when."""
    is_ready = False
    async for event in group.events():
        now = monotonic_ns()
        if isinstance(event, semcast.Message):
            say("own" if event.sender == own else "delivered", now)
        elif isinstance(event, semcast.Confirmed):
            say("confirmed", now)
        if not is_ready and len(group.members) == members:
            is_ready = True
            say("ready", group.members[0] == own)


async def heard(process: Process, *kinds: str) -> dict[str, int]:
    """When each of these happened to a member."""
    found: dict[str, int] = {}
    assert process.stdout is not None
    while found.keys() != set(kinds):
        line = await asyncio.wait_for(process.stdout.readline(), PATIENCE_S)
        kind, when = line.split()
        found[kind.decode()] = int(when) if when.isdigit() else when == b"True"
    return found


async def one(sender: Process, others: Iterable[Process], kinds: Iterable[str]) -> list[float]:
    """Send a message; microseconds by kind."""
    assert sender.stdin is not None
    sender.stdin.write(b"send\n")
    confirmed = [kind for kind in kinds if kind == "confirmed"]
    first, *rest = await asyncio.gather(
        heard(sender, "sent", "own", *confirmed),
        *(heard(other, "delivered", *confirmed) for other in others),
    )
    first["everywhere"] = max(first["own"], *(each["delivered"] for each in rest))
    return [(first[kind] - first["sent"]) / 1e3 for kind in kinds]


async def measure(protocol: str, members: int, messages: int) -> dict[str, dict[str, float]]:
    """Percentiles by kind and sender, in microseconds."""
    group, kinds = f"latency-{token_hex(4)}", KINDS[protocol]
    command = [sys.executable, __file__, "--member", protocol, group]
    processes = [
        await asyncio.create_subprocess_exec(
            *command, str(index), str(members), stdin=PIPE, stdout=PIPE
        )
        for index in range(members)
    ]
    try:
        leads = [(await heard(each, "ready"))["ready"] for each in processes]
        taken: dict[str, list[float]] = {}
        for number in range(WARMUP + messages):
            sender = processes[number % members]
            took = await one(sender, [p for p in processes if p is not sender], kinds)
            if number >= WARMUP:
                who = "sequencer" if leads[number % members] else "others"
                for kind, us in zip(kinds, took, strict=True):
                    taken.setdefault(f"{kind}, sent by {who}", []).append(us)
                    taken.setdefault(f"{kind}, all", []).append(us)
    finally:
        for each in processes:
            assert each.stdin is not None
            each.stdin.close()
        await asyncio.gather(*(each.wait() for each in processes))
    cuts = {kind: quantiles(us, n=100) for kind, us in sorted(taken.items())}
    return {kind: {"p50_us": cut[49], "p99_us": cut[98]} for kind, cut in cuts.items()}


def main() -> None:
    """Print a table, and one JSON object at the end."""
    if sys.argv[1:2] == ["--member"]:
        run(member(*sys.argv[2:]))
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--protocol", choices=sorted(KINDS), default="vs")
    parser.add_argument("--members", type=int, default=3)
    parser.add_argument("--messages", type=int, default=600)
    told = parser.parse_args()
    found = asyncio.run(measure(told.protocol, told.members, told.messages))
    for kind, us in found.items():
        print(f"{kind:32}{us['p50_us']:10,.0f}{us['p99_us']:10,.0f} µs", file=sys.stderr)
    print(json.dumps({"protocol": told.protocol, "members": told.members, "latency": found}))


if __name__ == "__main__":
    main()
