"""EXP-4: single and split buffers, eager and lazy purging, the price of safety [SRM §6.3]."""

import pytest

from semcast.experiments.buffers import BUFFERS, FIGURES, Occupancy
from semcast.experiments.registry import experiment
from semcast.terms.errors import ConfigError
from semcast.terms.events import DELIVER, RECEIVE, SKIP, Event

SECOND = 1_000_000_000
SINGLE_10 = {"buffer": 10, "receiver_buffer": 1}
SINGLE_20 = {"buffer": 20, "receiver_buffer": 1}
SPLIT = {"buffer": 10, "receiver_buffer": 10}
SAFETY = {"protocol": "s-rm", "r": 0.5, "d": 5, "buffer": 30, "receiver_buffer": 4}


def row(seed=1, **given):
    short = {"seconds": 15.0, "warmup_s": 3.0}
    result = BUFFERS.run(BUFFERS.parameters({**short, **given}), seed, None)
    assert result["violations"] == 0
    assert result["fast_purged_ratio"] == 0
    return result


def test_a_split_buffer_lies_between_one_of_its_half_and_one_of_its_sum():
    ten, split, twenty = (row(delay_ms=26.0, **size) for size in (SINGLE_10, SPLIT, SINGLE_20))
    assert ten["accepted_rate"] + 3 < split["accepted_rate"] < twenty["accepted_rate"] - 3
    assert ten["purged_ratio"] < split["purged_ratio"] < twenty["purged_ratio"]


def test_a_single_buffer_purges_at_the_sender_alone():
    single = row(delay_ms=20.0, **SINGLE_10)
    assert single["purged_at_sender"] == single["purged_ratio"] > 0.4
    assert single["purged_at_receiver"] == 0


def test_congestion_reaches_the_sender_when_the_receiver_is_full():
    light, heavy = row(delay_ms=12.0, **SPLIT), row(delay_ms=28.0, **SPLIT)
    assert light["purged_at_receiver"] == light["purged_ratio"] > 0.1
    assert light["purged_at_sender"] == 0
    assert heavy["purged_at_sender"] > heavy["purged_at_receiver"] > 0
    assert light["sender_held_mean"] < 1 < 8 < heavy["sender_held_mean"]


def test_eager_purging_purges_as_much_and_holds_less():
    eager, lazy = (row(delay_ms=20.0, purge=purge, **SINGLE_20) for purge in ("eager", "lazy"))
    assert eager["purged_ratio"] == pytest.approx(lazy["purged_ratio"], abs=0.01)
    assert eager["sender_held_mean"] < 0.75 * lazy["sender_held_mean"]
    assert eager["latency_mean_ms"] < 0.85 * lazy["latency_mean_ms"]


def test_slow_safety_detection_costs_throughput_and_latency():
    quick, late = (row(delay_ms=15.0, safety_period_ms=s, **SAFETY) for s in (5.0, 300.0))
    assert quick["accepted_rate"] > 99 > 92 > late["accepted_rate"]
    assert quick["latency_mean_ms"] * 1.5 < late["latency_mean_ms"]
    assert quick["sender_held_mean"] < late["sender_held_mean"]


def test_the_reliable_protocol_gets_what_the_slow_receiver_takes():
    reliable = row(protocol="sm", delay_ms=20.0, **SPLIT)
    assert reliable["accepted_rate"] == pytest.approx(50, abs=0.5)
    assert reliable["accepted_rate"] == pytest.approx(reliable["model_rate"], abs=0.5)
    assert reliable["purged_ratio"] == 0
    assert reliable["safety_latency_ms"] is None


def test_the_same_seed_gives_the_same_row_and_another_does_not():
    assert row(seed=3) == row(seed=3) != row(seed=4)


def test_occupancy_weighs_what_is_held_with_time():
    held = Occupancy(2, 1.0, 11.0)
    for at_s, kind, buffered in ((0.5, RECEIVE, 4), (6.0, SKIP, 2), (13.0, DELIVER, 9)):
        held.on_event(Event(kind, 2, buffered=buffered, ts_ns=round(at_s * SECOND)))
    held.on_event(Event(SKIP, 1, buffered=50, ts_ns=7 * SECOND))
    assert held.mean == (4 * 5 + 2 * 5) / 10
    assert held.skipped == 1


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"receiver_buffer": 0}, "receiver_buffer: 0 is not a whole number of at least 1"),
        ({"members": 2}, "members: 2 is not a whole number of at least 3"),
        ({"delay_ms": -1.0}, "delay_ms: -1.0 is not a time of 0 or more"),
        ({"safety_period_ms": -1.0}, "safety_period_ms: -1.0 is not a time of 0 or more"),
        ({"r": 1.5}, "r: 1.5 is not a number from 0 to 1"),
        ({"rate": 0.0}, "rate: 0.0 is not a number above 0"),
        ({"warmup_s": 15.0}, "warmup_s: 15.0 is not in 0..seconds, which is 15"),
        ({"protocol": "x"}, "protocol"),
        ({"size": "many"}, "size: 'many' is not a whole number"),
        ({"buffers": 1}, "parameter of buffers"),
    ],
)
def test_bad_parameters_are_refused_in_one_line(given, message):
    with pytest.raises(ConfigError) as refusal:
        row(**given)
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_every_point_of_the_figures_exists():
    keys = row(seconds=1.0, warmup_s=0.0).keys()
    for figure in FIGURES:
        assert {curve.y for panel in figure.panels for curve in panel.curves} <= keys
        for name, given in figure.points():
            experiment(name).parameters(given)
