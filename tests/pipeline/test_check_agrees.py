"""Spark finds what the monitors find: in sound and in broken executions, of every kind of protocol.

Many executions are runs of one trace, mutants of the protocol among them: a check of so little
takes the time of its queries, not that of its data.
"""

from collections import Counter
from functools import cache, reduce
from typing import NamedTuple

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from semcast.pipeline.check import streams
from semcast.pipeline.check.properties import PROPERTIES
from semcast.pipeline.check.verdict import NOT_APPLICABLE, check, violations_in
from semcast.pipeline.trace import Trace
from semcast.sim.scenarios import SCENARIOS
from semcast.specs.service import WITNESSLESS
from semcast.terms.promises import promised

FEWER = 500
MULTICASTS = "multicasts"
# A delivery that is late for several reasons, or after several, may be told of more than once.
NOT_COUNTED = "item_order"
SYNCHRONY = "semantic_view_synchrony"
GRANTED = {"sending_view_delivery", "total_order"}  # by the query for it


class Recorded(NamedTuple):
    """Executions drawn at random and, after them, simulated ones, as one trace."""

    drawn: list
    simulated: list
    trace: Trace


@pytest.fixture(scope="module", autouse=True)
def planned_once(spark):
    """Many small stages: replanning each would take longer than running it."""
    settings = {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "1"}
    before = {name: spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield
    for name, value in before.items():
        spark.conf.set(name, value)


@pytest.fixture(scope="module")
def simulated(executions):
    return executions.mutants.drawn()


@pytest.fixture(scope="module")
def recorded(as_trace, executions, simulated, tmp_path_factory):
    """`recorded(name)` has the executions of a family."""

    @cache
    def record(name: str) -> Recorded:
        family = executions.FAMILIES[name]
        drawn, others = family.drawn(), [run for run in simulated if family.takes(run)]
        trace = as_trace(tmp_path_factory.mktemp("agrees"), [*drawn, *others])
        return Recorded(drawn, others, trace)

    return record


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
        if run.broken & GRANTED:
            judged -= {SYNCHRONY}
        if "integrity" in run.broken:  # A number that was multicast twice has two views.
            judged -= {"sending_view_delivery"}
        if not run.complete:
            judged = {name for name in judged if not PROPERTIES[name].is_liveness}
        assert seen.keys() & judged == run.broken & judged, run.label


@pytest.mark.parametrize(
    "name", [MULTICASTS, "synchronous views", "partitionable views", "loggers", "services"]
)
def test_spark_finds_what_the_monitors_find(executions, recorded, name) -> None:
    """What belongs to single streams, on the runs that promise it, and also as often."""
    names, (drawn, simulated, trace) = executions.FAMILIES[name].names, recorded(name)
    if name == MULTICASTS:
        violations = violations_in(trace, names)
    else:
        each = (PROPERTIES[one].violations(trace) for one in names)
        violations = reduce(DataFrame.unionByName, each)
    found = counted(violations, len(drawn) + len(simulated))
    compare(drawn, found[: len(drawn)], names, is_counted=name == MULTICASTS)
    compare_simulated(simulated, found[len(drawn) :], names)


def test_it_does_not_matter_how_a_stream_is_cut_nor_where_it_is(recorded) -> None:
    """Blocks of three messages, of rows chosen from what the files hold."""
    drawn, _, trace = recorded(MULTICASTS)
    some = trace._replace(events=trace.events.where(F.col("run_id") <= FEWER))
    small = counted(streams.violations(some, dict.fromkeys(streams.RULES), block=3), FEWER)
    compare(drawn[:FEWER], small, streams.RULES, is_counted=True)


def test_each_mutant_is_noticed_and_the_sound_protocol_is_not(executions, simulated) -> None:
    """A mutant of a group with a fixed membership breaks a property; others may break what only
    the simulator sees.  Whatever is broken, a query is asked about it above."""
    for run in simulated:
        assert bool(run.violations) == (run.mutant is not None), run.label
        if run.mutant is not None and run.scenario in SCENARIOS:
            assert run.broken, run.label
        taking = (family.names for family in executions.FAMILIES.values() if family.takes(run))
        assert run.broken <= {name for names in taking for name in names}, run.label


def test_without_a_witness_it_is_not_judged(as_trace, executions, tmp_path) -> None:
    trace = as_trace(tmp_path, [executions.services.without_a_witness()])
    verdict = check(trace, ["sequential_consistency"]).properties["sequential_consistency"]
    assert (verdict.status, verdict.reason) == (NOT_APPLICABLE, WITNESSLESS)
