"""The analytical model against the papers' numbers, and against its own definition summed up."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semcast.models.throughput import (
    distance_pmf,
    horizon,
    purge_ratio,
    purge_ratio_limit,
    purge_ratio_of_distances,
    purge_ratio_of_items,
    purge_ratio_of_pmf,
    purged_share,
    receiver_rate,
    sender_rate,
)
from semcast.terms.errors import ConfigError
from semcast.workloads.stock import stock_probabilities

shares = st.floats(0, 1)
diversities = st.floats(1, 1000)
sizes = st.integers(0, 300)


@pytest.mark.parametrize(
    ("r", "rate"),
    [
        pytest.param(0.0, 50.0, id="with 20 ms only 50 msg/s are accepted"),
        pytest.param(0.5, 100.0, id="the receiver can exhibit up to twice the delay"),
        pytest.param(0.25, 66.7, id="still higher than without purging"),
    ],
)
def test_slow_receiver_of_20_ms(r: float, rate: float) -> None:
    """[SRM §6.2] d = 1, "a sufficiently large buffer size", sender at 100 msg/s.

    For r = 0.25 the text reads 75 off its figure where its equation 1 gives 66.7.
    """
    assert float(sender_rate(100, 50, purge_ratio(r, 1, 100))) == pytest.approx(rate, abs=0.1)


def test_stock_mix_sustains_half_more_than_the_bottleneck() -> None:
    """[SRB §3.2] "purging remains effective with loads up to 150% of the bottleneck"."""
    ratio = purge_ratio_of_items(stock_probabilities(), 40)
    assert float(sender_rate(1000, 100, ratio)) == pytest.approx(151, abs=0.5)


@given(r=shares, d=diversities, n=sizes)
def test_closed_form_is_the_sum_of_the_pmf(r: float, d: float, n: int) -> None:
    """[SRM §5.1] R = Σ_{1≤x≤N} f(x)."""
    pmf = distance_pmf(r, d, np.arange(n + 1))
    assert float(purge_ratio(r, d, n)) == pytest.approx(math.fsum(pmf[1:]), abs=1e-9)
    assert float(purge_ratio_of_pmf(pmf, n)) == pytest.approx(math.fsum(pmf[1:]), abs=1e-9)
    assert pmf[0] == pytest.approx(1 - r)


@given(r=shares, d=diversities)
def test_the_limit_is_approached_from_below(r: float, d: float) -> None:
    assert float(purge_ratio_limit(r, d)) == r
    ratios = purge_ratio(r, d, [0, 1, 10, 100, 10**9])
    assert np.all(np.diff(ratios) >= 0)
    assert np.all(ratios <= r)
    if r > 0.01:
        assert ratios[-1] == pytest.approx(r)


@given(d=st.integers(1, 50), r=shares, n=sizes)
def test_equal_items_are_the_synthetic_distribution(d: int, r: float, n: int) -> None:
    of_items = purge_ratio_of_items([r / d] * d, n)
    assert float(of_items) == pytest.approx(float(purge_ratio(r, d, n)), abs=1e-9)


def test_observed_distances_count_all_messages() -> None:
    observed = [0, 0, 1, 1, 3, 7, 0, 40]
    assert purge_ratio_of_distances(observed, [0, 1, 2, 3, 39, 40, 1000]).tolist() == [
        n / 8 for n in (0, 2, 2, 3, 4, 5, 5)
    ]


def test_beyond_its_end_a_pmf_adds_nothing() -> None:
    assert purge_ratio_of_pmf([0.5, 0.2, 0.3], [0, 1, 2, 9]).tolist() == [0, 0.2, 0.5, 0.5]


def test_rates_where_nothing_slows_and_where_everything_is_purged() -> None:
    assert float(sender_rate(30, 50, 0)) == 30
    assert float(receiver_rate(30, 50, 0.9)) == 30
    assert float(sender_rate(100, 1, 1)) == 100
    assert float(receiver_rate(100, 1, 1)) == 1
    assert float(purged_share(100, 1, 1)) == pytest.approx(0.99)


@given(ts=st.floats(0.1, 1e4), tr=st.floats(0.1, 1e4), ratio=shares)
def test_no_more_is_purged_than_can_be(ts: float, tr: float, ratio: float) -> None:
    share = float(purged_share(ts, tr, ratio))
    assert -1e-12 <= share <= ratio + 1e-9
    if tr <= ts * (1 - ratio):
        assert share == pytest.approx(ratio, abs=1e-9)


def test_functions_broadcast() -> None:
    grid = purge_ratio(np.array([[0.25], [0.5]]), 5, np.array([1, 10, 100]))
    assert grid.shape == (2, 3)
    assert sender_rate(100, [20, 50], grid[:, :2]).shape == (2, 2)
    assert purge_ratio_of_items([0.5, 0.5], [[1, 2], [3, 4]]).shape == (2, 2)
    assert distance_pmf([0.1, 0.2], 1, 0).tolist() == [0.9, 0.8]


def test_a_short_bitmap_limits_the_buffer() -> None:
    assert float(horizon(40)) == 40
    assert float(horizon(40, 32)) == 32
    assert horizon([10, 100], 32).tolist() == [10, 32]


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: distance_pmf(1.5, 1, 1), "r: 1.5 is not allowed, must be 0 to 1"),
        (lambda: distance_pmf(-0.1, 1, 1), "r: -0.1 is not"),
        (lambda: distance_pmf(math.nan, 1, 1), "r: nan is not"),
        (lambda: distance_pmf(0.5, 1, 1.5), "x: 1.5 is not allowed, must be whole, 0 or more"),
        (lambda: purge_ratio(0.5, 0.4, 1), "d: 0.4 is not allowed, must be at least r"),
        (lambda: purge_ratio([0.1, 0.5], 0.4, 1), "d: 0.4 is not"),
        (lambda: purge_ratio(0, 0, 1), "d: 0 is not allowed, must be above 0"),
        (lambda: purge_ratio(0.5, 1, -1), "n: -1 is not"),
        (lambda: purge_ratio_of_items([0.9, 0.2], 1), "probabilities: sums to 1.1"),
        (lambda: purge_ratio_of_pmf([], 1), "pmf: has shape"),
        (lambda: purge_ratio_of_distances([], 1), "distances: empty"),
        (lambda: sender_rate(0, 1, 0), "ts: 0 is not allowed, must be above 0"),
        (lambda: receiver_rate(1, -5, 0), "tr: -5 is not"),
        (lambda: purged_share(1, 1, [0, 2]), "ratio: 2 is not allowed, must be 0 to 1"),
        (lambda: sender_rate("fast", 1, 0), "ts: 'fast' is not a number"),
    ],
)
def test_impossible_inputs_name_the_field_and_what_it_allows(call, says) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ConfigError) as caught:
        call()
    assert str(caught.value).startswith(says)
    assert "\n" not in str(caught.value)
