"""Publishers, subscribers and loggers under the swarm: what it reaches, and that seeds decide."""

from pathlib import Path

import msgspec
import pytest

from semcast.core.pubsub.recipe import PROTOCOLS
from semcast.sim.pubsub.case import PubsubCase, run
from semcast.sim.pubsub.draw import draw
from semcast.sim.pubsub.lives import Absence, Outage, Stumble
from semcast.sim.pubsub.scenarios import PUBSUB_SCENARIOS
from semcast.sim.swarm import replay_line, swarm

# Cases that once failed, as they were drawn then: the draw may change, they stay.
REGRESSIONS = sorted((Path(__file__).parent / "pubsub_cases").glob("*.json"))


@pytest.mark.parametrize("name", PUBSUB_SCENARIOS)
def test_the_protocol_passes_every_scenario(name: str) -> None:
    outcome = run(PUBSUB_SCENARIOS[name])
    assert outcome.violations == ()
    assert outcome.events > 50


@pytest.mark.parametrize("path", REGRESSIONS, ids=lambda path: path.stem)
def test_a_case_that_once_failed_stays_mended(path: Path) -> None:
    outcome = run(msgspec.json.decode(path.read_bytes(), type=PubsubCase))
    assert outcome.violations == ()
    assert outcome.events > 50


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_case_survives_being_written_down(protocol: str) -> None:
    case = draw(protocol, 17)
    assert msgspec.json.decode(msgspec.json.encode(case), type=PubsubCase) == case


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
    assert {len(recipe.keepers) for recipe in recipes} == {1, 2, 3}
    assert {recipe.members - len(recipe.keepers) for recipe in recipes} >= {1, 2, 8}
    assert {recipe.copies for recipe in recipes} == {1, 2, 3}
    assert {recipe.order for recipe in recipes} == {"none", "fifo"}
    assert {recipe.recovery for recipe in recipes} == {"at-most-once", "at-least-once"}
    assert {recipe.retain for recipe in recipes} == {"all", "latest", 0.05, 0.4}
    assert max(case.link.loss for case in cases) == 0.4
    assert any(case.unaware for case in cases)
    turns = [turn for case in cases for turn in case.turns]
    assert {turn.loses_disk for turn in turns if isinstance(turn, Outage)} == {False, True}
    assert {turn.announced for turn in turns if isinstance(turn, Absence)} == {False, True}
    assert any(isinstance(turn, Stumble) for turn in turns)


def test_a_failure_prints_one_line_that_replays_it() -> None:
    summary = swarm("lbrm", range(1, 30), mutant="drop-every-third", jobs=1, until_caught=True)
    assert summary.first_failure == replay_line("lbrm", "drop-every-third", summary.seeds)
    assert summary.explanation
