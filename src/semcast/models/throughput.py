"""The analytical model: how much a purging buffer lets a sender outrun a slow receiver.

D is the distance from a message back to the latest one it makes obsolete (0: none) and f its
probability mass function.  A full buffer of N messages is taken to hold the last N sent, so a
share R = f(1) + … + f(N) of the messages finds a predecessor to purge.  Every function
broadcasts over arrays; scalars in give a 0-d array out, which `float` accepts.

Rule: [SRM §5.1] equations 1 and 2, [SRM §6.1] equation 3.
Departs: [SRM §6.2] reads 75 msg/s off its figure for r = 0.25 and a delay of 20 ms, where its
own equations give 50 / (1 − 0.25) = 66.7; the equations stand.
The model is optimistic when independent messages fill the buffer, and pessimistic about small
buffers, where purging brings related messages closer [SRM §6.2].
"""

from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from semcast.terms.errors import ConfigError

Floats: TypeAlias = NDArray[np.float64]


def distance_pmf(r: ArrayLike, d: ArrayLike, x: ArrayLike) -> Floats:
    """f_{r,d}(x): a share `r` of messages overwrites, each one of `d` items at random."""
    r, d = _overwrites(r, d)
    x = _whole("x", x)
    step = r / d
    # x = 0 is answered by the other branch; the exponent only has to stay defined there.
    related = r * (1 - step) ** np.maximum(x - 1, 0) * step
    return np.asarray(np.where(x == 0, 1 - r, related))  # [SRM §6.1] eq. 3


def purge_ratio(r: ArrayLike, d: ArrayLike, n: ArrayLike) -> Floats:
    """R for f_{r,d}: the geometric sum r (1 − (1 − r/d)^n)."""
    r, d = _overwrites(r, d)
    n = _whole("n", n)
    return np.asarray(r * (1 - (1 - r / d) ** n))  # [SRM §5.1]


def purge_ratio_limit(r: ArrayLike, d: ArrayLike) -> Floats:
    """R* for f_{r,d}, the bound that no buffer exceeds: r itself."""
    r, d = _overwrites(r, d)
    return np.asarray(np.broadcast_arrays(r, d)[0].copy())  # [SRM §5.1]


def purge_ratio_of_pmf(pmf: ArrayLike, n: ArrayLike) -> Floats:
    """R for any f given as the array f(0), f(1), …; what lies beyond its end counts as 0."""
    f = _shares("pmf", pmf)
    upto = np.concatenate(([0.0], np.cumsum(f[1:])))
    reach = np.minimum(_whole("n", n), len(upto) - 1).astype(np.int64)
    return np.asarray(upto[reach])  # [SRM §5.1]


def purge_ratio_of_distances(distances: ArrayLike, n: ArrayLike) -> Floats:
    """R of a recorded stream: the share of all its messages with 1 ≤ D ≤ n."""
    observed = np.sort(_whole("distances", distances), axis=None)
    if observed.size == 0:
        raise ConfigError("distances: empty, needs at least one message")
    related = np.searchsorted(observed, _whole("n", n), side="right")
    independent = np.searchsorted(observed, 0, side="right")
    return np.asarray((related - independent) / observed.size)


def purge_ratio_of_items(probabilities: ArrayLike, n: ArrayLike) -> Floats:
    """R when each message updates item i with probability p_i: Σ p_i (1 − (1 − p_i)^n).

    Probabilities that sum to less than 1 leave the rest to independent messages.
    """
    p = _shares("probabilities", probabilities)
    # One term for each distinct p: a catalogue has many items and few frequencies.
    values, counts = np.unique(p, return_counts=True)
    missed = (1 - values) ** _whole("n", n)[..., np.newaxis]
    return np.asarray(np.sum(counts * values * (1 - missed), axis=-1))


def horizon(buffer: ArrayLike, k: ArrayLike | None = None) -> Floats:
    """The farthest distance that can be purged: `buffer`, or the bitmap's `k` if shorter."""
    n = _whole("buffer", buffer)
    return n if k is None else np.asarray(np.minimum(n, _whole("k", k)))  # [SRM §6.2]


def sender_rate(ts: ArrayLike, tr: ArrayLike, ratio: ArrayLike) -> Floats:
    """T: what leaves a sender that offers `ts` while the slowest receiver takes `tr`."""
    ts, tr, remaining = _positive("ts", ts), _positive("tr", tr), 1 - _share("ratio", ratio)
    # Where everything can be purged (kept = 0) the receiver is no bound at all.
    bound = np.divide(
        tr, remaining, out=np.full(np.broadcast(tr, remaining).shape, np.inf), where=remaining > 0
    )
    return np.asarray(np.minimum(ts, bound))  # [SRM §5.1] eq. 1


def receiver_rate(ts: ArrayLike, tr: ArrayLike, ratio: ArrayLike) -> Floats:
    """T′: what the slow receiver consumes."""
    return np.asarray(np.minimum(sender_rate(ts, tr, ratio), _positive("tr", tr)))  # eq. 2


def purged_share(ts: ArrayLike, tr: ArrayLike, ratio: ArrayLike) -> Floats:
    """1 − T′/T: the share of the sender's messages purged on the way to the slow receiver."""
    return np.asarray(1 - receiver_rate(ts, tr, ratio) / sender_rate(ts, tr, ratio))


def _overwrites(r: ArrayLike, d: ArrayLike) -> tuple[Floats, Floats]:
    r, d = _share("r", r), _positive("d", d)
    _require(r <= d, "d", d, "at least r, since r/d is a probability")
    return r, d


def _share(field: str, value: ArrayLike) -> Floats:
    numbers = _numbers(field, value)
    _require((numbers >= 0) & (numbers <= 1), field, numbers, "0 to 1")
    return numbers


def _shares(field: str, value: ArrayLike) -> Floats:
    numbers = np.atleast_1d(_share(field, value))
    if numbers.ndim != 1 or numbers.size == 0:
        raise ConfigError(f"{field}: has shape {numbers.shape}, must be a list of shares")
    # Sums of many rounded shares may miss 1 by a little.
    if numbers.sum() > 1 + 1e-9:
        raise ConfigError(f"{field}: sums to {numbers.sum():.6g}, must be at most 1")
    return numbers


def _positive(field: str, value: ArrayLike) -> Floats:
    numbers = _numbers(field, value)
    _require((numbers > 0) & np.isfinite(numbers), field, numbers, "above 0 and finite")
    return numbers


def _whole(field: str, value: ArrayLike) -> Floats:
    numbers = _numbers(field, value)
    _require((numbers >= 0) & (np.mod(numbers, 1) == 0), field, numbers, "whole, 0 or more")
    return numbers


def _numbers(field: str, value: ArrayLike) -> Floats:
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ConfigError(f"{field}: {value!r} is not a number or an array of numbers") from None


def _require(holds: NDArray[np.bool_], field: str, numbers: Floats, allowed: str) -> None:
    if not np.all(holds):
        culprit = np.broadcast_to(numbers, np.shape(holds))[~holds].flat[0]
        raise ConfigError(f"{field}: {culprit:g} is not allowed, must be {allowed}")
