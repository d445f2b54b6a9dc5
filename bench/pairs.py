"""Two trees of Semcast beside each other, in processor time: is anything slower than before?

    .venv/bin/python bench/pairs.py --old /path/to/other/tree --pairs 15

Each tree needs a `.venv` of its own with its kernel compiled (`make setup`).  Runs alternate
between the trees, and the order changes with each pair.  A ratio above 1 means that this tree is
cheaper; the report has the median of the paired ratios and its quartiles.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median, quantiles
from typing import Any

ROOT = Path(__file__).parents[1]
LIMIT_S = 300
SEEDS = 200  # so that starting up is a small part of a swarm
# A tree finds its own packages, and keeps the bytecode that it compiled, as one that is installed.
UNWANTED = ("PYTHONPATH", "VIRTUAL_ENV", "PYTHONDONTWRITEBYTECODE")


def run(tree: Path, *command: str) -> dict[str, Any]:
    """Run a command of one tree; returns the JSON object that it prints last, with `cpu_s`."""
    before = getrusage(RUSAGE_CHILDREN)
    env = {name: value for name, value in os.environ.items() if name not in UNWANTED}
    done = subprocess.run(
        [tree / ".venv/bin/python", *command],
        cwd=tree,
        env=env,
        capture_output=True,
        check=False,
        text=True,
        timeout=LIMIT_S,
    )
    if done.returncode:
        sys.exit(f"{tree}: {' '.join(command)} failed:\n{done.stderr[-2000:]}")
    after = getrusage(RUSAGE_CHILDREN)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    result["cpu_s"] = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return result


def bench(*options: str) -> Callable[[Path], float]:
    """Processor time per delivery of a run of `semcast bench`."""

    def cost(tree: Path) -> float:
        command = ("-m", "semcast.cli.main", "bench", *options, "--seconds", "2", "--json")
        return float(run(tree, *command)["results"][0]["cpu_us_per_delivery"])

    return cost


def ordered(protocol: str, senders: int) -> Callable[[Path], float]:
    """Processor time per ordered delivery, four members, so many of them sending."""

    def cost(tree: Path) -> float:
        options = ("--protocol", protocol, "--senders", str(senders))
        script = str(ROOT / "bench" / "ordered.py")
        rows = run(tree, script, "--rounds", "1", "--seconds", "2", *options)["results"]
        return float(rows[0]["cpu_us_per_delivery"])

    return cost


def in_one_process(*options: str) -> Callable[[Path], float]:
    """Processor time per delivery, or round trip, of two members in one process."""

    def cost(tree: Path) -> float:
        script = str(ROOT / "bench" / "in_one_process.py")
        return float(run(tree, script, *options)["cpu_us_per_delivery"])

    return cost


def swarm(protocol: str) -> Callable[[Path], float]:
    """Processor time per recorded event of a swarm, start-up included."""

    def cost(tree: Path) -> float:
        options = ("--protocol", protocol, "--seeds", str(SEEDS), "--json")
        result = run(tree, "-m", "semcast.cli.main", "sim", "swarm", *options)
        return float(result["cpu_s"]) / float(result["events"]) * 1e6

    return cost


WORK: dict[str, Callable[[Path], float]] = {
    "throughput, 1 receiver": bench("throughput", "--receivers", "1"),
    "throughput, 4 receivers": bench("throughput", "--receivers", "4"),
    "slow receiver": bench("slow-receiver"),
    "fixed group in one process": in_one_process("s-rm"),
    "views fifo in one process": in_one_process("s-vsm"),
    "round trip, fixed group": in_one_process("s-rm", "--round-trips"),
    "round trip, views fifo": in_one_process("s-vsm", "--round-trips"),
    "total order, 1 sends": ordered("s-vsm", 1),
    "total order, 4 send": ordered("s-vsm", 4),
    "total order of vs, 4 send": ordered("vs", 4),
    "swarm of s-rm": swarm("s-rm"),
    "swarm of s-vsm": swarm("s-vsm"),
}


def main() -> None:
    """Compare, and print one row for each kind of work."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--old", type=Path, required=True, help="the tree to compare with")
    parser.add_argument("--pairs", type=int, default=15, help="paired runs of each kind of work")
    parser.add_argument("--only", default="", help="run work whose name contains this")
    options = parser.parse_args()
    trees = {"old": options.old.resolve(), "new": ROOT}
    for name, cost in WORK.items():
        if options.only not in name:
            continue
        costs: dict[str, list[float]] = {"old": [], "new": []}
        for pair in range(options.pairs):
            for which in sorted(trees, reverse=bool(pair % 2)):
                costs[which].append(cost(trees[which]))
        ratios = [old / new for old, new in zip(costs["old"], costs["new"], strict=True)]
        low, _, high = quantiles(ratios, n=4) if len(ratios) > 1 else (ratios * 3)
        print(
            f"{name}: {median(costs['old']):.3f} -> {median(costs['new']):.3f} µs, "
            f"ratio {median(ratios):.2f} ({low:.2f} to {high:.2f}), {len(ratios)} pairs",
            flush=True,
        )


if __name__ == "__main__":
    main()
