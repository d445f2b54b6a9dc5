"""Named cases, each built to provoke one kind of mistake; the correct service passes them all."""

from typing import Any

from semcast.families.case import SenderLoad
from semcast.families.services.draw import MoreOfServices, ServiceCase
from semcast.families.views.scenarios import LOSSY
from semcast.families.views.scenarios import recipe as group_recipe
from semcast.faults import Constant, Crash, Failpoint, FailpointCrash, Fault, Link, Partition
from semcast.service.recipe import ServiceRecipe


def recipe(
    *, datagram_bytes: int = 1400, relation: str = "update-fin", **changes: Any
) -> ServiceRecipe:
    """Servers are suspected after 100 ms; clients ask again after 20."""
    multicast: dict[str, Any] = {"buffer": 30, "period_s": 0.02, "timeout_max_s": 0.25}
    multicast["datagram_bytes"] = datagram_bytes
    group = group_recipe(relation=relation, multicast=multicast)
    settings: dict[str, Any] = {"group": group, "retry_s": 0.02, "retry_max_s": 0.1}
    return ServiceRecipe(**(settings | changes))


def case(
    recipe: ServiceRecipe,
    *faults: Fault,
    servers: int = 3,
    clients: int = 3,
    slow: dict[int, float] | None = None,
    link: Link | None = None,
    seed: int = 1,
) -> ServiceCase:
    """A second in which clients ask as fast as they are answered."""
    slow = slow or {}
    size = servers + clients
    return ServiceCase(
        seed=seed,
        recipe=recipe,
        processes=size,
        senders=tuple(
            SenderLoad(
                pid=pid, rate=300.0, count=250, items=1, overwrite=0.0, keep=0.0, batch=1, size=1
            )
            for pid in range(servers, size)
        ),
        service_s=slow,
        take=dict.fromkeys(slow, 1),
        link=link or Link(latency=Constant(0.001)),
        faults=faults,
        phase_s=1.0,
        quiet_within_s=15.0,
        still_s=0.5,
        has_last_words=True,
        more=MoreOfServices(servers=servers, founders=servers),
    )


SCENARIOS: dict[str, ServiceCase] = {
    # The primary is cut off with its clients; the others go on without it.
    "primary-cut-off": case(recipe(), Partition(0.3, 0.8, ((0, 3, 4, 5),))),
    # So is one backup with it, whose acknowledgements come twice.
    "primary-and-one-backup-cut-off": case(
        recipe(),
        Partition(0.3, 0.8, ((0, 1, 5, 6, 7),)),
        servers=5,
        link=Link(latency=Constant(0.001), duplicate=0.5),
        seed=28,
    ),
    # The primary crashes as it answers; on the way to the backups much is lost.
    "primary-crash-as-it-answers": case(
        recipe(), FailpointCrash(Failpoint(0, "reply", None, 40, 1.0)), link=LOSSY, seed=2
    ),
    # The primary crashes in the middle of a request: some have its updates, nobody its fin.
    "primary-crash-in-a-request": case(
        recipe(datagram_bytes=60),
        FailpointCrash(Failpoint(0, "multicast", None, 61, 0.5)),
        link=LOSSY,
        seed=29,
    ),
    # The primary crashes, and who follows it is far behind.
    "slow-successor": case(recipe(), Crash(0, 0.5), slow={1: 0.02}, clients=6),
    # A backup that has not acknowledged yet crashes, and there is one client alone.
    "last-backup-crash": case(
        recipe(), FailpointCrash(Failpoint(2, "execute", None, 20, 0.0)), clients=1
    ),
    # One server, which is primary of nobody.
    "alone": case(recipe(), servers=1),
    # A backup is slow, and much of what it has not applied yet is overwritten.
    "slow-replica": case(recipe(), Crash(0, 0.7), slow={2: 0.02}, clients=8),
    # The same, and all updates of a request are one message.
    "slow-replica-packed": case(recipe(relation="list"), Crash(0, 0.7), slow={2: 0.02}, clients=8),
}
