"""Spark finds what the monitors find: in sound and in broken executions, of every kind of protocol.

Many executions are runs of one trace, mutants of the protocol among them: a check of so little
takes the time of its queries, not that of its data.
"""

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from pathlib import Path
from typing import NamedTuple

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from semcast.families.fixed.scenarios import SCENARIOS
from semcast.pipeline.check import streams, verdict
from semcast.pipeline.check.lineages import by_lineage
from semcast.pipeline.check.properties import PROPERTIES
from semcast.pipeline.check.verdict import check, violations_in
from semcast.pipeline.reading.trace import TraceTables
from semcast.specs.service import NO_WITNESS
from semcast.specs.verdict import AT_THE_END, NOT_APPLICABLE
from semcast.terms import promises
from semcast.terms.promises import promised

FEWER = 300
MULTICASTS = "multicasts"
TOGETHER = {MULTICASTS, "services"}  # All properties of such a family are one reading of the trace.
# Judged by the protocol: of partitionable views only those of services promise the first.
MIXED = {"primary_order", "purge_safety"}
# A delivery that is late for several reasons, or after several, may be told of more than once.
NOT_COUNTED = "item_order"
SYNCHRONY = "semantic_view_synchrony"
GRANTED = {"sending_view_delivery", "total_order"}  # by the query for it


class Found(NamedTuple):
    """Executions drawn at random and, after them, simulated ones; what Spark found in each."""

    drawn: list
    simulated: list
    violations: list[Counter[str]]


@pytest.fixture(scope="module")
def pool():
    """While the queries of one family are planned, those of another can run."""
    threads = ThreadPoolExecutor(2)
    yield threads
    threads.shutdown(cancel_futures=True)


@pytest.fixture(scope="module")
def simulated(executions, pool):
    return pool.submit(executions.mutants.drawn)


@pytest.fixture(scope="module", autouse=True)
def planned_once(simulated, spark):
    """Many small stages: replanning each would take longer than running it.  The simulator runs
    while Spark starts."""
    settings = {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "1"}
    before = {name: spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield
    for name, value in before.items():
        spark.conf.set(name, value)


@pytest.fixture(scope="module")
def found(as_trace, executions, simulated, pool, tmp_path_factory):
    """By family, what Spark finds in its executions."""

    def find(name: str, folder: Path) -> Found:
        family = executions.FAMILIES[name]
        drawn, others = family.drawn(), [run for run in simulated.result() if family.takes(run)]
        trace, restored = by_lineage(as_trace(folder, [*drawn, *others]))
        each = [family.names] if name in TOGETHER else [[one] for one in family.names]
        frames = (asked(trace, names) for names in each)
        violations = restored(reduce(DataFrame.unionByName, frames))
        return Found(drawn, others, counted(violations, len(drawn) + len(others)))

    folders = {name: tmp_path_factory.mktemp("agrees") for name in executions.FAMILIES}
    return {name: pool.submit(find, name, folder) for name, folder in folders.items()}


def asked(trace: TraceTables, names: Sequence[str]) -> DataFrame:
    """On the runs that promise it where a trace has others too, or else directly."""
    if len(names) > 1 or MIXED & set(names):
        return violations_in(trace, names)
    return PROPERTIES[names[0]].violations(trace)


def counted(violations, runs: int) -> list[Counter[str]]:
    """By property, for each of so many runs."""
    counts: list[Counter[str]] = [Counter() for _ in range(runs)]
    for row in violations.groupBy("run_id", "property").count().collect():
        counts[row["run_id"] - 1][row["property"]] = row["count"]
    return counts


def compare(drawn, found, names, *, is_counted: bool) -> None:
    """With what the monitors find now, and each property must be broken somewhere."""
    met = set()
    for number, (run, all_seen) in enumerate(zip(drawn, found, strict=True)):
        monitors = run.judged()
        judged = (monitors.names & set(names)) - monitors.unjudged.keys()
        if monitors.counts.keys() & GRANTED:
            judged -= {SYNCHRONY}
        expected = {name: count for name, count in monitors.counts.items() if name in judged}
        seen = {name: count for name, count in all_seen.items() if name in judged}
        assert seen.keys() == expected.keys(), f"execution {number}"
        for name in expected.keys() - {NOT_COUNTED} if is_counted else ():
            assert seen[name] == expected[name], f"{name}, execution {number}"
        met |= expected.keys()
    assert met == set(names)


def compare_simulated(simulated, found, names) -> None:
    """With what the simulator's monitors found while they ran."""
    for run, seen in zip(simulated, found, strict=True):
        judged = promised(run.protocol, run.order) & set(names)
        if run.broken & (GRANTED | {"view_order"}):  # A view that came late ends otherwise there.
            judged -= {SYNCHRONY}
        if "integrity" in run.broken:  # A number that was multicast twice has two views.
            judged -= {"sending_view_delivery"}
        if not run.complete:
            judged -= AT_THE_END
        assert seen.keys() & judged == run.broken & judged, run.label


def test_spark_judges_every_property_that_a_protocol_promises() -> None:
    assert PROPERTIES.keys() == set(promises.PROPERTIES)


def test_it_does_not_matter_how_a_stream_is_cut_nor_where_it_is(
    as_trace, executions, found, tmp_path
) -> None:
    """Blocks of three messages, of rows chosen from what the files hold."""
    drawn = executions.FAMILIES[MULTICASTS].drawn()[: FEWER + 1]
    trace = as_trace(tmp_path, drawn)
    some = trace._replace(events=trace.events.where(F.col("run_id") <= FEWER))
    small = counted(streams.violations(some, dict.fromkeys(streams.RULES), block=3), FEWER)
    compare(drawn[:FEWER], small, streams.RULES, is_counted=True)


@pytest.mark.parametrize(
    "name", [MULTICASTS, "synchronous views", "partitionable views", "loggers", "services"]
)
def test_spark_finds_what_the_monitors_find(executions, found, name) -> None:
    """What belongs to single streams, on the runs that promise it, and also as often."""
    names, (drawn, simulated, violations) = executions.FAMILIES[name].names, found[name].result()
    compare(drawn, violations[: len(drawn)], names, is_counted=name == MULTICASTS)
    compare_simulated(simulated, violations[len(drawn) :], names)


@pytest.mark.parametrize(
    ("family", "name"),
    [
        ("loggers", "reliable_delivery"),
        ("loggers", "durability"),
        ("synchronous views", "primary_order"),
    ],
)
def test_spark_counts_the_obligations_that_monitors_count(
    as_trace, executions, tmp_path, monkeypatch, family, name
) -> None:
    monkeypatch.setattr(verdict, "TASK_EVENTS_MAX", 0)
    runs = [run for run in executions.FAMILIES[family].drawn()[::7] if run.is_in_order]
    trace = as_trace(tmp_path, runs)
    found = check(trace, [name]).properties[name]
    assert found.obligations == sum(run.judged().obligations.get(name, 0) for run in runs)


def test_each_mutant_is_noticed_and_the_sound_protocol_is_not(executions, simulated) -> None:
    """A mutant of a group with a fixed membership breaks a property; others may break what only
    the simulator sees.  Whatever is broken, a query is asked about it above."""
    for run in simulated.result():
        assert bool(run.violations) == (run.mutant is not None), run.label
        if run.mutant is not None and run.scenario in SCENARIOS:
            assert run.broken, run.label
        taking = (family.names for family in executions.FAMILIES.values() if family.takes(run))
        assert run.broken <= {name for names in taking for name in names}, run.label


def test_without_a_witness_it_is_not_judged(as_trace, executions, tmp_path) -> None:
    trace = as_trace(tmp_path, [executions.services.without_a_witness()])
    found = check(trace, ["sequential_consistency"]).properties["sequential_consistency"]
    assert (found.status, found.reason) == (NOT_APPLICABLE, NO_WITNESS)
