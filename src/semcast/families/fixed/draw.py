"""Draws the case of a seed: a group of 1 to 6 members, of which at most f crash.

Odd seeds crash members at failpoints inside handlers, because random times rarely hit the window
between a purge and the event that should follow it.  Even seeds crash them at random times.
"""

from collections.abc import Iterator
from random import Random

from semcast.core.recipe import Recipe
from semcast.families.case import AnyCase, NoMore
from semcast.families.draws import (
    draw_cuts,
    draw_isolations,
    draw_jumps,
    draw_link,
    draw_senders,
    draw_silences,
    draw_surroundings,
)
from semcast.families.fixed.scenarios import STILL_S, FixedCase
from semcast.families.testing import Choice
from semcast.faults import Crash, Failpoint, FailpointCrash, Fault, LateJoin
from semcast.terms.promises import BY_ORDER
from semcast.terms.relations import RELATIONS

FAILPOINTS = (
    ("purge", "retransmission"),
    ("purge", "retransmission"),
    ("purge", None),
    ("multicast", None),
    ("deliver", None),
    ("receive", None),
    ("skip", None),
    ("safe", None),
    ("reclaim", None),
    ("data", None),
    ("nack", None),
    ("stabilitygossip", None),
    ("safetygossip", None),
    ("windowempty", None),
)
KINDS = tuple(kind for kind, _ in FAILPOINTS)


def draw(choice: Choice, seed: int, rng: Random) -> AnyCase:
    """The case of one seed."""
    members = rng.choice((1, 2, 3, 3, 4, 5, 6))
    recipe = draw_recipe(choice, members, rng)
    phase_s = rng.uniform(0.5, 1.5)
    slow = [pid for pid in range(members) if rng.random() < 0.4]
    case = FixedCase(
        seed=seed,
        recipe=recipe,
        processes=members,
        senders=tuple(draw_senders(members, phase_s, rng)),
        service_s={pid: rng.choice((0.0002, 0.001, 0.005)) for pid in slow},
        take={pid: rng.choice((1, 1, 4)) for pid in slow},
        link=draw_link(rng),
        faults=(*draw_cuts(members, phase_s, rng), *draw_crashes(recipe, phase_s, seed % 2, rng)),
        phase_s=phase_s,
        quiet_within_s=30.0,
        still_s=STILL_S,
        has_last_words=rng.random() < 0.25,
        more=NoMore(),
    )
    return draw_surroundings(case, draw_others(members, phase_s, rng), rng)


def draw_others(members: int, phase_s: float, rng: Random) -> Iterator[Fault]:
    """Clocks that jump, members that are out of reach or late."""
    yield from draw_jumps(members, phase_s, rng)
    yield from draw_silences(members, phase_s, rng)
    yield from draw_isolations(KINDS, members, rng)
    for pid in range(members):
        if rng.random() < 0.06:
            yield LateJoin(pid, rng.uniform(0, phase_s))


def draw_recipe(choice: Choice, members: int, rng: Random) -> Recipe:
    """Settings across their whole range, small buffers above all."""
    relation = rng.choice(("item", "item", *RELATIONS))
    if choice.protocol in ("sm", "rm"):
        relation = "none"
    elif choice.order and BY_ORDER[choice.order].needs_items and relation != "none":
        relation = "item"
    in_place = choice.order == "item" or (
        choice.order is None and relation == "item" and rng.random() < 0.25
    )
    return Recipe(
        members=members,
        protocol=choice.protocol,
        order="item" if in_place else choice.order or "fifo",
        relation=relation,
        k=rng.choice((16, 64, 256)),
        chain_limit=rng.choice((None, None, 1, 3)) if relation == "item" else None,
        f=rng.choice(((members - 1) // 2, (members - 1) // 2, rng.randrange(members))),
        buffer=rng.choice((1, 3, 8, 20, 40, 100)),
        buffer_bytes=rng.choice((64 << 20, 64 << 20, 200)),
        purge="eager" if in_place else rng.choice(("eager", "eager", "lazy")),
        period_s=rng.choice((0.01, 0.03, 0.05)),
        fanout=rng.choice((1, 2, 3)),
        congested_at=rng.choice((0.0, 0.0, 0.5, 1.0)),
        safety_always=rng.random() < 0.3,
        datagram_bytes=rng.choice((60, 200, 1400)),
        coalesce_s=rng.choice((0.0, 0.0, 0.004)),
        bandwidth_max=rng.choice((None, None, None, 20_000.0)),
        nack_delay_s=rng.choice((0.0, 0.002)),
        timeout_max_s=0.25,
        unicast=rng.random() < 0.3,
        direct_gossip=rng.random() < 0.5,
        gossip_after=rng.choice((None, None, 4)),
        window_bytes=rng.choice((None, None, 50)),
    )


def draw_crashes(
    recipe: Recipe, phase_s: float, at_failpoints: int, rng: Random
) -> Iterator[Fault]:
    """At most f crashes, announced or not."""
    for pid in rng.sample(range(recipe.members), rng.randint(0, recipe.f)):
        announced = rng.choice((None, 0.01, 0.3))
        if not at_failpoints:
            yield Crash(pid, rng.uniform(0, phase_s), announced_after_s=announced)
            continue
        kind, note = rng.choice(FAILPOINTS)
        nth, keep = rng.choice((1, 2, 5, 20)), rng.choice((0.0, 0.3, 0.7, 1.0))
        yield FailpointCrash(Failpoint(pid, kind, note, nth, keep), announced_after_s=announced)
