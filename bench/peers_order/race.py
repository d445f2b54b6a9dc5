"""A race: members of one group deliver, all in the same order, what some of them send.

A system is a command line per member, to which GROUP INDEX MEMBERS SIZE SENDS are added.  It says
`joined` when the next may start and `ready` when all are in the group; then it is told two times of
the monotonic clock, in nanoseconds.  From then on it sends as fast as it is let, if SENDS is 1.  At
the second time it says, as JSON, how many messages it delivered since the first (`delivered`), the
processor time that took (`cpu_s`), and digests of what it delivered since the start, after every
1,000 messages of the first 20,000 (`marks`).  It ends when standard input does.
Payloads begin with sender << 48 | number, 8 bytes, big-endian; a digest d becomes 31 d + that.
"""

import json
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from statistics import median
from time import monotonic_ns, sleep
from typing import NamedTuple

WARMUP_S = 3.0  # a virtual machine that compiles needs it
PATIENCE_S = 60.0


class Field(NamedTuple):
    """Where a system races: the command line of each member, and the processes whose processor time
    counts too."""

    commands: Sequence[Sequence[str]]
    daemons: Sequence[int] = ()


@dataclass(frozen=True)
class System:
    """Something to race.  `missing` says what is not installed, "" if nothing."""

    name: str
    missing: Callable[[], str]
    version: Callable[[], str]
    field: Callable[[Path, int], AbstractContextManager[Field]]


@dataclass
class Rounds:
    """What the rounds of one system with so many senders gave."""

    rates: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)

    def row(self) -> dict[str, float]:
        """Medians and spread."""
        rate = median(self.rates)
        return {
            "rate": rate,
            "rate_min": min(self.rates),
            "rate_max": max(self.rates),
            "cpu_us_per_delivery": median(self.cpu_us),
        }


def race(field: Field, senders: int, size: int, seconds: float) -> tuple[float, float]:
    """Ordered messages per second at the slowest member, and microseconds of processor time per
    delivery.  One sender alone is the last member, who is nobody's sequencer."""
    members, group = len(field.commands), f"order-{token_hex(4)}"
    with ExitStack() as stack:
        runners = []
        for index, command in enumerate(field.commands):
            sends = int(index >= members - senders)
            words = [*command, *map(str, (group, index, members, size, sends))]
            pipe = subprocess.PIPE
            runner = subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True)
            stack.callback(_stop, runner)
            runners.append(runner)
            _expect(runner, "joined")
        for runner in runners:
            _expect(runner, "ready")
        begin = monotonic_ns() + int(WARMUP_S * 1e9)
        end = begin + int(seconds * 1e9)
        for runner in runners:
            assert runner.stdin is not None
            runner.stdin.write(f"{begin} {end}\n")
            runner.stdin.flush()
        sleep((begin - monotonic_ns()) / 1e9)
        before = [cpu_s(pid) for pid in field.daemons]
        sleep(max(0.0, (end - monotonic_ns()) / 1e9))
        daemons = sum(cpu_s(pid) - at for pid, at in zip(field.daemons, before, strict=True))
        told = [json.loads(next(_lines(runner))) for runner in runners]
    _check_order([one["marks"] for one in told])
    delivered = [one["delivered"] for one in told]
    cpu = daemons + sum(one["cpu_s"] for one in told)
    return min(delivered) / seconds, cpu * 1e6 / max(1, sum(delivered))


def cpu_s(pid: int) -> float:
    """Processor time of another process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100


def _check_order(marks: Sequence[Sequence[str]]) -> None:
    for step in zip(*marks, strict=False):
        if len(set(step)) > 1:
            raise SystemExit(f"members disagree on the order: {step}")


def _lines(runner: subprocess.Popen[str]) -> Iterator[str]:
    assert runner.stdout is not None
    for line in runner.stdout:
        if line.startswith(("joined", "ready", "{")):  # systems like to talk
            yield line.strip()
    raise SystemExit(f"{' '.join(map(str, runner.args))}: ended with {runner.wait(PATIENCE_S)}")


def _expect(runner: subprocess.Popen[str], word: str) -> None:
    said = next(_lines(runner))
    if said != word:
        raise SystemExit(f"{' '.join(map(str, runner.args))}: said {said!r}, not {word!r}")


def _stop(runner: subprocess.Popen[str]) -> None:
    assert runner.stdin is not None
    assert runner.stdout is not None
    runner.stdin.close()
    runner.stdout.close()
    try:
        runner.wait(5)
    except subprocess.TimeoutExpired:
        runner.kill()
        runner.wait()
