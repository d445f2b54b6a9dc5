"""A stock ticker with one slow reader.

    python examples/ticker.py            three processes: a publisher, a fast and a slow reader

or one of these in each of three terminals:

    python examples/ticker.py publish
    python examples/ticker.py watch
    python examples/ticker.py watch 0.005        five milliseconds for every quote

The publisher never waits for the slow reader.  What the slow reader cannot take in time is
superseded by newer quotes; `message.skipped` tells it how many those were.
"""

import asyncio
import os
import random
import signal
import sys
from multiprocessing import Pool

import semcast

SYMBOLS = [f"{letter}CME" for letter in "ABCDEFGHIJKLMNOPQRST"]
QUOTES = 4_000
TICK_S = 0.005  # ten quotes every tick
MEMBERS = 3


async def publish(group_name: str) -> dict[str, str]:
    """Quote prices at random, then say that the market is closed; returns the last prices."""
    prices = dict.fromkeys(SYMBOLS, 100.0)
    async with semcast.join(group_name, members=MEMBERS, name="exchange") as group:
        print(f"{group.member}: open, with {', '.join(group.members)}")
        for number in range(1, QUOTES + 1):
            symbol = random.choice(SYMBOLS)
            prices[symbol] *= random.uniform(0.99, 1.01)
            # Supersedes what was sent about this symbol before.
            await group.multicast(f"{prices[symbol]:.2f}".encode(), item=symbol)
            if number % 10 == 0:
                await asyncio.sleep(TICK_S)
        await group.multicast(b"closed", never_purge=True)
    return {symbol: f"{price:.2f}" for symbol, price in prices.items()}


async def watch(group_name: str, seconds_per_quote: float) -> tuple[dict[str, str], int, int]:
    """Read until the market closes; returns the last prices, how many were read, how many not."""
    prices = dict.fromkeys(SYMBOLS, "100.00")
    read = skipped = 0
    async with semcast.join(group_name, members=MEMBERS) as group:
        async for message in group:
            skipped += message.skipped
            if message.item is None:
                break  # the market is closed
            read += 1
            prices[message.item] = message.payload.decode()
            if seconds_per_quote:
                await asyncio.sleep(seconds_per_quote)
    print(f"{group.member}: read {read:,} quotes, skipped {skipped:,}")
    return prices, read, skipped


def run_publisher(group_name: str) -> dict[str, str]:
    return asyncio.run(publish(group_name))


def run_watcher(group_name: str, seconds_per_quote: float) -> tuple[dict[str, str], int, int]:
    return asyncio.run(watch(group_name, seconds_per_quote))


def main() -> int:
    group_name = f"ticker-{os.getpid()}"  # Two runs at the same time must not meet.
    # Ctrl-C reaches this process alone, and `with` ends the others.
    with Pool(MEMBERS, signal.signal, (signal.SIGINT, signal.SIG_IGN)) as processes:
        publisher = processes.apply_async(run_publisher, (group_name,))
        fast = processes.apply_async(run_watcher, (group_name, 0.0))
        slow = processes.apply_async(run_watcher, (group_name, 0.005))
        prices = publisher.get()
        fast_prices, fast_read, fast_skipped = fast.get()
        slow_prices, slow_read, slow_skipped = slow.get()

    accounted = fast_read + fast_skipped == slow_read + slow_skipped == QUOTES
    agreed = prices == fast_prices == slow_prices
    print(
        f"\n{QUOTES:,} quotes were published."
        f"\nThe fast reader read {fast_read:,} of them, the slow one {slow_read:,}."
        f"\nNewer quotes had replaced the {slow_skipped:,} that the slow one skipped."
        f"\nEvery quote is accounted for: {accounted}."
        f"\nAll have the same last prices: {agreed}."
    )
    return 0 if accounted and agreed and slow_skipped else 1


if __name__ == "__main__":
    try:
        if sys.argv[1:2] == ["publish"]:
            run_publisher("ticker")
        elif sys.argv[1:2] == ["watch"]:
            run_watcher("ticker", float(sys.argv[2]) if sys.argv[2:] else 0.0)
        else:
            sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
