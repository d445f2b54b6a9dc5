"""The demonstration's parts; `tests/cli/test_demo.py` has a live one."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from semcast.experiments import demo
from semcast.experiments.demo import (
    DemoRunner,
    DemoSeries,
    DemoSettings,
    RateGauge,
    outcome_of,
    series_of,
)
from semcast.experiments.demo_figure import draw
from semcast.fleet.live_run import LiveRun
from semcast.fleet.plan import WorkerResult, WorkerStatus
from semcast.fleet.stream_measurement import EventColumns, StreamMeasurement
from semcast.runtime.options.options import Options
from semcast.specs.verdict import FAIL, PASS, CheckVerdict, PropertyResult
from semcast.terms.events import DELIVER, MULTICAST, PURGE
from semcast.traces.schema import RunInfo

RUN = RunInfo(name="demo", protocol="s-rm", order="fifo", relation="item", f=1, seed=1)
SETTINGS = DemoSettings(seconds=4.0, members=4)


def test_ranks_follow_the_names():
    for members in (3, 5, 12):
        names = DemoSettings(members=members).names
        assert len(names) == members
        assert sorted(names) == names


def test_a_slower_member_needs_more_room():
    rooms = [demo.buffer_for(slow_ms) for slow_ms in (0.1, 4, 6, 10, 100)]
    assert rooms == [500, 500, 600, 1000, 1000]


@pytest.mark.parametrize("fault", [None, "it is filtered"])
def test_without_multicast_everyone_is_named(fault, monkeypatch):
    monkeypatch.setattr(demo, "probe_multicast", lambda *_: fault)
    shown = DemoRunner(DemoSettings(), Path("unused"))
    assert shown.fault == fault
    for variant in demo.VARIANTS.values():
        plans = shown.plans(variant)
        for plan in plans:
            options = Options.resolve(plan.group, {"name": plan.name, **plan.options})
            assert (options.peers is None) == (fault is None)
            assert options.members == len(plans) == 5
            assert options.key is False


def test_two_demonstrations_do_not_meet():
    shown = [DemoRunner(DemoSettings(), Path("unused")) for _ in range(2)]
    groups = [{p.group for v in demo.VARIANTS.values() for p in s.plans(v)} for s in shown]
    assert len(groups[0]) == len(demo.VARIANTS)
    assert groups[0].isdisjoint(groups[1])


def test_the_gauge_tells_the_rates_of_the_last_second():
    gauge = RateGauge(DemoSettings(members=4))
    for tenth in range(21):
        ticks = {
            "p0": WorkerStatus(sent=max(0, tenth - 10) * 100, slowest="p3", is_blocked=True),
            "p1": WorkerStatus(taken=tenth * 40),
            "p2": WorkerStatus(taken=tenth * 60),
            "p3": WorkerStatus(taken=tenth * 10, held=7, skipped=3, age_s=1.5),
        }
        gauge.look(ticks, now=tenth / 10)
        look = gauge.look(ticks, now=tenth / 10 + 0.09)  # Nothing new was said.
    assert look[:3] == pytest.approx((1000, 500, 100))
    assert look[3:] == (7, 3, "p3", True, 1.5)


def shots(*rows: tuple[float, int]) -> EventColumns:
    """Messages about the hottest stock, by second and number."""
    at_ns = np.array([round(at_s * 1e9) for at_s, _ in rows])
    seqs = np.array([seq for _, seq in rows])
    return EventColumns(at_ns, seqs, np.full(len(rows), demo.HOT[0]))


@pytest.fixture
def footage() -> StreamMeasurement:
    """Four messages, of which the slow one sees the first and the last."""
    sent = shots((0.5, 1), (1.5, 2), (2.5, 3), (3.5, 4))
    fast = {(DELIVER, pid): sent for pid in (0, 1, 2)}
    slow = {(DELIVER, 3): shots((0.5, 1), (4.5, 4)), (PURGE, 3): shots((1.6, 2), (2.6, 3))}
    return StreamMeasurement(0, {(MULTICAST, 0): sent, **fast, **slow})


@pytest.fixture
def run() -> LiveRun:
    """A run that ended well."""
    result = WorkerResult(sent=0, taken=0, skipped=0, seconds=4.0, cpu_s=0.0, state="same")
    verdict = CheckVerdict(99, {"integrity": PropertyResult(PASS)})
    return LiveRun(Path("trace"), 0, True, dict.fromkeys(SETTINGS.names, result), verdict)


def test_the_first_quarter_is_not_measured(run, footage):
    outcome = outcome_of(run, footage, SETTINGS)
    assert (outcome.sender_rate, outcome.fast_rate, outcome.slow_rate) == (1, 1, 0)
    assert (outcome.purged_ratio, outcome.offered_rate) == (1, 1000)
    assert outcome.staleness_p50_ms == 0  # The other 24 stocks were never sent.
    assert outcome.staleness_p99_ms == pytest.approx(2750)
    assert (outcome.events, outcome.violations, outcome.trace) == (99, 0, "trace")
    series = series_of(footage, SETTINGS)
    assert (series.fast, series.slow) == ([1, 1, 1, 1], [1, 0, 0, 0])


def test_converged_is_quiet_and_equal_and_current(run, footage):
    assert outcome_of(run, footage, SETTINGS).converged
    assert not outcome_of(replace(run, is_quiet=False), footage, SETTINGS).converged
    other = WorkerResult(sent=0, taken=0, skipped=0, seconds=4.0, cpu_s=0.0, state="other")
    torn = replace(run, results={**run.results, "p1": other})
    assert not outcome_of(torn, footage, SETTINGS).converged
    behind = StreamMeasurement(
        0, {(MULTICAST, 0): shots((0.5, 1), (1, 2)), (DELIVER, 3): shots((0.6, 1))}
    )
    assert not outcome_of(run, behind, SETTINGS).converged


def test_sound_is_judged_and_not_broken(run, footage):
    def outcome(*statuses: str) -> demo.DemoOutcome:
        found = {f"property {n}": PropertyResult(status) for n, status in enumerate(statuses)}
        verdict = CheckVerdict(1, found)
        return outcome_of(replace(run, verdict=verdict), footage, SETTINGS)

    assert outcome(PASS).holds_all
    assert not outcome("not applicable").holds_all
    assert not outcome(PASS, FAIL).holds_all
    assert outcome(PASS, FAIL).broken == ["property 1"]


def test_the_figure_is_drawn(tmp_path):
    series = DemoSeries(fast=[9, 8], slow=[1, 2], staleness_ms=[5.0, 6.0])
    draw(dict.fromkeys(demo.VARIANTS, series), DemoSettings(seconds=2.5), tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
