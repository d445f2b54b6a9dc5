"""How large a buffer and a bitmap must be for a stream, or why none is large enough.

A stream is described by the distribution of its obsolescence distances.  The smallest buffer N
and bitmap length k that find a large enough share of the related pairs are the ones to choose.
Rule: [SRM §6.5], with equation 1 of [SRM §5.1] solved for R: T = Ts needs R ≥ 1 − Tr / Ts.
"""

from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from semcast.models.throughput import Floats, sender_rate
from semcast.terms.errors import ConfigError

Integers: TypeAlias = NDArray[np.int64]

DEFAULT_PAIR_SHARE: Final = 0.9  # what is found of all related pairs when no rates are given


class DistanceCurve(NamedTuple):
    """The distances of a stream, at some of them: how many messages have 1 ≤ D ≤ x.

    What is asked at an x between two of them is answered for the lower one.
    """

    messages: int
    superseded: int  # messages that some later one supersedes
    x: Integers  # ascending, at least 1
    upto: Integers

    @property
    def related(self) -> int:
        """Messages that supersede another."""
        return int(self.upto[-1]) if self.upto.size else 0

    @property
    def never_obsolete(self) -> float:
        """The share of messages that no later one supersedes."""
        return 1 - self.superseded / self.messages if self.messages else 1.0

    @property
    def limit(self) -> float:
        """R*, the share that no buffer exceeds; and no more is purged than is ever superseded.

        The two differ only where one message is superseded by several, or several by one.
        """
        if not self.messages:
            return 0.0
        return min(self.related, self.superseded) / self.messages  # [SRM §5.1]

    def purge_ratio(self, n: ArrayLike) -> Floats:
        """R: the share of all messages with 1 ≤ D ≤ n."""
        found = np.append(0, self.upto)[np.searchsorted(self.x, n, "right")]
        return np.asarray(found / max(self.messages, 1), np.float64)  # [SRM §5.1]

    def percentile(self, share: float) -> int | None:
        """The smallest distance that such a share of all distances does not exceed."""
        return self._first(share * self.related) if self.related else None

    def min_buffer(self, rates: "Rates") -> int | None:
        """The smallest N for which R is enough for the sender to go undisturbed."""
        return self._first(rates.required_purge_ratio * self.messages)

    def _first(self, needed: float) -> int | None:
        # The product of a share and a count may miss a whole number by a little.
        place = int(np.searchsorted(self.upto, needed * (1 - 1e-12)))
        return int(self.x[place]) if place < self.x.size else None


class Rates(NamedTuple):
    """What a sender wants to send and its slowest receiver can take, in messages per second."""

    sender: float
    receiver: float

    @property
    def required_purge_ratio(self) -> float:
        """R for which equation 1 gives T = Ts."""
        return max(0.0, 1 - self.receiver / self.sender)  # [SRM §5.1] eq. 1

    @classmethod
    def given(cls, sender: float | None, receiver: float | None) -> "Rates | None":
        """Both or neither."""
        for name, rate in (("sender-rate", sender), ("receiver-rate", receiver)):
            if rate is not None and not (0 < rate < float("inf")):
                raise ConfigError(f"{name}: {rate:g} is not allowed, must be above 0 and finite")
        if sender is not None and receiver is not None:
            return cls(sender, receiver)
        if sender is not receiver:
            missing = "sender-rate" if sender is None else "receiver-rate"
            raise ConfigError(
                f"{missing}: required, because the other rate is given; give both or none"
            )
        return None


class Advice(NamedTuple):
    """`buffer` and `k` are None when no buffer suffices; the rate is then the best there is."""

    buffer: int | None
    k: int | None
    predicted_rate: float | None
    reason: str


def advise(stream: DistanceCurve, rates: Rates | None) -> Advice:
    """The smallest N and k that admit the wanted rate [SRM §6.5].

    Without rates: those that find nine tenths of the related pairs.
    """
    if not stream.messages:
        return Advice(None, None, None, "the stream has no messages")
    if rates is None:
        return _advise_without_rates(stream)
    if not rates.required_purge_ratio:
        return Advice(1, 0, rates.sender, "the receiver keeps up: nothing needs to be purged")
    n = stream.min_buffer(rates)
    if n is None or stream.limit < rates.required_purge_ratio * (1 - 1e-12):
        needed, readable = _percentages(1 - stream.limit, rates.receiver / rates.sender)
        best = float(sender_rate(rates.sender, rates.receiver, stream.limit))
        return Advice(
            *(None, None, best),
            f"no buffer is large enough: {needed} of the messages are never superseded, "
            f"and the receiver can read {readable}",
        )
    [purged] = _percentages(rates.required_purge_ratio)
    return Advice(
        *(n, n, rates.sender),  # One horizon for both: a longer k is never used. [SRM §6.2]
        f"{purged} of the messages must be purged, and that many are superseded within {n:,} "
        "messages",
    )


def _advise_without_rates(stream: DistanceCurve) -> Advice:
    n = stream.percentile(DEFAULT_PAIR_SHARE)
    if n is None:
        return Advice(None, None, None, "no message of this stream supersedes another")
    ratio = min(float(stream.purge_ratio(n)), stream.limit)
    faster = "any number of" if ratio == 1 else f"{1 / (1 - ratio):.3g}"
    [purged] = _percentages(ratio)
    return Advice(
        *(n, n, None),
        f"{purged} of the messages are superseded within {n:,} messages, nine tenths of all that "
        f"are ever superseded; the sender may be {faster} times as fast as the slowest receiver",
    )


def _percentages(*shares: float) -> list[str]:
    """As few digits as tell them apart."""
    for digits in (0, 1, 2):
        texts = [f"{100 * share:.{digits}f} %" for share in shares]
        if len(set(texts)) == len(texts):
            break
    return texts
