"""Silence is suspicious; slowness is learned; a stopped process blames nobody."""

from semcast.core.views.failure_detector import FailureDetector
from semcast.core.views.recipe import ViewRecipe


def watching(**settings):
    failure_detector = FailureDetector(ViewRecipe(heartbeat_s=0.1, timeout_s=1.0, **settings), 0.0)
    failure_detector.watch(1, 0.0)
    return failure_detector


def live(failure_detector, *times):
    """Wake often, as a running process does; the suspects of each time."""
    now, found = failure_detector.last_input_at, []
    for time in times:
        while now < time:
            now = min(now + 0.125, time)
            failure_detector.on_input(now)
        found.append(failure_detector.on_time(now))
    return found


def test_who_is_silent_is_suspected_once():
    assert live(watching(), 0.9, 1.0, 1.1) == [[], [1], []]


def test_a_sign_of_life_puts_it_off():
    failure_detector = watching()
    live(failure_detector, 0.9)
    failure_detector.on_message(1, 0.9)
    assert live(failure_detector, 1.8, 1.9) == [[], [1]]


def test_a_mistake_doubles_the_timeout_up_to_a_bound():
    """Eventually accurate [SVS §2]."""
    failure_detector = watching(timeout_max_s=3.0)
    waited = []
    for _ in range(4):
        start = failure_detector.last_input_at
        while not live(failure_detector, failure_detector.last_input_at + 0.125)[0]:
            pass
        waited.append(round(failure_detector.last_input_at - start, 3))
        failure_detector.on_message(1, failure_detector.last_input_at)
    assert waited == [1.0, 2.0, 3.0, 3.0]


def test_a_process_that_was_stopped_suspects_nobody_for_it():
    failure_detector = watching()
    failure_detector.on_input(60.0)
    assert failure_detector.on_time(60.0) == []
    assert live(failure_detector, 61.1) == [[1]]
