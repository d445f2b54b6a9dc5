"""EXP-5: group size, in centralised mode [SRM §6.4].

Measured processor time varies, so all but one test charge the stack alone (a factor of 0).
"""

import pytest

from semcast.experiments.registry import experiment
from semcast.experiments.scale import FIGURES, SCALE, ReleaseLatency
from semcast.terms.errors import ConfigError
from semcast.terms.events import MULTICAST, PURGE, RECLAIM, RETRANSMISSION, Event

MS = 1_000_000
ALWAYS = {"safety_always": True}
RELIABLE = {"protocol": "rm"}


def row(seed=1, **given):
    short = {"members": 4, "seconds": 6.0, "warmup_s": 2.0, "processor_factor": 0.0}
    result = SCALE.run(SCALE.parameters({**short, **given}), seed, None)
    assert result["violations"] == 0
    return result


@pytest.mark.parametrize("members", [4, 16])
def test_safety_detection_about_doubles_the_overhead(members):
    reliable, semantic = row(members=members, **RELIABLE), row(members=members, **ALWAYS)
    overhead = semantic["gossip_bytes_per_s"] / reliable["gossip_bytes_per_s"]
    assert 1.8 < overhead < 2.6
    assert reliable["accepted_rate"] == semantic["accepted_rate"] == 100


def test_safety_detection_as_needed_costs_a_calm_group_nothing():
    reliable, semantic = row(**RELIABLE), row()
    assert semantic["network_bytes_per_s"] == pytest.approx(
        reliable["network_bytes_per_s"], rel=0.05
    )
    assert semantic["safety_latency_ms"] is None


@pytest.mark.parametrize("protocol", [RELIABLE, ALWAYS])
def test_under_congestion_retransmission_grows_with_the_group(protocol):
    small, large = (row(members=n, congested=True, **protocol) for n in (4, 16))
    assert large["network_bytes_per_s"] > 1.3 * small["network_bytes_per_s"]
    assert large["gossip_share"] < small["gossip_share"]


def test_congestion_spares_safety_while_enough_receivers_are_fast():
    whole = {**ALWAYS, "warmup_s": 0.0}
    calm, congested = row(**whole), row(congested=True, **whole)
    assert congested["safety_latency_ms"] < 30
    assert congested["stability_latency_ms"] > 8 * calm["stability_latency_ms"]
    everyone = row(congested=True, f=3, **whole)
    assert everyone["safety_latency_ms"] > 10 * congested["safety_latency_ms"]


def test_purging_lets_the_sender_forget_sooner():
    reliable, semantic = row(congested=True, **RELIABLE), row(congested=True, **ALWAYS)
    assert semantic["release_latency_ms"] < 0.6 * reliable["release_latency_ms"]
    assert semantic["accepted_rate"] > 1.8 * reliable["accepted_rate"]
    assert reliable["purged_ratio"] == 0 < semantic["purged_ratio"]


def test_minus_one_is_the_largest_f_below_half():
    assert row(members=5, f=-1, **ALWAYS) == row(members=5, f=2, **ALWAYS)


def test_a_factor_of_zero_repeats_and_the_measured_time_comes_on_top():
    still = row(seed=2)
    assert row(seed=2) == still
    assert row(seed=2, processor_factor=1.0)["processor_share"] > still["processor_share"] > 0


def test_a_message_is_released_when_purged_or_stable():
    release = ReleaseLatency(0.0, 1.0)
    for seq in (1, 2, 3):
        release.on_event(Event(MULTICAST, 0, 0, seq, ts_ns=seq * MS))
    release.on_event(Event(PURGE, 0, 0, 2, note=RETRANSMISSION, ts_ns=4 * MS))
    release.on_event(Event(RECLAIM, 1, 0, 3, ts_ns=5 * MS))  # another member's
    release.on_event(Event(RECLAIM, 0, 0, 2, ts_ns=11 * MS))
    assert release.mean_ms == (2 + 10) / 2
    assert list(release.sent_at) == [3]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"members": 1}, "members: 1 is not a whole number of at least 2"),
        ({"f": 4}, "f: 4 is not in 0..3"),
        ({"f": -2}, "f: -2 is not a whole number of at least -1"),
        ({"processor_factor": -1.0}, "processor_factor: -1.0 is not a number above"),
        ({"congested": "maybe"}, "congested"),
        ({"warmup_s": 9.0}, "warmup_s: 9.0 is not in 0..seconds, which is 6"),
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
