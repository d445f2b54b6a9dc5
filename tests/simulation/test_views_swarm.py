"""Groups with views under the swarm: what it reaches, and that seeds decide."""

from collections import Counter
from random import Random
from typing import get_args

from semcast.families.views.draw import (
    EVENTS,
    PARTITIONABLE_FAILPOINTS,
    PRIMARY_FAILPOINTS,
    bridge,
    swizzle,
)
from semcast.faults import (
    ClockJump,
    Crash,
    Disconnection,
    FailpointCrash,
    Founding,
    Isolation,
    LateJoin,
    LeaveAt,
    OneWayCut,
    Partition,
    Pause,
)
from semcast.sim.run import run
from semcast.sim.swarm import draw, replay_line, scenarios, swarm
from semcast.terms import events
from semcast.terms.views import ViewDatagram


def test_every_drawn_failpoint_can_trip() -> None:
    """It names an event, or a datagram by its class: a renamed class must not disable it."""
    datagrams = {kind.__name__.lower() for kind in get_args(ViewDatagram)}
    kinds = {value for value in vars(events).values() if isinstance(value, str)}
    assert {*EVENTS, *PRIMARY_FAILPOINTS, *PARTITIONABLE_FAILPOINTS} <= datagrams | kinds


def test_the_swarm_reaches_what_it_is_for() -> None:
    """A net is only as good as what swims into it."""
    seen: Counter[tuple[str, str]] = Counter()
    for protocol in ("s-vsm", "vs", "total"):
        for seed in range(12):
            run(draw(protocol, seed), lambda event: seen.update([(event.kind, event.note)]))
    wanted = {
        ("multicast", ""),
        ("multicast", "order"),
        ("deliver", ""),
        ("confirm", ""),
        ("purge", "delivery"),
        ("purge", "retransmission"),
        ("skip", ""),
        ("discard", "full"),
        ("suspect", ""),
        ("leave", ""),
        ("crash", ""),
        ("recover", ""),
    }
    assert wanted <= seen.keys()
    assert seen["install", ""] > 5 * 36  # more than the first view, nearly everywhere


def test_the_draw_covers_its_ranges() -> None:
    cases = [draw("s-vsm", seed) for seed in range(300)]
    recipes = [case.recipe for case in cases]
    assert {recipe.protocol for recipe in recipes} == {"s-vsm", "vsm"}
    assert {recipe.order for recipe in recipes} == {"fifo", "item", "causal"}
    assert {recipe.relation for recipe in recipes} >= {"item", "bitmap", "list", "update-fin"}
    assert {recipe.overflow for recipe in recipes} == {"block", "exclude"}
    assert {case.processes for case in cases} == {1, 2, 3, 4, 5, 6}
    assert {case.more.founders for case in cases} >= {1, 2, 6}
    kinds = {type(fault) for case in cases for fault in case.faults}
    faults = {Partition, OneWayCut, Pause, ClockJump, Crash, FailpointCrash, Isolation}
    assert kinds == faults | {Disconnection, LateJoin, LeaveAt, Founding}
    assert {draw("total", seed).recipe.order for seed in range(30)} == {"total"}
    assert {draw("vs", seed).recipe.protocol for seed in range(30)} == {"vs"}


def test_a_bridge_is_heard_by_both_sides_that_do_not_hear_each_other() -> None:
    cuts = list(bridge(0.0, 1.0, [4, 0, 1, 2, 3]))
    assert all(1 not in (cut.source, cut.destination) for cut in cuts)
    assert {frozenset((cut.source, cut.destination)) for cut in cuts} == {
        frozenset(pair) for pair in ((4, 2), (4, 3), (0, 2), (0, 3))
    }


def test_a_swizzle_cuts_in_one_order_and_restores_in_another() -> None:
    cuts = list(swizzle(0.0, 1.0, [0, 1, 2, 3], Random(3)))
    starts = [cut.groups[0][0] for cut in sorted(cuts, key=lambda cut: cut.start)]
    ends = [cut.groups[0][0] for cut in sorted(cuts, key=lambda cut: cut.end)]
    assert sorted(starts) == sorted(ends)
    assert starts != ends


def test_a_failure_prints_one_line_that_replays_it() -> None:
    mutant = "confirm-for-the-others"
    summary = swarm("vs", range(1, 30), mutant=mutant, jobs=1, until_caught=True)
    assert summary.first_failure == replay_line("vs", mutant, summary.seeds)
    assert summary.explanation


def test_a_full_member_that_waits_for_a_majority_does_not_ask_for_more() -> None:
    """Its view is being left and no frontier moves, so nothing gives way to what it would get.  It
    used to ask again at every answer, thousands of times."""
    seen: Counter[str] = Counter()
    run(scenarios()["change-during-change"], lambda event: seen.update([event.kind]))
    assert seen["nack"] < seen["deliver"]
