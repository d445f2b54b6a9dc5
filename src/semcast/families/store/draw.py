"""Draws the case of a seed: one to five servers, and one to six clients that move among them.

Servers get the faults of members of a partitionable group.  All servers are founders; they crash
and return, mostly with their disks.  Clients crash, too, and return with a new session; some
withdraw requests.  In some cases sessions are few, so that servers forget some; in some, one server
is slow and nothing else happens: then the others go on.  In some, a minority is left for good.
"""

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any, Final

import msgspec

from semcast.core.views.recipe import ViewRecipe
from semcast.families.case import AnyCase, Case, SenderLoad
from semcast.families.draws import (
    draw_cuts,
    draw_failpoint,
    draw_isolations,
    draw_jumps,
    draw_link,
    draw_silences,
    draw_slow_disks,
    draw_surroundings,
)
from semcast.families.testing import Choice
from semcast.families.views import draw as of_views
from semcast.faults import (
    Constant,
    Crash,
    FailpointCrash,
    Fault,
    LateJoin,
    Latency,
    LeaveAt,
    Link,
    OneWayCut,
    Partition,
    Pause,
    SlowDisk,
    Uniform,
)
from semcast.service.store_recipe import StoreRecipe

KINDS = (
    *("execute", "reply", "request", "storeprogress", "storeprogress", "storereply", "parcel"),
    "parcelreceipt",
)

# How each run ends: all clients ask once more when it is quiet.
ENDING: Final[dict[str, Any]] = {"quiet_within_s": 15.0, "still_s": 0.5, "has_last_words": True}


class UpdatePace(msgspec.Struct, frozen=True, kw_only=True):
    """From `start` to `end` the servers make at least so many updates, never `silence_s` apart."""

    start: float
    end: float
    updates: int
    silence_s: float


class MoreOfStore(msgspec.Struct, frozen=True, kw_only=True):
    """The first `servers` processes are servers, the others clients, which withdraw a share
    `abandons` of their requests.  `pace` is what a slow server must not prevent."""

    servers: int
    abandons: float = 0.0
    pace: UpdatePace | None = None


StoreCase = Case[StoreRecipe, MoreOfStore]


def draw(choice: Choice, seed: int, rng: Random) -> AnyCase:
    """The case of one seed."""
    kind = rng.random()
    if kind < 0.06:
        return draw_long_minority(seed, rng)
    if kind < 0.12:
        return draw_old_disk(seed, rng)
    if kind < 0.18:
        return draw_slow_server(seed, rng)
    if kind < 0.28:
        return draw_left_minority(seed, rng)
    servers = rng.choice((1, 2, 3, 3, 3, 4, 5, 5))
    clients = rng.choice((1, 2, 4, 6))
    size = servers + clients
    recipe = draw_recipe(servers, rng)
    phase_s = rng.uniform(0.6, 1.6)
    slow = [pid for pid in range(servers) if rng.random() < 0.2]
    case = StoreCase(
        seed=seed,
        recipe=recipe,
        processes=size,
        senders=tuple(draw_load(pid, phase_s, rng) for pid in range(servers, size)),
        service_s={pid: rng.choice((0.001, 0.005, 0.02)) for pid in slow},
        take={pid: rng.choice((1, 1, 4)) for pid in slow},
        link=draw_link(rng),
        sync=draw_sync(rng),
        more=MoreOfStore(servers=servers),
        phase_s=phase_s,
        **ENDING,
    )
    faults = (*draw_faults(case, rng), *draw_silences(size, phase_s, rng))
    drawn = draw_surroundings(case, faults, rng)
    more = MoreOfStore(servers=servers, abandons=rng.choice((0.0, 0.0, 0.05, 0.3)))
    later = (*draw_departures(drawn, rng), *draw_slow_disks(disks_of(drawn), phase_s, rng))
    return msgspec.structs.replace(drawn, more=more, faults=(*drawn.faults, *later))


def draw_sync(rng: Random) -> Latency:
    """How long a disk takes."""
    return rng.choice((Constant(0.0), Uniform(0.0005, 0.005), Uniform(0.001, 0.1)))


def draw_faults(case: StoreCase, rng: Random) -> Iterator[Fault]:
    """What happens to the servers, and to clients."""
    group, servers, size = case.recipe.group, case.more.servers, case.processes
    phase_s = case.phase_s
    yield from draw_cuts(servers, phase_s, rng)
    yield from draw_cuts(servers, phase_s, rng)
    yield from draw_cuts(size, phase_s, rng)
    yield from of_views.draw_partial_cuts(servers, phase_s, rng)
    yield from draw_jumps(size, phase_s, rng)
    if rng.random() < 0.1:
        yield LateJoin(rng.randrange(servers), rng.uniform(0, phase_s))
    if servers == 3 and case.recipe.durable and rng.random() < 0.25:
        yield from draw_lost_witness(phase_s, rng)
    else:
        yield from draw_outages(case, rng)
    yield from draw_isolations((*of_views.kinds_of(group), *KINDS), servers, rng, share=0.2)
    for pid in range(servers, size):
        if rng.random() < 0.1:
            yield Crash(pid, rng.uniform(0, phase_s), back_after_s=0.1)


def draw_lost_witness(phase_s: float, rng: Random) -> Iterator[Fault]:
    """Two servers have what the third lacks; one of them loses its disk, the other is cut off."""
    cut_off, loser, lacking = rng.sample(range(3), 3)
    start = rng.uniform(0.15, phase_s / 2)
    middle = start + rng.uniform(0.15, 0.3)
    yield Partition(start, middle, ((lacking,),))
    yield Crash(loser, middle - 0.02, back_after_s=0.04, loses_disk=True)
    yield Partition(middle, middle + rng.uniform(0.2, 0.5), ((cut_off,),))


def draw_outages(case: StoreCase, rng: Random) -> Iterator[Fault]:
    """Servers crash, now and then all of them; few never come back, and of a minority at most.  One
    disk may be lost; where there are none, only a minority crashes."""
    servers, phase_s, durable = case.more.servers, case.phase_s, case.recipe.durable
    minority = (servers - 1) // 2
    kinds = (*of_views.kinds_of(case.recipe.group), *KINDS)
    gone = rng.randint(0, minority) if rng.random() < 0.3 else 0
    loser = rng.randrange(servers) if rng.random() < 0.2 and not gone and servers > 1 else -1
    for place, pid in enumerate(rng.sample(range(servers), servers if durable else minority)):
        if rng.random() < 0.5 and place >= gone:
            continue
        back_after_s = None if place < gone else rng.uniform(0.01, 0.4)
        more: dict[str, Any] = {"back_after_s": back_after_s, "loses_disk": pid == loser}
        for _ in range(rng.choice((1, 1, 2)) if durable and place >= gone else 1):
            if case.seed % 2:
                yield FailpointCrash(draw_failpoint(kinds, pid, rng), **more)
            else:
                yield Crash(pid, rng.uniform(0.1, phase_s), **more)


def disks_of(case: AnyCase) -> range:
    """Who has a disk."""
    return range(case.more.servers if case.recipe.durable else 0)


def draw_departures(case: AnyCase, rng: Random) -> Iterator[LeaveAt]:
    """Servers leave for good; with those that crash for good they are a minority."""
    servers = case.more.servers
    crashes = [each for each in case.faults if isinstance(each, Crash | FailpointCrash)]
    gone = {crash.pid for crash in crashes if crash.back_after_s is None and crash.pid < servers}
    staying = [pid for pid in range(servers) if pid not in gone]
    for pid in rng.sample(staying, max(0, (servers - 1) // 2 - len(gone))):
        if rng.random() < 0.1:
            yield LeaveAt(pid, rng.uniform(0, case.phase_s))


def draw_recipe(servers: int, rng: Random) -> StoreRecipe:
    """The settings of a partitionable group, and of the store on it."""
    drawn = of_views.draw_recipe(Choice("vs", "total"), rng)
    # Who is put out for a full buffer is far behind when it comes back: it has to hold an exchange.
    overflow = drawn.overflow if drawn.multicast["buffer"] >= 20 else "block"
    group: ViewRecipe = replace(drawn, overflow=overflow)
    founders = tuple(range(servers))
    quorums: tuple[tuple[int, ...], ...] = ()
    if servers > 2 and rng.random() < 0.15:  # The first server, and any other.
        quorums = tuple((0, pid) for pid in founders[1:])
    return StoreRecipe(
        founders=founders,
        quorums=quorums,
        reads=rng.choice(("local", "rotate")),
        confirm=rng.choice(("quorum", "quorum", "all")),
        durable=rng.random() < 0.85,
        group=group,
        retry_s=rng.choice((0.01, 0.02)),
        retry_max_s=0.1,
        pipeline=rng.choice((1, 1, 4, 16)),
        sessions_max=rng.choice((2, 1000, 1000, 1000)),
        truncate_after=rng.choice((1, 10, 100)),
        snapshot_after=rng.choice((5, 50, 1000)),
        tail_max=rng.choice((3, 1000)),
    )


def draw_load(pid: int, phase_s: float, rng: Random) -> SenderLoad:
    """How often a client asks."""
    rate = rng.choice((30.0, 100.0, 300.0))
    return SenderLoad(
        pid=pid,
        rate=rate,
        count=max(2, int(rate * phase_s)),
        items=1,
        overwrite=0.0,
        keep=0.0,
        batch=rng.choice((1, 1, 4)),
        size=1,
    )


def draw_long_minority(seed: int, rng: Random) -> AnyCase:
    """A minority, with the server that orders and with most clients, is cut off and goes on: its
    history becomes long, and nothing of that is safe.  The others, with one slow client, go on with
    little.  Then they meet, and the many clients are cut off, so that they do not ask again.  It is
    quiet otherwise, or the history would not become long."""
    servers, clients = rng.choice((3, 5, 5)), rng.choice((6, 9))
    size = servers + clients
    drawn = draw_recipe(servers, rng)
    multicast: dict[str, Any] = {"buffer": 60, "period_s": 0.02, "timeout_max_s": 0.25}
    group = replace(drawn.group, patience_s=0.1, timeout_s=0.2, multicast=multicast)
    loads = [draw_load(pid, 2.0, rng) for pid in range(servers, size)]
    slow = msgspec.structs.replace(loads[0], rate=10.0, count=20)
    fast = (msgspec.structs.replace(load, rate=300.0, count=200) for load in loads[1:])
    start = rng.uniform(0.4, 0.6)
    middle, end = start + rng.uniform(0.3, 0.4), start + 0.7
    minority = (0, *rng.sample(range(1, servers), (servers - 1) // 2 - 1))
    others, many = set(range(servers)) - set(minority), tuple(range(servers + 1, size))
    faults: list[Fault] = [
        *(OneWayCut(0.1, end, client, server) for client in many for server in sorted(others)),
        Partition(start, middle, ((*minority, *many),)),
        Partition(middle, end, (many,)),
    ]
    if rng.random() < 0.5:  # It comes back with what it has on disk.
        faults.append(Crash(rng.choice(minority), middle - 0.05, back_after_s=0.1))
    return StoreCase(
        seed=seed,
        recipe=replace(drawn, quorums=(), group=group, pipeline=16, durable=True),
        processes=size,
        senders=(slow, *fast),
        link=Link(latency=rng.choice((Constant(0.001), Uniform(0.0005, 0.003)))),
        sync=rng.choice((Constant(0.0), Uniform(0.0005, 0.005))),
        faults=tuple(faults),
        more=MoreOfStore(servers=servers),
        phase_s=end + 0.2,
        **ENDING,
    )


def draw_old_disk(seed: int, rng: Random) -> AnyCase:
    """A server comes back with what its disk had at an earlier time.  The others stay together, so
    whoever has what it lost is there when it counts again: without them nobody could know.  It may
    be cut off alone when it comes back, and crash again."""
    servers, clients = rng.choice((3, 3, 4, 5)), rng.choice((2, 4, 6))
    size = servers + clients
    drawn = draw_recipe(servers, rng)
    multicast: dict[str, Any] = {"buffer": 60, "period_s": 0.02, "timeout_max_s": 0.25}
    group = replace(drawn.group, patience_s=0.1, timeout_s=0.2, multicast=multicast)
    pid, at, phase_s = rng.randrange(servers), rng.uniform(0.2, 0.9), rng.uniform(1.0, 1.6)
    away_s = rng.uniform(0.01, 0.4)
    faults: list[Fault] = []
    if seed % 2:
        point = draw_failpoint((*of_views.kinds_of(group), *KINDS), pid, rng)
        faults.append(FailpointCrash(point, back_after_s=away_s, old_disk=True))
    else:
        faults.append(Crash(pid, at, back_after_s=away_s, old_disk=True))
    if rng.random() < 0.3:
        faults.append(Partition(at, at + away_s + 0.2, ((pid,),)))
    if rng.random() < 0.3:
        again, is_old = at + away_s + rng.uniform(0.0, 0.3), rng.random() < 0.5
        faults.append(Crash(pid, again, back_after_s=0.1, old_disk=is_old))
    loads = (draw_load(each, phase_s, rng) for each in range(servers, size))
    return StoreCase(
        seed=seed,
        recipe=replace(drawn, quorums=(), group=group, durable=True),
        processes=size,
        senders=tuple(loads),
        link=Link(latency=rng.choice((Constant(0.001), Uniform(0.0005, 0.003)))),
        sync=draw_sync(rng),
        faults=tuple(faults),
        more=MoreOfStore(servers=servers),
        phase_s=phase_s,
        **ENDING,
    )


def starved(
    pid: int, start: float, end: float, *, of_s: float = 0.1, share: float = 0.25
) -> Iterator[Fault]:
    """The process has a share of its processor."""
    for beat in range(round((end - start) / of_s)):
        at = start + beat * of_s
        yield Pause(pid, at, at + of_s * (1 - share))


def draw_slow_server(seed: int, rng: Random) -> AnyCase:
    """One server has a share of its processor, and perhaps is away for a while; or its disk is slow
    when it comes back.  The others go on."""
    servers, clients = rng.choice((3, 3, 4, 5)), rng.choice((4, 6))
    size, phase_s = servers + clients, rng.uniform(3.0, 4.0)
    drawn = draw_recipe(servers, rng)
    multicast: dict[str, Any] = {"buffer": rng.choice((20, 60)), "timeout_max_s": 0.25}
    group = replace(
        drawn.group,
        overflow="exclude",
        timeout_s=0.4,
        patience_s=0.1,
        multicast=multicast | {"period_s": 0.02, "gossip_after": rng.choice((None, 4))},
    )
    about: dict[str, Any] = {"quorums": (), "confirm": "quorum", "durable": True}
    about |= {"group": group, "reads": "local", "pipeline": 1}
    slow, kind = rng.choice((0, rng.randrange(servers))), rng.random()
    back = rng.uniform(2.0, 2.4)
    faults: list[Fault] = [] if kind < 0.6 else [Partition(0.5, back, ((slow,),))]
    if kind < 0.8:
        about_it = {"of_s": rng.choice((0.1, 0.3, 0.3)), "share": rng.choice((0.05, 0.1, 0.25))}
        faults += starved(slow, 0.3, phase_s, **about_it)
    else:
        faults.append(SlowDisk(slow, back + 0.01, phase_s))
    loads = (draw_load(pid, phase_s, rng) for pid in range(servers, size))
    loads = (msgspec.structs.replace(load, rate=60.0, count=int(60 * phase_s)) for load in loads)
    # Half of what clients ask is updates.  When the slow one comes back, all hear from it once.
    offered = 30 * clients * (phase_s - 1.8)
    pace = UpdatePace(start=1.8, end=phase_s, updates=int(0.1 * offered), silence_s=0.9)
    return StoreCase(
        seed=seed,
        recipe=replace(drawn, **about),
        processes=size,
        senders=tuple(loads),
        link=Link(latency=rng.choice((Constant(0.001), Uniform(0.0005, 0.003)))),
        sync=rng.choice((Constant(0.0), Uniform(0.0005, 0.005))),
        faults=tuple(faults),
        more=MoreOfStore(servers=servers, pace=pace),
        phase_s=phase_s,
        **ENDING,
    )


def draw_left_minority(seed: int, rng: Random) -> AnyCase:
    """So many servers are gone for good that those left are no quorum; queries go on there.  Mostly
    those left have updates at the end of which they do not hear that they are safe, or clients have
    asked nobody but them before."""
    servers, clients = rng.choice((2, 3, 3, 3, 4, 5)), rng.choice((6, 10))
    size = servers + clients
    drawn = draw_recipe(servers, rng)
    left = rng.sample(range(servers), rng.randint(1, servers // 2))
    gone = [pid for pid in range(servers) if pid not in left]
    at, phase_s = rng.uniform(0.4, 0.6), rng.uniform(0.8, 1.2)
    faults: list[Fault] = [Crash(pid, at) for pid in gone]
    if rng.random() < 0.7:
        start, silent = at - rng.uniform(0.001, 0.005), gone[1:]  # The first one orders.
        faults += (OneWayCut(start, at + 0.1, one, pid) for one in silent for pid in left)
        faults += (SlowDisk(pid, at - 0.05, at + 0.2) for pid in left)
        drawn = replace(drawn, confirm="quorum", durable=True)
    else:
        near = rng.sample(range(servers, size), rng.randint(1, clients))
        faults += (OneWayCut(0.1, at, client, pid) for client in near for pid in gone)
        faults += draw_cuts(servers, phase_s, rng)
    for pid in left:
        if drawn.durable and rng.random() < 0.2:
            faults.append(Crash(pid, rng.uniform(at, phase_s), back_after_s=0.1))
    loads = (draw_load(each, phase_s, rng) for each in range(servers, size))
    reads, pipeline = rng.choice(("rotate", "rotate", "local")), rng.choice((1, 4, 4))
    return StoreCase(
        seed=seed,
        recipe=replace(drawn, quorums=(), sessions_max=1000, reads=reads, pipeline=pipeline),
        processes=size,
        senders=tuple(msgspec.structs.replace(load, rate=300.0, count=300) for load in loads),
        link=Link(latency=Uniform(0.0005, 0.003)) if rng.random() < 0.8 else draw_link(rng),
        sync=rng.choice((Constant(0.0), Uniform(0.0005, 0.005))),
        faults=tuple(faults),
        more=MoreOfStore(servers=servers),
        phase_s=phase_s,
        **ENDING,
    )
