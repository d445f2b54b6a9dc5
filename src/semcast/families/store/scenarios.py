"""Named cases, each built to provoke one kind of mistake; the correct store passes them all."""

from dataclasses import replace
from typing import Any

from semcast.families.case import SenderLoad
from semcast.families.store.draw import MoreOfStore, StoreCase, UpdatePace, starved
from semcast.families.views.scenarios import LOSSY
from semcast.families.views.scenarios import recipe as group_recipe
from semcast.faults import (
    Constant,
    Crash,
    Failpoint,
    FailpointCrash,
    Fault,
    Latency,
    Link,
    OneWayCut,
    Partition,
    SlowDisk,
    Uniform,
)
from semcast.service.store_recipe import StoreRecipe


def recipe(servers: int = 3, **changes: Any) -> StoreRecipe:
    """Servers are suspected after 100 ms; clients ask again after 20."""
    multicast: dict[str, Any] = {"buffer": 60, "period_s": 0.02, "timeout_max_s": 0.25}
    group = group_recipe(protocol="vs", order="total", patience_s=0.1, multicast=multicast)
    settings: dict[str, Any] = {"group": group, "retry_s": 0.02, "retry_max_s": 0.1}
    settings |= {"founders": tuple(range(servers)), "truncate_after": 1}
    return StoreRecipe(**(settings | changes))


def case(
    recipe: StoreRecipe,
    *faults: Fault,
    clients: int = 4,
    link: Link | None = None,
    sync: Latency | None = None,
    phase_s: float = 1.0,
    slow: dict[int, float] | None = None,
    rates: dict[int, float] | None = None,
    abandons: float = 0.0,
    pace: UpdatePace | None = None,
    seed: int = 1,
) -> StoreCase:
    """A second in which clients ask as fast as they are answered, or at their own rates."""
    servers = recipe.servers
    size = servers + clients
    slow, rates = slow or {}, rates or {}
    return StoreCase(
        seed=seed,
        recipe=recipe,
        processes=size,
        senders=tuple(
            SenderLoad(
                pid=pid,
                rate=rates.get(pid, 300.0),
                count=250,
                items=1,
                overwrite=0.0,
                keep=0.0,
                batch=1,
                size=1,
            )
            for pid in range(servers, size)
        ),
        service_s=slow,
        take=dict.fromkeys(slow, 1),
        link=link or Link(latency=Constant(0.001)),
        sync=sync or Constant(0.0),
        faults=faults,
        phase_s=phase_s,
        quiet_within_s=15.0,
        still_s=0.5,
        has_last_words=True,
        more=MoreOfStore(servers=servers, abandons=abandons, pace=pace),
    )


def patient(timeout_s: float = 0.4) -> StoreRecipe:
    """Nobody is suspected for a short pause; who holds up a full buffer is put out."""
    usual = recipe()
    about: dict[str, Any] = {"timeout_s": timeout_s, "overflow": "exclude", "exclude_after_s": 0.2}
    return replace(usual, group=replace(usual.group, **about))


STEADY = dict.fromkeys(range(3, 11), 60.0)  # updates and queries a second of each client


PAPER: dict[str, Any] = {"reads": "rotate", "confirm": "all"}
DISK = Uniform(0.005, 0.03)

SCENARIOS: dict[str, StoreCase] = {
    # The paper's setting, with a partition that heals.
    "parted-and-merged": case(recipe(**PAPER), Partition(0.3, 0.7, ((0,),)), link=LOSSY),
    # Two of three in the view are all that hears of an update; then the third goes on with others.
    "few-know": case(
        recipe(5),
        Partition(0.3, 0.9, ((0, 1, 2), (3, 4))),
        OneWayCut(0.6, 0.66, 0, 2),
        OneWayCut(0.6, 0.66, 1, 2),
        Partition(0.66, 1.2, ((0, 1), (2, 3, 4))),
        clients=8,
        phase_s=1.5,
    ),
    # Each server is alone for a while, with clients that want to update.
    "all-alone": case(recipe(), Partition(0.3, 0.6, ((0,), (1,), (2,)))),
    # A minority has much that nobody else has, and the others have gone on with little.
    "long-minority": case(
        recipe(5, pipeline=16),
        *(OneWayCut(0.1, 1.2, client, server) for client in range(6, 14) for server in (2, 3, 4)),
        Partition(0.5, 0.85, ((0, 1, *range(6, 14)),)),
        Partition(0.85, 1.2, (tuple(range(6, 14)),)),
        clients=9,
        rates={5: 10.0},
        phase_s=1.5,
    ),
    # All servers lose power while their disks are busy.
    "power-cut": case(
        recipe(), *(Crash(pid, 0.5, back_after_s=0.1) for pid in range(3)), sync=DISK, clients=8
    ),
    # Two servers lose power, and come back with what their disks hold, without the third.
    "power-cut-of-two": case(
        recipe(),
        SlowDisk(0, 0.45, 0.9),
        SlowDisk(1, 0.45, 0.9),
        Partition(0.5, 0.8, ((2,),)),
        Crash(0, 0.75, back_after_s=0.01),
        Crash(1, 0.76, back_after_s=0.01),
        Partition(0.8, 1.1, ((0,),)),
        clients=8,
        phase_s=1.5,
        sync=DISK,
    ),
    # Answers are lost, so clients ask again, also elsewhere.
    "lost-answers": case(recipe(), link=Link(latency=Constant(0.002), loss=0.3), clients=6),
    # Clients give up many requests, some of which servers have.
    "given-up": case(
        recipe(pipeline=4), link=Link(latency=Constant(0.002), loss=0.1), abandons=0.3
    ),
    # A founder is away while the others go on.
    "founder-away": case(recipe(), Partition(0.2, 0.9, ((2,),))),
    # One server is far behind, and clients of others, whose answers are lost, come to it.
    "slow-server": case(
        recipe(),
        *(OneWayCut(0.5, 0.7, server, client) for server in (0, 1) for client in range(3, 11)),
        slow={2: 0.02},
        clients=8,
        phase_s=1.2,
    ),
    # The server that gives updates their order has a quarter of its processor.
    "slow-sequencer": case(
        patient(),
        *starved(0, 0.3, 4.0),
        phase_s=4.0,
        rates=STEADY,
        pace=UpdatePace(start=1.0, end=4.0, updates=200, silence_s=0.07),
    ),
    # A server comes back whose disk is very slow.
    "slow-to-come-back": case(
        patient(),
        Partition(0.2, 0.7, ((2,),)),
        SlowDisk(2, 0.71, 2.5),
        phase_s=2.5,
        rates=STEADY,
        pace=UpdatePace(start=0.5, end=2.4, updates=100, silence_s=0.4),
    ),
    # A server is heard, and answers too late for every view.
    "unresponsive": case(
        patient(timeout_s=0.7),
        *starved(2, 0.3, 4.0, of_s=0.6, share=0.02),
        Crash(2, 0.5, back_after_s=0.1),
        clients=8,
        phase_s=4.0,
        rates=STEADY,
        pace=UpdatePace(start=0.6, end=4.0, updates=600, silence_s=0.25),
    ),
    # Two servers have what the third lacks; one of them loses its disk, the other is cut off.
    "lost-disk-counts": case(
        recipe(),
        Partition(0.3, 0.6, ((2,),)),
        Crash(1, 0.58, back_after_s=0.05, loses_disk=True),
        Partition(0.6, 1.2, ((0,),)),
        phase_s=1.5,
    ),
    # A server comes back without its disk, while much is lost on the way.
    "lost-disk": case(
        recipe(),
        Crash(1, 0.4, back_after_s=0.1, loses_disk=True),
        FailpointCrash(Failpoint(0, "parcel", None, 2, 0.5), back_after_s=0.1),
        link=Link(latency=Uniform(0.0005, 0.003), loss=0.2, duplicate=0.3),
    ),
    # The server that gives updates their order no longer hears that the other one has them.
    "heard-by-one": case(recipe(2, reads="rotate"), OneWayCut(0.4, 0.8, 1, 0), clients=8),
    # A server comes back with an old disk.
    "old-disk": case(recipe(), Crash(1, 0.5, back_after_s=0.1, old_disk=True), sync=DISK),
    # One server is left for good.  Clients have seen updates of which it does not know that they
    # are safe, and some of which it does will never be.
    "left-alone": case(
        recipe(reads="rotate", pipeline=4),
        SlowDisk(2, 0.45, 0.7),
        OneWayCut(0.497, 0.6, 1, 2),
        Crash(0, 0.5),
        Crash(1, 0.5),
        clients=10,
        link=Link(latency=Uniform(0.0005, 0.003)),
        seed=1,
    ),
    # Answers of other servers are on their way for long when the view changes.
    "slow-turns": case(
        recipe(5, reads="rotate"),
        Partition(0.3, 0.45, ((4,),)),
        *(OneWayCut(0.36, 0.41, 3, server) for server in (0, 1, 2)),
        link=Link(latency=Uniform(0.001, 0.002)),
        clients=12,
        seed=2,
    ),
    # Queries go from server to server on a network that doubles and loses.
    "rotation": case(
        recipe(**PAPER), link=Link(latency=Uniform(0.0005, 0.003), loss=0.1, duplicate=0.4)
    ),
}
