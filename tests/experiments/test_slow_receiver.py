"""EXP-3: parameters, its three kinds of buffers, and the bare queue against the model."""

import pytest

from semcast.experiments.experiment import Row, Value
from semcast.experiments.slow_receiver import SLOW_RECEIVER
from semcast.terms.errors import ConfigError

SHORT: dict[str, Value] = {"seconds": 12.0, "warmup_s": 4.0}


def run(**given: Value) -> Row:
    return SLOW_RECEIVER.run(SLOW_RECEIVER.parameters({**SHORT, **given}), 1, None)


@pytest.mark.parametrize("buffers", ["each", "split", "queue"])
def test_without_purging_the_receiver_sets_the_rate(buffers: str) -> None:
    row = run(protocol="rm", buffers=buffers)
    assert row["accepted_rate"] == pytest.approx(50, rel=0.02)
    assert (row["purged_ratio"], row["model_rate"], row["violations"]) == (0, 50, 0)


def test_same_parameters_and_seed_give_the_same_row() -> None:
    assert run(seconds=6.0) == run(seconds=6.0)


def test_halves_hold_less_than_whole_buffers() -> None:
    congested: dict[str, Value] = {"r": 0.5, "d": 5, "delay_ms": 25.0, "buffer": 20}
    split, each = run(buffers="split", **congested), run(buffers="each", **congested)
    assert float(split["latency_mean_ms"] or 0) < 0.7 * float(each["latency_mean_ms"] or 0)
    assert float(split["accepted_rate"] or 0) < float(each["accepted_rate"] or 0)


@pytest.mark.parametrize(("order", "sign"), [("fifo", 1), ("item", -1)])
def test_place_of_the_newer_decides_whether_the_model_is_optimistic(order: str, sign: int) -> None:
    """At the tail a queue of N reaches further back than N; in place it forgets sooner."""
    row = run(buffers="queue", order=order, r=0.5, d=5, delay_ms=25.0, seconds=200.0)
    excess = float(row["accepted_rate"] or 0) - float(row["model_rate"] or 0)
    assert sign * excess > 2


@pytest.mark.parametrize("k", [4, 16])
def test_bitmap_bounds_the_queue_as_the_model_says(k: int) -> None:
    row = run(
        buffers="queue", relation="bitmap", k=k, buffer=200, r=1.0, d=20, delay_ms=25.0,
        seconds=300.0, warmup_s=50.0,
    )  # fmt: skip
    assert row["accepted_rate"] == pytest.approx(row["model_rate"], rel=0.03)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"buffers": "both"}, "buffers: unknown value 'both'; allowed: each, split, queue"),
        ({"buffers": "split", "buffer": 1}, "buffer: 1 cannot be split"),
        ({"members": 1, "f": 0}, "members: 1 is not at least 2"),
        ({"r": 1.5}, "r: 1.5 is not a number from 0 to 1"),
        ({"warmup_s": 20.0}, "warmup_s: 20.0 is not in 0..seconds, which is 12"),
        (
            {"warmup_s": 20.0, "buffers": "queue"},
            "warmup_s: 20.0 is not in 0..seconds, which is 12",
        ),
        ({"rate": 0.0}, "rate: 0.0 is not a number above 0"),
    ],
)
def test_impossible_parameters_are_named(given: dict[str, Value], says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        run(**given)
    assert "\n" not in str(caught.value)


def test_bare_queue_has_nothing_to_trace() -> None:
    with pytest.raises(ConfigError, match="nothing to trace"):
        SLOW_RECEIVER.run(SLOW_RECEIVER.parameters({"buffers": "queue"}), 1, "anywhere")
