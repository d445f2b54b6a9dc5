"""Traffic whose obsolescence distance follows f_{r,d}: the parameters say what it is like.

A message overwrites with probability `r` and then updates one of `d` items, each as likely;
otherwise it is independent: it has no item, makes nothing obsolete and never becomes so.  The
item just updated was last updated x messages ago with probability (1 − r/d)^(x−1) r/d, which
gives equation 3 once every item has been updated before.

Rule: [SRM §6.1] equation 3.
Departs: the formula allows any real d ≥ r; a stream has a whole number of items.
"""

from collections.abc import Iterator
from itertools import count
from random import Random

from semcast.terms.errors import ConfigError
from semcast.terms.items import item_tag
from semcast.terms.messages import Update
from semcast.workloads.payloads import numbered_payload


def overwrites(r: float, d: int, rng: Random, *, size: int = 64) -> Iterator[Update]:
    """An endless stream; every payload has `size` bytes and begins with its number."""
    if not 0 <= r <= 1:
        raise ConfigError(f"r: {r:g} is not allowed, must be 0 to 1")
    if d < 1 or d != int(d):
        raise ConfigError(f"d: {d:g} is not allowed, must be whole, 1 or more")
    if size < 0:
        raise ConfigError(f"size: {size} is not allowed, must be 0 or more")
    tags = [item_tag(f"item-{number}") for number in range(int(d))]
    return _stream(r, tags, rng, size)


def _stream(r: float, tags: list[int], rng: Random, size: int) -> Iterator[Update]:
    for number in count():
        item = rng.choice(tags) if rng.random() < r else None
        yield Update(payload=numbered_payload(number, size), item=item)
