"""Draws the case of a seed: one to five servers that come and go, and one to eight clients.

Servers get the faults of members of a group with views.  Clients crash, too, and return with a new
session.  In some cases sessions are few or short-lived, so that servers forget some.
"""

from collections.abc import Iterator
from dataclasses import replace
from random import Random

import msgspec

from semcast.core.views.recipe import ViewRecipe
from semcast.families.case import AnyCase, Case, SenderLoad
from semcast.families.draws import (
    draw_cuts,
    draw_isolations,
    draw_jumps,
    draw_link,
    draw_silences,
    draw_surroundings,
)
from semcast.families.testing import Choice
from semcast.families.views import draw as of_views
from semcast.faults import (
    Constant,
    Crash,
    Failpoint,
    FailpointCrash,
    Fault,
    LateJoin,
    Latency,
    Partition,
)
from semcast.service.recipe import ServiceRecipe

KINDS = ("execute", "reply", "request", "applied", "askapplied")


class MoreOfServices(msgspec.Struct, frozen=True, kw_only=True):
    """The first `servers` processes are servers, the others clients; the first `founders` servers
    begin in one view.  Who was excluded is back after `back_after_s`."""

    servers: int
    founders: int
    back_after_s: float = 0.05
    snapshot: Latency = Constant(0.0)


ServiceCase = Case[ServiceRecipe, MoreOfServices]


def draw(choice: Choice, seed: int, rng: Random) -> AnyCase:
    """The case of one seed."""
    servers = rng.choice((1, 2, 3, 3, 4, 5, 5, 5))
    clients = rng.choice((1, 2, 4, 8))
    size = servers + clients
    late = rng.randint(0, min(2, servers - 1)) if rng.random() < 0.5 else 0
    recipe = draw_recipe(rng)
    phase_s = rng.uniform(0.5, 1.5)
    slow = [pid for pid in range(servers) if rng.random() < 0.3]
    case = ServiceCase(
        seed=seed,
        recipe=recipe,
        processes=size,
        senders=tuple(draw_load(pid, phase_s, rng) for pid in range(servers, size)),
        service_s={pid: rng.choice((0.001, 0.005, 0.02)) for pid in slow},
        take={pid: rng.choice((1, 1, 4)) for pid in slow},
        link=draw_link(rng),
        more=MoreOfServices(
            servers=servers,
            founders=servers - late,
            back_after_s=rng.choice((0.0, 0.02, 0.2)),
        ),
        phase_s=phase_s,
        quiet_within_s=12.0,
        still_s=0.5,
        has_last_words=True,
    )
    faults = (*draw_faults(case, late, rng), *draw_silences(size, phase_s, rng))
    surrounded = draw_surroundings(case, faults, rng)
    if recipe.relation == "none" or rng.random() >= 0.25:
        return surrounded
    packing = replace(recipe, group=replace(recipe.group, relation="list"))
    return msgspec.structs.replace(surrounded, recipe=packing)


def draw_faults(case: ServiceCase, late: int, rng: Random) -> Iterator[Fault]:
    """What happens to the servers, of which the last `late` arrive later, and to clients."""
    group, servers, size = case.recipe.group, case.more.servers, case.processes
    phase_s = case.phase_s
    yield from draw_cuts(servers, phase_s, rng)
    yield from draw_cuts(size, phase_s, rng)
    yield from of_views.draw_partial_cuts(servers, phase_s, rng)
    yield from draw_lost_primary(servers, size, phase_s, rng)
    yield from draw_jumps(size, phase_s, rng)
    for pid in range(servers - late, servers):
        yield LateJoin(pid, rng.uniform(0, phase_s))
    yield from of_views.draw_departures(servers, phase_s, rng)
    yield from of_views.draw_outages(group, servers, phase_s, case.seed % 2, rng)
    kinds = (*of_views.kinds_of(group), *KINDS)
    yield from draw_isolations(kinds, servers, rng, share=0.2)
    if servers > 2 and rng.random() < 0.3:  # The first primary answers, and is gone.
        point = Failpoint(0, "reply", None, rng.choice((5, 10, 20, 40)), 1.0)
        yield FailpointCrash(point, back_after_s=rng.choice((0.1, None)))
    purger = (draw_load(0, phase_s, rng),)
    yield from of_views.draw_combined_faults(group, servers, purger, phase_s, rng)
    yield from of_views.draw_founding(group, servers, phase_s, rng)
    for pid in range(servers, size):
        if rng.random() < 0.1:
            yield Crash(pid, rng.uniform(0, phase_s), back_after_s=0.1)


def draw_lost_primary(servers: int, size: int, phase_s: float, rng: Random) -> Iterator[Partition]:
    """The first primary is cut off with all clients and fewer than half of the servers."""
    if servers > 2 and rng.random() < 0.6:
        start = rng.uniform(0.1, phase_s / 2)
        with_it = range((servers - 1) // 2)
        yield Partition(start, start + rng.uniform(0.1, 0.6), ((*with_it, *range(servers, size)),))


def draw_recipe(rng: Random) -> ServiceRecipe:
    """The settings of a group with views, and of the service on it."""
    drawn = of_views.draw_recipe(Choice("s-vsm", "fifo"), rng)
    is_reliable = drawn.protocol == "vsm"
    # Who is put out for a full buffer takes the request at hand with it: a buffer holds a request.
    overflow = drawn.overflow if drawn.multicast["buffer"] >= 20 else "block"
    group: ViewRecipe = replace(
        drawn,
        overflow=overflow,
        relation="none" if is_reliable else "update-fin",
        multicast=drawn.multicast | {"chain_limit": None},
    )
    return ServiceRecipe(
        group=group,
        retry_s=rng.choice((0.002, 0.01, 0.02)),
        retry_max_s=0.1,
        sessions_max=rng.choice((2, 1000, 1000, 1000)),
        session_s=rng.choice((0.1, 3600.0, 3600.0, 3600.0)),
        give_up_s=rng.choice((0.1, 30.0, 30.0, 30.0)),
    )


def draw_load(pid: int, phase_s: float, rng: Random) -> SenderLoad:
    """How often a client asks; it waits for each answer."""
    rate = rng.choice((30.0, 100.0, 300.0))
    return SenderLoad(
        pid=pid,
        rate=rate,
        count=max(2, int(rate * phase_s)),
        items=1,
        overwrite=0.0,
        keep=0.0,
        batch=1,
        size=1,  # the number 0 in MessagePack
    )
