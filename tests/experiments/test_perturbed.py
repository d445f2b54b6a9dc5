"""EXP-1: one receiver perturbed in each of three ways."""

import pytest

from semcast.experiments.experiment import Row, Value
from semcast.experiments.perturbed import PERTURBED_RECEIVER, packet_bytes
from semcast.terms.errors import ConfigError

SHORT: dict[str, Value] = {"seconds": 10.0, "warmup_s": 4.0}


def run(**given: Value) -> Row:
    return PERTURBED_RECEIVER.run(PERTURBED_RECEIVER.parameters({**SHORT, **given}), 1, None)


@pytest.mark.parametrize("perturbation", ["delivery", "latency", "bandwidth"])
def test_a_small_perturbation_disturbs_nobody(perturbation: str) -> None:
    row = run(perturbation=perturbation, delay_ms=2.0, kbps=2500.0, size=1000)
    assert row["fast_rate"] == pytest.approx(200, rel=0.01)
    assert (row["purged_ratio"], row["violations"]) == (0, 0)


@pytest.mark.parametrize(
    ("given", "rate"),
    [
        ({"perturbation": "delivery", "delay_ms": 20.0}, 50),
        ({"perturbation": "bandwidth", "kbps": 500.0, "size": 1000}, 60),
        ({"perturbation": "latency", "delay_ms": 200.0}, 63),
    ],
)
def test_a_large_one_slows_the_reliable_group(given: dict[str, Value], rate: float) -> None:
    row = run(protocol="rm", **given)
    assert row["fast_rate"] == pytest.approx(rate, rel=0.15)
    assert (row["purged_ratio"], row["violations"]) == (0, 0)


def test_purging_wins_back_what_a_slow_application_costs() -> None:
    row = run(delay_ms=10.0)
    assert float(row["fast_rate"] or 0) > 180
    assert (row["fast_purged_ratio"], row["violations"]) == (0, 0)


def test_the_model_takes_the_capacity_of_the_link_and_nothing_of_latency() -> None:
    reliable = run(protocol="rm", perturbation="bandwidth", kbps=500.0, size=1000)
    assert reliable["model_rate"] == pytest.approx(500_000 / 8 / packet_bytes(1000))
    assert run(perturbation="latency", delay_ms=1.0)["model_rate"] is None


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"perturbation": "noise"}, "perturbation: unknown value 'noise'; allowed: delivery"),
        ({"perturbation": "bandwidth", "kbps": 0.0}, "kbps: 0.0 is not a number above 0"),
        ({"members": 2}, "members: 2 is not at least 3"),
        ({"delay_ms": -1.0}, "delay_ms: -1.0 is not a time"),
    ],
)
def test_impossible_parameters_are_named(given: dict[str, Value], says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        run(**given)
    assert "\n" not in str(caught.value)
