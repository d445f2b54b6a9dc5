"""Draws that the families share: senders, links, cuts and pauses."""

from collections.abc import Iterable, Iterator, Sequence
from random import Random

from msgspec.structs import replace

from semcast.families.case import AnyCase, SenderLoad
from semcast.faults import (
    ClockJump,
    Disconnection,
    Exponential,
    Failpoint,
    Fault,
    Isolation,
    Link,
    OneWayCut,
    Partition,
    Pause,
    SlowDisk,
    Uniform,
)

RATES = (100.0, 300.0, 1000.0)
BUSY_S = (100e-6, 2e-3)  # with the longer one, most datagrams have to wait, and are read together


def draw_senders(
    members: int, phase_s: float, rng: Random, rates: Sequence[float] = RATES
) -> Iterator[SenderLoad]:
    """Who sends how much, and how much of it supersedes what."""
    for pid in rng.sample(range(members), rng.randint(1, min(3, members))):
        rate = rng.choice(rates)
        yield SenderLoad(
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


def draw_jumps(size: int, phase_s: float, rng: Random) -> Iterator[ClockJump]:
    """Clocks that go forward, by less than a timeout or by an hour."""
    for pid in range(size):
        if rng.random() < 0.08:
            yield ClockJump(pid, rng.uniform(0, phase_s), rng.choice((0.05, 0.5, 3600.0)))


def draw_slow_disks(pids: Iterable[int], phase_s: float, rng: Random) -> Iterator[SlowDisk]:
    """Disks that take up to a second for a sync; everything else goes on."""
    for pid in pids:
        if rng.random() < 0.1:
            start = rng.uniform(0, phase_s)
            yield SlowDisk(pid, start, start + rng.choice((0.05, 0.3, 1.0)))


def draw_failpoint(kinds: Sequence[str], pid: int, rng: Random) -> Failpoint:
    """An event, or the sending of a datagram, and how much of its handler still happens."""
    nth, keep = rng.choice((1, 1, 2, 5, 20)), rng.choice((0.0, 0.3, 0.7, 1.0))
    return Failpoint(pid, rng.choice(kinds), None, nth, keep)


def draw_isolations(
    kinds: Sequence[str], size: int, rng: Random, share: float = 0.1
) -> Iterator[Isolation]:
    """Somebody is cut off at the worst moment."""
    for pid in range(size):
        if rng.random() < share:
            yield Isolation(draw_failpoint(kinds, pid, rng), rng.uniform(0.05, 0.6))


def draw_silences(size: int, phase_s: float, rng: Random) -> Iterator[Disconnection]:
    """Some are out of reach for a while, and do not say so."""
    for pid in range(size):
        if rng.random() < 0.06:
            start = rng.uniform(0, phase_s)
            yield Disconnection(pid, start, start + rng.uniform(0.05, 0.5), announced=False)


def draw_surroundings(case: AnyCase, faults: Iterable[Fault], rng: Random) -> AnyCase:
    """The same case with more faults, and with what happens below and around every machine:
    processors that are slow, loops that turn, datagrams that pass as bytes or may not change."""
    pids = range(case.processes)
    is_busy = rng.random() < 0.2
    return replace(
        case,
        faults=(*case.faults, *faults),
        busy_s={pid: rng.choice(BUSY_S) for pid in pids if is_busy and rng.random() < 0.5},
        idle_s=rng.choice((None, None, None, 0.0, 0.0005)),
        through=rng.choice(("bytes", "fingerprint", *("objects",) * 8)),
        is_watched=rng.random() < 0.1,
    )
