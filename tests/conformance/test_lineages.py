"""Live groups of one name that were founded apart: no message of one is delivered in the other."""

from collections.abc import Mapping
from pathlib import Path
from uuid import uuid4

import pytest

from semcast.fleet.live_run import SKEW_S
from semcast.fleet.plan import Load, WorkerPlan, WorkerStatus
from semcast.fleet.processes import Fleet
from semcast.fleet.trace_verdict import judge
from semcast.terms.events import DELIVER, INSTALL
from semcast.traces.parquet import read_runs, read_trace

WAIT_S = 60.0


def plans(names: str, group: str, trace: Path, order: str, seconds: float) -> list[WorkerPlan]:
    options = {
        "members": len(names),
        "protocol": "s-vsm",
        "order": order,
        "trace": str(trace),
        "key": False,
        "interface": "127.0.0.1",
    }
    load = Load(rate=100, seconds=seconds)
    return [WorkerPlan(group=group, name=name, options=options, load=load) for name in names]


def all_in(count: int):
    def is_so(ticks: Mapping[str, WorkerStatus]) -> bool:
        return all(tick.members == count for tick in ticks.values())

    return is_so


@pytest.mark.parametrize("order", ["fifo", "total"])
def test_a_member_stopped_while_the_others_found_anew_follows_them(tmp_path, order):
    """b, c and d take the places of a, b and c: in the old view, rank 1 is b, in the new one c."""
    group, trace = f"lineages-{uuid4().hex}", tmp_path / "live"
    with Fleet(plans("abc", group, trace, order, 30.0)) as old:
        old.start()
        assert old.watch(lambda ticks: ticks["a"].taken > 100, WAIT_S), old.ticks
        old.pause("a")
        old.kill("b")
        old.kill("c")
        with Fleet(plans("bcd", group, trace, order, 6.0)) as new:
            new.start()
            assert new.watch(lambda ticks: ticks["b"].taken > 30, WAIT_S), new.ticks
            old.resume("a")
            assert new.watch(all_in(4), WAIT_S), new.ticks
            assert new.send_all(WAIT_S)
            new.stop()
        old.stop()
    first, second = sorted(read_runs(trace), key=lambda run: len(members(trace, run.run_id)))
    assert members(trace, first.run_id) == {"a", "b", "c"}
    assert members(trace, second.run_id) == {"a", "b", "c", "d"}
    for run in (first, second):
        verdict = judge(trace, run_id=run.run_id, skew_s=SKEW_S)
        assert verdict.violations == 0, verdict.properties
    lineages = {
        event.lineage
        for run in (first, second)
        for event in read_trace(trace, run.run_id).events
        if event.kind == INSTALL
    }
    assert len(lineages) == 2
    assert 0 not in lineages


def members(trace: Path, run_id: int) -> set[str]:
    read = read_trace(trace, run_id)
    delivering = {event.pid for event in read.events if event.kind == DELIVER}
    return {process.name for process in read.processes if process.pid in delivering}


def test_two_groups_founded_apart_stay_apart_and_say_so(switches, key, capfd):
    """They hear each other from the moment the network heals, and neither takes the other in."""
    group, shared = f"lineages-{uuid4().hex}", {"members": 2, "protocol": "s-vsm", "key": key}
    switches.cut("cd")
    fleet = Fleet(
        [
            WorkerPlan(
                group=group,
                name=name,
                options={**shared, **switches.options(name)},
                load=Load(rate=50, seconds=8.0),
            )
            for name in "abcd"
        ],
        switches.launchers,
    )
    told = ""

    def all_said_so(_: Mapping[str, WorkerStatus]) -> bool:
        nonlocal told
        told += capfd.readouterr().err
        return told.count("two groups have this name") == 4

    def all_have_their_own(ticks: Mapping[str, WorkerStatus]) -> bool:
        return all(
            tick.accounted == sum(ticks[other].sent for other in pair)
            for pair in ("ab", "cd")
            for tick in (ticks[name] for name in pair)
        )

    with fleet:
        fleet.start()
        switches.heal()
        assert fleet.watch(all_said_so, WAIT_S), told
        assert fleet.send_all(WAIT_S)
        assert fleet.watch(all_have_their_own, WAIT_S), fleet.ticks
        assert [tick.members for tick in fleet.ticks.values()] == [2] * 4, fleet.ticks
        fleet.stop()
    told += capfd.readouterr().err
    assert told.count("one with a, b, another with c, d") == 2, told
    assert told.count("one with c, d, another with a, b") == 2, told
