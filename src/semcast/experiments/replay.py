"""A recording of yours through a group with one slow receiver.

Any keyed file (CSV, JSON lines, Parquet; `.gz` too) is the traffic: `file`, and the names of its
columns.  Messages are offered at `rate`, or at the pace of the `time` column if rate is 0.  The
model stands beside the simulation with the file's own distances [SRM §5.1, §6.5].
"""

from semcast.experiments.experiment import SUSTAINED, Experiment, Parameters, Row, Value
from semcast.experiments.simulated_group import SimulatedGroup, for_relation, recipe_of, recording
from semcast.faults import Constant, Link
from semcast.sim.network import Network
from semcast.terms.errors import ConfigError
from semcast.traces.keyed import KeyedRow, read_keyed
from semcast.workloads import arrivals
from semcast.workloads.distances import distances
from semcast.workloads.replay import replay, row_links

DEFAULTS: dict[str, Value] = {
    "file": "",
    "key": "key",
    "kind": "",
    "time": "",
    "payload": "",
    "rate": 1000.0,
    "delay_ms": 4.0,
    "protocol": "s-rm",
    "order": "fifo",
    "relation": "item",
    "purge": "eager",
    "members": 3,
    "f": 1,
    "k": 256,
    "buffer": 400,
    "latency_ms": 0.1,
    "period_ms": 30.0,
    "fanout": 3,
    "seconds": 20.0,
    "warmup_s": 5.0,
}


def rows_of(p: Parameters) -> list[KeyedRow]:
    """The file's rows in its own order."""
    if not p.text("file"):
        raise ConfigError("file: required; add --set file=PATH --set key=COLUMN")
    columns = {name: p.text(name) or None for name in ("kind", "time")}
    rows = list(
        read_keyed(p.text("file"), key=p.text("key"), size=p.text("payload") or None, **columns)
    )
    if not rows:
        raise ConfigError(f"file: {p.text('file')} has no rows")
    return rows


def rate_of(p: Parameters, rows: list[KeyedRow]) -> float:
    """Messages per second offered, on average."""
    if p["rate"]:
        return p.number("rate")
    times = [row[2] for row in rows if row[2] is not None]
    if len(times) < 2 or times[-1] <= times[0]:
        raise ConfigError(
            "rate: 0 replays the file's own timing, which needs an increasing time column "
            "(--set time=COLUMN)"
        )
    return len(times) / (times[-1] - times[0]) * 1e6


def run(p: Parameters, seed: int, trace: str | None) -> Row:
    """One recording through one group."""
    recipe, rows = recipe_of(p), rows_of(p)
    if recipe.members < 2:
        raise ConfigError(f"members: {recipe.members} is not at least 2: a sender and a receiver")
    rate, slow = rate_of(p, rows), recipe.members - 1
    gaps = arrivals.constant(rate) if p["rate"] else arrivals.recorded(row[2] for row in rows)
    seconds, warmup_s = p.span_s()
    if len(rows) / rate <= warmup_s:
        raise ConfigError(
            f"warmup_s: {warmup_s:g} s is longer than the file, which takes {len(rows) / rate:g} s"
        )
    seconds = min(seconds, len(rows) / rate)
    with recording(trace, "replay", recipe, seed, p) as record:
        group = SimulatedGroup(
            recipe,
            Network(recipe.members, Link(latency=Constant(p.duration_s("latency_ms")))),
            gaps,
            for_relation(replay(rows), recipe),
            seed=seed,
            seconds=seconds,
            warmup_s=warmup_s,
            service_s={slow: p.duration_s("delay_ms")},
            record=record,
        )
        meter = group.run()
    return {
        "messages": len(rows),
        "offered_rate": rate,
        "accepted_rate": meter.accepted_rate,
        "slow_rate": meter.rate(slow),
        "purged_ratio": meter.purged_ratio(slow),
        "fast_purged_ratio": meter.purged_ratio(1),
        "latency_mean_ms": meter.latency_ms(slow),
        "model_rate": _model_rate(p, rows, rate),
        "violations": group.violations,
    }


def _model_rate(p: Parameters, rows: list[KeyedRow], rate: float) -> float:
    from semcast.models.throughput import (  # numpy is an extra, and slow to import
        horizon,
        purge_ratio_of_distances,
        sender_rate,
    )

    recipe, delay_s = recipe_of(p), p.duration_s("delay_ms")
    reach = horizon(recipe.buffer, recipe.reach)
    purges = recipe.purges
    ratio = purge_ratio_of_distances(list(distances(row_links(rows))), reach) if purges else 0.0
    return float(sender_rate(rate, min(rate, 1 / delay_s) if delay_s else rate, ratio))


REPLAY = Experiment(
    "replay",
    "replay a keyed file to a group with one slow receiver",
    "SRM §6.5",
    DEFAULTS,
    run,
    answer=SUSTAINED,
)
