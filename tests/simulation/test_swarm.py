"""Swarms over seeds, safety phase then liveness phase; failed seeds are kept for ever."""

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from semcast.families import families
from semcast.sim import swarm as swarm_module
from semcast.sim.run import read_case, run
from semcast.sim.swarm import draw, replay_line, run_seed, scenarios, swarm, swarms
from semcast.terms.errors import ConfigError

SHARE = 120  # seeds per protocol in `make test`; `make swarm` runs 2,000 and more
PARTS = 4

# Cases that once failed, as they were drawn then: the draw may change, they stay.
REGRESSIONS = sorted((Path(__file__).parent / "cases").glob("*.json"))


def first_seed() -> int:
    """`make test` has the same seeds on every machine and day, `make soak` new ones every day."""
    return datetime.now(tz=UTC).toordinal() * 1000 if os.environ.get("SOAK") else 1_000_000


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("protocol", swarms())
def test_no_seed_breaks_a_promise(protocol: str, part: int) -> None:
    start = first_seed() + part * (SHARE // PARTS)
    summary = swarm(protocol, range(start, start + SHARE // PARTS), jobs=1)
    assert summary.violations == 0, f"{summary.first_failure}\n{summary.explanation}"
    assert summary.seeds == SHARE // PARTS
    assert summary.events > 0


@pytest.mark.parametrize("path", REGRESSIONS, ids=lambda path: path.stem)
def test_a_case_that_once_failed_stays_mended(path: Path) -> None:
    outcome = run(read_case(path.read_bytes()))
    assert outcome.violations == ()
    assert outcome.events > 1


@pytest.mark.parametrize("protocol", swarms())
def test_a_case_survives_being_written_down(protocol: str) -> None:
    for seed in range(20):
        case = draw(protocol, seed)
        assert read_case(msgspec.json.encode(case)) == case


@pytest.mark.parametrize("name", scenarios())
def test_the_protocol_passes_every_scenario(name: str) -> None:
    outcome = run(scenarios()[name])
    assert outcome.violations == ()
    assert outcome.count == 0
    assert outcome.events > 10


def test_scenarios_and_mutants_have_names_of_their_own() -> None:
    for what in ("scenarios", "mutants"):
        names = [name for family in families() for name in getattr(family.testing(), what)]
        assert len(names) == len(set(names))


def test_an_order_can_be_asked_for() -> None:
    assert {draw("s-vsm", seed, "total").recipe.order for seed in range(10)} == {"total"}
    assert draw("total", 3) == draw("s-vsm", 3, "total")
    assert draw("causal", 3) == draw("s-rm", 3, "causal")
    assert {draw("s-rm", seed, "item").recipe.order for seed in range(10)} == {"item"}
    summary = swarm("lbrm", range(4), order="fifo", jobs=1)
    assert (summary.order, summary.violations) == ("fifo", 0)
    with pytest.raises(ConfigError, match="order: lbrm supports none or fifo, not total"):
        swarm("lbrm", range(1), order="total")


def test_all_violations_count_not_only_the_examples() -> None:
    """The monitors give 20 examples of each property."""
    outcome = run_seed("s-rm", "canary", 3)
    assert outcome.count > len(outcome.violations) >= 20
    assert swarm("s-rm", range(3, 4), mutant="canary", jobs=1).violations == outcome.count


def test_the_swarm_reaches_what_it_is_for() -> None:
    """A net is only as good as what swims into it."""
    seen: set[tuple[str, str]] = set()
    for seed in range(60):
        run(draw("s-rm", seed), lambda event: seen.add((event.kind, event.note)))
    wanted = {
        ("purge", "delivery"),
        ("purge", "retransmission"),
        ("skip", ""),
        ("discard", "duplicate"),
        ("discard", "full"),
        ("safe", ""),
        ("reclaim", ""),
        ("crash", ""),
        ("leave", ""),
    }
    assert wanted <= seen


TRACE = """
import sys
from semcast.sim.run import run
from semcast.sim.swarm import draw
for protocol, seed in zip(sys.argv[1:], (5, 8, 9, 12)):
    run(draw(protocol, seed), print)
"""


def trace_under(hash_seed: str, *protocols: str) -> bytes:
    environment = os.environ | {"PYTHONHASHSEED": hash_seed}
    command = [sys.executable, "-c", TRACE, *protocols]
    return subprocess.run(command, env=environment, check=True, capture_output=True).stdout


@pytest.mark.parametrize(
    "protocols",
    [
        ("s-rm", "s-rm", "causal", "s-sm"),
        ("lbrm", "pbcast", "rpbcast", "rpbcast"),
        ("s-vsm", "s-vsm", "vs", "total"),
    ],
)
def test_the_same_seed_gives_the_same_trace_byte_for_byte(protocols) -> None:
    first = trace_under("1", *protocols)
    assert len(first) > 10_000
    assert trace_under("2", *protocols) == first


def test_a_failure_prints_one_line_that_replays_it() -> None:
    summary = swarm("s-rm", range(3), mutant="canary", jobs=1)
    assert summary.first_failure == replay_line("s-rm", "canary", 0)
    assert summary.first_failure == (
        "semcast sim swarm --protocol s-rm --seeds 1 --from 0 --mutant canary"
    )
    assert summary.explanation


def test_a_seed_that_never_ends_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(_: object) -> None:
        while True:
            pass

    monkeypatch.setattr(swarm_module, "run", hang)
    monkeypatch.setattr(swarm_module, "WATCHDOG_S", 0.05)
    (found,) = run_seed("s-rm", None, 1).violations
    assert "no end after 0.05 s" in found


def test_processes_share_the_work_and_agree_with_one() -> None:
    one, two = swarm("s-rm", range(20), jobs=1), swarm("s-rm", range(20), jobs=2)
    assert (one.events, one.crashes, one.violations) == (two.events, two.crashes, two.violations)


def test_an_unknown_protocol_is_a_clear_error() -> None:
    with pytest.raises(ConfigError, match="protocol: unknown value 'paxos'; allowed: s-sm, s-rm"):
        swarm("paxos", range(1))


def test_nothing_in_the_api_leads_to_mutants() -> None:
    """Only the simulator, its command line, reports of it and the tests may name them."""
    source = Path(__file__).parents[2] / "src" / "semcast"
    naming = {
        path.relative_to(source).parts[0]
        for path in source.rglob("*.py")
        if "mutants" in path.read_text() and path.parent.name != "__pycache__"
    }
    assert naming <= {"families", "sim", "cli", "pipeline"}
