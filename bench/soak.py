"""Ten minutes at half the maximum rate: memory and descriptors stay, and nothing is lost.

The maximum is measured first.  Then five live processes carry quotes of stocks at half of it, one
of them taking half of what is sent.  Memory is the median of the resident set in the second
period and in the last, a minute each or a quarter of the run; it may grow by 5 % and 4 MiB, which
is what allocators and caches of a fixed size take.  Nothing is lost if all end with the same last
quote of every stock and each has accounted for everything sent.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from time import monotonic
from uuid import uuid4

from semcast.fleet.plan import Load, WorkerPlan, WorkerResult, WorkerStatus
from semcast.fleet.processes import Fleet

NAMES = "abcde"
SENDER, SLOW = NAMES[0], NAMES[-1]
MEASURED_S = 5.0
SAMPLE_S = 1.0
TOLD_S = 10.0
PERIOD_S = 60.0
SECONDS_MIN = 20.0
SLACK_S = 60.0
GROWTH_RATIO = 0.05
GROWTH_BYTES = 4 << 20
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def say(text: str) -> None:
    """Progress, for people."""
    print(text, file=sys.stderr, flush=True)


def plans(load: Load, service_s: float) -> list[WorkerPlan]:
    """A new group with one sender and one member that takes its time."""
    group = f"soak-{uuid4().hex}"
    return [
        WorkerPlan(
            group=group,
            name=name,
            options={"members": len(NAMES)},
            load=load if name == SENDER else None,
            service_s=service_s if name == SLOW else 0.0,
        )
        for name in NAMES
    ]


def maximum_rate() -> float:
    """Messages per second that a sender gets rid of when nobody is slow."""
    with Fleet(plans(Load(rate=None, seconds=MEASURED_S), 0.0)) as fleet:
        fleet.start()
        fleet.send_all(MEASURED_S + SLACK_S)
        result = fleet.stop()[SENDER]
    return result.sent / result.seconds


@dataclass
class Samples:
    """What the system knows of one process, once a second."""

    at_s: list[float] = field(default_factory=list)
    resident: list[int] = field(default_factory=list)
    descriptors: list[int] = field(default_factory=list)

    def take(self, pid: int, at_s: float) -> None:
        """One more."""
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        self.at_s.append(at_s)
        self.resident.append(pages * PAGE_BYTES)
        self.descriptors.append(len(os.listdir(f"/proc/{pid}/fd")))

    def between(self, values: list[int], start_s: float, end_s: float) -> float:
        """The median of a period."""
        return median(v for at, v in zip(self.at_s, values, strict=True) if start_s <= at <= end_s)


class Watch:
    """Samples every process while a fleet sends, and tells how it is doing."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.samples = {name: Samples() for name in NAMES}
        self.start = monotonic()
        self.next_s = self.told_s = 0.0
        self.sent_before = 0

    def on_tick(self, ticks: Mapping[str, WorkerStatus]) -> None:
        """Called several times a second."""
        at_s = monotonic() - self.start
        if at_s < self.next_s:
            return
        self.next_s = at_s + SAMPLE_S
        for name, pid in self.fleet.pids.items():
            self.samples[name].take(pid, at_s)
        if at_s >= self.told_s + TOLD_S:
            self._tell(ticks, at_s)

    def _tell(self, ticks: Mapping[str, WorkerStatus], at_s: float) -> None:
        sent, slow = ticks[SENDER].sent, ticks[SLOW]
        rate = (sent - self.sent_before) / (at_s - self.told_s)
        largest = max(samples.resident[-1] for samples in self.samples.values())
        say(
            f"{at_s:6.0f} s  {sent:>12,} sent  {rate:>9,.0f}/s  {slow.skipped:>12,} skipped by "
            f"the slow one  {largest / 2**20:6.1f} MiB at most"
        )
        self.told_s, self.sent_before = at_s, sent


@dataclass(frozen=True)
class MemberVerdict:
    """What became of one process."""

    name: str
    taken: int
    skipped: int
    resident_before_mib: float
    resident_after_mib: float
    descriptors_before: float
    descriptors_after: float
    accounts_for_all: bool

    @property
    def is_flat(self) -> bool:
        """Whether its memory grew no more than is allowed."""
        allowed = self.resident_before_mib * (1 + GROWTH_RATIO) + GROWTH_BYTES / 2**20
        return self.resident_after_mib <= allowed

    @property
    def leaks_descriptors(self) -> bool:
        """Whether it has more open than before."""
        return self.descriptors_after > self.descriptors_before


def verdict_on(
    name: str, samples: Samples, result: WorkerResult, sent: int, seconds: float
) -> MemberVerdict:
    """Compare the second period with the last."""
    period_s = min(PERIOD_S, seconds / 4)
    before, after = (period_s, 2 * period_s), (seconds - period_s, seconds)
    resident, descriptors = samples.resident, samples.descriptors
    return MemberVerdict(
        name,
        result.taken,
        result.skipped,
        samples.between(resident, *before) / 2**20,
        samples.between(resident, *after) / 2**20,
        samples.between(descriptors, *before),
        samples.between(descriptors, *after),
        result.taken + result.skipped == sent,
    )


def soak(seconds: float) -> dict[str, object]:
    """Everything; what there is to tell."""
    highest = maximum_rate()
    rate = highest / 2
    say(f"at most {highest:,.0f} messages/s; {seconds:g} s at half of that, half of which is taken")
    with Fleet(plans(Load(rate=rate, seconds=seconds), 2 / rate)) as fleet:
        fleet.start()
        watch = Watch(fleet)
        is_quiet = fleet.send_all(seconds + SLACK_S, watch.on_tick) and fleet.fall_quiet()
        results = fleet.stop()
    sent = results[SENDER].sent
    members = [
        verdict_on(name, watch.samples[name], results[name], sent, seconds) for name in NAMES
    ]
    is_equal = len({result.state for result in results.values()}) == 1
    faults = [f"{m.name}: memory grew" for m in members if not m.is_flat]
    faults += [f"{m.name}: descriptors leak" for m in members if m.leaks_descriptors]
    faults += [f"{m.name}: messages are missing" for m in members if not m.accounts_for_all]
    if not is_quiet:
        faults.append("it did not fall quiet")
    if not is_equal:
        faults.append("the members end with different quotes")
    return {
        "seconds": seconds,
        "maximum_rate": highest,
        "rate": sent / seconds,
        "sent": sent,
        "members": [asdict(member) for member in members],
        "faults": faults,
        "verdict": "fail" if faults else "pass",
    }


def main() -> int:
    """Exit code 1 if anything leaks or is lost."""
    parser = argparse.ArgumentParser(description="live processes for a long time")
    parser.add_argument("--seconds", type=float, default=600.0, help="how long (default 600)")
    parser.add_argument("--json", action="store_true", help="one JSON object at the end")
    given = parser.parse_args()
    if given.seconds < SECONDS_MIN:
        parser.error(f"--seconds: {given.seconds:g} is too short to compare, take {SECONDS_MIN:g}")
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        os.environ.update(XDG_STATE_HOME=place, XDG_RUNTIME_DIR=place, SEMCAST_KEYS=f"{place}/keys")
        found = soak(given.seconds)
    if given.json:
        print(json.dumps(found))
    else:
        for member in found["members"]:
            print(
                "{name}: {taken:,} taken, {skipped:,} skipped, {resident_before_mib:.1f} then "
                "{resident_after_mib:.1f} MiB, {descriptors_before:.0f} then "
                "{descriptors_after:.0f} descriptors".format(**member)
            )
        told = f"{found['sent']:,} sent at {found['rate']:,.0f}/s for {given.seconds:g} s"
        print(f"{told}: {'; '.join(found['faults']) or 'nothing leaks, nothing is lost'}")
    return 1 if found["faults"] else 0


if __name__ == "__main__":
    sys.exit(main())
