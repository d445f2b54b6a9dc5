"""Groups with a fixed membership: Spark finds what the monitors find, on sound and on broken
executions, and as often; also where a stream falls into many blocks."""

from collections import Counter

import pytest
from pyspark.sql import functions as F

from semcast.pipeline.check import causality, streams

SEEDS, FEWER = 1500, 500
NAMES = (*streams.RULES, *causality.NAMES)
# A delivery that is late for several reasons, or after several, may be told of more than once.
NOT_COUNTED = "item_order"


@pytest.fixture(scope="module")
def executions(multicasts):
    return [multicasts.execution(seed) for seed in range(SEEDS)]


@pytest.fixture(scope="module")
def trace(as_trace, executions, tmp_path_factory):
    return as_trace(tmp_path_factory.mktemp("agrees"), executions)


def counts(violations) -> dict[int, Counter[str]]:
    """By run and property."""
    found: dict[int, Counter[str]] = {}
    for row in violations.groupBy("run_id", "property").count().collect():
        found.setdefault(row["run_id"], Counter())[row["property"]] = row["count"]
    return found


def compare(executions, found: dict[int, Counter[str]], names) -> None:
    met = set()
    for run_id, run in enumerate(executions, 1):
        monitors = run.judged()
        judged = (monitors.names & set(names)) - monitors.unjudged.keys()
        expected = {name: count for name, count in monitors.counts.items() if name in judged}
        seen = {name: found[run_id][name] for name in found.get(run_id, {}) if name in judged}
        assert seen.keys() == expected.keys(), f"seed {run_id - 1}, fault: {run.fault}"
        for name in expected.keys() - {NOT_COUNTED}:
            assert seen[name] == expected[name], f"{name}, seed {run_id - 1}, fault: {run.fault}"
        met |= expected.keys()
    assert met == set(names)


def test_spark_finds_what_the_monitors_find(executions, trace) -> None:
    every = dict.fromkeys(NAMES)
    together = streams.violations(trace, dict.fromkeys(streams.RULES)).unionByName(
        causality.violations(trace, dict.fromkeys(causality.NAMES))
    )
    compare(executions, counts(together), every)


def test_it_does_not_matter_how_a_stream_is_cut_nor_where_it_is(executions, trace) -> None:
    """Blocks of three messages, of rows chosen from what the files hold."""
    some = trace._replace(events=trace.events.where(F.col("run_id") <= FEWER))
    small = counts(streams.violations(some, dict.fromkeys(streams.RULES), block=3))
    assert max(small) <= FEWER
    compare(executions[:FEWER], small, streams.RULES)
