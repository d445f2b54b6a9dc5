"""Slow start, congestion avoidance and timeouts as TCP does [SRM §5.3]."""

import pytest

from semcast.core.congestion_window import CongestionWindow


@pytest.fixture
def window():
    return CongestionWindow(100, 0.02, 1.0)


def test_it_starts_with_a_few_and_grows_by_one_with_each_answer(window):
    assert window.size == 4
    window.on_answer(0.01)
    window.on_answer(0.01)
    assert window.size == 6


def test_a_timeout_falls_back_to_one_and_halves_the_threshold(window):
    window.size = 16.0
    window.on_timeout()
    assert (window.size, window.threshold) == (1, 8)


def test_the_threshold_stays_at_two_or_more(window):
    window.on_timeout()
    window.on_timeout()
    assert window.threshold == 2


def test_past_the_threshold_it_grows_by_one_per_round_trip(window):
    """An answer is a whole window, and so a round trip."""
    window.size, window.threshold = 10.0, 10.0
    for _ in range(10):
        window.on_answer(0.01)
    assert window.size == 20


def test_past_the_threshold_it_grows_slowly_while_answers_queue(window):
    """A narrow link delays answers as the window grows, and would lose the end of a larger one."""
    window.on_answer(0.01)
    window.size, window.threshold = 10.0, 10.0
    for _ in range(10):
        window.on_answer(0.041)
    assert window.size == pytest.approx(11, abs=0.1)
    window.on_answer(0.039)
    assert window.size == pytest.approx(12, abs=0.1)


def test_below_the_threshold_queues_do_not_slow_it(window):
    window.on_answer(0.01)
    window.on_answer(0.09)
    assert window.size == 6


def test_a_timeout_forgets_the_shortest_round_trip(window):
    """The link may be another one by now, or the peer busier."""
    window.on_answer(0.01)
    window.on_timeout()
    window.size, window.threshold = 10.0, 10.0
    window.on_answer(0.09)
    assert window.size == 11


def test_timeouts_double_while_nothing_comes_back_up_to_a_bound(window):
    waits = []
    for _ in range(5):
        waits.append(window.timeout_s)
        window.on_timeout()
    assert waits == [0.1, 0.2, 0.4, 0.8, 1.0]
    for _ in range(100):
        window.on_timeout()
    assert window.timeout_s == 1.0
    window.on_answer(0.1)
    assert window.timeout_s == pytest.approx(0.3)


def test_the_first_round_trip_is_taken_as_it_is(window):
    window.on_answer(0.1)
    assert window.timeout_s == pytest.approx(0.1 + 4 * 0.05)


def test_later_round_trips_are_smoothed(window):
    window.on_answer(0.1)
    window.on_answer(0.2)
    assert window.smoothed_s == pytest.approx(0.1125)
    assert window.deviation_s == pytest.approx(0.05 + (0.1 - 0.05) / 4)


def test_steady_answers_bring_the_timeout_down_to_its_floor(window):
    for _ in range(200):
        window.on_answer(0.001)
    assert window.timeout_s == pytest.approx(0.02)


def test_it_never_asks_for_more_than_a_buffer_holds(window):
    for _ in range(100):
        window.on_answer(0.01)
    assert window.size == 100
    assert CongestionWindow(1, 0.02, 1.0).size == 1
