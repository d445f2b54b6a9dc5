"""The picture of a sweep names its curves where they end, in words and units."""

import pytest

from semcast.experiments.wording import setting
from semcast.pipeline.sweep.results import Estimate
from semcast.pipeline.sweep.sweep_figure import CURVES_MAX, draw


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("delay_ms", 10.0, "delay = 10 ms"),
        ("buffer", 40, "buffer = 40 messages"),
        ("r", 0.25, "r = 0.25"),
        ("loss", 0.01, "loss = 0.01"),
        ("protocol", "s-rm", "protocol = s-rm"),
        ("no_such_name", 3, "no such name = 3"),
    ],
)
def test_a_parameter_with_its_value(name, value, words):
    assert setting(name, value) == words


def curves(delays, results=("accepted_rate", "model_rate")):
    return [
        Estimate({"r": r, "delay_ms": delay}, result, 2, r * delay, None, None)
        for delay in delays
        for r in (0.25, 0.5)
        for result in results
    ]


def test_curves_have_their_names_at_their_ends():
    pictures = draw("slow-receiver", ["r", "delay_ms"], curves([10.0, 20.0]))
    assert pictures is not None
    svg = pictures[1].decode()
    for words in ("delay = 10 ms", "delay = 20 ms", "accepted from the sender (messages/s)"):
        assert f">{words}<" in svg
    assert "delay_ms" not in svg


def test_more_curves_than_can_be_told_apart():
    pictures = draw("slow-receiver", ["r", "delay_ms"], curves([float(n + 1) for n in range(20)]))
    assert pictures is not None
    assert f">{20 - CURVES_MAX} more are not drawn<" in pictures[1].decode()


def test_one_axis_needs_no_names():
    places = [Estimate({"r": r}, "accepted_rate", 2, r, None, None) for r in (0.25, 0.5)]
    pictures = draw("slow-receiver", ["r"], places)
    assert pictures is not None
    assert " = " not in pictures[1].decode().partition("</style>")[2]
