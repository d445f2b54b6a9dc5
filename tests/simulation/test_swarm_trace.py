"""A recorded swarm is judged again from its trace, and the verdicts are the same."""

import pytest

from semcast.fleet.trace_verdict import judge
from semcast.sim.swarm import swarm
from semcast.sim.swarm_trace import recorded_swarm
from semcast.terms.errors import ConfigError
from semcast.traces.parquet import read_runs


def record(path, protocol, seeds, mutant=None, **options):
    with recorded_swarm(path, protocol, mutant) as recorder:
        return swarm(protocol, seeds, mutant=mutant, run_one=recorder.run, **options)


@pytest.mark.parametrize("protocol", ["s-rm", "lbrm"])
def test_a_run_for_each_seed(tmp_path, protocol):
    summary = record(tmp_path, protocol, range(3, 6))
    runs = read_runs(tmp_path)
    assert [(run.run_id, run.seed, run.complete) for run in runs] == [
        (n, n, True) for n in (3, 4, 5)
    ]
    verdicts = [judge(tmp_path, run_id=run.run_id, skew_s=0) for run in runs]
    assert all(verdict.passed for verdict in verdicts)
    assert sum(verdict.events for verdict in verdicts) == summary.events > 0


def test_what_a_mutant_broke_is_in_the_trace(tmp_path):
    summary = record(tmp_path, "s-rm", range(8), "canary")
    broken = summary.explanation.partition(":")[0]
    seed = int(summary.first_failure.split("--from ")[1].split()[0])
    verdict = judge(tmp_path, run_id=seed, skew_s=0)
    assert verdict.properties[broken].status == "fail"
    assert all(run.parameters["mutant"] == "canary" for run in read_runs(tmp_path))


def test_a_directory_in_use_is_refused(tmp_path):
    (tmp_path / "kept").touch()
    with pytest.raises(ConfigError, match="is not empty"), recorded_swarm(tmp_path, "s-rm"):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_a_swarm_that_was_stopped_is_no_whole_trace(tmp_path):
    def stop(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        record(tmp_path, "s-rm", range(4), on_progress=stop)
    assert not (tmp_path / "runs.parquet").exists()
