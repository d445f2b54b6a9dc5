"""Publishers, subscribers and loggers under the swarm: what it reaches, and that seeds decide."""

from semcast.faults import Crash, Disconnection, FailpointCrash
from semcast.sim.run import run
from semcast.sim.swarm import draw, replay_line, swarm


def test_the_swarm_reaches_what_it_is_for() -> None:
    """A net is only as good as what swims into it."""
    seen: set[tuple[str, str]] = set()
    for seed in range(40):
        run(draw("rpbcast", seed), lambda event: seen.add((event.kind, event.note[:5])))
    wanted = {
        ("multicast", ""),
        ("receive", ""),
        ("deliver", ""),
        ("append", ""),
        ("acknowledge", ""),
        ("reclaim", ""),
        ("reclaim", "age"),
        ("purge", "retra"),
        ("skip", ""),
        ("skip", "block"),
        ("skip", "age"),
        ("skip", "inter"),
        ("discard", "dupli"),
        ("crash", ""),
        ("crash", "disk"),
        ("recover", ""),
        ("leave", ""),
    }
    assert wanted <= seen


def test_the_draw_covers_its_ranges() -> None:
    cases = [draw("rpbcast", seed) for seed in range(400)]
    recipes = [case.recipe for case in cases]
    assert {len(recipe.logger_pids) for recipe in recipes} == {1, 2, 3}
    assert {recipe.members - len(recipe.logger_pids) for recipe in recipes} >= {1, 2, 8}
    assert {recipe.copies for recipe in recipes} == {1, 2, 3}
    assert {recipe.order for recipe in recipes} == {"none", "fifo"}
    assert {recipe.recovery for recipe in recipes} == {"at-most-once", "at-least-once"}
    assert {recipe.retain for recipe in recipes} == {"all", "latest", 0.05, 0.4}
    assert max(case.link.loss for case in cases) == 0.4
    assert any(case.more.unaware for case in cases)
    assert {take for case in cases for take in case.take.values()} == {1, 4}
    slow_loggers = [case for case in cases if case.service_s.keys() & {*case.recipe.logger_pids}]
    assert slow_loggers
    faults = [fault for case in cases for fault in case.faults]
    assert {each.loses_disk for each in faults if isinstance(each, Crash)} == {False, True}
    assert {each.announced for each in faults if isinstance(each, Disconnection)} == {False, True}
    assert any(isinstance(each, FailpointCrash) for each in faults)


def test_a_failure_prints_one_line_that_replays_it() -> None:
    summary = swarm("lbrm", range(1, 30), mutant="drop-every-third", jobs=1, until_caught=True)
    assert summary.first_failure == replay_line("lbrm", "drop-every-third", summary.seeds)
    assert summary.explanation
