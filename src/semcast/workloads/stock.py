"""Quotes of a stock-trading application: 875 stocks, half of all quotes on 25 of them.

Rule: [SRB §3.2], the table of item access frequencies.
"""

from collections.abc import Iterator
from itertools import accumulate, count
from random import Random
from typing import Final

from semcast.terms.errors import ConfigError
from semcast.terms.items import item_tag
from semcast.terms.messages import Update
from semcast.workloads.payloads import numbered_payload

# (number of stocks, share of all quotes that falls on them together) [SRB §3.2]
STOCK_GROUPS: Final = ((25, 0.50), (100, 0.40), (750, 0.10))
STOCKS: Final = sum(stocks for stocks, _ in STOCK_GROUPS)


def stock_probabilities() -> tuple[float, ...]:
    """The probability that a quote is of each stock, in the order of their numbers."""
    return tuple(share / stocks for stocks, share in STOCK_GROUPS for _ in range(stocks))


def quotes(rng: Random, *, size: int = 64) -> Iterator[Update]:
    """An endless stream of quotes; every payload has `size` bytes and begins with its number."""
    if size < 0:
        raise ConfigError(f"size: {size} is not allowed, must be 0 or more")
    tags = [item_tag(name) for name in _names()]
    bounds = list(accumulate(stock_probabilities()))
    return _stream(tags, bounds, rng, size)


def quote_requests(rng: Random, items_max: int) -> Iterator[tuple[str, ...]]:
    """Endless requests that update 1 to `items_max` stocks each, all equally likely [SVS §6]."""
    if not 1 <= items_max <= STOCKS:
        raise ConfigError(f"items_max: {items_max} is not in 1..{STOCKS}")
    return _requests(rng, items_max)


def _requests(rng: Random, items_max: int) -> Iterator[tuple[str, ...]]:
    names, bounds = _names(), list(accumulate(stock_probabilities()))
    while True:
        wanted = rng.randint(1, items_max)
        chosen: dict[str, None] = {}  # a set that keeps its order
        while len(chosen) < wanted:
            [name] = rng.choices(names, cum_weights=bounds)
            chosen[name] = None
        yield tuple(chosen)


def _names() -> list[str]:
    return [f"stock-{number}" for number in range(STOCKS)]


def _stream(tags: list[int], bounds: list[float], rng: Random, size: int) -> Iterator[Update]:
    for number in count():
        [item] = rng.choices(tags, cum_weights=bounds)
        yield Update(payload=numbered_payload(number, size), item=item)
