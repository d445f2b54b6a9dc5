"""Named cases, each built to provoke one kind of mistake; the correct protocol passes them all."""

from random import Random
from typing import Any

from semcast.core.views.recipe import ViewRecipe
from semcast.families.case import SenderLoad
from semcast.families.views.draw import MoreOfViews, ViewCase, bridge, one_way_isolation, swizzle
from semcast.faults import (
    ClockJump,
    Constant,
    Crash,
    Failpoint,
    FailpointCrash,
    Fault,
    Founding,
    Isolation,
    LateJoin,
    LeaveAt,
    Link,
    OneWayCut,
    Partition,
    Pause,
    Uniform,
)

LOSSY = Link(latency=Uniform(0.0005, 0.003), loss=0.2)
TIGHT = {"buffer": 12, "congested_at": 0.0, "period_s": 0.02, "timeout_max_s": 0.25}
ROOMY = TIGHT | {"buffer": 40}


def recipe(**changes: Any) -> ViewRecipe:
    """Suspicion after 100 ms, buffers that fill."""
    settings: dict[str, Any] = {
        "heartbeat_s": 0.02,
        "timeout_s": 0.1,
        "timeout_max_s": 0.8,
        "patience_s": 0.2,
        "multicast": TIGHT,
    }
    return ViewRecipe(**(settings | changes))


def case(
    recipe: ViewRecipe,
    *faults: Fault,
    size: int = 4,
    founders: int | None = None,
    senders: tuple[int, ...] = (0,),
    rate: float = 150.0,
    slow: dict[int, float] | None = None,
    link: Link | None = None,
    snapshot_s: float = 0.0,
    seed: int = 1,
) -> ViewCase:
    """A second in which some of the first processes send; nine messages of ten supersede one."""
    slow = slow or {}
    return ViewCase(
        seed=seed,
        recipe=recipe,
        processes=size,
        senders=tuple(
            SenderLoad(
                pid=pid, rate=rate, count=140, items=3, overwrite=0.9, keep=0.0, batch=1, size=8
            )
            for pid in senders
        ),
        service_s=slow,
        take=dict.fromkeys(slow, 1),
        link=link or Link(latency=Constant(0.001)),
        faults=faults,
        phase_s=1.0,
        quiet_within_s=15.0,
        still_s=0.5,
        has_last_words=True,
        more=MoreOfViews(
            founders=0 if not recipe.is_primary else size if founders is None else founders,
            snapshot=Constant(snapshot_s),
            back_after_s=0.05,
        ),
    )


# The fourth process comes with the founding, long before it would arrive by itself.
FOUNDED_AGAIN = (Pause(0, 0.2, 0.45), LateJoin(3, 0.9), Founding((1, 2, 3), 0.2, 2))

SCENARIOS: dict[str, ViewCase] = {
    # One application is far behind when the view changes.
    "slow-through-a-change": case(recipe(), Crash(3, 0.4), slow={2: 0.03}),
    # The sender purges for what nobody else has, tells one who was deaf, and crashes [SVS §4.2].
    "purger-crash": case(
        recipe(timeout_s=0.6, multicast=ROOMY),
        *one_way_isolation(0.1, 0.5, [2, 0, 1], hears=False),
        OneWayCut(0.3, 0.9, 0, 1),
        Crash(0, 0.51),
        size=3,
    ),
    # The sender crashes in mid-burst; some have what others lack.
    "sender-crash-in-view": case(
        recipe(), FailpointCrash(Failpoint(0, "multicast", None, 60, 0.3)), link=LOSSY, seed=15
    ),
    # Two halves cannot reach each other; neither may go on.
    "two-halves": case(recipe(), Partition(0.2, 0.8, ((0, 1),)), senders=(0, 2)),
    # A coordinator decides and is cut off before anybody knows.
    "decided-and-cut-off": case(
        recipe(), Crash(4, 0.2), Isolation(Failpoint(0, "decided", None, 1, 0.0), 0.5), size=5
    ),
    # The sequencer goes on sending while nobody hears it.
    "sequencer-cut-off": case(
        recipe(order="total", multicast=ROOMY | {"buffer": 400}),
        Partition(0.05, 0.7, ((0,),)),
        senders=(0, 1, 2),
        link=LOSSY,
    ),
    # One member delivers long after the others.
    "slow-to-confirm": case(recipe(protocol="vs", order="total"), size=3, slow={2: 0.01}),
    # Two join, one after the other, while there is traffic and their states take long.
    "two-joiners": case(
        recipe(chunk_bytes=16),
        LateJoin(3, 0.2),
        LateJoin(4, 0.6),
        size=5,
        founders=3,
        senders=(0, 1),
        snapshot_s=0.05,
    ),
    # The donor crashes while it hands its state over.
    "donor-crash": case(
        recipe(chunk_bytes=16),
        LateJoin(3, 0.2),
        FailpointCrash(Failpoint(0, "statechunk", None, 2, 0.0), back_after_s=0.2),
        founders=3,
        senders=(1,),
    ),
    # A view change begins while another is under way.
    "change-during-change": case(
        recipe(),
        Crash(4, 0.3),
        FailpointCrash(Failpoint(0, "propose", None, 1, 0.4), back_after_s=0.1),
        FailpointCrash(Failpoint(1, "accepted", None, 1, 1.0), back_after_s=0.2),
        size=5,
        senders=(1, 2),
        link=LOSSY,
    ),
    # Two sides hear only the one between them.
    "bridge": case(
        recipe(), *bridge(0.2, 0.8, [0, 1, 2, 3, 4]), size=5, senders=(0, 4), link=LOSSY
    ),
    # All are cut off one by one, and come back in another order.
    "swizzle-clog": case(
        recipe(), *swizzle(0.1, 0.9, [1, 0, 3, 2], Random(3)), senders=(0, 3), link=LOSSY
    ),
    # Components go on apart, and meet while one of them changes.
    "merge-during-flush": case(
        recipe(protocol="vs", order="total"),
        Partition(0.1, 0.5, ((0, 1), (2, 3))),
        Crash(1, 0.45, back_after_s=0.1),
        senders=(0, 3),
        link=LOSSY,
    ),
    # One is stopped, wakes up an hour late, and finds the group gone on.
    "late-riser": case(recipe(), Pause(0, 0.2, 0.6), ClockJump(0, 0.5, 3600.0), senders=(0, 1)),
    # One is stopped; the others are killed and found the group again, with somebody new in front.
    "founded-again": case(recipe(), *FOUNDED_AGAIN, founders=3, senders=(0, 1, 2, 3)),
    # The same under total order, where the stopped one was the sequencer.
    "founded-again-total": case(
        recipe(order="total"), *FOUNDED_AGAIN, founders=3, senders=(0, 1, 2, 3)
    ),
    # One is cut off while the others found the group again, and comes back.
    "survivor-returns": case(
        recipe(), Partition(0.2, 0.6, ((3,),)), Founding((0, 1, 2), 0.3, 2), senders=(0, 3)
    ),
    # Two groups are founded apart and hear each other from then on.
    "founded-apart": case(
        recipe(),
        Partition(0.0, 0.5, ((0, 1),)),
        Founding((2, 3), 0.1, 2),
        founders=2,
        senders=(0, 1, 2, 3),
    ),
    # The last but one leaves.
    "leavers": case(recipe(), LeaveAt(0, 0.3), LeaveAt(1, 0.5), LeaveAt(2, 0.6), senders=(3,)),
}
