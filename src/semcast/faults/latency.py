"""How long a datagram travels, and any other random duration: four distributions.

Each is a value; chance comes in as the caller's generator.  No draw is negative, so a datagram
never arrives before it was sent.
"""

from random import Random
from typing import TypeAlias

import msgspec

from semcast.terms.errors import ConfigError
from semcast.terms.limits import check_finite


class Constant(msgspec.Struct, frozen=True, tag="constant"):
    """Always `s` seconds."""

    s: float

    def __post_init__(self) -> None:
        check_finite("s", self.s)

    def draw(self, rng: Random) -> float:
        """Consumes no randomness."""
        return self.s


class Uniform(msgspec.Struct, frozen=True, tag="uniform"):
    """Between `low_s` and `high_s`, all equally likely."""

    low_s: float
    high_s: float

    def __post_init__(self) -> None:
        check_finite("low_s", self.low_s)
        check_finite("high_s", self.high_s)
        if self.high_s < self.low_s:
            raise ConfigError(f"high_s: {self.high_s!r} is not at least low_s {self.low_s!r}")

    def draw(self, rng: Random) -> float:
        """One draw."""
        return self.low_s + (self.high_s - self.low_s) * rng.random()


class Exponential(msgspec.Struct, frozen=True, tag="exponential"):
    """`floor_s` plus an exponential part of mean `mean_s`."""

    mean_s: float
    floor_s: float = 0.0

    def __post_init__(self) -> None:
        check_finite("mean_s", self.mean_s)
        check_finite("floor_s", self.floor_s)

    def draw(self, rng: Random) -> float:
        """One draw; mean 0 is the floor alone."""
        return self.floor_s + (rng.expovariate(1.0 / self.mean_s) if self.mean_s else 0.0)


class LogNormal(msgspec.Struct, frozen=True, tag="lognormal"):
    """`floor_s` plus a part with median `median_s` whose logarithm has deviation `sigma`."""

    median_s: float
    sigma: float
    floor_s: float = 0.0

    def __post_init__(self) -> None:
        check_finite("median_s", self.median_s)
        check_finite("sigma", self.sigma)
        check_finite("floor_s", self.floor_s)

    def draw(self, rng: Random) -> float:
        """One draw; the heavy tail of real networks."""
        return self.floor_s + self.median_s * rng.lognormvariate(0.0, self.sigma)


Latency: TypeAlias = Constant | Uniform | Exponential | LogNormal
