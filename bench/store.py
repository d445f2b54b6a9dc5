"""Updates per second of a replicated store with three servers, beside Valkey and etcd.

Each client updates one key after another and waits for the answer: until the update is on the disks
of two of three servers, or, where the name says so, in the memory of two.  Clients are tasks of one
process.  Runs alternate between the systems; the table has medians.  Processor time is that of all
servers together, and of the clients' process, for each update.

    python bench/store.py --against semcast,valkey
"""

import argparse
import asyncio
import json
import sys
from statistics import median

from peers_store import etcd, own, valkey
from peers_store.race import Lap, StoreSystem, race

PEERS: dict[str, tuple[StoreSystem, ...]] = {
    "semcast": (own.DURABLE, own.MEMORY),
    "valkey": (valkey.DURABLE, valkey.MEMORY),
    "etcd": (etcd.SYSTEM,),
}


def arguments() -> argparse.Namespace:
    """From the command line."""
    parser = argparse.ArgumentParser(description="updates per second of replicated stores")
    parser.add_argument(
        "--against", default=",".join(PEERS), help=f"of {','.join(PEERS)}, by commas"
    )
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--size", type=int, default=100, help="bytes of a value")
    parser.add_argument("--seconds", type=float, default=5.0, help="of a run, after a warm-up")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    unknown = [name for name in given.against.split(",") if name and name not in PEERS]
    if unknown:
        parser.error(f"against: {', '.join(unknown)} is not one of {', '.join(PEERS)}")
    return given


def say(line: str) -> None:
    """Progress and tables; the JSON goes to standard output."""
    print(line, file=sys.stderr, flush=True)


def main() -> None:
    """Measure, print a table and one JSON object."""
    given = arguments()
    asked = [system for name in given.against.split(",") if name for system in PEERS[name]]
    for system in asked:
        if system.missing():
            say(f"{system.name} is left out: not here are {system.missing()}")
    laps: dict[StoreSystem, list[Lap]] = {each: [] for each in asked if not each.missing()}
    for number in range(1, given.rounds + 1):
        for system, done in laps.items():
            with system.ground() as ground:
                lap = asyncio.run(race(ground, given.clients, given.size, given.seconds))
            done.append(lap)
            say(f"round {number}: {system.name}: {lap.rate:,.0f}/s")
    say(f"\n{given.clients} clients, {given.size}-byte values, medians of {given.rounds} rounds")
    say(f"{'':36}{'updates/s':>10}{'p50 ms':>8}{'p99 ms':>8}{'servers us':>11}{'clients us':>11}")
    rows = []
    for system, done in laps.items():
        middle = Lap(*(median(values) for values in zip(*done, strict=True)))
        low, high = min(lap.rate for lap in done), max(lap.rate for lap in done)
        say(
            f"{system.name:36}{middle.rate:10,.0f}{middle.p50_ms:8.2f}{middle.p99_ms:8.2f}"
            f"{middle.server_us:11.1f}{middle.client_us:11.1f}"
        )
        spread = {"rate_min": low, "rate_max": high}
        rows.append({"system": system.name, **middle._asdict(), **spread})
    versions = {system.name: system.version() for system in laps}
    for name, version in versions.items():
        say(f"{name}: {version}")
    print(json.dumps({"results": rows, "versions": versions}))


if __name__ == "__main__":
    main()
