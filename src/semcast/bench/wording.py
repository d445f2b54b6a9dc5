"""A benchmark's numbers in words with their units, and its answer as one sentence."""

from collections.abc import Mapping, Sequence
from typing import Final

from semcast.bench.benchmark import BenchRow, BenchSettings, label

WORDS: Final[Mapping[str, str]] = {
    "rate": "delivered at every fast receiver (messages/s)",
    "sender_rate": "sent (messages/s)",
    "cpu_us_per_delivery": "processor time per delivery (µs)",
    "missed_ratio": "missed by a fast receiver (%)",
    "latency_p50_us": "one-way latency, median (µs)",
    "latency_p99_us": "one-way latency, p99 (µs)",
    "slow_rate": "delivered at the slow receiver (messages/s)",
    "purged_ratio": "skipped by the slow receiver (%)",
    "wrong_items": "items wrong at the slow receiver in the end",
    "staleness_p50_ms": "age of its hot items, median (ms)",
    "staleness_p99_ms": "age of its hot items, p99 (ms)",
    "memory_growth_mib": "memory gained by a process (MiB)",
}
BUSY_SHARE: Final = 0.5  # Of the cores: with more of them taken, numbers say little.


def in_table(key: str, value: float | None) -> float | None:
    """A number as the table shows it: shares in per cent."""
    return 100 * value if key.endswith("_ratio") and value is not None else value


def answer(name: str, settings: BenchSettings, rows: Sequence[BenchRow]) -> str:
    """What came out for the first row, Semcast, as one sentence."""
    row = rows[0]
    subject = label(row).capitalize()
    if name == "throughput":
        every = "the receiver" if settings.receivers == 1 else "every receiver"
        return f"{subject} delivers {row['rate']:,.0f} messages/s to {every}."
    if name == "latency":
        p50, p99 = row["latency_p50_us"], row["latency_p99_us"]
        if p50 is None:
            return f"{subject} delivered nothing."
        return f"{subject} takes {p50:,.0f} µs in the median and {p99:,.0f} µs at p99."
    fresh = row["staleness_p50_ms"]
    age = "" if fresh is None else f", {fresh:,.0f} ms old in the median"
    return (
        f"{subject} delivers {row['rate']:,.0f} messages/s to the fast receivers; the slow one "
        f"has {row['wrong_items']:,.0f} wrong items{age}."
    )


def busy_warning(surroundings: Mapping[str, str | float]) -> str:
    """Says that the machine was not free, "" if it was."""
    load, cores = float(surroundings["load"]), int(surroundings["cores"])
    if load <= BUSY_SHARE * cores:
        return ""
    return (
        f"warning: the machine was busy before the runs (load {load:g} on {cores} cores): do not "
        "compare these numbers with others"
    )
