"""EXP-2: quotes through a bottleneck at a receiver or in the network."""

import pytest

from semcast.experiments.experiment import Row, Value
from semcast.experiments.stock import STOCK
from semcast.terms.errors import ConfigError

SHORT: dict[str, Value] = {"seconds": 10.0, "warmup_s": 4.0}


def run(**given: Value) -> Row:
    return STOCK.run(STOCK.parameters({**SHORT, **given}), 1, None)


@pytest.mark.parametrize("bottleneck", ["receiver", "network"])
@pytest.mark.parametrize("protocol", ["rm", "s-rm"])
def test_below_capacity_output_equals_input(bottleneck: str, protocol: str) -> None:
    row = run(bottleneck=bottleneck, protocol=protocol, input_percent=75.0)
    assert row["output_percent"] == pytest.approx(75, rel=0.01)
    assert (row["model_percent"], row["purged_ratio"], row["violations"]) == (75, 0, 0)


def test_beyond_capacity_only_the_semantic_protocol_follows() -> None:
    reliable, semantic = run(protocol="rm"), run()
    assert reliable["output_percent"] == pytest.approx(100, rel=0.02)
    assert semantic["output_percent"] == pytest.approx(150, rel=0.02)
    assert (semantic["fast_purged_ratio"], semantic["violations"]) == (0, 0)


def test_model_gives_151_percent_with_a_buffer_of_40() -> None:
    assert run(input_percent=200.0)["model_percent"] == pytest.approx(150.8, abs=0.1)


def test_a_slow_network_lets_nothing_queue_at_the_receiver() -> None:
    network, receiver = run(protocol="rm", bottleneck="network"), run(protocol="rm")
    assert network["violations"] == 0
    ratio = float(network["latency_mean_ms"] or 0) / float(receiver["latency_mean_ms"] or 0)
    assert 0.35 < ratio < 0.65


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"bottleneck": "disk"}, "bottleneck: unknown value 'disk'; allowed: receiver, network"),
        ({"capacity": 0.0}, "capacity: 0.0 is not a number above 0"),
        ({"input_percent": -5.0}, "input_percent: -5.0 is not a number above 0"),
        ({"members": 2, "f": 0}, "members: 2 is not at least 3"),
    ],
)
def test_impossible_parameters_are_named(given: dict[str, Value], says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        run(**given)
    assert "\n" not in str(caught.value)
