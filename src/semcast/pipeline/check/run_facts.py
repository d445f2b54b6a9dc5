"""What the properties need to know of a run as a whole, one row each.

A process is owed what liveness promises if it never crashed and nobody went on without it.  A
member that left with everything done, after the last multicast, was owed what all were.
"""

from collections.abc import Mapping
from math import isfinite
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from semcast.pipeline.check.event_files import kind_of
from semcast.pipeline.reading.trace import TraceTables
from semcast.terms.events import CRASH, DRAINED, LEAVE, MULTICAST

_DEPARTURES: Final = "array<struct<pid:int,ts_ns:bigint,is_done:boolean>>"
SKEW: Final = "skew_ms"  # parameter of a run: by how much clocks of two processes may differ


def with_skew(trace: TraceTables, skew_ms: float) -> TraceTables:
    """The same trace, all of whose clocks differ by at most so much; infinity: nobody knows."""
    others = F.map_filter("parameters", lambda name, _: name != SKEW)
    known = F.create_map(F.lit(SKEW), F.lit(str(skew_ms))) if isfinite(skew_ms) else F.create_map()
    parameters = F.map_concat(others, known.cast("map<string,string>"))
    return trace._replace(runs=trace.runs.withColumn("parameters", parameters))


def with_processes(trace: TraceTables) -> DataFrame:
    """The runs, with the processes recorded (`pids`), those of them that never crashed (`correct`)
    and those that should be there and are not (`absent`).  One task is enough for them, and what it
    has need not be moved."""
    processes = (
        trace.processes.coalesce(1)
        .groupBy("run_id")
        .agg(
            F.sort_array(F.collect_set("pid")).alias("pids"),
            F.collect_set(F.when(F.col("correct"), F.col("pid"))).alias("correct"),
        )
    )
    members = F.coalesce(F.expr("try_cast(parameters['members'] as int)"), F.size("pids"))
    nobody = F.array().cast("array<int>")
    everyone = F.when(members > 0, F.sequence(F.lit(0), members - 1)).otherwise(nobody)
    return (
        trace.runs.coalesce(1)
        .join(processes, "run_id", "left")
        .withColumn("pids", F.coalesce("pids", nobody))
        .withColumn("correct", F.coalesce("correct", nobody))
        .withColumn("absent", F.array_except(everyone, "pids"))
    )


def run_facts(trace: TraceTables, judged: Mapping[str, Column | None]) -> DataFrame:
    """Runs of which something is to be judged, as one JSON object each (`run`): protocol, relation,
    f, n, recovery and skew_ns (if they are known), owed, who was left behind when (`left`), and the
    names of the properties (`judged`)."""
    names = (
        F.lit(name) if condition is None else F.when(condition, F.lit(name))
        for name, condition in judged.items()
    )
    wanted = F.filter(F.array(*names), lambda name: name.isNotNull())
    skew_ms = F.expr(f"try_cast(parameters['{SKEW}'] as double)")
    gone = F.array_union("crashed", F.transform("left", lambda one: one["pid"]))
    facts = F.struct(
        "protocol",
        F.substring_index("relation", ":", 1).alias("relation"),
        F.coalesce("f", F.lit(0)).alias("f"),
        (F.coalesce(F.array_max("pids"), F.lit(-1)) + 1).alias("n"),
        F.col("parameters")["recovery"].alias("recovery"),
        (skew_ms * 1e6).cast("bigint").alias("skew_ns"),
        F.array_except("correct", gone).alias("owed"),
        "left",
        "judged",
    )
    runs = with_processes(trace).withColumn("judged", wanted).where(F.size("judged") > 0)
    known = _with_departures if _has_kind_files(trace.events, LEAVE, CRASH) else _with_everybody
    return known(runs, trace.events).select("run_id", F.to_json(facts).alias("run"))


def _has_kind_files(events: DataFrame, *kinds: str) -> bool:
    """Whether there can be events of these kinds, by the names of the files."""
    files = events.inputFiles()
    return not files or any(kind_of(file) in kinds for file in files)


def _with_everybody(runs: DataFrame, _: DataFrame) -> DataFrame:
    """The same as `_with_departures` where nobody crashed or left."""
    nobody, none = F.array().cast("array<int>"), F.array().cast(_DEPARTURES)
    return runs.withColumns({"crashed": nobody, "left": none})


def _with_departures(runs: DataFrame, events: DataFrame) -> DataFrame:
    """The runs, with who crashed (`crashed`) and who was left behind when (`left`)."""
    sent = events.where(F.col("kind") == MULTICAST)
    last = sent.groupBy("run_id").agg(F.max("ts_ns").alias("last_ns"))
    is_done = F.coalesce(F.col("attrs")["reason"] == DRAINED, F.lit(False))
    departure = F.struct(F.col("peer").alias("pid"), "ts_ns", is_done.alias("is_done"))
    is_left = (F.col("kind") == LEAVE) & F.isnotnull("peer")
    gone = events.where(F.col("kind").isin(LEAVE, CRASH)).groupBy("run_id")
    left = gone.agg(
        F.collect_set(F.when(F.col("kind") == CRASH, F.col("pid"))).alias("crashed"),
        F.collect_set(F.when(is_left, departure)).alias("left"),
    )
    counts = F.filter("left", lambda one: ~(one["is_done"] & (one["ts_ns"] >= F.col("last_ns"))))
    known = runs.join(last, "run_id", "left").join(left, "run_id", "left")
    return known.withColumns(
        {
            "crashed": F.coalesce("crashed", F.array().cast("array<int>")),
            "left": F.coalesce(counts, F.array().cast(_DEPARTURES)),
        }
    )
