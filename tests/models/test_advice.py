"""Which buffer a stream needs, by hand."""

from math import inf

import numpy as np
import pytest

from semcast.models.advice import DistanceCurve, Rates, advise
from semcast.models.throughput import sender_rate
from semcast.terms.errors import ConfigError

# Ten messages: five supersede the one before, two the one four back, one the one 300 back.
STREAM = DistanceCurve(10, 8, np.array([1, 4, 300]), np.array([5, 7, 8]))
NOTHING = DistanceCurve(0, 0, np.empty(0, np.int64), np.empty(0, np.int64))
DISTINCT = DistanceCurve(3, 0, np.empty(0, np.int64), np.empty(0, np.int64))


def test_shares_are_of_all_messages():
    assert STREAM.purge_ratio([0, 1, 3, 4, 299, 300, 10**9]).tolist() == [
        *(0, 0.5, 0.5, 0.7, 0.7, 0.8, 0.8),
    ]
    assert STREAM.limit == 0.8
    assert STREAM.never_obsolete == pytest.approx(0.2)


def test_percentiles_are_over_those_that_have_a_distance():
    assert [STREAM.percentile(share) for share in (0.5, 0.625, 0.63, 0.875, 0.9, 1)] == [
        *(1, 1, 4, 4, 300, 300),
    ]
    assert DISTINCT.percentile(0.5) is None


@pytest.mark.parametrize(
    ("receiver", "buffer"), [(60.0, 1), (50.0, 1), (49.9, 4), (30.0, 4), (29.0, 300), (20.0, 300)]
)
def test_the_smallest_buffer_that_admits_the_rate(receiver, buffer):
    """R ≥ 1 − Tr/Ts at the buffer, and not at any smaller one."""
    rates = Rates(100.0, receiver)
    advice = advise(STREAM, rates)
    assert (advice.buffer, advice.k, advice.predicted_rate) == (buffer, buffer, 100.0)
    assert sender_rate(*rates, STREAM.purge_ratio(buffer)) == pytest.approx(100)
    assert sender_rate(*rates, STREAM.purge_ratio(buffer - 1)) < 99.9


def test_no_buffer_is_enough():
    advice = advise(STREAM, Rates(100.0, 10.0))
    assert (advice.buffer, advice.k) == (None, None)
    assert advice.predicted_rate == pytest.approx(50)
    assert advice.reason == (
        "no buffer is large enough: 20 % of the messages are never superseded, "
        "and the receiver can read 10 %"
    )


def test_shares_that_are_nearly_the_same_are_told_apart():
    reason = advise(STREAM, Rates(1000.0, 199.0)).reason
    assert "20.0 % of the messages" in reason
    assert "can read 19.9 %" in reason


def test_no_more_is_purged_than_is_ever_superseded():
    """Three messages that are kept supersede the same one: only that can be dropped."""
    stream = DistanceCurve(4, 1, np.array([1, 2, 3]), np.array([1, 2, 3]))
    assert stream.limit == 0.25
    assert advise(stream, Rates(100.0, 50.0)).buffer is None
    assert advise(stream, Rates(100.0, 50.0)).predicted_rate == pytest.approx(100 * 2 / 3)


def test_a_receiver_that_keeps_up_needs_nothing():
    for receiver in (100.0, 1000.0):
        assert advise(STREAM, Rates(100.0, receiver))[:3] == (1, 0, 100.0)


def test_everything_can_be_purged_but_the_last():
    endless = DistanceCurve(10**9, 10**9 - 1, np.array([1]), np.array([10**9 - 1]))
    assert advise(endless, Rates(1000.0, 1.0)).buffer == 1
    assert "1e+09 times" in advise(endless, None).reason


def test_without_rates_nine_tenths_of_the_pairs_are_found():
    assert advise(STREAM, None)[:3] == (300, 300, None)
    assert "5 times as fast" in advise(STREAM, None).reason
    assert advise(DISTINCT, None)[:3] == (None, None, None)


def test_no_messages_at_all():
    for rates in (None, Rates(2.0, 1.0)):
        assert advise(NOTHING, rates).buffer is None
        assert "no messages" in advise(NOTHING, rates).reason
    assert NOTHING.never_obsolete == 1


def test_rates_are_given_both_or_not_at_all():
    assert Rates.given(None, None) is None
    assert Rates.given(2.0, 1.0) == Rates(2.0, 1.0)
    with pytest.raises(ConfigError, match=r"^receiver-rate: required"):
        Rates.given(2.0, None)
    with pytest.raises(ConfigError, match=r"^sender-rate: required"):
        Rates.given(None, 2.0)
    for wrong in (0.0, -1.0, inf):
        with pytest.raises(ConfigError, match=r"^receiver-rate: "):
            Rates.given(2.0, wrong)
