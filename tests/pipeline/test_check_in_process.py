"""A trace read from disk is judged as the monitors judge the events that it records."""

from collections import Counter

import pytest

from semcast.fleet.trace_verdict import judge
from semcast.specs.verdict import FAIL


@pytest.mark.parametrize(
    "name", ["multicasts", "synchronous views", "partitionable views", "loggers", "services"]
)
def test_thousands_of_runs_in_one_trace(write_executions, executions, tmp_path, name) -> None:
    """Random executions, good and bad, and those of mutants."""
    runs = [run for run in executions.FAMILIES[name].drawn() if run.is_in_order]
    write_executions(tmp_path, runs)
    expected: Counter[str] = Counter()
    for run in runs:
        monitors = run.judged()
        for broken in monitors.counts.keys() - monitors.unjudged.keys():
            expected[broken] += monitors.counts[broken]
    verdict = judge(tmp_path)
    found = {n: r.violations for n, r in verdict.properties.items() if r.status == FAIL}
    assert found == expected
    assert verdict.events == sum(len(run.events) for run in runs)
