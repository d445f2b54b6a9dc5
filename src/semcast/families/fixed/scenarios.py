"""Named cases, each built to provoke one kind of mistake; the correct protocol passes them all."""

from semcast.core.recipe import Recipe
from semcast.families.case import Case, NoMore, SenderLoad
from semcast.faults import Constant, Failpoint, FailpointCrash, Fault, Link, OneWayCut, Uniform

FixedCase = Case[Recipe, NoMore]
STILL_S = 0.75  # three times the longest timeout that the swarm draws


def case(
    recipe: Recipe,
    *senders: SenderLoad,
    seed: int = 1,
    slow: dict[int, float] | None = None,
    link: Link | None = None,
    faults: tuple[Fault, ...] = (),
) -> FixedCase:
    """A case of one second with stated faults."""
    slow = slow or {}
    return FixedCase(
        seed=seed,
        recipe=recipe,
        processes=recipe.members,
        senders=senders,
        service_s=slow,
        take=dict.fromkeys(slow, 1),
        link=link or Link(latency=Constant(0.001)),
        faults=faults,
        phase_s=1.0,
        quiet_within_s=30.0,
        still_s=STILL_S,
        more=NoMore(),
    )


def sender(
    pid: int = 0, rate: float = 300.0, count: int = 250, items: int = 3, keep: float = 0.0
) -> SenderLoad:
    """Nine messages of ten supersede an earlier one."""
    return SenderLoad(
        pid=pid, rate=rate, count=count, items=items, overwrite=0.9, keep=keep, batch=1, size=8
    )


LOSSY = Link(latency=Uniform(0.0005, 0.003), loss=0.3)
DOUBLING = Link(latency=Uniform(0.0005, 0.01), loss=0.2, duplicate=0.5, reorder=0.3, reorder_s=0.05)

SCENARIOS: dict[str, FixedCase] = {
    # One member takes 100 messages/s of 300: its queue, then the senders' stores, must purge.
    "slow-member": case(
        Recipe(members=3, buffer=12, congested_at=0.0, period_s=0.02),
        sender(keep=0.05),
        slow={2: 0.01},
    ),
    # The same where applications declare what is obsolete in other ways than by items.
    **{
        f"slow-{name}": case(
            Recipe(members=3, buffer=12, congested_at=0.0, period_s=0.02, **relation),
            sender(keep=0.05),
            slow={2: 0.01},
        )
        for name, relation in (
            ("backup", {"relation": "update-fin"}),
            ("bitmap", {"relation": "bitmap", "k": 32}),
            ("list", {"relation": "list"}),
            ("chain", {"chain_limit": 3}),
        )
    },
    # The sender purges while one member hears nothing, then crashes [SRB §2.2].
    "purge-crash": case(
        Recipe(members=4, f=1, buffer=12, congested_at=0.0, period_s=0.01),
        sender(items=2),
        link=LOSSY,
        slow={3: 0.004},
        faults=(
            OneWayCut(0.1, 0.9, 0, 3),
            FailpointCrash(Failpoint(0, "purge", "retransmission", 12, 0.3), announced_after_s=0.2),
        ),
    ),
    # The sender crashes in mid-burst; some have what others lack.
    "sender-crash": case(
        Recipe(members=4, f=1, buffer=40),
        sender(),
        link=LOSSY,
        faults=(FailpointCrash(Failpoint(0, "multicast", None, 60, 0.3), announced_after_s=0.1),),
    ),
    # The last message is lost and nothing follows it.
    "lost-tail": case(
        Recipe(members=3),
        sender(rate=50.0, count=10),
        faults=(OneWayCut(0.15, 0.5, 0, 1),),
    ),
    "lost-tail-s-sm": case(
        Recipe(members=3, protocol="s-sm"),
        sender(rate=50.0, count=10),
        faults=(OneWayCut(0.15, 0.5, 0, 1),),
    ),
    # Late copies arrive long after their originals were delivered, purged or skipped.
    "duplicates": case(
        Recipe(members=3, buffer=12, congested_at=0.0, period_s=0.02),
        sender(items=2),
        link=DOUBLING,
        slow={2: 0.006},
    ),
    # Under order `item`, kept messages lie between values of the same item.
    "in-place": case(
        Recipe(members=3, order="item", buffer=20, congested_at=0.0),
        sender(items=2, keep=0.2),
        slow={2: 0.01},
    ),
    # Members answer each other; one link is slow, so answers overtake questions.
    "causal-relay": case(
        Recipe(members=3, order="causal", buffer=40),
        sender(0, rate=150.0),
        sender(1, rate=150.0),
        link=LOSSY,
    ),
    # Two streams, each able to fill the buffers that the other needs.
    "crossed-buffers": case(
        Recipe(members=4, protocol="rm", buffer=3),
        sender(0),
        sender(1),
        sender(2),
        link=LOSSY,
        slow={3: 0.003},
    ),
    # Messages ahead of a gap fill the room that the one which closes it needs.
    "early-arrivals": case(
        Recipe(members=3, f=0, protocol="rm", buffer=6, nack_delay_s=0.0),
        *(sender(pid, rate=100.0) for pid in range(3)),
        link=Link(latency=Uniform(0.0002, 0.001), loss=0.4, reorder=0.5),
    ),
}
