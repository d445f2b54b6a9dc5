"""Five live processes whose links are cut and healed, that are killed, stopped and started again.

Each is a machine of its own, as far as the network can tell, on a cable to a switch; a cut moves
cables to another switch.  All send all the time; the traces are judged by every monitor.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from uuid import uuid4

import pytest

from semcast.fleet.live_run import SKEW_S, record
from semcast.fleet.plan import Load, WorkerPlan, WorkerStatus
from semcast.fleet.processes import Fleet
from semcast.fleet.trace_verdict import judge
from semcast.terms.events import INSTALL
from semcast.traces.parquet import read_trace

NAMES = "abcde"
IS_LONG = bool(os.environ.get("SOAK"))
SECONDS = 120.0 if IS_LONG else 8.0
KINDS = [("s-vsm", "fifo"), ("vs", "total")]
KINDS += [("s-vsm", "total"), ("vsm", "causal")] if IS_LONG else []
WAIT_S = 60.0
CUT_S = 1.5


def together(count: int) -> Callable[[Mapping[str, WorkerStatus]], bool]:
    """So many living members are in one view of exactly so many."""

    def is_so(ticks: Mapping[str, WorkerStatus]) -> bool:
        views = [tick.view for tick in ticks.values() if tick.members == count]
        return any(views.count(view) == count for view in set(views))

    return is_so


def disturb(fleet: Fleet, switches) -> None:
    """Everything that can happen to a group, one after the other."""
    switches.cut("ab")
    assert fleet.watch(together(3), WAIT_S), fleet.ticks
    fleet.watch(lambda _: False, CUT_S)
    switches.heal()
    assert fleet.watch(together(5), WAIT_S), fleet.ticks
    fleet.kill("a")
    assert fleet.watch(together(4), WAIT_S), fleet.ticks
    fleet.restart("a")
    assert fleet.watch(together(5), WAIT_S), fleet.ticks
    fleet.pause("e")
    assert fleet.watch(together(4), WAIT_S), fleet.ticks
    fleet.resume("e")
    assert fleet.watch(together(5), WAIT_S), fleet.ticks
    switches.cut("c")
    switches.cut("d")
    fleet.kill("b")
    fleet.restart("b")
    switches.heal()
    assert fleet.watch(together(5), WAIT_S), fleet.ticks


@pytest.mark.parametrize(("protocol", "order"), KINDS)
def test_cut_killed_stopped_and_back(switches, key, tmp_path, kept, protocol, order):
    trace = tmp_path / "live"
    shared = {"members": len(NAMES), "protocol": protocol, "order": order, "key": key}
    group = f"conformance-{uuid4().hex}"
    plans = [
        WorkerPlan(
            group=group,
            name=name,
            options={**shared, "trace": str(trace), **switches.options(name)},
            load=Load(rate=100, seconds=SECONDS, seed=number),
        )
        for number, name in enumerate(NAMES, start=1)
    ]
    with Fleet(plans, switches.launchers) as fleet:
        fleet.start()
        disturb(fleet, switches)
        is_quiet = fleet.send_all(SECONDS + WAIT_S)
        fleet.stop()
    record(trace, "views", NAMES, fleet, is_quiet=is_quiet)
    verdict = judge(trace, skew_s=SKEW_S)
    kept(verdict, f"see {trace}")
    assert installed(trace) >= 6, "the membership did change"


def installed(trace: Path) -> int:
    return len({event.view for event in read_trace(trace).events if event.kind == INSTALL})
