"""One workload through the simulator and through real processes, judged by the same monitors."""

from collections import Counter
from itertools import islice
from pathlib import Path
from random import Random

import pytest

from semcast.core.recipe import Recipe
from semcast.experiments.simulated_group import SimulatedGroup, recording
from semcast.faults import Constant, Link
from semcast.fleet.plan import Load
from semcast.fleet.trace_verdict import judge
from semcast.sim.network import Network
from semcast.terms.events import DELIVER
from semcast.traces.parquet import read_trace
from semcast.workloads import arrivals
from semcast.workloads.stock import quotes

MEMBERS = "abcde"
SLOW = len(MEMBERS) - 1
SLOW_S = 0.004
BUFFER = 300
QUOTES = Load(stream="stock", rate=700, seconds=2.0, seed=7)
SIMULATED_S = 10.0


def simulate(recipe: Recipe, count: int, directory: Path) -> None:
    """As many of the same quotes as the live sender got rid of."""
    with recording(str(directory), "conformance", recipe, QUOTES.seed, {}) as record:
        group = SimulatedGroup(
            recipe,
            Network(recipe.members, Link(latency=Constant(0.0002))),
            arrivals.constant(QUOTES.rate),
            islice(quotes(Random(QUOTES.seed), size=QUOTES.size), count),
            seed=QUOTES.seed,
            seconds=SIMULATED_S,
            warmup_s=0,
            service_s={SLOW: SLOW_S},
            record=record,
        )
        group.run()


def outcome(directory: Path) -> tuple[Counter[int], list[dict[int, int]]]:
    """How many messages each member delivered, and which was the last of each stock."""
    delivered: Counter[int] = Counter()
    lasts: list[dict[int, int]] = [{} for _ in MEMBERS]
    for event in read_trace(directory).events:
        if event.kind == DELIVER:
            delivered[event.pid] += 1
            lasts[event.pid][event.message.item] = event.seq
    return delivered, lasts


@pytest.mark.parametrize(
    ("protocol", "order"), [("s-rm", "fifo"), ("s-rm", "item"), ("rm", "fifo"), ("s-sm", "fifo")]
)
def test_live_and_simulated_groups_end_with_the_same(live, kept, tmp_path, protocol, order):
    run = live(MEMBERS, {"a": QUOTES}, {"e": SLOW_S}, protocol=protocol, order=order, buffer=BUFFER)
    sent = run.results["a"].sent
    recipe = Recipe(members=len(MEMBERS), protocol=protocol, order=order, buffer=BUFFER)
    simulate(recipe, sent, tmp_path / "simulated")
    kept(judge(tmp_path / "simulated"))

    (live_counts, live_lasts), (counts, lasts) = map(
        outcome, (run.directory, tmp_path / "simulated")
    )
    assert live_lasts == lasts == [lasts[0]] * len(MEMBERS)
    for delivered in (live_counts, counts):
        assert [delivered[pid] for pid in range(SLOW)] == [sent] * SLOW
        assert (delivered[SLOW] < sent) == protocol.startswith("s-")
