"""Local records become one order: nothing before its cause, if that can be had."""

from math import inf
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semcast.sim.run import run
from semcast.sim.swarm import draw
from semcast.specs.interleaving import FrontierCauses, Interleaving
from semcast.specs.monitors import Monitors
from semcast.specs.transcript import lines, parse
from semcast.terms.events import Event
from semcast.terms.promises import is_replicated


def local(events: list[Event], n: int) -> list[list[Event]]:
    return [[event for event in events if event.pid == pid] for pid in range(n)]


def interleaved(
    text: str, times: list[int], *, f: int = 0, n: int = 2, skew_ns: float = inf
) -> str:
    events = parse(text)
    for event, ts_ns in zip(events, times, strict=True):
        event.ts_ns = ts_ns
    return lines(
        Interleaving(local(events, n), FrontierCauses(n, f, replicated=True), skew_ns=skew_ns)
    )


def normal(text: str) -> str:
    return lines(parse(text))


CAUSES = [
    ("0 multicast 0:1\n1 receive 0:1", 0),
    ("0 multicast 0:1\n1 deliver 0:1", 0),
    ("0 multicast 0:1\n0 multicast 0:2\n0 purge 0:1 by=2 note=retransmission\n1 skip 0:1", 0),
    ("0 multicast 0:1\n1 receive 0:1\n0 safe 0:1", 1),
    ("0 multicast 0:1\n1 receive 0:1\n0 stable 0:1", 0),
    ("0 multicast 0:1\n1 receive 0:1\n0 reclaim 0:1", 0),
    (
        "0 multicast 0:1\n1 receive 0:1\n0 multicast 0:2\n1 receive 0:2\n"
        "0 purge 0:1 by=2 note=retransmission",
        1,
    ),
]


@pytest.mark.parametrize(("text", "f"), CAUSES)
def test_causes_come_first_whatever_the_clocks_say(text: str, f: int) -> None:
    events = parse(text)
    backwards = [-place for place in range(len(events))]
    assert interleaved(text, backwards, f=f) == normal(text)


def test_the_forgotten_are_not_waited_for() -> None:
    text = "0 multicast 0:1\n0 leave peer=1\n0 stable 0:1\n1 receive 0:1"
    assert interleaved(text, [1, 2, 3, 4]) == normal(text)


def test_what_has_no_cause_elsewhere_comes_by_the_clock() -> None:
    text = "0 multicast 0:1\n1 multicast 1:1\n0 multicast 0:2"
    assert interleaved(text, [1, 2, 3]) == normal(text)


def test_a_clock_that_went_back_takes_nobody_back() -> None:
    text = "0 multicast 0:1\n1 multicast 1:1\n0 multicast 0:2"
    assert interleaved(text, [1, 0, -9]) == normal(
        "1 multicast 1:1\n0 multicast 0:1\n0 multicast 0:2"
    )


@pytest.mark.parametrize(("skew_ns", "waits"), [(9, False), (10, True), (inf, True)])
def test_nothing_waits_for_what_came_later_by_more_than_the_skew(
    skew_ns: float, waits: bool
) -> None:
    early = "0 multicast 0:1\n0 safe 0:1\n1 receive 0:1"
    late = "0 multicast 0:1\n1 receive 0:1\n0 safe 0:1"
    seen = interleaved(early, [0, 0, 10], f=1, skew_ns=skew_ns)
    assert seen == normal(late if waits else early)


def test_where_no_order_exists_the_claim_is_what_is_wrong() -> None:
    """Process 1 skipped on a notice, which process 0 may only give once process 1 got past it."""
    text = (
        "0 multicast 0:1\n0 multicast 0:2\n0 purge 0:1 by=2 note=retransmission\n"
        "1 skip 0:1 by=2\n1 receive 0:2"
    )
    assert interleaved(text, [5, 5, 5, 1, 1], f=1) == normal(text)


@settings(max_examples=25)
@given(
    protocol=st.sampled_from(["s-rm", "s-sm", "causal"]),
    seed=st.integers(0, 2000),
    clocks=st.randoms(use_true_random=False),
)
def test_a_sound_run_stays_sound(protocol: str, seed: int, clocks: Random) -> None:
    case = draw(protocol, seed)
    recipe, events = case.recipe, list[Event]()
    run(case, events.append)
    for pid in range(recipe.members):
        offset = clocks.choice((0, clocks.randrange(-(10**10), 10**10)))
        for event in events:
            event.ts_ns += offset * (event.pid == pid)
    monitors = Monitors(recipe.protocol, recipe.order, recipe.relation, recipe.f, recipe.members)
    streams = local(events, recipe.members)
    causes = FrontierCauses(len(streams), recipe.f, replicated=is_replicated(recipe.protocol))
    seen = list(Interleaving(streams, causes))
    assert local(seen, recipe.members) == streams
    for event in seen:
        monitors.on_event(event)
    assert not monitors.violations
