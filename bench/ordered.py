"""Ordered messages per second, beside JGroups' SEQUENCER and Corosync's cpg.

Members on one machine deliver, all in the same order, what one of them sends (the last, who is
nobody's sequencer) or what all of them send, each as fast as it is let; the rate is that of the
slowest member.  Runs alternate between the systems; what is told is the median of all rounds.
Processor time is of all processes of a system, daemons too, per message delivered at a member.
What is not installed is left out and said to be.

    python bench/ordered.py --against jgroups,corosync
"""

import argparse
import json
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from peers_order.corosync import COROSYNC
from peers_order.jgroups import JGROUPS
from peers_order.own import SEMCAST
from peers_order.race import Field, Rounds, System, race

PEERS = {system.name: system for system in (JGROUPS, COROSYNC)}


def arguments() -> argparse.Namespace:
    """From the command line."""
    parser = argparse.ArgumentParser(description="ordered messages per second")
    parser.add_argument("--against", default="", help=f"of {','.join(PEERS)}, by commas")
    parser.add_argument("--members", type=int, default=4)
    parser.add_argument("--senders", type=int, help="default: first one, then all")
    parser.add_argument("--protocol", default="s-vsm", choices=("s-vsm", "vsm", "vs"))
    parser.add_argument("--size", type=int, default=100, help="bytes of a message")
    parser.add_argument("--seconds", type=float, default=5.0, help="of a run, after a warm-up")
    parser.add_argument("--rounds", type=int, default=5)
    told = parser.parse_args()
    unknown = [name for name in told.against.split(",") if name and name not in PEERS]
    if unknown:
        parser.error(f"against: {', '.join(unknown)} is not one of {', '.join(PEERS)}")
    return told


def say(line: str) -> None:
    """Progress and tables; the JSON goes to standard output."""
    print(line, file=sys.stderr, flush=True)


def main() -> None:
    """Measure, print a table and one JSON object."""
    told = arguments()
    own = replace(SEMCAST, field=partial(SEMCAST.field, protocol=told.protocol))
    asked = [own, *(PEERS[name] for name in told.against.split(",") if name)]
    skipped = {system.name: why for system in asked if (why := system.missing())}
    for name, why in skipped.items():
        say(f"{name} is left out: not here are {why}")
    systems = [system for system in asked if system.name not in skipped]
    with TemporaryDirectory() as folder, ExitStack() as stack:
        fields: dict[System, Field] = {}
        for system in systems:
            try:
                fields[system] = stack.enter_context(system.field(Path(folder), told.members))
            except subprocess.CalledProcessError as error:
                skipped[system.name] = str(error)
                say(f"{system.name} is left out: {error}")
        rows = measure(fields, told)
    versions = {system.name: system.version() for system in fields}
    table(rows, versions, told)
    print(json.dumps({"results": rows, "versions": versions, "skipped": skipped}))


def measure(fields: dict[System, Field], told: argparse.Namespace) -> list[dict[str, object]]:
    """Rows by system and number of senders."""
    counts = (told.senders,) if told.senders else (1, told.members)
    cases = {(system, n): Rounds() for system in fields for n in counts}
    for number in range(1, told.rounds + 1):
        for (system, senders), rounds in cases.items():
            rate, cpu_us = race(fields[system], senders, told.size, told.seconds)
            rounds.rates.append(rate)
            rounds.cpu_us.append(cpu_us)
            say(f"round {number}: {system.name}, {senders} sending: {rate:,.0f}/s")
    shared = {"members": told.members, "size": told.size}
    return [
        {"system": system.name, "senders": n, **shared, **rounds.row()}
        for (system, n), rounds in cases.items()
    ]


def table(
    rows: list[dict[str, object]], versions: dict[str, str], told: argparse.Namespace
) -> None:
    """What a reader wants to see."""
    say(f"\n{told.members} members, {told.size}-byte messages, medians of {told.rounds} rounds")
    say(f"{'':12}{'sending':>9}{'ordered/s':>12}{'least':>10}{'most':>10}{'us/delivery':>13}")
    for row in rows:
        rates = "".join(f"{row[key]:10,.0f}" for key in ("rate_min", "rate_max"))
        cost = f"{row['cpu_us_per_delivery']:13.1f}"
        say(f"{row['system']:12}{row['senders']:9}{row['rate']:12,.0f}{rates}{cost}")
    for name, version in versions.items():
        say(f"{name}: {version}")


if __name__ == "__main__":
    main()
