"""Silence is suspicious; slowness is learned; a stopped process blames nobody."""

from semcast.core.views.failure_detector import FailureDetector
from semcast.core.views.recipe import ViewRecipe


def watching(**settings):
    suspicion = FailureDetector(ViewRecipe(heartbeat_s=0.1, timeout_s=1.0, **settings), 0.0)
    suspicion.watch(1, 0.0)
    return suspicion


def live(suspicion, *times):
    """Wake often, as a running process does; the suspects of each time."""
    now, found = suspicion.last_input_at, []
    for time in times:
        while now < time:
            now = min(now + 0.125, time)
            suspicion.on_input(now)
        found.append(suspicion.on_time(now))
    return found


def test_who_is_silent_is_suspected_once():
    assert live(watching(), 0.9, 1.0, 1.1) == [[], [1], []]


def test_a_sign_of_life_puts_it_off():
    suspicion = watching()
    live(suspicion, 0.9)
    suspicion.on_message(1, 0.9)
    assert live(suspicion, 1.8, 1.9) == [[], [1]]


def test_a_mistake_doubles_the_timeout_up_to_a_bound():
    """Eventually accurate [SVS §2]."""
    suspicion = watching(timeout_max_s=3.0)
    waited = []
    for _ in range(4):
        start = suspicion.last_input_at
        while not live(suspicion, suspicion.last_input_at + 0.125)[0]:
            pass
        waited.append(round(suspicion.last_input_at - start, 3))
        suspicion.on_message(1, suspicion.last_input_at)
    assert waited == [1.0, 2.0, 3.0, 3.0]


def test_a_process_that_was_stopped_suspects_nobody_for_it():
    suspicion = watching()
    suspicion.on_input(60.0)
    assert suspicion.on_time(60.0) == []
    assert live(suspicion, 61.1) == [[1]]
