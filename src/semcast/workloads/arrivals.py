"""When messages are offered: gaps in seconds, one before each message."""

import math
from collections.abc import Iterable, Iterator
from itertools import repeat
from random import Random

from semcast.terms.errors import ConfigError


def constant(rate: float) -> Iterator[float]:
    """`rate` messages per second at equal intervals, for ever [SRM §6.1]."""
    return repeat(1 / _positive("rate", rate))


def poisson(rate: float, rng: Random) -> Iterator[float]:
    """`rate` messages per second on average, independent of each other, for ever."""
    _positive("rate", rate)
    return (rng.expovariate(rate) for _ in repeat(None))


def recorded(times_us: Iterable[int | None], speed: float = 1.0) -> Iterator[float]:
    """The gaps of a recording, played `speed` times as fast; the first is 0.

    A time that is missing or behind the one before gives a gap of 0: recordings merge clocks
    that differ, and order is the file's.
    """
    unit = 1e-6 / _positive("speed", speed)
    return _gaps(times_us, unit)


def _gaps(times_us: Iterable[int | None], unit: float) -> Iterator[float]:
    latest: int | None = None
    for time in times_us:
        if time is None or latest is None or time <= latest:
            yield 0.0
        else:
            yield (time - latest) * unit
        if time is not None and (latest is None or time > latest):
            latest = time


def _positive(field: str, value: float) -> float:
    if not (value > 0 and math.isfinite(value)):
        raise ConfigError(f"{field}: {value:g} is not allowed, must be above 0 and finite")
    return value
