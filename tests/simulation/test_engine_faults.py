"""Faults as values: what they refuse, what they draw, what a bucket lets through."""

from math import inf, nan
from random import Random
from statistics import fmean, median

import msgspec
import pytest

from semcast.faults import (
    Constant,
    Crash,
    Exponential,
    Failpoint,
    FailpointSet,
    Latency,
    LeakyBucket,
    Link,
    LogNormal,
    OneWayCut,
    Partition,
    Pause,
    Uniform,
    truncate_effects,
)
from semcast.kernel import run_of
from semcast.terms.effects import Effects
from semcast.terms.errors import ConfigError
from semcast.terms.events import DELIVER, PURGE, Event
from semcast.terms.ids import EVERYONE
from semcast.terms.messages import DataMessage, Excluded
from semcast.terms.outputs import Delivery


@pytest.mark.parametrize(
    ("make", "line"),
    [
        (lambda: Constant(-1.0), "s: -1.0 is not a finite number of at least 0"),
        (lambda: Uniform(2.0, 1.0), "high_s: 1.0 is not at least low_s 2.0"),
        (lambda: Exponential(inf), "mean_s: inf is not a finite number of at least 0"),
        (lambda: LogNormal(1.0, nan), "sigma: nan is not a finite number of at least 0"),
        (lambda: Link(loss=1.5), "loss: 1.5 is not within 0..1"),
        (lambda: Link(duplicate=-0.1), "duplicate: -0.1 is not within 0..1"),
        (lambda: Link(reorder=nan), "reorder: nan is not within 0..1"),
        (lambda: Link(bandwidth_bps=0), "bandwidth_bps: 0 is not a finite number above 0"),
        (lambda: Link(queue_bytes=-1), "queue_bytes: -1 is not a finite number of at least 0"),
        (lambda: Partition(2.0, 2.0, ()), "end: 2.0 is not after start 2.0"),
        (lambda: Partition(0.0, 1.0, ((0,), (0,))), "must contain each pid once"),
        (lambda: OneWayCut(0.0, 1.0, -1, 0), "source: -1 is not at least 0"),
        (lambda: Pause(0, 1.0, inf), "end: must be finite"),
        (lambda: Crash(0, -1.0), "at: -1.0 is not a finite number of at least 0"),
        (
            lambda: Crash(0, 1.0, announced_after_s=nan),
            "announced_after_s: nan is not a finite number",
        ),
        (lambda: Failpoint(0, PURGE, nth=0), "nth: 0 is not at least 1"),
        (lambda: Failpoint(0, PURGE, keep_effects=2), "keep_effects: 2 is not within 0..1"),
    ],
)
def test_an_impossible_setting_is_refused_in_one_line(make, line):
    with pytest.raises(ConfigError) as caught:
        make()
    assert line in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("latency", "summary", "expected", "floor"),
    [
        (Constant(0.25), fmean, 0.25, 0.25),
        (Uniform(1.0, 3.0), fmean, 2.0, 1.0),
        (Exponential(2.0, floor_s=1.0), fmean, 3.0, 1.0),
        (Exponential(0.0, floor_s=1.0), fmean, 1.0, 1.0),
        (LogNormal(2.0, 0.8, floor_s=0.5), median, 2.5, 0.5),
    ],
)
def test_latencies_have_their_centre_and_floor(latency: Latency, summary, expected, floor):
    rng = Random(1)
    draws = [latency.draw(rng) for _ in range(20_000)]
    assert summary(draws) == pytest.approx(expected, rel=0.03)
    assert min(draws) >= floor


def test_faults_are_values_that_survive_a_file():
    link = Link(latency=LogNormal(0.01, 1.0), loss=0.2, bandwidth_bps=1e6)
    assert msgspec.json.decode(msgspec.json.encode(link), type=Link) == link
    with pytest.raises(msgspec.ValidationError, match=r"loss: 3\.0 is not within"):
        msgspec.json.decode(b'{"loss": 3.0}', type=Link)


def test_a_bucket_leaks_at_its_bandwidth():
    bucket = LeakyBucket(bandwidth_bps=8_000, queue_bytes=10_000)  # 1,000 bytes a second
    assert bucket.admit(500, 1.0) == pytest.approx(1.5)
    assert bucket.admit(250, 1.0) == pytest.approx(1.75)  # waits for the first
    assert bucket.admit(100, 5.0) == pytest.approx(5.1)  # idle since: no credit was saved


def test_a_full_bucket_refuses_and_forgets_what_it_refused():
    bucket = LeakyBucket(bandwidth_bps=8_000, queue_bytes=1_000)
    assert bucket.admit(600, 0.0) == pytest.approx(0.6)
    assert bucket.admit(600, 0.0) == pytest.approx(1.2)
    assert bucket.admit(1, 0.0) is None  # 1,200 bytes wait
    assert bucket.admit(1, 0.3) == pytest.approx(1.201)  # 900 bytes wait


def test_an_idle_link_takes_any_size_even_without_a_queue():
    bucket = LeakyBucket(bandwidth_bps=8_000, queue_bytes=0)
    assert bucket.admit(5_000, 0.0) == pytest.approx(5.0)
    assert bucket.admit(1, 4.9) is None
    assert bucket.admit(1, 5.0) == pytest.approx(5.001)


def test_healing_keeps_latency_and_bandwidth():
    link = Link(latency=Constant(0.5), loss=0.1, duplicate=0.1, reorder=0.1, bandwidth_bps=1e6)
    assert link.without_faults() == Link(latency=Constant(0.5), bandwidth_bps=1e6)


def test_members_in_no_group_form_one_more():
    partition = Partition(0.0, 1.0, ((0, 1), (2,)))
    reach = {(s, d) for s in range(5) for d in range(5) if s < d and not partition.cuts(s, d)}
    assert reach == {(0, 1), (3, 4)}


def test_a_one_way_cut_cuts_one_way():
    cut = OneWayCut(0.0, 1.0, source=0, destination=1)
    assert cut.cuts(0, 1)
    assert not cut.cuts(1, 0)
    assert not cut.cuts(0, 2)


def test_a_tripwire_counts_events_of_its_kind_and_note():
    point = Failpoint(0, PURGE, note="delivery", nth=2)
    wire = FailpointSet([point])
    assert wire.triggered([Event(PURGE, 0, note="delivery"), Event(DELIVER, 0)]) is None
    assert wire.triggered([Event(PURGE, 0, note="retransmission")]) is None
    assert wire.triggered([Event(PURGE, 0, note="delivery")]) is point
    assert FailpointSet([Failpoint(0, PURGE)]).triggered([Event(PURGE, 0, note="any")]) is not None


def full_effects() -> Effects:
    """Four sends (three of them one multicast) and two deliveries."""
    out = Effects(recording=True)
    out.send += [((2,), Excluded(7)), (EVERYONE, Excluded(8))]
    out.outputs.append(Delivery(run_of([DataMessage(3, 1), DataMessage(3, 2)]), skipped=1))
    out.events = [Event(PURGE, 0), Event(DELIVER, 0, 3, 1), Event(DELIVER, 0, 3, 2)]
    return out


@pytest.mark.parametrize(
    ("share", "sends", "messages"),
    [(0.0, 0, 0), (0.5, 3, 0), (0.7, 4, 0), (0.9, 4, 1), (1.0, 4, 2)],
)
def test_a_crash_inside_a_handler_keeps_a_prefix_of_its_effects(share, sends, messages):
    out = full_effects()
    truncate_effects(out, share, (1, 2, 3), Random(1))
    assert len(out.send) == sends
    assert out.outputs == [
        Delivery(run_of([DataMessage(3, 1), DataMessage(3, 2)]).slice_run(0, messages), 1)
    ] * (messages > 0)
    assert out.events is not None
    # The purge happened; a delivery did only if the application got it.
    assert [e.kind for e in out.events] == [PURGE] + [DELIVER] * messages


def test_which_members_get_a_truncated_multicast_is_drawn():
    reached = set()
    for seed in range(40):
        out = full_effects()
        truncate_effects(out, 0.5, (1, 2, 3), Random(seed))
        assert out.send[0] == ((2,), Excluded(7))
        reached.add(frozenset(rank for (rank,), _ in out.send[1:]))
    assert reached == {frozenset(p) for p in ((1, 2), (1, 3), (2, 3))}
