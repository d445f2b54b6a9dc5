"""Draws the case of a seed: a group of 1 to 6 processes that come and go, and their faults.

Unless the caller names an order, `s-vsm` has any order except the total one; sometimes it has the
empty relation.  `vs` is partitionable.  Odd seeds crash processes at failpoints inside handlers,
even ones at random times.  Mostly a majority survives, so that processes can rejoin.
"""

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import msgspec

from semcast.core.views.recipe import ViewRecipe
from semcast.families.case import AnyCase, Case, SenderLoad
from semcast.families.draws import (
    draw_cuts,
    draw_failpoint,
    draw_isolations,
    draw_jumps,
    draw_link,
    draw_senders,
    draw_silences,
    draw_surroundings,
)
from semcast.families.testing import Choice
from semcast.faults import (
    Constant,
    Crash,
    Failpoint,
    FailpointCrash,
    Fault,
    Founding,
    Isolation,
    LateJoin,
    Latency,
    LeaveAt,
    OneWayCut,
    Partition,
    Pause,
    Uniform,
)
from semcast.terms.ids import Rank
from semcast.terms.promises import BY_ORDER
from semcast.terms.relations import EVERYTHING, ITEM, LISTED, NOTHING, REQUESTS, relations_that

RATES = (30.0, 100.0, 300.0)
EVENTS = ("install", "install", "suspect", "multicast", "deliver", "purge", "skip", "viewenvelope")
INSIDE = ("data", "nack", "stabilitygossip", "windowempty")
PRIMARY_FAILPOINTS = (
    "prepare",
    "promise",
    "propose",
    "accepted",
    "decided",
    "staterequest",
    "statechunk",
)
PARTITIONABLE_FAILPOINTS = ("invite", "consent", "formed", "orderprogress", "confirm")


class MoreOfViews(msgspec.Struct, frozen=True, kw_only=True):
    """The first `founders` processes begin in one view, the others arrive.  An application takes
    `snapshot` to write its state down; who was excluded is back after `back_after_s`."""

    founders: int
    snapshot: Latency = Constant(0.0)
    back_after_s: float = 0.05


ViewCase = Case[ViewRecipe, MoreOfViews]


def draw(choice: Choice, seed: int, rng: Random) -> AnyCase:
    """The case of one seed."""
    size = rng.choice((1, 2, 3, 3, 4, 4, 5, 5, 6))
    late = rng.randint(0, min(2, size - 1)) if rng.random() < 0.5 else 0
    recipe = draw_recipe(choice, rng)
    phase_s = rng.uniform(0.3, 1.0)
    slow = [pid for pid in range(size) if rng.random() < 0.3]
    senders = tuple(draw_senders(size, phase_s, rng, RATES))
    case = ViewCase(
        seed=seed,
        recipe=recipe,
        processes=size,
        senders=senders,
        service_s={pid: rng.choice((0.001, 0.005, 0.02)) for pid in slow},
        take={pid: rng.choice((1, 1, 4)) for pid in slow},
        link=draw_link(rng),
        more=MoreOfViews(
            founders=size - late if recipe.is_primary else 0,
            snapshot=rng.choice((Constant(0.0), Uniform(0.0, 0.05))),
            back_after_s=rng.choice((0.0, 0.02, 0.2)),
        ),
        faults=(
            *draw_cuts(size, phase_s, rng),
            *draw_cuts(size, phase_s, rng),
            *draw_partial_cuts(size, phase_s, rng),
            *draw_jumps(size, phase_s, rng),
            *(LateJoin(pid, rng.uniform(0, phase_s)) for pid in range(size - late, size)),
            *draw_departures(size, phase_s, rng),
            *draw_outages(recipe, size, phase_s, seed % 2, rng),
            *draw_isolations(kinds_of(recipe), size, rng, share=0.2),
            *draw_combined_faults(recipe, size, senders, phase_s, rng),
            *draw_founding(recipe, size, phase_s, rng),
        ),
        phase_s=phase_s,
        quiet_within_s=8.0,
        still_s=0.3,
        has_last_words=True,
    )
    return draw_surroundings(case, draw_silences(size, phase_s, rng), rng)


def draw_recipe(choice: Choice, rng: Random) -> ViewRecipe:
    """Settings across their whole range: small buffers, timeouts that suspect too soon."""
    protocol = choice.protocol
    order = choice.order or rng.choice(("fifo", "fifo", "item", "causal"))
    if protocol == "vs":
        order = "total"
    relations = ["item", *relations_that(ITEM, NOTHING)]
    if not BY_ORDER[order].needs_items:
        relations += relations_that(LISTED, EVERYTHING, REQUESTS)
    is_empty = protocol != "s-vsm" or rng.random() < 0.15
    relation = "none" if is_empty else rng.choice(relations)
    heartbeat_s = rng.choice((0.02, 0.05, 0.05))
    return ViewRecipe(
        protocol="vsm" if protocol == "s-vsm" and is_empty else protocol,
        order=order,
        relation=relation,
        overflow=rng.choice(("block", "block", "block", "exclude")),
        heartbeat_s=heartbeat_s,
        timeout_s=heartbeat_s * rng.choice((2, 3, 6, 10)),
        timeout_max_s=1.0,
        patience_s=rng.choice((0.1, 0.3)),
        retry_s=rng.choice((0.02, 0.05)),
        gather_s=rng.choice((0.0, 0.02)),
        order_s=rng.choice((0.0, 0.001, 0.005)),
        exclude_after_s=0.2,
        chunk_bytes=rng.choice((16, 64, 64 << 10)),
        multicast=draw_multicast(order, relation, rng),
    )


def draw_multicast(order: str, relation: str, rng: Random) -> dict[str, Any]:
    """Settings of the reliable multicast in every view."""
    return {
        "k": rng.choice((16, 256)),
        "chain_limit": rng.choice((None, None, 3)) if relation == "item" else None,
        "buffer": rng.choice((1, 3, 8, 20, 40, 100)),
        "purge": "eager" if order == "item" else rng.choice(("eager", "eager", "lazy")),
        "period_s": rng.choice((0.01, 0.03)),
        "fanout": rng.choice((1, 3)),
        "congested_at": rng.choice((0.0, 0.0, 0.5)),
        "safety_always": rng.random() < 0.3,
        "datagram_bytes": rng.choice((60, 200, 1400)),
        "coalesce_s": rng.choice((0.0, 0.0, 0.004)),
        "nack_delay_s": rng.choice((0.0, 0.002)),
        "timeout_max_s": 0.25,
        "unicast": rng.random() < 0.3,
        "direct_gossip": rng.random() < 0.5,
        "gossip_after": rng.choice((None, None, 4)),
        "window_bytes": rng.choice((None, None, 50)),
    }


def draw_partial_cuts(size: int, phase_s: float, rng: Random) -> Iterator[Fault]:
    """Cuts that leave no clear sides."""
    pids = rng.sample(range(size), size)
    start = rng.uniform(0, phase_s)
    end = start + rng.uniform(0.05, 0.6)
    if size > 2 and rng.random() < 0.15:
        yield from bridge(start, end, pids)
    if size > 1 and rng.random() < 0.15:
        yield from swizzle(start, end, pids, rng)
    if size > 1 and rng.random() < 0.15:
        yield from one_way_isolation(start, end, pids, hears=rng.random() < 0.5)


def bridge(start: float, end: float, pids: list[Rank]) -> Iterator[Fault]:
    """Two sides hear only the one between them."""
    middle = len(pids) // 2
    for one in pids[:middle]:
        for other in pids[middle + 1 :]:
            yield OneWayCut(start, end, one, other)
            yield OneWayCut(start, end, other, one)


def swizzle(start: float, end: float, pids: list[Rank], rng: Random) -> Iterator[Fault]:
    """Processes are cut off one by one, and come back one by one in another order."""
    victims = pids[: rng.randint(1, len(pids))]
    step_s = (end - start) / (2 * len(victims))
    backs = rng.sample(range(len(victims)), len(victims))
    for place, (pid, back) in enumerate(zip(victims, backs, strict=True)):
        yield Partition(start + place * step_s, end - back * step_s, ((pid,),))


def one_way_isolation(
    start: float, end: float, pids: list[Rank], *, hears: bool
) -> Iterator[Fault]:
    """One hears everybody and is heard by nobody, or the other way round."""
    one, *others = pids
    for other in others:
        yield OneWayCut(start, end, *((one, other) if hears else (other, one)))


def draw_combined_faults(
    recipe: ViewRecipe, size: int, senders: Sequence[SenderLoad], phase_s: float, rng: Random
) -> Iterator[Fault]:
    """What takes several things at once, which chance alone brings together too rarely."""
    if size < 3 or not recipe.is_primary or rng.random() < 0.7:
        return
    start = rng.uniform(0, phase_s / 2)
    if rng.random() < 0.5:
        yield from secret_decision(start, rng.randrange(2, size), rng)
    else:
        purger = rng.choice(senders).pid
        others = rng.sample([pid for pid in range(size) if pid != purger], size - 1)
        end = start + min(0.4, 0.8 * recipe.timeout_s)
        yield from lost_purger(start, end, [purger, *others], rng)


def draw_founding(recipe: ViewRecipe, size: int, phase_s: float, rng: Random) -> Iterator[Fault]:
    """A second founding under the same name: without one that was stopped, or cut off, and comes
    back; or by some who do not hear the others, so that two groups run in the end."""
    if size < 2 or not recipe.is_primary or rng.random() < 0.8:
        return
    pids = rng.sample(range(size), size)
    start, end = sorted((rng.uniform(0, phase_s), rng.uniform(0, phase_s)))
    at = rng.uniform(start, end)
    kind = rng.choice(("stopped", "cut off", "apart"))
    if kind == "stopped":
        yield Pause(pids[0], start, end)
    else:
        founders = pids[1:] if kind == "cut off" else pids[size // 2 :]
        yield Partition(start, end, (tuple(pid for pid in pids if pid not in founders),))
        pids = [pids[0], *founders] if kind == "apart" else pids
    yield Founding(tuple(sorted(pids[1:])), at, 2)


def secret_decision(start: float, victim: Rank, rng: Random) -> Iterator[Fault]:
    """The coordinator of a change decides, tells few or nobody, and is cut off."""
    yield Crash(victim, start, back_after_s=rng.choice((0.1, None)))
    for pid in (0, 1):
        keep = rng.choice((0.0, 0.0, 0.4))
        yield Isolation(Failpoint(pid, "decided", None, 1, keep), rng.uniform(0.3, 1.0))


def lost_purger(start: float, end: float, pids: list[Rank], rng: Random) -> Iterator[Fault]:
    """One is not heard any more by those who were not deaf, and crashes as the deaf one hears it:
    what it purged, and what for, may be known to nobody else."""
    purger, deaf, *others = pids
    yield from one_way_isolation(start, end, [deaf, purger, *others], hears=False)
    for other in others:
        yield OneWayCut((start + end) / 2, end + 0.5, purger, other)
    yield Crash(purger, end + rng.uniform(0.001, 0.02))


def draw_departures(size: int, phase_s: float, rng: Random) -> Iterator[Fault]:
    """Some leave."""
    for pid in range(size):
        if rng.random() < 0.08:
            yield LeaveAt(pid, rng.uniform(0, phase_s))


def draw_outages(
    recipe: ViewRecipe, size: int, phase_s: float, at_failpoints: int, rng: Random
) -> Iterator[Fault]:
    """Crashes, mostly of a minority; most come back as a new process."""
    crashes_max = size if rng.random() < 0.05 or not recipe.is_primary else (size - 1) // 2
    for pid in rng.sample(range(size), rng.randint(min(1, crashes_max), crashes_max)):
        back_after_s = None if rng.random() < 0.3 else rng.uniform(0.01, 0.5)
        if not at_failpoints:
            yield Crash(pid, rng.uniform(0, phase_s), back_after_s=back_after_s)
            continue
        yield FailpointCrash(draw_failpoint(kinds_of(recipe), pid, rng), back_after_s=back_after_s)


def kinds_of(recipe: ViewRecipe) -> tuple[str, ...]:
    """Where a failpoint may be."""
    return (
        *EVENTS,
        *INSIDE,
        *(PRIMARY_FAILPOINTS if recipe.is_primary else PARTITIONABLE_FAILPOINTS),
    )
