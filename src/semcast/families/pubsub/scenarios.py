"""Named cases, each built to provoke one kind of mistake; the correct protocol passes them all."""

from typing import Any

from semcast.core.pubsub.recipe import PubsubRecipe
from semcast.families.case import SenderLoad
from semcast.families.pubsub.draw import MoreOfPubsub, PubsubCase
from semcast.faults import (
    Constant,
    Crash,
    Disconnection,
    Failpoint,
    FailpointCrash,
    Fault,
    LateJoin,
    LeaveAt,
    Link,
    OneWayCut,
    Uniform,
)

LOSSY = Link(latency=Uniform(0.0005, 0.003), loss=0.2)
SLUGGISH = Link(latency=Uniform(0.0005, 0.06), loss=0.2, duplicate=0.3)


def recipe(**changes: Any) -> PubsubRecipe:
    """Five processes, the first a logger, that gossip fast."""
    settings = {
        "members": 5,
        "period_s": 0.02,
        "period_max_s": 0.04,
        "retry_s": 0.03,
        "heartbeat_min_s": 0.02,
        "heartbeat_max_s": 0.1,
        "rounds": 3,
        "block": 8,
    }
    return PubsubRecipe(**(settings | changes))


def case(
    recipe: PubsubRecipe,
    *faults: Fault,
    rate: float = 100.0,
    count: int = 80,
    link: Link | None = None,
    sync_s: float = 0.002,
    slow: dict[int, float] | None = None,
) -> PubsubCase:
    """A second in which process 2 publishes; `slow` applications spend so long on a message."""
    slow = slow or {}
    sender = SenderLoad(
        pid=2, rate=rate, count=count, items=3, overwrite=0.9, keep=0.0, batch=1, size=8
    )
    return PubsubCase(
        seed=1,
        recipe=recipe,
        processes=recipe.members,
        senders=(sender,),
        service_s=slow,
        take=dict.fromkeys(slow, 1),
        link=link or Link(latency=Constant(0.001)),
        sync=Constant(sync_s),
        faults=faults,
        phase_s=1.0,
        quiet_within_s=20.0,
        still_s=1.0,
        is_watched=True,
        more=MoreOfPubsub(silent=tuple(pid for pid in recipe.logger_pids if pid not in slow)),
    )


SCENARIOS: dict[str, PubsubCase] = {
    # A disk that takes its time: what is said before the sync shows.
    "slow-disk": case(recipe(protocol="lbrm"), sync_s=0.05),
    "slow-disk-rpbcast": case(recipe(), sync_s=0.05),
    # One is away, and said so, while everybody else gets everything.
    "away": case(recipe(), Disconnection(4, 0.2, 0.9), link=LOSSY),
    # Notices arrive long after what they speak of.
    "late-notices": case(recipe(gossip_buffer=2, rounds=1), link=SLUGGISH),
    # Somebody joins when all is said and collected.
    "late-comer": case(recipe(founders=4), LateJoin(4, 0.9), count=20),
    # The end of a stream and its heartbeat are lost to one, then the sender idles.
    "lost-end": case(recipe(), OneWayCut(0.15, 0.4, 2, 4), count=20),
    # One is heard but hears nothing, and does not know that there is more.
    "deaf": case(recipe(), *(OneWayCut(0.15, 0.7, pid, 4) for pid in (0, 1, 2, 3)), count=20),
    # One lacks what the logger has when the publisher crashes, and counts what is kept.
    "publisher-crash": case(
        recipe(protocol="lbrm", retry_s=0.2, heartbeat_max_s=0.3),
        OneWayCut(0.1, 0.5, 2, 4),
        OneWayCut(0.1, 0.9, 0, 4),
        Crash(2, 0.45, back_after_s=0.05),
    ),
    # A logger forgot everything just when a publisher asks what is kept.
    "disk-lost": case(
        recipe(loggers=(0, 1), copies=2, protocol="lbrm", block=64),
        OneWayCut(0.1, 0.46, 2, 4),
        OneWayCut(0.1, 0.9, 0, 4),
        OneWayCut(0.1, 0.9, 1, 4),
        OneWayCut(0.4, 0.8, 1, 0),
        Crash(0, 0.4, back_after_s=0.05, loses_disk=True),
        Crash(2, 0.45, back_after_s=0.02),
    ),
    # A subscriber crashes between its cursor and the delivery, again and again.
    "cursor-crash": case(
        recipe(recovery="at-least-once", protocol="lbrm"),
        *(
            FailpointCrash(Failpoint(pid, "deliver", None, nth, 0.0), back_after_s=0.05)
            for pid in (1, 3, 4)
            for nth in (3, 5, 9)
        ),
        link=LOSSY,
    ),
    # An application falls behind, and its subscriber has no room for more.
    "slow-subscriber": case(recipe(protocol="lbrm", buffer=4), slow={4: 0.02}),
    # The same on a logger, whose log everybody else has got.
    "slow-logger": case(recipe(buffer=4), slow={0: 0.02}),
    # An application that is behind crashes, and has to get again what waited for it.
    "slow-and-crashing": case(
        recipe(recovery="at-least-once", protocol="lbrm", buffer=40),
        *(Crash(4, at, back_after_s=0.05) for at in (0.3, 0.5, 0.7)),
        slow={4: 0.03},
    ),
    # One asks the logger alone for what it lacks, and cannot hear the answer.
    "logger-phase": case(
        recipe(recovery_first="logger"),
        OneWayCut(0.2, 0.4, 2, 4),
        OneWayCut(0.2, 0.9, 0, 4),
    ),
    # Who has left is not waited for.
    "leaver": case(recipe(), LeaveAt(4, 0.5), link=LOSSY),
    # Repairs, duplicates and reordering, for a protocol that promises little.
    "doubled": case(recipe(protocol="pbcast"), link=SLUGGISH),
    "doubled-in-order": case(recipe(protocol="pbcast", order="fifo"), link=SLUGGISH),
    # A logger whose disk has nearly everything that it is asked for.
    "small-log-buffer": case(recipe(protocol="lbrm", log_buffer=1), link=LOSSY),
    "lossy": case(recipe(protocol="lbrm"), link=LOSSY),
}
