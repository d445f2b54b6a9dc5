"""What Spark costs a sweep: processor time for each task, and what a second core brings.

One run in each task, one queue of a few milliseconds a run: everything beside the runs' own time
is the price of a task.  Then tasks of about five seconds, of which that price must be a small
share.  Then the same runs on one core and on two, turn by turn.
"""

import argparse
import os
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Final, NamedTuple

from semcast.pipeline.spark_session import SparkTarget, session
from semcast.pipeline.sweep.runs import SweepRun
from semcast.pipeline.sweep.scheduler import run_jobs
from semcast.pipeline.sweep.sweep import plan

TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
QUEUE: Final = {"buffers": "queue", "seconds": "5", "warmup_s": "1"}


class Cost(NamedTuple):
    """Of some runs: by the wall clock, and processor time, their own and all."""

    wall_s: float
    own_wall_s: float
    own_cpu_s: float
    cpu_s: float


def runs_of(count: int, seed: int, settings: dict[str, str]) -> list[SweepRun]:
    """So many runs of one point, never the same ones for two seeds."""
    sweep = plan("slow-receiver", {"r": ["0.5"]}, settings, repeat=count, seed=seed)
    return [each.run for each in sweep.runs()]


def family(pid: int) -> Iterator[int]:
    """A process and all that descend from it."""
    yield pid
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            yield from family(int(child))


def cpu_s(pid: int) -> float:
    """What a process and the children it waited for have used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / TICKS_PER_S


def measure(spark: object, runs: list[SweepRun], task_s: float) -> Cost:
    """Run them."""
    before = {pid: cpu_s(pid) for pid in family(os.getpid())}
    started, own_wall_s, own_cpu_s = perf_counter(), 0.0, 0.0
    for table in run_jobs(spark, runs, task_s=task_s):
        own_wall_s += sum(table.column("wall_s").to_pylist())
        own_cpu_s += sum(table.column("cpu_s").to_pylist())
    wall_s = perf_counter() - started
    used = sum(cpu_s(pid) - before.get(pid, 0.0) for pid in family(os.getpid()))
    return Cost(wall_s, own_wall_s, own_cpu_s, used)


def price_of_tasks(tasks: int, rounds: int) -> None:
    """Processor milliseconds for each task, round by round: the JVM warms up."""
    print(f"\none run in each task, local[2], rounds of {tasks} tasks")
    print(f"{'round':>6}{'CPU ms/task':>14}{'wall ms/task':>14}")
    with session(SparkTarget("local[2]")) as spark:
        for number in range(rounds):
            cost = measure(spark, runs_of(tasks, number, QUEUE), task_s=0.0)
            price = 1000 * (cost.cpu_s - cost.own_cpu_s) / tasks
            print(f"{number + 1:6}{price:14.0f}{1000 * cost.wall_s / tasks:14.0f}")
        long_tasks(spark)


def long_tasks(spark: object) -> None:
    """Tasks of about five seconds: what is not spent in runs."""
    settings = {"seconds": "60", "rate": "400", "delay_ms": "5"}
    [probe] = runs_of(1, 1000, settings)
    one = measure(spark, [probe], task_s=0.0)
    settings["seconds"] = f"{60 * 5 / max(one.own_cpu_s, 0.01):.0f}"
    cost = measure(spark, runs_of(8, 2000, settings), task_s=0.0)
    print(f"\n8 tasks of {cost.own_cpu_s / 8:.1f} CPU seconds each")
    print(f"processor time beside the runs: {cost.cpu_s / cost.own_cpu_s - 1:.1%}")
    print(f"two slots not busy with runs:   {2 * cost.wall_s / cost.own_wall_s - 1:.1%} of theirs")


def cores(rounds: int, count: int) -> None:
    """The same runs on one core and on two."""
    settings = {"seconds": "20", "warmup_s": "2"}
    print(f"\n{count} runs, turn by turn\n{'':10}{'runs/s':>10}{'ratio':>8}")
    for number in range(rounds):
        rates = []
        for slots in (1, 2):
            with session(SparkTarget(f"local[{slots}]")) as spark:
                measure(spark, runs_of(2 * slots, 3000, settings), task_s=0.0)
                cost = measure(spark, runs_of(count, number, settings), task_s=3.0)
            rates.append(count / cost.wall_s)
        print(f"{'local[1]':10}{rates[0]:10.2f}")
        print(f"{'local[2]':10}{rates[1]:10.2f}{rates[1] / rates[0]:8.2f}")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--brief", action="store_true", help="fewer rounds, rougher numbers")
    brief = parser.parse_args().brief
    price_of_tasks(tasks=50, rounds=2 if brief else 6)
    cores(rounds=1 if brief else 3, count=40 if brief else 120)


if __name__ == "__main__":
    main()
