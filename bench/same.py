"""Does every protocol still do exactly what it did?  Hashes of all events of seeded runs.

    .venv/bin/python bench/same.py             compare with bench/same.json
    .venv/bin/python bench/same.py --record    write it anew; the commit says what changed, and why

A change of structure leaves all hashes as they are.  Payloads, times, local indices and buffer
levels count too, so hardly any change of behaviour goes unnoticed.
"""

import argparse
import hashlib
import json
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from operator import attrgetter
from pathlib import Path

import msgspec

from semcast.sim.run import run
from semcast.sim.swarm import draw, swarms
from semcast.terms.events import Event

# In the order of their names, so that a field may move.
COLUMNS = attrgetter(*sorted(Event.__struct_fields__))
RECORDED = Path(__file__).with_name("same.json")
SEEDS = 40


def fingerprint(protocol: str, seed: int) -> str:
    """A hash over every event of one run, violations included."""
    digest = hashlib.blake2b(digest_size=6)

    def see(event: Event) -> None:
        digest.update(msgspec.msgpack.encode(COLUMNS(event)))

    outcome = run(draw(protocol, seed), see)
    digest.update(repr(outcome.violations).encode())
    return digest.hexdigest()


def main() -> int:
    """0 if nothing changed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--record", action="store_true", help="write the hashes of this tree")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="seeds of each protocol")
    asked = parser.parse_args()
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        found = {
            protocol: list(pool.map(fingerprint, repeat(protocol), range(asked.seeds)))
            for protocol in swarms()
        }
    if asked.record:
        RECORDED.write_text(json.dumps(found, indent=1) + "\n")
        print(f"recorded {asked.seeds} seeds of {len(found)} protocols")
        return 0
    changed = 0
    for protocol, before in json.loads(RECORDED.read_text()).items():
        pairs = zip(before, found.get(protocol, ()), strict=False)
        seeds = [seed for seed, (one, other) in enumerate(pairs) if one != other]
        changed += len(seeds)
        if seeds or protocol not in found:
            print(f"{protocol}: seeds {', '.join(map(str, seeds)) or 'gone'} changed")
    print(f"{changed} runs changed" if changed else "every run is the same, event for event")
    return bool(changed)


if __name__ == "__main__":
    sys.exit(main())
