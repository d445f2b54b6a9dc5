"""Live views: how soon a crash is followed by a new view, and that nothing else is.

First five processes are killed one after the other, and started again, while all send: the time
from the kill until the last survivor has installed the view without it, by the recorded traces.
Then five processes carry as much as they can for ten minutes, two of them sending without a pace:
the view must stay the first.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from time import monotonic
from uuid import uuid4

from semcast.fleet.live_run import SKEW_S, record
from semcast.fleet.plan import Load, WorkerPlan, WorkerStatus
from semcast.fleet.processes import Fleet
from semcast.fleet.trace_verdict import judge
from semcast.terms.events import CRASH, INSTALL
from semcast.traces.parquet import read_trace

NAMES = "abcde"
WAIT_S = 30.0
SLACK_S = 60.0
SETTLE_S = 1.0
TOLD_S = 10.0
VIEW_CHANGE_S_MAX = 1.0


def say(text: str) -> None:
    """Progress, for people."""
    print(text, file=sys.stderr, flush=True)


def plans(loads: Mapping[str, Load], **options: object) -> list[WorkerPlan]:
    """A new group."""
    group = f"views-{uuid4().hex}"
    return [
        WorkerPlan(
            group=group,
            name=name,
            options={"members": len(NAMES), "protocol": "s-vsm", **options},
            load=loads.get(name),
            only_counts=True,
        )
        for name in NAMES
    ]


def are_together(ticks: Mapping[str, WorkerStatus], count: int) -> bool:
    """Whether so many are in one view of exactly so many."""
    return {tick.members for tick in ticks.values()} == {count} and (
        len({tick.view for tick in ticks.values()}) == 1
    )


def kill_each(directory: Path) -> tuple[list[float], bool]:
    """Seconds that the view change took after each kill, and whether every promise was kept."""
    loads = {name: Load(rate=200, seconds=60.0, seed=name) for name in NAMES}
    with Fleet(plans(loads, trace=str(directory))) as fleet:
        fleet.start()
        for name in NAMES:
            fleet.watch(lambda _: False, SETTLE_S)
            fleet.kill(name)
            if not fleet.watch(lambda ticks: are_together(ticks, len(NAMES) - 1), WAIT_S):
                raise SystemExit(f"no view without {name}: {fleet.ticks}")
            fleet.restart(name)
            if not fleet.watch(lambda ticks: are_together(ticks, len(NAMES)), WAIT_S):
                raise SystemExit(f"{name} did not come back: {fleet.ticks}")
        fleet.stop()
    record(directory, "kills", NAMES, fleet, is_quiet=False)
    trace = read_trace(directory)
    crashes = [(event.pid, event.ts_ns) for event in trace.events if event.kind == CRASH]
    installs = [event for event in trace.events if event.kind == INSTALL]
    took = []
    for pid, killed_ns in crashes:
        after = [e for e in installs if e.ts_ns > killed_ns and pid not in e.members]
        first = min(event.view for event in after)
        took.append(max(e.ts_ns for e in after if e.view == first) / 1e9 - killed_ns / 1e9)
    return took, judge(directory, skew_s=SKEW_S).passed


class Watch:
    """Follows a fleet at full load: which views there were."""

    def __init__(self) -> None:
        self.views: set[int] = set()
        self.start = self.told = monotonic()

    def on_tick(self, ticks: Mapping[str, WorkerStatus]) -> None:
        """Called several times a second."""
        self.views |= {tick.view for tick in ticks.values() if tick.view}
        now = monotonic()
        if now - self.told >= TOLD_S:
            self.told = now
            taken = min(tick.taken for tick in ticks.values())
            say(f"{now - self.start:6.0f} s  {taken:>12,} taken by all  views {sorted(self.views)}")


def full_load(seconds: float) -> tuple[set[int], int]:
    """The views there were, and how many messages everybody took."""
    loads = {name: Load(stream="plain", rate=None, seconds=seconds, size=100) for name in "ab"}
    watch = Watch()
    with Fleet(plans(loads)) as fleet:
        fleet.start()
        fleet.send_all(seconds + SLACK_S, watch.on_tick)
        results = fleet.stop()
    return watch.views, min(result.taken for result in results.values())


def main() -> int:
    """Exit code 1 if a view came too late, or without cause."""
    parser = argparse.ArgumentParser(description="live views under kills and under full load")
    parser.add_argument("--seconds", type=float, default=600.0, help="full load (default 600)")
    parser.add_argument("--json", action="store_true", help="one JSON object at the end")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        os.environ.update(XDG_STATE_HOME=place, XDG_RUNTIME_DIR=place, SEMCAST_KEYS=f"{place}/keys")
        took, is_kept = kill_each(Path(place) / "trace")
        say(f"after kill -9: {', '.join(f'{s * 1e3:.0f} ms' for s in took)}")
        views, taken = full_load(given.seconds)
    faults = [f"a view change took {max(took):.2f} s"] if max(took) > VIEW_CHANGE_S_MAX else []
    faults += [] if is_kept else ["a promise was broken"]
    faults += [f"views changed without cause: {sorted(views)}"] if views != {1} else []
    found = {
        "view_change_p50_ms": median(took) * 1e3,
        "view_change_max_ms": max(took) * 1e3,
        "seconds": given.seconds,
        "taken": taken,
        "rate": taken / given.seconds,
        "views": sorted(views),
        "faults": faults,
        "verdict": "fail" if faults else "pass",
    }
    if given.json:
        print(json.dumps(found))
    else:
        print(
            f"view change after kill -9: {found['view_change_p50_ms']:.0f} ms in the median, "
            f"{found['view_change_max_ms']:.0f} ms at most; {taken:,} messages taken by all in "
            f"{given.seconds:g} s of full load: {'; '.join(faults) or 'no view without cause'}"
        )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
