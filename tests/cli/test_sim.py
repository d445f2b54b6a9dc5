"""`semcast sim`: experiments from the registry, the swarm, the mutants."""

import pytest

from semcast.core.member_buffers import MemberBuffers
from semcast.experiments.experiment import Experiment
from semcast.experiments.registry import EXPERIMENTS
from semcast.families import find
from semcast.families.testing import Mutant
from semcast.sim.hunt import run_mutant
from semcast.sim.swarm import run_seed

SHORT = ("--set", "seconds=3", "--set", "warmup_s=1")


@pytest.fixture
def toy(monkeypatch):
    """Puts an experiment named `toy` into the registry."""

    def register(run, live=None):
        toy = Experiment("toy", "does little", "no paper", {"size": 3, "word": "a"}, run, live)
        monkeypatch.setitem(EXPERIMENTS, "toy", toy)

    return register


def test_list_names_every_experiment(semcast):
    assert [row["name"] for row in semcast("sim", "list", "--json").answer["experiments"]] == list(
        EXPERIMENTS
    )
    assert "slow-receiver" in semcast("sim", "list").out


def test_help_of_an_experiment_lists_its_parameters(semcast, toy):
    toy(lambda p, seed, trace: {})
    done = semcast("sim", "toy", "--help")
    assert done.code == 0
    for text in (
        "Does little.\n\n  no paper.\n",
        "size=3",
        "word=a",
        "Example:\n    semcast sim toy --set",
    ):
        assert text in done.out
    assert "toy" in semcast("sim", "--help").out


def test_slow_receiver_answers_the_point_of_figure_5(semcast):
    done = semcast(
        "sim", "slow-receiver", "--set", "protocol=s-rm", *SHORT, "--seed", "7", "--json"
    )
    answer = done.answer
    assert done.code == 0
    assert answer.keys() >= {"experiment", "seed", "parameters", "results", "violations"}
    assert (answer["experiment"], answer["seed"], answer["violations"]) == ("slow-receiver", 7, 0)
    assert answer["parameters"]["seconds"] == 3
    keys = {"accepted_rate", "purged_ratio", "fast_purged_ratio", "latency_mean_ms"}
    assert answer["results"].keys() >= keys | {"model_rate", "model_purged_ratio"}
    assert "accepted from the sender" in done.err


def test_a_point_runs_live_where_it_can(semcast, toy):
    toy(lambda p, seed, trace: {"is": "simulated"}, lambda p, seed, trace: {"is": "live"})
    for flags, source in ((), "simulation"), (("--live",), "live"):
        assert semcast("sim", "toy", *flags, "--json").answer["source"] == source
    assert semcast("sim", "toy", "--live", "--json").answer["results"] == {"is": "live"}
    toy(lambda p, seed, trace: {})
    done = semcast("sim", "toy", "--live")
    assert done.code == 2
    assert "live: toy cannot run live; remove --live" in done.err


def test_an_experiment_without_a_protocol_records_nothing(semcast, tmp_path):
    done = semcast("sim", "game-traffic", "--trace", str(tmp_path / "trace"))
    assert done.code == 2
    assert "trace: game-traffic has no events to record; remove --trace" in done.err


def test_a_table_for_people_goes_to_standard_output(semcast):
    done = semcast("sim", "slow-receiver", *SHORT)
    assert "accepted from the sender" in done.out
    assert "accepted_rate" not in done.out
    assert "No violation" in done.out
    assert done.err == ""


def test_settings_reach_the_experiment_in_its_types(semcast, toy):
    toy(lambda p, seed, trace: {"size": p["size"], "seed": seed, "trace": trace, "rate": 1e400})
    argv = ("sim", "toy", "--set", "size=4", "--set", "word=b=c", "--seed", "9", "--json")
    answer = semcast(*argv).answer
    assert answer["results"] == {"size": 4, "seed": 9, "trace": None, "rate": None}
    assert answer["parameters"] == {"size": 4, "word": "b=c"}


def test_violations_fail_the_experiment(semcast, toy):
    toy(lambda p, seed, trace: {"rate": 1.0, "violations": 2})
    done = semcast("sim", "toy", "--json")
    assert done.code == 1
    assert done.answer["violations"] == 2
    assert "2 violations" in semcast("sim", "toy").out


def test_interrupts_are_quiet(semcast, toy):
    def run(p, seed, trace):
        raise KeyboardInterrupt

    toy(run)
    assert semcast("sim", "toy") == (130, "", "")


def test_a_bug_is_not_hidden(semcast, toy):
    toy(lambda p, seed, trace: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        semcast("sim", "toy")


def test_swarm_of_the_correct_protocol_passes(semcast):
    done = semcast("sim", "swarm", "--protocol", "s-rm", "--seeds", "4", "--from", "10", "--json")
    answer = done.answer
    assert done.code == 0
    assert (answer["protocol"], answer["seeds"], answer["violations"]) == ("s-rm", 4, 0)
    assert answer["events"] > 0
    assert answer["events_per_second"] > 0
    assert answer["first_failure"] is None
    assert answer["not_exercised"] == []
    assert min(answer["obligations"].values()) > 0
    assert "every property was exercised, least " in done.err


def test_swarm_names_the_properties_that_no_seed_exercised(semcast):
    """One view, to the end: no primary view follows another one."""
    seed = next(s for s in range(40) if not run_seed("s-vsm", None, s).obligations["primary_order"])
    argv = ("sim", "swarm", "--protocol", "s-vsm", "--seeds", "1", "--from", str(seed), "--json")
    done = semcast(*argv)
    assert done.code == 0
    assert done.answer["obligations"]["primary_order"] == 0
    assert "primary_order" in done.answer["not_exercised"]
    assert f"not exercised: {' '.join(done.answer['not_exercised'])}" in done.err


def test_swarm_of_a_mutant_tells_the_line_that_replays_it(semcast):
    argv = ("sim", "swarm", "--protocol", "s-rm", "--mutant", "canary", "--json")
    found = semcast(*argv, "--seeds", "20", "--jobs", "2")
    assert found.code == 1
    assert found.answer["violations"] > 0
    assert found.answer["explanation"] in found.err
    line = found.answer["first_failure"]
    assert line in found.err

    replayed = semcast(*line.split()[1:], "--json")
    assert replayed.code == 1
    assert replayed.answer["explanation"] == found.answer["explanation"]


def test_mutants_are_caught_and_told_by_what(semcast):
    done = semcast("sim", "mutants", "--protocol", "causal", "--seeds", "30", "--json")
    assert done.code == 0
    row = {row["name"]: row for row in done.answer["mutants"]}["ignore-causality"]
    assert row["caught"] is True
    assert row["by"] == f"causal_order in scenario causal-relay, causal_order at seed {row['seed']}"
    assert "broken protocols were caught\n" in done.err


def test_a_surviving_mutant_fails(semcast, monkeypatch):
    harmless = Mutant(MemberBuffers, "_deliver", lambda original: original, "lost-tail", "sm")
    monkeypatch.setitem(find("s-rm").testing().mutants, "harmless", harmless)
    done = semcast("sim", "mutants", "--protocol", "sm", "--seeds", "2", "--json")
    assert done.code == 1
    [row] = done.answer["mutants"]
    assert (row["name"], row["caught"], row["by"]) == ("harmless", False, None)
    assert "0 of 1 broken protocols were caught; missed: harmless" in done.err


def test_a_mutant_that_raises_is_caught(monkeypatch):
    def broken(original):
        def deliver(self, messages, out):
            raise IndexError(len(messages))

        return deliver

    monkeypatch.setitem(
        find("s-rm").testing().mutants,
        "raises",
        Mutant(MemberBuffers, "_deliver", broken, "lost-tail", "s-rm"),
    )
    found = run_mutant("raises", range(2), jobs=1)
    assert found.by == "exception IndexError in scenario lost-tail, exception at seed 0"
