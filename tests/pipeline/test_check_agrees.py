"""Spark finds what the monitors find: in sound and in broken executions, of every kind of protocol.

All are runs of one trace, which is checked once: a check of so little takes the time of its
queries, not that of its data.
"""

from collections import Counter

import pytest
from pyspark.sql import functions as F

from semcast.pipeline.check import streams
from semcast.pipeline.check.verdict import NOT_APPLICABLE, check, violations_in
from semcast.sim.scenarios import SCENARIOS
from semcast.specs.service import WITNESSLESS

MULTICASTS, MUTANTS = "multicasts", "mutants"
FEWER = 500
# A delivery that is late for several reasons, or after several, may be told of more than once.
NOT_COUNTED = "item_order"
# What the query for Semantic View Synchrony takes for granted.
GRANTED = {"sending_view_delivery", "total_order"}


@pytest.fixture(scope="module")
def runs(executions):
    """All executions, by family."""
    drawn = {name: family.drawn() for name, family in executions.FAMILIES.items()}
    return {**drawn, MUTANTS: executions.mutants.drawn()}


@pytest.fixture(scope="module")
def trace(as_trace, runs, tmp_path_factory):
    every = [run for family in runs.values() for run in family]
    return as_trace(tmp_path_factory.mktemp("agrees"), every)


@pytest.fixture(scope="module")
def found(runs, trace):
    """By family, how often each execution breaks what."""
    counts = iter(counted(violations_in(trace), sum(map(len, runs.values()))))
    return {name: [next(counts) for _ in family] for name, family in runs.items()}


def counted(violations, runs: int) -> list[Counter[str]]:
    """By property, for each of so many runs."""
    counts: list[Counter[str]] = [Counter() for _ in range(runs)]
    for row in violations.groupBy("run_id", "property").count().collect():
        counts[row["run_id"] - 1][row["property"]] = row["count"]
    return counts


def compare(runs, found, names, *, is_counted: bool = False) -> None:
    met = set()
    for number, (run, all_seen) in enumerate(zip(runs, found, strict=True)):
        monitors = run.judged()
        judged = (monitors.names & set(names)) - monitors.unjudged.keys()
        if monitors.counts.keys() & GRANTED:
            judged -= {"semantic_view_synchrony"}
        expected = {name: count for name, count in monitors.counts.items() if name in judged}
        seen = {name: count for name, count in all_seen.items() if name in judged}
        assert seen.keys() == expected.keys(), f"execution {number}"
        for name in expected.keys() - {NOT_COUNTED} if is_counted else ():
            assert seen[name] == expected[name], f"{name}, execution {number}"
        met |= expected.keys()
    assert met == set(names)


@pytest.mark.parametrize(
    "family",
    [MULTICASTS, "synchronous views", "partitionable views", "loggers", "services"],
)
def test_spark_finds_what_the_monitors_find(executions, runs, found, family) -> None:
    """Of groups with a fixed membership, also as often."""
    names = executions.FAMILIES[family].names
    compare(runs[family], found[family], names, is_counted=family == MULTICASTS)


def test_it_does_not_matter_how_a_stream_is_cut_nor_where_it_is(runs, trace) -> None:
    """Blocks of three messages, of rows chosen from what the files hold."""
    some = trace._replace(events=trace.events.where(F.col("run_id") <= FEWER))
    small = counted(streams.violations(some, dict.fromkeys(streams.RULES), block=3), FEWER)
    compare(runs[MULTICASTS][:FEWER], small, streams.RULES, is_counted=True)


def test_each_mutant_is_caught_and_the_sound_protocol_is_not(runs, found) -> None:
    """What the simulator's judges found while they ran.  A mutant of a group with a fixed
    membership breaks a property; others may break what only the simulator sees."""
    for run, seen in zip(runs[MUTANTS], found[MUTANTS], strict=True):
        broken = run.broken
        if broken & GRANTED:
            broken, seen = (set(each) - {"semantic_view_synchrony"} for each in (broken, seen))
        assert set(seen) == broken, run.label
        if run.mutant is None:
            assert not run.violations, run.label
        else:
            assert run.violations, run.label
            assert broken or run.scenario not in SCENARIOS, run.label


def test_without_a_witness_it_is_not_judged(as_trace, executions, tmp_path) -> None:
    trace = as_trace(tmp_path, [executions.services.without_a_witness()])
    verdict = check(trace, ["sequential_consistency"]).properties["sequential_consistency"]
    assert (verdict.status, verdict.reason) == (NOT_APPLICABLE, WITNESSLESS)
