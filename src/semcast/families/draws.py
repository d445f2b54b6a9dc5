"""What every swarm draws alike: senders, links, cuts and pauses."""

from collections.abc import Iterator, Sequence
from random import Random

from semcast.families.case import Sender
from semcast.faults import Exponential, Link, OneWayCut, Partition, Pause, Uniform

RATES = (100.0, 300.0, 1000.0)


def draw_senders(
    members: int, phase_s: float, rng: Random, rates: Sequence[float] = RATES
) -> Iterator[Sender]:
    """Who sends how much, and how much of it supersedes what."""
    for pid in rng.sample(range(members), rng.randint(1, min(3, members))):
        rate = rng.choice(rates)
        yield Sender(
            pid=pid,
            rate=rate,
            count=max(2, int(rate * phase_s)),
            items=rng.choice((1, 3, 20)),
            overwrite=rng.choice((0.3, 0.7, 0.95)),
            keep=rng.choice((0.0, 0.0, 0.1)),
            batch=rng.choice((1, 4, 16)),
            size=rng.choice((0, 8, 40)),
        )


def draw_link(rng: Random) -> Link:
    """A network that loses, doubles and reorders, or not."""
    latency = Exponential(rng.choice((0.0002, 0.002, 0.01)), 0.0001)
    return Link(
        latency=latency if rng.random() < 0.5 else Uniform(0.0005, 0.003),
        loss=rng.choice((0.0, 0.02, 0.15, 0.4)),
        duplicate=rng.choice((0.0, 0.0, 0.1)),
        reorder=rng.choice((0.0, 0.2)),
    )


def draw_cuts(members: int, phase_s: float, rng: Random) -> Iterator[Partition | OneWayCut | Pause]:
    """Partitions, one-way cuts and pauses that end with the phase at the latest."""

    def period() -> tuple[float, float]:
        start = rng.uniform(0, phase_s)
        return start, min(phase_s, start + rng.uniform(0.05, 0.6))

    if members > 1 and rng.random() < 0.3:
        group = tuple(rng.sample(range(members), rng.randint(1, members - 1)))
        yield Partition(*period(), (group,))
    if members > 1 and rng.random() < 0.3:
        yield OneWayCut(*period(), *rng.sample(range(members), 2))
    if rng.random() < 0.3:
        yield Pause(rng.randrange(members), *period())
