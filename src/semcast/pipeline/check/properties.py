"""The properties that can be verified, by name: each a function from a trace to its violations.

A function judges every run of the trace that it is given, whatever that run promises; which runs
to give it is for `verdict.py` to say.  A liveness property speaks of what has happened by the end,
so it is given only runs that were left to fall quiet.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Final, TypeAlias

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from semcast.pipeline.check import causality, run_monitors, streams
from semcast.pipeline.check.durability import durability
from semcast.pipeline.check.loggers import (
    claimed,
    collection_safety,
    owed_messages,
    reliable_delivery,
)
from semcast.pipeline.check.run_facts import with_processes
from semcast.pipeline.check.total_order import confirmation, prefix_delivery, total_order
from semcast.pipeline.check.view_synchrony import compared, semantic_view_synchrony
from semcast.pipeline.check.views import (
    following_views,
    primary_order,
    sending_view_delivery,
    view_order,
)
from semcast.pipeline.reading.trace import TraceTables


@dataclass(frozen=True, slots=True)
class Property:
    """How a property is judged.  `needs_witness`: only from recorded positions and versions.
    `obligations` counts how often it could have been broken, where the number of events that it
    judges says too little: one row with that column."""

    violations: Callable[[TraceTables], DataFrame]
    needs_witness: bool = False
    obligations: Callable[[TraceTables], DataFrame] | None = None


PropertyGroup: TypeAlias = Callable[[TraceTables, Mapping[str, Column | None]], DataFrame]

# Properties that share one reading of the trace, by what reads it.
PROPERTY_GROUPS: Final[Mapping[PropertyGroup, Sequence[str]]] = {
    streams.violations: tuple(streams.RULES),
    run_monitors.violations: run_monitors.NAMES,
    causality.violations: causality.NAMES,
}


def _one_of(family: PropertyGroup, name: str) -> Property:
    def violations(trace: TraceTables) -> DataFrame:
        return family(trace, {name: None})

    return Property(violations)


PROPERTIES: Final[Mapping[str, Property]] = {
    **{name: _one_of(family, name) for family, names in PROPERTY_GROUPS.items() for name in names},
    "view_order": Property(view_order),
    "sending_view_delivery": Property(sending_view_delivery),
    "semantic_view_synchrony": Property(semantic_view_synchrony, obligations=compared),
    "primary_order": Property(primary_order, obligations=following_views),
    "total_order": Property(total_order),
    "prefix_delivery": Property(prefix_delivery),
    "confirmation": Property(confirmation),
    "reliable_delivery": Property(reliable_delivery, obligations=owed_messages),
    "collection_safety": Property(collection_safety, obligations=claimed),
    "durability": Property(durability),
    "sequential_consistency": replace(
        _one_of(run_monitors.violations, "sequential_consistency"), needs_witness=True
    ),
}


def violations_of(trace: TraceTables, judged: Mapping[str, Column | None]) -> DataFrame | None:
    """All violations of the named properties, each on the runs of which its condition holds
    (over the columns of `run_facts.with_processes`; None: on all)."""
    frames, left, apart = [], dict(judged), _with_views(judged)
    if apart:
        frames.append(run_monitors.violations(trace, apart))
        left |= {name: _without_views(judged[name]) for name in apart}
    for family, names in PROPERTY_GROUPS.items():
        if together := {name: left.pop(name) for name in names if name in left}:
            frames.append(family(trace, together))
    for name, where in left.items():
        frames.append(PROPERTIES[name].violations(filter_runs(trace, where)))
    return reduce(DataFrame.unionByName, frames) if frames else None


def _with_views(judged: Mapping[str, Column | None]) -> dict[str, Column | None]:
    """Those properties that are judged otherwise where there are views, with the condition."""
    has_views = F.col("protocol").isin(*run_monitors.HAVE_VIEWS)
    chosen = {name: judged[name] for name in run_monitors.IN_VIEWS if name in judged}
    return {
        name: has_views if condition is None else has_views & condition
        for name, condition in chosen.items()
    }


def _without_views(condition: Column | None) -> Column:
    has_none = ~F.col("protocol").isin(*run_monitors.HAVE_VIEWS)
    return has_none if condition is None else has_none & condition


def filter_runs(trace: TraceTables, condition: Column | None) -> TraceTables:
    """The trace without the runs of which the condition does not hold."""
    if condition is None:
        return trace
    runs = with_processes(trace).where(condition).select("run_id")
    return TraceTables(*(table.join(F.broadcast(runs), "run_id", "left_semi") for table in trace))
